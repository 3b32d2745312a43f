"""The command line: what is typed after `fireside`, and how the faces start."""

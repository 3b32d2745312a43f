"""One prompt, one answer: `fireside -p`, and text from a pipe."""

"""Pages of help, as Markdown."""

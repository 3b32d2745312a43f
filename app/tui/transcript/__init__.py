"""The conversation on the screen: text to rows, rows to one widget."""

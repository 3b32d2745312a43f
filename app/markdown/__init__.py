"""Markdown becomes rows of styled text, without a widget."""

"""Replies read as text, thoughts and calls."""

"""Screens over the chat: pickers, search, settings, help. Each takes a `Shell` and gives back a choice."""

"""Conversations: what a turn is, where it is kept, and who hears of it. All faces share it."""

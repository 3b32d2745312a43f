"""Scripted demos: one file plays in front of people, runs as a test, and draws the pictures."""

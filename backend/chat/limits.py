"""The error of a template that asks for too much, below all that count what it asks for."""

from __future__ import annotations


class LimitError(Exception):
    """A render went over one of the sandbox's limits."""

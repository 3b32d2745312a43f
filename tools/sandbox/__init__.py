"""Bubblewrap, the proof that it holds, and what a run leaves that becomes code."""

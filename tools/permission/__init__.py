"""What a call would do, who may allow it, and what may be remembered."""

"""Vi's keys for the composer, for who asks for them: motions, and what keys make of a text."""

"""Models for people: the catalogue of the picker, downloads, the starter."""

"""The application: settings, the command line and the faces a person talks to."""

__version__ = "0.1.0"

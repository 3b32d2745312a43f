"""One chat on the screen: its view, its events, its items as entries."""

"""Where chats are kept: SQLite, one writer for each session."""

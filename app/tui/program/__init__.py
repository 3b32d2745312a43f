"""The full-screen program: its open chats, draft, model, and where keys go."""

"""The routes below `/v1/sessions`: the chats of this server's manager."""

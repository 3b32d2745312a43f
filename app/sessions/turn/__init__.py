"""One turn: fitting the conversation, the reply, its calls, and who may allow them."""

"""Chat formats: from messages to a prompt, from a model's text to a reply."""

from backend.chat.template import ChatTemplate, conversation_text

__all__ = ["ChatTemplate", "conversation_text"]

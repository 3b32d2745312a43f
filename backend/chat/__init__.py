"""Chat formats: from messages to a prompt, from a model's text to a reply."""

from backend.chat.parsing.parser import ParsedReply, ReplyParser
from backend.chat.prompt import conversation_text
from backend.chat.template import ChatTemplate

__all__ = ["ChatTemplate", "ParsedReply", "ReplyParser", "conversation_text"]

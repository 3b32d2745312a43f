"""What stands between conversation and draft: the question that waits for the person, and the messages that
wait for the reply."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from app.frontend.draft import with_double
from app.frontend.question import Question
from app.tui.program.open_chats import OpenChats
from app.tui.program.parts import Parts

if TYPE_CHECKING:
    from app.tui.chat.chat import Chat
    from app.tui.shell import Program

MODES = ("ask", "read", "all", "plan")
_MODE_WORDS = {
    "ask": "every call that touches something asks first",
    "read": "read-only calls in the workspace run; everything else asks first",
    "all": "files, pages and sandboxed commands run; everything else asks first",
    "plan": "the model can only read and plan",
}


class Cards:
    """Shows and answers questions, and shows the queue."""

    def __init__(self, program: Program, parts: Parts, chats: OpenChats) -> None:
        self._program = program
        self._parts = parts
        self._chats = chats

    def told(self, chat: Chat, what: str) -> None:
        if chat is self._chats.current:
            self.show()

    def show(self) -> None:
        """The queue and the question of the chat on the screen."""
        chat = self._chats.current
        self._parts.waiting.show(chat.facts.waiting)
        questions = chat.facts.questions
        question = questions[0] if questions else None
        if question is not None and chat.private:
            question = question.without("always")  # nothing of it is kept
        self._parts.approval.ask(question, 1, len(questions), drafting=bool(self._parts.draft.text))

    def draft_written(self) -> None:
        """Something is being written, or no longer: a card does not take its keys."""
        self._parts.approval.set_drafting(bool(self._parts.draft.text))

    def answer(self, question: Question, action: str, content: Mapping[str, Any]) -> None:
        """A person decided."""
        self._program.start(partial(self._answer, question, action, content), group="answer")

    async def _answer(self, question: Question, action: str, content: Mapping[str, Any]) -> None:
        async with self._parts.telling():
            await self._chats.current.answer(question, action, content)

    def unasked(self, text: str) -> None:
        """A question went; what was written for it is not lost."""
        if text.strip():
            self._parts.draft.history_of_messages.add(with_double(text), keep=False)
            self._parts.say("that question is closed; up brings your text back")

    def cycle_approval(self) -> None:
        """What runs without asking: ask, read, all, plan."""
        self._program.start(self._cycle_approval, group="mode", exclusive=True)

    async def _cycle_approval(self) -> None:
        await self._chats.ready()
        chat = self._chats.current
        mode = chat.facts.approve
        wanted = MODES[(MODES.index(mode) + 1) % len(MODES)] if mode in MODES else MODES[0]
        async with self._parts.telling():
            await chat.manager.configure(await chat.ensure(), approve=wanted)
            self._parts.say(_MODE_WORDS[wanted])

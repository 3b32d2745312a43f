"""What is known of a chat beside its page, and the ways out of a turn that failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app import paths
from app.frontend.question import Question
from app.sessions.items import Message, item_from_wire
from app.tui.transcript.entries import KeyChoice

BUSY = ("running", "launching")


@dataclass
class Facts:
    """What is known of a chat beside its page."""

    title: str = ""
    status: str = "idle"
    waits: bool = False
    load: float | None = None
    prefill: float | None = None
    speed: float | None = None
    first_s: float | None = None
    reused: int | None = None
    context_tokens: int | None = None
    """What the path that is shown fills of the window; None where that is not known."""
    beginning_tokens: int = 0
    """What system prompt and tools fill of it before a word was said."""
    context_window: int | None = None
    approve: str = "ask"
    home: bool = False
    """The workspace is the whole home folder, or holds it."""
    model: str | None = None
    """A model of its own, in place of the loaded one."""
    unread: bool = False
    failed: bool = False
    stopped: bool = False
    summarising: bool = False
    questions: list[Question] = field(default_factory=list[Question])
    waiting: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """(item id, text as it is shown) of each message that waits."""
    contents: dict[str, Sequence[Mapping[str, Any]]] = field(
        default_factory=dict[str, Sequence[Mapping[str, Any]]]
    )
    """The blocks of each of them, by item id."""

    def take_settings(self, settings: Mapping[str, Any]) -> None:
        """What the session's settings say, each as `{value, origin}`."""
        self.approve = str(settings.get("approve", {}).get("value", "ask"))
        self.home = paths.holds_home(settings.get("workspace", {}).get("value"))

    def take_queue(self, inputs: Sequence[Mapping[str, Any]]) -> None:
        """What waits for the running reply."""
        from app.sessions.turn.media import file_labels

        waiting: list[tuple[str, str]] = []
        contents: dict[str, Sequence[Mapping[str, Any]]] = {}
        for wire in inputs:
            item = item_from_wire(wire)
            if isinstance(item, Message):
                texts = [str(block.get("label") or block.get("text") or "") for block in item.content]
                words = "".join(texts)
                waiting.append((item.id, words if words.strip() else ", ".join(file_labels(item.content))))
                contents[item.id] = item.content
        self.waiting, self.contents = waiting, contents

    @property
    def running(self) -> bool:
        """Whether a reply is being made."""
        return self.status in BUSY

    @property
    def asking(self) -> int:
        """Open questions."""
        return len(self.questions)


def choices_for(code: str) -> tuple[KeyChoice, ...]:
    """The ways out of a failed turn."""
    again = KeyChoice("r", "try again")
    model = KeyChoice("m", "choose another model")
    log = KeyChoice("v", "view the log")
    match code:
        case "context_overflow":
            return (
                KeyChoice("c", "summarise older turns", "then try again"),
                KeyChoice("n", "new chat"),
                model,
            )
        case (
            "not_found" | "not_gguf" | "truncated" | "unsupported_arch" | "not_a_chat_model" | "missing_shard"
        ):
            return (model, again, log)
        case _:
            return (again, model, log)

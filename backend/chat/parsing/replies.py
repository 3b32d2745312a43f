"""The visible side of a reply being parsed: thought, text and calls in the order they are told."""

from __future__ import annotations

import re
from dataclasses import replace

from backend.types import HeldPiece, ReasoningPiece, TextPiece, ToolCallPiece

_FENCE = re.compile(r"\s*```(?:json)?[ \t]*\n?")
_FENCE_BEGUN = re.compile(r"\s*(?:`{0,3}|```(?:j|js|jso|json)?[ \t]{0,100})$")
_WHOLE_FENCE_END = re.compile(r"\s*```\s*$")


class ReplyText:
    """Collects thought and text without the blanks around their markers.

    With `raw` (reasoning_format "none") the thought stays in the text, markers and blanks included.
    """

    def __init__(self, *, raw: bool, fence: FenceFilter | None) -> None:
        self.raw = raw
        self.fence = fence
        self.muted = False
        """While the prompt's own part is read."""
        self.textless = False
        """Whether no more visible text is told."""
        self.in_thought = False
        self.begun = False
        """Whether a part of the reply was opened or told."""
        self.has_text = False
        self._pieces: list[TextPiece | ReasoningPiece | HeldPiece | ToolCallPiece] = []
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._opener = ""
        """In raw mode, the opener that only the prompt holds; told with the first visible text."""
        self._blanks: str = ""
        self._after_thought = False
        self._calls = False
        self._fresh = True
        """Whether nothing visible of the present thought was told yet."""

    @property
    def content(self) -> str:
        return "".join(self._content)

    @property
    def reasoning(self) -> str:
        return "".join(self._reasoning)

    def take(self) -> list[TextPiece | ReasoningPiece | HeldPiece | ToolCallPiece]:
        """The pieces told since the last time; neighbours of one kind are joined."""
        told, self._pieces = self._pieces, []
        joined: list[TextPiece | ReasoningPiece | HeldPiece | ToolCallPiece] = []
        for piece in told:
            last = joined[-1] if joined else None
            match piece, last:
                case (
                    (TextPiece(), TextPiece())
                    | (ReasoningPiece(), ReasoningPiece())
                    | (HeldPiece(), HeldPiece())
                ):
                    joined[-1] = replace(last, text=last.text + piece.text)
                case _:
                    joined.append(piece)
        return joined

    def end_prime(self) -> None:
        """From here on it is the model that writes."""
        self.muted = False
        self.begun = False
        if not self._reasoning:
            self._blanks = ""

    # ---- thought ---------------------------------------------------------------------------

    def open_thought(self, opened: str) -> None:
        self.in_thought = self.begun = True
        self._blanks = ""
        if self.raw:
            self._opener = opened
            if not self.muted:
                self._tell_opener()
        self._fresh = True

    def thought(self, text: str) -> None:
        if not text:
            return
        if self.raw:
            self._raw_thought(text)
            return
        text = self._blanks + text
        visible = text.rstrip()
        self._blanks = text[len(visible) :]
        if self._fresh:
            visible = visible.lstrip()
        if visible:
            self._fresh = False
            self.begun = True
            if not self.muted:
                self._reasoning.append(visible)
                self._pieces.append(ReasoningPiece(visible))
        elif self._fresh:
            self._blanks = ""

    def _raw_thought(self, text: str) -> None:
        if self._opener and not text.strip():
            self._opener += text
            return
        if self.muted:
            self._opener = ""
        if text.strip():
            self._tell_opener()
        self._tell_text(text)

    def close_thought(self, closed: str) -> None:
        if self.raw and closed:
            self._tell_opener()
            self._tell_text(closed)
        self.in_thought = False
        self.begun = self._after_thought = True
        self._blanks = ""
        self._opener = ""
        self._fresh = True

    def skip_blank_lines(self) -> None:
        """An answer begins: blank lines in front of it are not its own."""
        self._blanks, self._after_thought = "", True

    def hold(self, text: str) -> None:
        """Show, without keeping, text of a thought that may yet be a call."""
        if not self.muted:
            self._pieces.append(HeldPiece(text))

    def _tell_opener(self) -> None:
        opener, self._opener = self._opener, ""
        self._tell_text(opener)

    # ---- text ------------------------------------------------------------------------------

    def open_wrapper(self) -> None:
        """A text with markers of its own begins: it has no blanks and no thought before it."""
        self.begun = self._after_thought = True
        self._blanks = ""
        self._opener = ""
        self.in_thought = False

    def blank(self, text: str) -> None:
        """Blanks at the end of the reply."""
        if not self.has_text or self._calls:
            return
        self.text(text)

    def text(self, text: str) -> None:
        """Visible text; blank lines between a thought and its answer are dropped."""
        if not text or self.textless:
            return
        if self.raw:
            if text.strip():
                self._opener = "" if not self.in_thought else self._opener
            self._tell_text(text)
            return
        text = self._blanks + text
        self._blanks = ""
        if self._after_thought:
            body = text.lstrip()
            if not body:
                self._blanks = text
                return
            gap = text[: len(text) - len(body)]
            text = gap[gap.rfind("\n") + 1 :] + body
            self._after_thought = False
        self._tell_text(text)

    def _tell_text(self, text: str) -> None:
        if self.muted or not text:
            self.has_text = self.has_text or bool(text.strip())
            return
        self.begun = True
        self.has_text = self.has_text or bool(text.strip())
        if self.fence is not None:
            text = self.fence.feed(text)
        if text:
            self._content.append(text)
            self._pieces.append(TextPiece(text))

    def call(self, piece: ToolCallPiece) -> None:
        self.begun = self._calls = True
        self._after_thought = False
        if not self.muted:
            self._pieces.append(piece)

    def close(self) -> None:
        """The reply is over."""
        if self.fence is not None and (rest := self.fence.close()):
            self._content.append(rest)
            self._pieces.append(TextPiece(rest))


class FenceFilter:
    """Takes a Markdown fence off an answer, decided at its first characters and never after."""

    def __init__(self) -> None:
        self._held = ""
        self._blanks: list[str] = []
        """Behind what is held, and held too: they change nothing of what it may be."""
        self._fenced: bool | None = None

    def feed(self, text: str) -> str:
        if not text.strip() and (self._fenced or not self._held):
            self._blanks.append(text)
            return ""
        text, self._held = self._take_held() + text, ""
        if self._fenced is None:
            if _FENCE_BEGUN.match(text):
                self._held = text
                return ""
            match = _FENCE.match(text)
            self._fenced = match is not None
            text = text[match.end() :] if match else text
        if not self._fenced:
            return text
        keep = _end_of_answer(text)
        self._held = text[keep:]
        return text[:keep]

    def _take_held(self) -> str:
        held, self._held = self._held + "".join(self._blanks), ""
        self._blanks.clear()
        return held

    def close(self) -> str:
        """What was held and is no fence."""
        held = self._take_held()
        if self._fenced and _WHOLE_FENCE_END.match(held):
            return ""
        return held


def _end_of_answer(text: str) -> int:
    """Where blanks, up to three backticks and more blanks begin that `text` ends with."""
    body = text.rstrip()
    ticks = min(3, len(body) - len(body.rstrip("`")))
    if not ticks:
        return len(body)
    return len(body[:-ticks].rstrip())

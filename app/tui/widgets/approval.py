"""The card of an open question: its keys, and what they answer.

It ignores keys for its first half second and never takes them from a half-typed message; what it
decides leaves as an `Answered` message, nothing is decided here by default.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from textual import events
from textual.message import Message
from textual.timer import Timer

from app.glyphs import Glyphs
from app.tui.keys import key_name, keys_at, shown
from app.tui.widgets.card import QuestionCard
from app.tui.widgets.card_field import CardField
from app.tui.widgets.question import Question, Scope, read_field

ARM_AFTER_S = 0.5


class ApprovalCard(QuestionCard):
    """Asks one question at a time, with the keys of a keymap."""

    @dataclass
    class Answered(Message):
        """A person decided. `action` and `content` are what the session manager is told."""

        question: Question
        action: str
        content: dict[str, Any]

    @dataclass
    class Unasked(Message):
        """A question went while `text` was written for it."""

        text: str

    def __init__(self, glyphs: Glyphs, keymap: Mapping[str, str]) -> None:
        super().__init__(glyphs, keymap)
        self._names = keys_at("card", keymap)
        self._arming: Timer | None = None
        self._early = ""
        """Letters that came before keys count."""

    def ask(
        self, question: Question | None, number: int = 1, count: int = 1, *, drafting: bool = False
    ) -> None:
        """Show a question; None hides the card. While `drafting`, keys go to the draft."""
        before = self.question
        if self._mode and before is not None and (question is None or question.id != before.id):
            # It was answered elsewhere, or its time was up, while somebody wrote here.
            self.post_message(self.Unasked(self.field.text))
            self._close_field()
        self._count, self._drafting = (number, count), drafting
        if question is None:
            self.question = None
            self.display = False
            return
        if before is None or before.id != question.id:
            self.question, self._cursor, self._scroll, self._wider = question, -1, 0, 0
            self._edited, self._mode, self._complaint, self._answers = None, "", "", {}
            self._arm_later(question.id)
            self._close_field()
            self.display = True
        self._draw()

    @property
    def armed(self) -> bool:
        """Whether keys count already."""
        return self._armed

    def set_drafting(self, drafting: bool) -> None:
        """Whether keys go to the draft. Once they do not, those that were meant for it mean nothing here."""
        if drafting != self._drafting:
            self._drafting = drafting
            if not drafting and self.question is not None and not self._mode:
                self._arm_later(self.question.id)
            self._draw()

    def _arm_later(self, question_id: str) -> None:
        self._armed = False
        if self._arming is not None:
            self._arming.stop()
        self._arming = self.set_timer(ARM_AFTER_S, lambda: self._arm(question_id))

    def _arm(self, question_id: str) -> None:
        if self.question is not None and self.question.id == question_id:
            self._armed, self._early = True, ""
            if self.question.kind == "form" and self.has_focus and not self.question.choices:
                self._next_field()
            self._draw()

    def on_focus(self) -> None:
        """Keys come here now."""
        question = self.question
        if self._armed and question is not None and question.kind == "form" and not question.choices:
            self._next_field()
        self._draw()

    def on_blur(self) -> None:
        """They go elsewhere."""
        self._draw()

    # ---- keys ------------------------------------------------------------------------------

    def words(self, event: events.Key) -> str:
        """What a key begins a message with: words are no answer. Empty where the key is the card's.

        Before the keys are lit one early answer alone is let go; together with a second letter it is a word.
        """
        question, typed = self.question, event.character or ""
        if question is None or self._mode or not event.is_printable or not typed.strip():
            return ""
        if self._armed:
            return "" if typed in self._answer_keys(question) else typed
        self._early += typed
        if self._early in self._answer_keys(question):
            return ""
        found, self._early = self._early, ""
        return found

    def _answer_keys(self, question: Question) -> list[str]:
        if question.choices:
            return [choice.key for choice in question.choices]
        names = {"refuse", "refuse_stop"}
        if question.kind == "call":
            names = {"allow_wider", *(name for name, _ in self._answers_offered())}
        return [shown(key) for key, name in self._names.items() if name in names]

    def on_key(self, event: events.Key) -> None:
        """Decide. Letters count only here, only once the keys are lit."""
        question = self.question
        if question is None or self._mode:
            return
        if event.key in ("up", "down", "pageup", "pagedown"):
            event.stop()
            self._scroll_body(event.key)
        elif not self._armed:
            if event.is_printable or event.key == "enter":
                event.stop()
                # Somebody is typing something else: it takes a pause to be heard.
                self._arm_later(question.id)
        elif question.choices or question.kind == "form":
            self._form_key(event, question)
        else:
            self._call_key(event, question)

    def _scroll_body(self, key: str) -> None:
        step = {"up": -1, "down": 1, "pageup": -self._most_body, "pagedown": self._most_body}[key]
        self._scroll = max(0, self._scroll + step)
        self._draw()

    def _call_key(self, event: events.Key, question: Question) -> None:
        offered = [name for name, _ in self._answers_offered()]
        if event.key in ("left", "right"):
            step = 1 if event.key == "right" else -1
            self._cursor = (self._cursor + step) % len(offered) if self._cursor >= 0 else 0
            event.stop()
            self._draw()
            return
        chosen = self._names.get(key_name(event.key), "")
        if event.key == "enter" and self._cursor >= 0:
            chosen = offered[self._cursor]
        if event.is_printable or event.key == "enter" or chosen:
            event.stop()
        if chosen == "allow_wider" and (question.offers_for("session") or question.offers_for("always")):
            self._wider += 1
            self._draw()
        if chosen in offered:
            self._call_answer(chosen, question)

    def _call_answer(self, name: str, question: Question) -> None:
        match name:
            case "allow_once":
                content: dict[str, Any] = {"scope": "once"}
                if self._edited is not None:
                    content = {"arguments": self._edited}
                self._answer("accept", content)
            case "allow_chat" | "allow_always":
                scope: Scope = "session" if name == "allow_chat" else "always"
                offer = question.offer(scope, self._wider)
                assert offer is not None
                self._answer("accept", {"scope": scope, "rule": offer.get("id")})
            case "allow_edited":
                held = question.arguments if self._edited is None else self._edited
                self._open_field("edit", json.dumps(held, ensure_ascii=False, indent=1))
            case "refuse":
                self._open_field("reason", "")
            case _:
                self._answer("decline", {"stop": True})

    def _form_key(self, event: events.Key, question: Question) -> None:
        if event.is_printable or event.key == "enter":
            event.stop()
        for choice in question.choices:
            if event.key == choice.key:
                self._answer("accept", cast("dict[str, Any]", choice.value))
                return
        if question.choices:
            return
        if event.key == "enter":
            self._next_field()
            return
        match self._names.get(key_name(event.key)):
            case "refuse":
                self._answer("decline", {})
            case "refuse_stop":
                self._answer("decline", {"stop": True})
            case _:
                pass

    def _answer(self, action: str, content: Mapping[str, Any]) -> None:
        assert self.question is not None
        self._close_field()
        self.post_message(self.Answered(self.question, action, dict(content)))

    # ---- the field -------------------------------------------------------------------------

    def _open_field(self, mode: str, text: str) -> None:
        self._mode, self._complaint = mode, ""
        self.field.load_text(text)
        self.field.move_cursor(self.field.document.end)
        self.field.placeholder = {"reason": "a reason for the model, or none"}.get(mode, "")
        if mode.startswith("field:") and self.question is not None:
            asked = next(one for one in self.question.fields if f"field:{one.name}" == mode)
            self.field.placeholder = asked.title
        self._draw()
        self.field.focus()

    def _close_field(self) -> None:
        within = self.field.has_focus
        self._mode = ""
        if within:
            self.focus()

    def _next_field(self) -> None:
        """Ask for the first thing that a form still lacks; with all there, answer."""
        question = self.question
        if question is None or question.kind != "form" or question.choices:
            return
        for asked in question.fields:
            if asked.name not in self._answers:
                self._open_field(f"field:{asked.name}", asked.default)
                return
        self._answer("accept", self._answers)

    def on_card_field_done(self, event: CardField.Done) -> None:
        """The text is written."""
        event.stop()
        match self._mode:
            case "reason":
                reason = event.text.strip()
                self._answer("decline", {"reason": reason} if reason else {})
            case "edit":
                self._take_arguments(event.text)
            case mode:
                self._take_field(mode.removeprefix("field:"), event.text)

    def on_card_field_left(self, event: CardField.Left) -> None:
        """Back to the keys, with nothing decided."""
        event.stop()
        self._complaint = ""
        self._close_field()
        self.focus()
        self._draw()

    def on_text_area_changed(self) -> None:
        """The field grows with its text; what was wrong with it before is not told of another."""
        if self._mode:
            self._complaint = ""
            self._draw()

    def _take_arguments(self, text: str) -> None:
        try:
            value: Any = json.loads(text)
        except (ValueError, RecursionError) as err:
            self._complaint = f"That is no JSON: {err}."
            self._draw()
            return
        if not isinstance(value, dict):
            self._complaint = "Arguments are a JSON object: names and values in braces."
            self._draw()
            return
        self._edited = cast("dict[str, Any]", value)
        self._complaint = ""
        self._cursor, self._scroll = -1, 0
        self._close_field()
        self.focus()
        self._draw()

    def _take_field(self, name: str, text: str) -> None:
        assert self.question is not None
        asked = next(one for one in self.question.fields if one.name == name)
        if not text and not asked.required:
            self._answers[name] = None
        else:
            try:
                self._answers[name] = read_field(asked, text)
            except ValueError as err:
                self._complaint = str(err)
                self._draw()
                return
        self._complaint = ""
        if any(one.name not in self._answers for one in self.question.fields):
            self._next_field()
            return
        given = {key: value for key, value in self._answers.items() if value is not None}
        self._answer("accept", given)

"""The keys of an open question. One file, because each of them may allow or refuse a call.

It ignores keys for its first half second and never takes them from a half-typed message; what it
decides leaves as an `Answered` message, nothing is decided here by default.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from textual import events
from textual.app import App
from textual.message import Message
from textual.timer import Timer

from app.frontend.form_field import read_field
from app.frontend.question import Question, Scope, editable_json
from app.terminal.glyphs import Glyphs
from app.tui.keys import key_name, keys_at, shown
from app.tui.widgets.card import SCOPES, QuestionCard
from app.tui.widgets.card_field import CardField

ARM_AFTER_S = 0.5
ALONE_S = 0.3
"""How long an answer's letter waits for what follows: with anything behind it, it is a word."""
SPOKEN_S = 2.0
"""Letters that did something so short before a word belong to it."""


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
        self._held = ""
        """An answer's letter that may be the beginning of a word."""
        self._holding: Timer | None = None
        self._spoken = ""
        self._spoken_at = 0.0

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
            self._let_go()
            self.display = False
            return
        if before is None or before.id != question.id:
            self._begin(question)
            self._answers = {}
            self._close_field()
            self.display = True
        self._draw()

    def _ask_again(self, question: Question) -> None:
        """Show the question with other arguments: it is read anew."""
        self._begin(question)
        self._draw()

    def _begin(self, question: Question) -> None:
        self.question, self._cursor, self._scroll, self._wider = question, -1, 0, 0
        self._mode, self._complaint, self._choosing, self._spoken = "", "", "", ""
        self._seen, self._waived, self._body, self._body_of = 0, False, None, ()
        self._revision += 1
        self._let_go()
        self._arm_later(question.id)

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
        if self.question is None or self.question.id != question_id:
            return
        if not self.laid_out:
            self._arm_later(question_id)
            return
        self._armed, self._early = True, ""
        self._begin_form()
        self._draw()

    def _begin_form(self) -> None:
        """The keys go to the first field of a form that was read."""
        question = self.question
        if question is None or question.kind != "form" or question.choices or self._mode:
            return
        self._look()
        if self._armed and self.has_focus and not self.unread:
            self._next_field()

    def _read(self) -> None:
        super()._read()
        self._begin_form()

    def _laid_out(self) -> None:
        if self.question is not None:
            self._arm_later(self.question.id)

    def on_focus(self) -> None:
        """Keys come here now."""
        self._begin_form()
        self._draw()

    def on_blur(self) -> None:
        """They go elsewhere."""
        self._let_go()
        self._draw()

    # ---- keys ------------------------------------------------------------------------------

    def words(self, event: events.Key) -> str:
        """What a key begins a message with: words are no answer. Empty where the key is the card's.

        An answer's letter waits: alone it is one, with anything soon behind it a word. Before the keys are
        lit one early answer alone is let go.
        """
        question = self.question
        typed = (event.character or "") if event.is_printable else ""
        if question is None or self._mode:
            return ""
        if not self._armed:
            return self._early_words(typed, question)
        if held := self._held:
            self._let_go()
            return self._begun(held + ("\n" if event.key == "enter" else typed))
        if not typed.strip():
            return ""
        if typed not in self._answer_keys(question):
            return self._begun(typed)
        self._held = typed
        self._holding = self.set_timer(ALONE_S, lambda: self._alone(typed, question))
        return ""

    def _early_words(self, typed: str, question: Question) -> str:
        if not typed.strip():
            return ""
        self._early += typed
        if self._early in self._answer_keys(question):
            return ""
        found, self._early = self._early, ""
        return found

    def _begun(self, typed: str) -> str:
        """A word that begins, with the letters that did something just before it."""
        spoken = self._spoken if time.monotonic() - self._spoken_at < SPOKEN_S else ""
        self._spoken, self._choosing = "", ""
        self._draw()
        return spoken + typed

    def held_words(self) -> str:
        """The letter that waits, taken for the beginning of a paste behind it."""
        held = self._begun(self._held) if self._held else ""
        self._let_go()
        return held

    def _let_go(self) -> None:
        """The letter that waits means nothing any more."""
        self._held = ""
        if self._holding is not None:
            self._holding.stop()
            self._holding = None

    def _alone(self, typed: str, question: Question) -> None:
        # Behind the keys that have come already: this one may not be alone after all.
        cast("App[Any]", self.app).call_later(self._act_alone, typed, question)

    def _act_alone(self, typed: str, question: Question) -> None:
        if self._held != typed or question is not self.question or not (self._armed and self.has_focus):
            return
        self._let_go()
        if time.monotonic() - self._spoken_at >= SPOKEN_S:
            self._spoken = ""
        self._spoken, self._spoken_at = self._spoken + typed, time.monotonic()
        self._look()
        if self.unread and self._named(typed) == "allow_unread":
            self._waived = True
            self._begin_form()
            self._draw()
        elif question.choices:
            for choice in question.choices:
                if typed == choice.key and not self.unread and self._shows_what_it_allows():
                    self._answer("accept", cast("dict[str, Any]", choice.value))
        elif question.kind == "form":
            self._form_answer(self._named(typed))
        elif self._choosing and self._named(typed) != "allow_wider":
            return
        else:
            self._call_named(self._named(typed), question)

    def _named(self, typed: str) -> str:
        return next((name for key, name in self._names.items() if shown(key) == typed), "")

    def _answer_keys(self, question: Question) -> list[str]:
        if question.choices:
            names = {"allow_unread"} if self.unread else set[str]()
            found = [] if self.unread else [choice.key for choice in question.choices]
        else:
            found, names = list[str](), {"refuse", "refuse_stop", *(["allow_unread"] if self.unread else ())}
        if question.kind == "call":
            names |= {name for name, _ in self._answers_offered()}
            if self._choosing:
                names = {"allow_unread"} if self.unread else set[str]()
            if any(len(question.offers_for(scope)) > 1 for scope in SCOPES):
                names.add("allow_wider")
        return [*found, *(shown(key) for key, name in self._names.items() if name in names)]

    def on_key(self, event: events.Key) -> None:
        """Decide by what is no letter; those wait first whether they stand alone (`words`)."""
        question = self.question
        if question is None or self._mode:
            return
        if event.key in ("up", "down"):
            event.stop()
            self._scroll_by(1 if event.key == "down" else -1)
        elif not self._armed:
            if event.is_printable or event.key == "enter":
                event.stop()
                # Somebody is typing something else: it takes a pause to be heard.
                self._arm_later(question.id)
        elif event.is_printable:
            event.stop()
        elif question.kind == "form":
            if event.key == "enter":
                event.stop()
                self._begin_form()
            elif not question.choices:
                self._form_answer(self._names.get(key_name(event.key), ""))
        else:
            self._call_key(event, question)

    def turn_page(self, direction: int) -> bool:
        """A page up or down in what is asked; False where all of it is in sight."""
        if self.question is None or self._body is None or len(self._body) <= self._room:
            return False
        self._scroll_by(direction * self._room)
        return True

    def _scroll_by(self, step: int) -> None:
        # No row is passed over that was not seen.
        self._look()
        self._scroll = max(0, min(self._scroll + step, self._seen))
        self._draw()

    def _call_key(self, event: events.Key, question: Question) -> None:
        self._look()
        if self._choosing:
            self._chosen_key(event, question)
            return
        offered = [name for name, _ in self._answers_offered()]
        if event.key in ("left", "right"):
            step = 1 if event.key == "right" else -1
            self._cursor = (self._cursor + step) % len(offered) if self._cursor >= 0 else 0
            event.stop()
            self._draw()
            return
        chosen = self._names.get(key_name(event.key), "")
        if event.key == "enter" and 0 <= self._cursor < len(offered):
            chosen = offered[self._cursor]
        if event.key == "enter" or chosen:
            event.stop()
        self._call_named(chosen, question)

    def _chosen_key(self, event: events.Key, question: Question) -> None:
        """A rule is shown: enter grants it, esc goes back."""
        if event.key not in ("enter", "escape", "left", "right"):
            return
        event.stop()
        event.prevent_default()
        match event.key:
            case "enter" if not self.unread and self._shows_what_it_allows():
                scope: Scope = "session" if self._choosing == "allow_chat" else "always"
                offer = question.offer(scope, self._wider)
                assert offer is not None
                self._answer("accept", {"scope": scope, "rule": offer.id})
            case "escape":
                self._choosing, self._spoken = "", ""
            case "left" | "right":
                self._wider += 1 if event.key == "right" else -1
            case _:
                pass
        self._draw()

    def _call_named(self, name: str, question: Question) -> None:
        offered = [one for one, _ in self._answers_offered()]
        if name == "allow_wider":
            self._wider, self._choosing = self._wider + 1, ""
        elif name == "allow_unread":
            self._waived = True
        elif name not in offered:
            return
        else:
            self._call_answer(name, question)
        self._draw()

    def _call_answer(self, name: str, question: Question) -> None:
        match name:
            case "allow_once" if not self._shows_what_it_allows():
                pass
            case "allow_once":
                content = {"arguments": question.arguments} if question.edited else {"scope": "once"}
                self._answer("accept", content)
            case "allow_chat" | "allow_always":
                self._choosing, self._cursor, self._scroll = name, -1, 0
            case "allow_edited":
                self._open_field("edit", editable_json(question.arguments, indent=1))
            case "refuse":
                self._open_field("reason", "")
            case _:
                self._answer("decline", {"stop": True})

    def _form_answer(self, name: str) -> None:
        match name:
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
            self._complaint = f"That is not JSON: {err}."
            self._draw()
            return
        if not isinstance(value, dict):
            self._complaint = "Arguments must be a JSON object: names and values in braces."
            self._draw()
            return
        assert self.question is not None
        self._complaint = ""
        self._close_field()
        self.focus()
        self._ask_again(self.question.with_arguments(cast("dict[str, Any]", value)))

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

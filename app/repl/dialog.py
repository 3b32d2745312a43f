"""Questions to the person, line by line: approvals of calls, forms of tools, choices of commands.

Only an exact answer allows anything; whatever else is said refuses.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from app.commands.face import Choice
from app.frontend.form_field import read_field
from app.frontend.question import Question, Scope, editable_json, rule_text
from app.markdown.sgr import Span
from app.repl.console import Console
from app.repl.page import ReplPage
from app.terminal.glyphs import Glyphs

NO_ANSWER: dict[str, Any] = {"action": "cancel", "content": {"timeout": True}}
"""Where nobody is there; the audit log then blames no person."""
STOP: dict[str, Any] = {"action": "decline", "content": {"stop": True}}
MOST_CHOICES = 20
MOST_TRIES = 3


class Editor(Protocol):
    """Lets a person change a text; None where they gave up."""

    async def __call__(self, text: str, suffix: str = ".md") -> str | None: ...


@dataclass(frozen=True)
class Dialog:
    """Asks on `console` about what stands on `page`."""

    console: Console
    page: ReplPage
    glyphs: Glyphs
    edit: Editor

    async def answer(self, question: Question) -> Mapping[str, Any]:
        """What the person says to a question, as `resolve_elicitation` takes it."""
        if question.kind == "call":
            return await self._approve(question)
        if question.choices:
            return await self._choice(question)
        return await self._form(question)

    # ---- calls -----------------------------------------------------------------------------

    async def _approve(self, question: Question) -> Mapping[str, Any]:
        waived = False
        while True:
            left = 0 if waived else self.page.unread(question)
            line = await self.console.ask(self._keys(question, left), armed=True)
            if line is None:
                return STOP
            said = line.strip()
            key, _, reason = said.partition(" ")
            if "\n" in line:
                self._keep(line)
            elif left and (passed := self._reads(said, left)) is not None:
                waived = passed
            elif said == "y":
                return _accept({"arguments": question.arguments} if question.edited else {"scope": "once"})
            elif said in ("s", "a"):
                if (found := self._remembered(question, "session" if said == "s" else "always")) is not None:
                    return found
            elif said == "e":
                if (changed := await self._edited(question)) is not None:
                    question, waived = changed, False
            elif said == "x":
                return STOP
            else:
                return self._refused(said, reason if key in ("n", "no") else None)

    def _reads(self, said: str, left: int) -> bool | None:
        """Whether the rows that are left need not be read; None where something else was said."""
        match said:
            case "":
                self.page.read_on()
            case "y" | "s" | "a":
                self.page.news(f"{left:,} rows are unread: enter shows more, u answers anyway.")
            case _:
                return True if said == "u" else None
        return False

    def _remembered(self, question: Question, scope: Scope) -> Mapping[str, Any] | None:
        offer = question.offer(scope)
        if offer is None:
            self.page.news("This call cannot be remembered; y allows it once.")
            return None
        until = "in this chat" if scope == "session" else "always; /tools removes it"
        self.page.news(f"Allowed {until}: {rule_text(offer)}")
        return _accept({"scope": scope, "rule": offer.id})

    def _refused(self, said: str, reason: str | None) -> Mapping[str, Any]:
        """A no; other words refuse too, and the model is told them."""
        if reason is None:
            reason = said if " " in said else ""
            self.page.news("Refused: only y, s or a alone allow a call.")
        return {"action": "decline", "content": {"reason": reason} if reason else {}}

    def _keep(self, text: str) -> None:
        """Several lines at once are a paste: a part of the next message, and no answer."""
        self.console.insert(text, typed=False)
        self.page.news("Several lines at once do not count as an answer; they are in your draft.")

    def _keys(self, question: Question, left: int) -> list[Span]:
        keys = [("y", "once")]
        keys += [("s", "this chat")] if question.offer("session") is not None else []
        keys += [("a", "always")] if question.offer("always") is not None else []
        if left:
            keys = [("enter", "reads on"), ("u", f"{left:,} rows unread, allow anyway")]
        keys += [("e", "edit"), ("n", "no, go on"), ("x", "no, stop")]
        spans = self._edge()
        for key, words in keys:
            spans += [(self.glyphs.key(key), "bold $approval"), (f" {words}  ", "")]
        return [*spans[:-1], (f" {keys[-1][1]} ", ""), (f"{self.glyphs.prompt} ", "bold $approval")]

    async def _read_first(self, question: Question) -> bool:
        """Show all of a form's message; False where the person refuses before."""
        while left := self.page.unread(question):
            keys = f"enter reads on, u answers with {left:,} rows unread, n refuses"
            line = await self.console.ask(self._prompt(keys), armed=True)
            match (line or "n").strip() if line is None or line else "":
                case "":
                    self.page.read_on()
                case "u":
                    return True
                case _:
                    return False
        return True

    def _edge(self) -> list[Span]:
        return [(f"{self.glyphs.waiting} ", "bold $approval")] if self.console.draws else []

    async def _edited(self, question: Question) -> Question | None:
        """The question about the arguments as the person wants them, shown as they would run."""
        text = editable_json(question.arguments, indent=2)
        for _ in range(MOST_TRIES):
            changed = await self.edit(text, ".json")
            if changed is None or not changed.strip():
                return None
            try:
                held: Any = json.loads(changed)
            except (ValueError, RecursionError) as err:
                self.page.news(f"That is not JSON: {err}.", error=True)
                text = changed
                continue
            if isinstance(held, dict):
                found = question.with_arguments(cast("dict[str, Any]", held))
                self.page.card(found, "with your arguments")
                return found
            self.page.news("Arguments must be a JSON object.", error=True)
            text = changed
        return None

    # ---- forms -----------------------------------------------------------------------------

    async def _choice(self, question: Question) -> Mapping[str, Any]:
        if not await self._read_first(question):
            return {"action": "decline"}
        rows = [(choice.key, choice.label, choice.detail) for choice in question.choices]
        self.page.table("", rows)
        line = await self.console.ask(self._prompt("answer"), armed=True)
        said = (line or "").strip().lower()
        # A key before any label: the label of one choice may be the key of another.
        named = {choice.label.lower(): choice for choice in reversed(question.choices)}
        named |= {choice.key: choice for choice in question.choices}
        if said in named:
            return _accept(named[said].value)
        return STOP if line is None else {"action": "decline"}

    async def _form(self, question: Question) -> Mapping[str, Any]:
        if not await self._read_first(question):
            return {"action": "decline"}
        content: dict[str, Any] = {}
        is_first = True
        for asked in question.fields:
            for _ in range(MOST_TRIES):
                line = await self.console.ask(self._prompt(asked.title), asked.default, armed=is_first)
                is_first = False
                if line is None:
                    return {"action": "decline"}
                if not line and not asked.required:
                    break
                try:
                    content[asked.name] = read_field(asked, line)
                    break
                except ValueError as err:
                    self.page.news(str(err), error=True)
            else:
                return {"action": "decline"}
        if not question.fields:
            line = await self.console.ask(self._prompt("y to agree"), armed=True)
            if (line or "").strip().lower() not in ("y", "yes"):
                return {"action": "decline"}
        return _accept(content)

    # ---- commands --------------------------------------------------------------------------

    async def line(self, question: str, default: str = "") -> str | None:
        """One line of text about something; None where the person gave none."""
        return await self.console.ask(self._prompt(question), default)

    async def choose(self, title: str, choices: Sequence[Choice]) -> str | None:
        """One of numbered choices; words narrow them down."""
        shown = list(choices)
        while True:
            rows = [
                (f"{number:>3}", one.label, one.detail) for number, one in enumerate(shown[:MOST_CHOICES], 1)
            ]
            if len(shown) > MOST_CHOICES:
                rows.append(("", f"{len(shown) - MOST_CHOICES} more; words narrow them down", ""))
            self.page.table(title, rows)
            line = ((await self.console.ask(self._prompt("number or words"))) or "").strip()
            if not line:
                return None
            if line.isdecimal() and 1 <= int(line[:6]) <= len(shown):
                return shown[int(line[:6]) - 1].value
            fitting = [one for one in choices if _fits(line, one)]
            if len(fitting) == 1:
                return fitting[0].value
            if not fitting:
                self.page.news(f"Nothing matches {line}.")
                return None
            shown = fitting

    def _prompt(self, question: str) -> list[Span]:
        return [*self._edge(), (question, "bold"), (f" {self.glyphs.prompt} ", "bold $approval")]


def _accept(content: Mapping[str, Any]) -> dict[str, Any]:
    return {"action": "accept", "content": dict(content)}


def _fits(words: str, choice: Choice) -> bool:
    text = f"{choice.label} {choice.detail}".lower()
    return all(word in text for word in words.lower().split())

"""Questions to the person, line by line: approvals of calls, forms of tools, choices of commands.

Only an exact answer allows anything; whatever else is said refuses.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

from app.commands.face import Choice
from app.glyphs import Glyphs
from app.repl.console import Console
from app.repl.ink import Span
from app.repl.page import Page
from app.tui.widgets.question import Question, read_field
from tools.preview import visible

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
    page: Page
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
        edited: dict[str, Any] | None = None
        while True:
            line = await self.console.ask(self._keys(question, edited is not None), armed=edited is None)
            key, _, reason = (line or "").strip().partition(" ")
            match key:
                case "y":
                    content: dict[str, Any] = {"scope": "once"}
                    return _accept(content if edited is None else {**content, "arguments": edited})
                case "s" | "a" if edited is None and not reason:
                    scope = "session" if key == "s" else "always"
                    if (offer := question.offer(scope)) is not None:
                        words = visible(str(offer.get("text", ""))).replace("\n", " ")
                        until = "in this chat" if key == "s" else "always; /tools takes it back"
                        self.page.news(f"Allowed {until}: {words}")
                        return _accept({"scope": scope, "rule": offer["id"]})
                    self.page.news("Nothing can be remembered for this call; it runs this once only with y.")
                case "e" if not reason:
                    edited = await self._edited(question, edited) or edited
                case "x" if not reason:
                    return STOP
                case _:
                    if line is None:
                        return STOP
                    said = reason
                    if key not in ("n", "no"):
                        # Other words refuse too, and the model is told them.
                        said = line.strip() if reason else ""
                        self.page.news("Refused: only y, s or a alone allow a call.")
                    return {"action": "decline", "content": {"reason": said} if said else {}}

    def _keys(self, question: Question, is_edited: bool) -> list[Span]:
        keys = [("y", "once"), ("s", "this chat"), ("a", "always"), ("e", "edit")]
        if is_edited or not question.offers:
            keys = [keys[0], keys[3]]
        keys += [("n", "no, go on"), ("x", "no, stop")]
        spans = self._edge()
        for key, words in keys:
            spans += [(self.glyphs.key(key), "bold $approval"), (f" {words}  ", "")]
        return [*spans[:-1], (f" {keys[-1][1]} ", ""), (f"{self.glyphs.prompt} ", "bold $approval")]

    def _edge(self) -> list[Span]:
        return [(f"{self.glyphs.waiting} ", "bold $approval")] if self.console.draws else []

    async def _edited(self, question: Question, before: dict[str, Any] | None) -> dict[str, Any] | None:
        """The arguments as the person wants them, shown as they would run."""
        text = json.dumps(before or question.arguments, ensure_ascii=False, indent=2)
        for _ in range(MOST_TRIES):
            changed = await self.edit(text, ".json")
            if changed is None or not changed.strip():
                return None
            try:
                held: Any = json.loads(changed)
            except (ValueError, RecursionError) as err:
                self.page.news(f"That is no JSON: {err}.", error=True)
                text = changed
                continue
            if isinstance(held, dict):
                found = cast("dict[str, Any]", held)
                self.page.card(replace(question, arguments=found, details={}), "with your arguments")
                return found
            self.page.news("The arguments are a JSON object.", error=True)
            text = changed
        return None

    # ---- forms -----------------------------------------------------------------------------

    async def _choice(self, question: Question) -> Mapping[str, Any]:
        rows = [(choice.key, choice.label, choice.detail) for choice in question.choices]
        self.page.table("", rows)
        line = await self.console.ask(self._prompt("answer"), armed=True)
        said = (line or "").strip().lower()
        for choice in question.choices:
            if said in (choice.key, choice.label.lower()):
                return _accept(choice.value)
        return STOP if line is None else {"action": "decline"}

    async def _form(self, question: Question) -> Mapping[str, Any]:
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
                self.page.news(f"Nothing fits {line}.")
                return None
            shown = fitting

    def _prompt(self, question: str) -> list[Span]:
        return [*self._edge(), (question, "bold"), (f" {self.glyphs.prompt} ", "bold $approval")]


def _accept(content: Mapping[str, Any]) -> dict[str, Any]:
    return {"action": "accept", "content": dict(content)}


def _fits(words: str, choice: Choice) -> bool:
    text = f"{choice.label} {choice.detail}".lower()
    return all(word in text for word in words.lower().split())

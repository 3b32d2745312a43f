"""How thinking is switched in a template: found by rendering what each variable changes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from backend.chat.format import ChatFormat, ThoughtState, thought_state
from backend.chat.learning.probe import TOOLS, Probe, user
from backend.types import EFFORT_LEVELS, ReasoningMode

_BOOLEANS = ("enable_thinking", "thinking", "reasoning")
_LEVELS = ("reasoning_effort", "reasoning_strength")
_OTHERS: tuple[tuple[str, Any, Any], ...] = (
    ("thinking_mode", "enabled", "disabled"),
    ("thinking_budget", None, 0),
)
_OFF_LEVELS = ("none", "no_think", "minimal", "low")
_ORDER = ("none", "no_think", *EFFORT_LEVELS[1:])


@dataclass(frozen=True)
class Switches:
    """The variables that switch thinking, as a template reads them."""

    mode: ReasoningMode = "never"
    on: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Added to the variables by `enable_thinking=True`."""
    off: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Added by `enable_thinking=False`."""
    level_variable: str = ""
    """The variable that takes an effort level; empty when the template has no levels."""
    levels: tuple[str, ...] = ()
    """The levels it accepts, weakest first."""

    def variables(self, enable_thinking: bool | None, reasoning_effort: str | None) -> dict[str, Any]:
        """The template variables for a request.

        Raises ValueError for an unknown level, and for switching off what has no off switch.
        """
        if reasoning_effort is not None and reasoning_effort not in EFFORT_LEVELS:
            raise ValueError(
                f"reasoning_effort must be one of {', '.join(EFFORT_LEVELS)}, not {reasoning_effort!r:.60}"
            )
        values = {} if reasoning_effort is None else self._effort(reasoning_effort)
        if enable_thinking is None:
            return values
        if not enable_thinking and self.mode == "always":
            raise ValueError("this model always thinks: its template has no switch that turns thinking off")
        switched = {"enable_thinking": enable_thinking, "thinking": enable_thinking}
        return {**switched, **self.on, **values} if enable_thinking else {**switched, **self.off}

    def unmet(self, enable_thinking: bool | None, reasoning_effort: str | None) -> str:
        """What a request asks of a thinking model and the template cannot pass on, as a sentence, else ""."""
        effort = None if reasoning_effort == "none" else reasoning_effort
        if enable_thinking is False and effort:
            return "reasoning_effort has no effect where enable_thinking is false."
        if effort and self.level_variable and (nearest := self._nearest(effort)) != effort:
            return (
                f"The chat template does not know reasoning_effort {effort}; it was given {nearest}, "
                f"the nearest of {', '.join(self.levels)}."
            )
        wanted = enable_thinking
        if wanted is None and reasoning_effort is not None and not (effort and self.level_variable):
            wanted = effort is not None
        if wanted is None or self._can_switch(wanted):
            return ""
        return "The model decides by itself whether to think; its chat template has no switch for it."

    def _can_switch(self, on: bool) -> bool:
        if on:
            return self.mode == "always" or bool(self.on) or (self.mode == "toggleable" and bool(self.off))
        return self.mode != "adaptive" or bool(self.off)

    def allows_thought(self, enable_thinking: bool | None, reasoning_effort: str | None) -> bool:
        """Whether a reply may begin with a thought that its prompt does not open, as switched."""
        wanted = enable_thinking
        if wanted is None and reasoning_effort is not None:
            wanted = reasoning_effort != "none"
        match self.mode:
            case "never":
                return False
            case "always":
                return True
            case "opt_in":
                return wanted is True
            case "toggleable" | "adaptive":
                return wanted is not False

    def _effort(self, level: str) -> dict[str, Any]:
        """A level as the template's own, or as thinking switched on or off where it has none."""
        if not self.level_variable or (level == "none" and self.mode != "always"):
            return self.variables(level != "none", None)
        return {**self.on, self.level_variable: self._nearest(level)}

    def _nearest(self, level: str) -> str:
        wanted = _ORDER.index(level)
        return min(self.levels, key=lambda known: (abs(_ORDER.index(known) - wanted), -_ORDER.index(known)))


def find_switches(probe: Probe, chat_format: ChatFormat) -> Switches:
    """Which variables switch thinking in the template, and its `reasoning_mode`."""
    thought = chat_format.thought
    if thought is None or (thought.source == "registry" and not chat_format.channels):
        return Switches()
    probe.variables = {}
    source = probe.renderer.source

    def rendered(**variables: Any) -> str | None:
        text = probe.after_user([user()], None, opened=True, **variables)
        whole = probe.render([user()], None, opened=True, **variables)
        if text is None:
            text = probe.after_user([user()], TOOLS, opened=True, **variables)
            whole = probe.render([user()], TOOLS, opened=True, **variables)
        return None if text is None or whole is None else f"{whole}\ue00f{text}"

    def state(text: str | None) -> ThoughtState:
        behind = (text or "").rpartition("\ue00f")[2]
        at = behind.find(chat_format.header) if chat_format.header else -1
        return thought_state(chat_format, behind[at + len(chat_format.header) :] if at >= 0 else behind)

    unset = rendered()
    finding = _Finding(unset, state(unset))
    for name in _BOOLEANS:
        if _reads(source, name):
            finding.consider(name, True, rendered(**{name: True}), state, turned_on=True)
            finding.consider(name, False, rendered(**{name: False}), state, turned_on=False)
    for name, on, off in _OTHERS:
        if _reads(source, name):
            if on is not None:
                finding.consider(name, on, rendered(**{name: on}), state, turned_on=True)
            finding.consider(name, off, rendered(**{name: off}), state, turned_on=False)
    levels: dict[str, str | None] = {}
    variable = next((name for name in _LEVELS if _reads(source, name)), "")
    if variable:
        levels = {level: rendered(**{variable: level}) for level in _ORDER}
        finding.consider_levels(variable, levels, state)
    accepted = tuple(level for level, text in levels.items() if text is not None)
    if len(set(levels.values())) == len(_ORDER):
        accepted = ("low", "medium", "high")  # it prints any word, and these are what models know
    mode = finding.mode(variable, levels)
    return Switches(mode, finding.on, finding.off, variable if accepted else "", accepted)


def _reads(source: str, name: str) -> bool:
    return re.search(rf"(?<![\w.'\"]){name}(?![\w'\"])", source) is not None


class _Finding:
    """What the variables were seen to do."""

    def __init__(self, unset: str | None, state: ThoughtState) -> None:
        self.unset = unset
        self.state: ThoughtState = state
        self.on: dict[str, Any] = {}
        self.off: dict[str, Any] = {}
        self.opened = self.changed = self.by_mode = False

    def consider(self, name: str, value: Any, text: str | None, state: Any, *, turned_on: bool) -> None:
        if text is None or text == self.unset:
            return
        now: ThoughtState = state(text)
        if turned_on:
            self.by_mode = self.by_mode or name == "thinking_mode"
            if name != "thinking_mode":
                self.on[name] = value
                self.opened = self.opened or now == "open" or (self.state == "closed" and now != "closed")
                self.changed = True
        elif now != self.state:
            self.off[name] = value

    def consider_levels(self, name: str, levels: Mapping[str, str | None], state: Any) -> None:
        states = {level: state(text) for level, text in levels.items() if text is not None}
        if self.state == "closed" and not self.opened:
            opening = [level for level, now in states.items() if now == "open"]
            if opening:
                self.on[name] = opening[-1]
                self.opened = True
                closing = [level for level, now in states.items() if now == "closed"]
                if closing:
                    self.off.setdefault(name, closing[0])
        elif self.state != "closed" and not self.off:
            closing = [
                level for level in _OFF_LEVELS if states.get(level, self.state) not in (self.state, "open")
            ]
            if closing:
                self.off[name] = closing[0]

    def mode(self, variable: str, levels: Mapping[str, str | None]) -> ReasoningMode:
        if self.state == "open":
            return "toggleable" if self.off else "always"
        if self.state == "closed":
            return "opt_in" if self.opened or self.changed else "toggleable"
        if self.by_mode:
            return "adaptive"
        if self.opened or (self.changed and not self.off):
            return "opt_in"
        if self.off:
            return "toggleable"
        varied = len({text for text in levels.values() if text is not None}) > 1
        return "always" if variable == "reasoning_effort" and varied else "adaptive"

"""The known conversations a template is rendered with to find out what it does."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from backend.chat.limits import LimitError
from backend.chat.renderer import Renderer
from backend.types import TemplateError

NAME_1, NAME_2 = "qfnalpha", "qfnbeta"
KEY_1, KEY_2 = "qkeyone", "qkeytwo"
VALUE_1, VALUE_2 = "Qvalone", "Qvaltwo"
NUMBER = 70431
ID_1, ID_2 = "qidaaaaa1", "qidbbbbb2"
USER, USER_2, SYSTEM, SYSTEM_2 = "Quserask", "Quseragain", "Qsystemtext", "Qlatertext"
CONTENT, THOUGHT, RESULT = "Qcontent", "Qthought", "Qresult"

RENDER_CPU_S, ALL_CPU_S = 0.2, 0.4
"""Processor time of one probe and of all; a published template takes 4 ms for all."""

MAX_PRINTED = 256 * 1024
"""Most characters of one probe's rendering; published templates print 7,000 at most."""
MAX_SHOWN = 10_000
"""Most characters behind the user's words that are looked at: comparing marks takes longer than linear."""

Messages = Sequence[Mapping[str, Any]]


def tool(name: str) -> dict[str, Any]:
    """A tool with two text parameters."""
    text = {"type": "string", "description": "x"}
    parameters = {"type": "object", "properties": {KEY_1: text, KEY_2: text}, "required": [KEY_1]}
    return {"type": "function", "function": {"name": name, "description": "d", "parameters": parameters}}


TOOLS = (tool(NAME_1), tool(NAME_2))


def user(text: str = USER) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(content: Any = "", calls: Sequence[Any] = (), **extra: Any) -> dict[str, Any]:
    turn: dict[str, Any] = {"role": "assistant", "content": content, **extra}
    return {**turn, "tool_calls": list(calls)} if calls else turn


def call(name: str = NAME_1, arguments: Any = None, call_id: str = ID_1) -> dict[str, Any]:
    value = {KEY_1: VALUE_1} if arguments is None else arguments
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": value}}


def result(call_id: str = ID_1, name: str = NAME_1, content: str = RESULT) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "name": name, "content": content}


class Probe:
    """Renders probes of one template; a probe the template refuses is None, which is a fact too."""

    def __init__(self, renderer: Renderer) -> None:
        self.renderer = renderer
        self.variables: dict[str, Any] = {}
        """Added to every probe: the thinking switches that are on while calls and thoughts are read."""
        self._seen: dict[str, str | None] = {}
        self._left = ALL_CPU_S

    def render(
        self, messages: Messages, tools: Messages | None = None, *, opened: bool = False, **variables: Any
    ) -> str | None:
        """The rendered text, or None when the template refuses."""
        merged = {**self.variables, **variables}
        key = json.dumps([list(messages), len(tools or ()), opened, merged], sort_keys=True)
        if key not in self._seen:
            self._seen[key] = self._render(messages, tools, opened, merged)
        return self._seen[key]

    def _render(
        self, messages: Messages, tools: Messages | None, opened: bool, variables: Mapping[str, Any]
    ) -> str | None:
        start = time.thread_time()
        try:
            return self.renderer.render(
                messages, tools, add_generation_prompt=opened, variables=variables, cpu_s=RENDER_CPU_S,
                max_output=MAX_PRINTED,
            )  # fmt: skip
        except TemplateError as err:
            if isinstance(err.__cause__, LimitError):
                self.renderer.fault = err
            return None
        finally:
            self._left -= time.thread_time() - start
            if self._left < 0 and self.renderer.fault is None:
                self.renderer.fault = TemplateError(
                    f"{self.renderer.title} was stopped: short conversations take it "
                    f"more than {ALL_CPU_S:g} s. Give another one with --chat-template."
                )

    def after_user(
        self, messages: Messages, tools: Messages | None = None, *, opened: bool = False, **variables: Any
    ) -> str | None:
        """What is printed behind the last user text: the end of that turn and the reply. None too where
        that is longer than any template's."""
        text = self.render(messages, tools, opened=opened, **variables)
        if text is None or USER not in text:
            return None
        behind = text[text.rindex(USER) + len(USER) :]
        return behind if len(behind) <= MAX_SHOWN else None

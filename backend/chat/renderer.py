"""Compiles one chat template and renders it under the sandbox's limits, with typed errors."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from backend.chat.limits import LimitError
from backend.types import TemplateError

MAX_SOURCE = 64 * 1024
"""Most characters of a template, so that compiling stays under a second; published ones have up to
17 thousand."""
MAX_CPU_S = 0.7
"""Seconds of processor time one render may take."""
_CHANGES = frozenset(
    "add append clear difference_update discard extend insert pop popitem remove reverse setdefault sort"
    " symmetric_difference_update update".split()
)


class Renderer:
    """A compiled template. Rendering is thread-safe.

    `mutable` tells that the template changes lists and so runs over deep copies.
    """

    def __init__(
        self, source: str, *, bos_token: str = "", eos_token: str = "", name: str = "", given: bool = False
    ) -> None:
        """Compile `source`; raises TemplateError when it is too long or does not compile.

        `name` names the template in errors, but not one that was `given` in place of the model's.
        """
        self.source = source
        self.bos_token = bos_token
        self.eos_token = eos_token
        self.name = name
        self.title = "The given chat template" if given else f"The chat template {name or 'of the model'}"
        self.mutable = False
        self.renders = 0
        self.fault: TemplateError | None = None
        """Set when a probe went over a limit: every later render fails at once."""
        if len(source) > MAX_SOURCE:
            raise TemplateError(
                f"{self.title} was refused: it has {len(source):,} characters, "
                f"and at most {MAX_SOURCE:,} are read. Give another one with --chat-template."
            )
        self._compiled = {False: self._compile(mutable=False)}

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        add_generation_prompt: bool = True,
        variables: Mapping[str, Any] | None = None,
        cpu_s: float = MAX_CPU_S,
        max_output: int | None = None,
    ) -> str:
        """The template's text for exactly these messages and tools.

        `cpu_s` bounds the processor time, `max_output` the characters (None: as the sandbox does).
        Raises TemplateError naming the template and the line.
        """
        import jinja2.exceptions as jinja

        if self.fault is not None:
            raise self.fault
        values: dict[str, Any] = {
            "bos_token": self.bos_token,
            "eos_token": self.eos_token,
            "add_generation_prompt": add_generation_prompt,
            "functions": json.dumps(list(tools or ()), ensure_ascii=False),
            "datetime": _today(),
            **(variables or {}),
        }
        self.renders += 1
        if not self.mutable:
            try:
                return self._run(False, {**values, **_inputs(messages, tools)}, cpu_s, max_output)
            except jinja.SecurityError as err:
                if not _is_change(err):
                    raise self._explained(err) from err
            except Exception as err:
                raise self._explained(err) from err
        try:
            copied = copy.deepcopy(_inputs(messages, tools))
            text = self._run(True, {**values, **copied}, cpu_s, max_output)
        except Exception as err:
            raise self._explained(err) from err
        self.mutable = True
        return text

    def _compile(self, mutable: bool) -> Any:
        from backend.chat.sandbox import environment

        try:
            return environment(mutable).from_string(self.source)
        except Exception as err:
            raise self._explained(err) from err

    def _run(self, mutable: bool, values: dict[str, Any], cpu_s: float, max_output: int | None) -> str:
        from backend.chat.sandbox import run_metered

        if mutable not in self._compiled:
            self._compiled[mutable] = self._compile(mutable)
        template = self._compiled[mutable]

        def chunks() -> Iterable[str]:
            return template.root_render_func(template.new_context(values))

        return run_metered(chunks, cpu_s, max_output)

    def _explained(self, err: Exception) -> TemplateError:
        """The error for people, with the line; an endless recursion is cut off the chain."""
        import jinja2.exceptions as jinja

        line = _line_of(err)
        if isinstance(err, RecursionError):
            err.__traceback__ = None
        where = self.title + (f", line {line}," if line else "")
        detail = _sentence(" ".join(str(err).split())[:300] or type(err).__name__)
        match err:
            case jinja.TemplateSyntaxError():
                text = f"{where} does not compile: {detail} Give another one with --chat-template."
            case jinja.SecurityError():
                text = f"{where} was refused: {detail} Templates may not reach outside the conversation."
            case LimitError():
                text = f"{where} was stopped: {detail} Give another one with --chat-template."
            case jinja.UndefinedError():
                text = f"{where} needs something it was not given: {detail}"
            case jinja.TemplateError():
                text = f"{where} does not accept this conversation: {detail}"
            case RecursionError():
                text = f"{where} was stopped: it nests too deeply. Give another one with --chat-template."
            case _:
                text = f"{where} failed: {type(err).__name__}: {detail}"
        return TemplateError(text)


def _inputs(
    messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None
) -> dict[str, Any]:
    """Messages, and tools only when there are some: `tools=None` breaks published templates."""
    inputs: dict[str, Any] = {"messages": [dict(message) for message in messages]}
    if tools:
        inputs["tools"] = [dict(tool) for tool in tools]
    return inputs


def _sentence(detail: str) -> str:
    return detail if detail.endswith((".", "!", "?", "…")) else f"{detail}."


def _today() -> str:
    from backend.chat.sandbox import clock

    return clock().strftime("%B %d %Y")


def _is_change(err: Exception) -> bool:
    """Whether the sandbox refused a change of a list or mapping, and not an escape."""
    words = str(err).split("'")
    return len(words) > 3 and words[1] in _CHANGES and words[3] in ("list", "dict", "set")


def _line_of(err: BaseException) -> int | None:
    """The template's line: the innermost frame of generated code, mapped back by jinja2."""
    import traceback

    line = getattr(err, "lineno", None)
    if isinstance(line, int):
        return line
    found = None
    for frame, number in traceback.walk_tb(err.__traceback__):
        if template := frame.f_globals.get("__jinja_template__"):
            found = template.get_corresponding_lineno(number)
    return found

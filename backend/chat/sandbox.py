"""The jinja2 environments chat templates run in.

A template comes out of a downloaded file, so nothing it does is trusted: it reaches no Python
object beyond its variables, and `meter` bounds its work, its output and its texts.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, cast

from jinja2 import TemplateError as JinjaTemplateError
from jinja2 import nodes
from jinja2.compiler import CodeGenerator
from jinja2.exceptions import SecurityError, TemplateSyntaxError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedEnvironment
from jinja2.visitor import NodeTransformer

from backend.chat import meter
from backend.chat.renderer import LimitError

MAX_RANGE = 100_000
_UNNEEDED_FILTERS = ("pprint", "random", "striptags", "urlize", "wordwrap", "xmlattr")
_LOOP, _VALUE, _SLICE, _CONCAT = "fireside_loop", "fireside_value", "fireside_slice", "fireside_concat"


class _Metering(NodeTransformer):
    """Rewrites a syntax tree so that loops, joins, cuts, comparisons and tuples are accounted for.
    What asks for another template is refused."""

    def visit_Include(self, node: nodes.Include) -> nodes.Node:
        raise _other_template("include", node)

    def visit_Import(self, node: nodes.Import) -> nodes.Node:
        raise _other_template("import", node)

    def visit_FromImport(self, node: nodes.FromImport) -> nodes.Node:
        raise _other_template("from … import", node)

    def visit_Extends(self, node: nodes.Extends) -> nodes.Node:
        raise _other_template("extends", node)

    def visit_For(self, node: nodes.For) -> nodes.Node:
        self.generic_visit(node)
        node.iter = _filtered(cast("nodes.Expr", node.iter), _LOOP)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        first, *rest = node.nodes
        return _filtered(first, _CONCAT, rest)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        self.generic_visit(node)
        node.expr = _measured(node.expr)
        for operand in node.ops:
            operand.expr = _measured(operand.expr)
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        if isinstance(node.arg, nodes.Slice):
            node.node = _filtered(node.node, _SLICE)
        return node

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:
        self.generic_visit(node)
        return node if node.ctx != "load" else _filtered(node, _VALUE)


def _other_template(tag: str, node: nodes.Node) -> TemplateSyntaxError:
    problem = f"{{% {tag} %}} asks for another template, and a chat template is one text by itself"
    return TemplateSyntaxError(problem, node.lineno)


def _filtered(node: nodes.Expr, name: str, args: list[nodes.Expr] | None = None) -> nodes.Filter:
    return nodes.Filter(node, name, args or [], [], None, None, lineno=node.lineno)


def _measured(node: nodes.Expr) -> nodes.Expr:
    return node if isinstance(node, nodes.Const) else _filtered(node, _VALUE)


class _MeteredGenerator(CodeGenerator):
    def visit_Template(self, node: nodes.Template, frame: Any = None) -> None:
        super().visit_Template(_Metering().visit(node), frame)


class _GenerationTag(Extension):
    """`{% generation %}`: marks the assistant's own text for trainers; here its body is printed."""

    tags = {"generation"}  # noqa: RUF012 - the name and kind jinja2 reads

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _indent(value: str, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    """jinja2's `indent`, refused before it multiplies a text by its margin."""
    margin = width if isinstance(width, str) else " " * min(width, meter.MAX_WIDTH)
    meter.current.text(len(value) + len(margin) * (value.count("\n") + 1))
    lines = value.splitlines(keepends=True)
    shifted = [margin + line if (index or first) and (blank or line.strip()) else line
               for index, line in enumerate(lines)]  # fmt: skip
    return "".join(shifted)


def _replace(value: Any, old: str, new: str, count: int | None = None) -> str:
    text = str(value)
    meter.check_method(text, "replace", (old, new), {})
    return text.replace(old, new, -1 if count is None else count)


def _join(value: Iterable[Any], d: str = "", attribute: str | None = None) -> str:
    items: list[str] = []
    size = 0
    for item in value:
        part: Any = item
        if attribute is not None:
            part = cast("dict[str, Any]", item).get(attribute, "") if isinstance(item, dict) else ""
        meter.operand(part)
        items.append(str(part))
        size += len(items[-1]) + len(d)
        meter.current.text(size)
    return d.join(items)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as published templates expect it: neither HTML- nor ASCII-escaped, generators as lists."""
    meter.look_through(value)
    width = None if indent is None else min(int(indent), 16)
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=width, separators=separators, sort_keys=sort_keys,
        default=_json_default,
    )  # fmt: skip


def _json_default(value: object) -> object:
    if isinstance(value, Iterator):
        items: list[object] = list(meter.iterator(cast("Iterator[object]", value)))
        meter.look_through(items)
        return items
    name = "an undefined value" if isinstance(value, Undefined) else f"a {type(value).__name__}"
    raise TypeError(f"{name} cannot be written as JSON")


def _from_json(value: str) -> Any:
    meter.current.text(len(value))
    return json.loads(value)


def _range(*bounds: int) -> range:
    numbers = range(*bounds)
    if len(numbers) > MAX_RANGE:
        raise LimitError(f"it counts over more than {MAX_RANGE:,} numbers")
    meter.current.charge(1 + len(numbers) // 8)
    return numbers


def _raise_exception(message: str) -> None:
    raise JinjaTemplateError(message)


def _strftime_now(layout: str) -> str:
    return clock().strftime(layout[:200])


def _lorem_ipsum(*_args: Any, **_kwargs: Any) -> str:
    raise SecurityError("lipsum is not offered to chat templates")


def clock() -> datetime:
    """What `strftime_now` shows; tests put a fixed one in its place."""
    return datetime.now()


class _Limits:
    """The accounting both environments share."""

    code_generator_class = _MeteredGenerator
    concat = staticmethod(meter.bounded_join)
    intercepted_binops = frozenset({"*", "**", "%", "+"})

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        meter.current.charge()
        meter.check_binop(operator, left, right)
        return SandboxedEnvironment.default_binop_table[operator](left, right)


class FrozenEnvironment(_Limits, ImmutableSandboxedEnvironment):
    """The sandbox that refuses changes of lists and dicts."""

    def call(self, context: Context, target: Any, /, *args: Any, **kwargs: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().call(context, target, *meter.before_call(target, args, kwargs), **kwargs)


class MutableEnvironment(_Limits, SandboxedEnvironment):
    """The sandbox for templates that change lists, which are copies made for one render."""

    def call(self, context: Context, target: Any, /, *args: Any, **kwargs: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().call(context, target, *meter.before_call(target, args, kwargs), **kwargs)


@functools.cache
def environment(mutable: bool) -> SandboxedEnvironment:
    """The environment of all templates, made once per kind."""
    kind = MutableEnvironment if mutable else FrozenEnvironment
    env = kind(
        trim_blocks=True,
        lstrip_blocks=True,
        optimized=False,
        finalize=meter.finalize,
        extensions=["jinja2.ext.loopcontrols", _GenerationTag],
    )
    for name in _UNNEEDED_FILTERS:
        env.filters.pop(name, None)
    env.filters.update(
        indent=_indent, replace=_replace, join=_join, tojson=_to_json, from_json=_from_json
    )  # fmt: skip
    env.filters = {name: meter.metered(name, function) for name, function in env.filters.items()}
    env.filters |= {_LOOP: meter.loop, _VALUE: meter.operand, _SLICE: meter.sliced, _CONCAT: meter.concat}
    env.tests = {name: meter.metered(name, function) for name, function in env.tests.items()}
    offered = cast("dict[str, Any]", env.globals)
    offered.update(
        range=_range, raise_exception=_raise_exception, strftime_now=_strftime_now, lipsum=_lorem_ipsum
    )
    return env


def run_metered(chunks: Callable[[], Iterable[str]], cpu_s: float) -> str:
    """Join what a template prints; raises LimitError when it passes a limit or `cpu_s` of this
    thread's processor time."""
    meter.current.start(cpu_s)
    try:
        return meter.bounded_join(chunks())
    finally:
        meter.current.stop()

"""The jinja2 environments chat templates run in.

A template comes out of a downloaded file, so nothing it does is trusted: it reaches no Python
object beyond its variables, and `meter` bounds its work, its output and its texts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, cast

from jinja2 import TemplateError as JinjaTemplateError
from jinja2 import nodes
from jinja2.compiler import CodeGenerator
from jinja2.exceptions import SecurityError, TemplateSyntaxError
from jinja2.ext import Extension
from jinja2.lexer import Token, TokenStream
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from backend.chat import filters, meter, methods
from backend.chat.limits import LimitError

MAX_TOKENS, MAX_NODES, MAX_DEPTH = 12_000, 5_000, 100
"""Of a template's code, so that compiling stays under a second; published ones have up to 2,500 tokens
and 1,300 nodes, at most 30 deep."""
_FRAME_WEIGHT = 20
MAX_RANGE = 100_000
MAX_MESSAGE = 2_000
"""Characters of what a template says when it refuses a conversation."""
_LOOP, _VALUE, _SLICE, _CONCAT = "fireside_loop", "fireside_value", "fireside_slice", "fireside_concat"
_CONTAINER, _LITERAL, _DEFINITION = "fireside_container", "fireside_literal", "fireside_definition"


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
            within = operand.op in ("in", "notin")
            operand.expr = _filtered(operand.expr, _CONTAINER) if within else _measured(operand.expr)
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        if isinstance(node.arg, nodes.Slice):
            node.node = _filtered(node.node, _SLICE)
        else:
            node.arg = _measured(node.arg)
        return node

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:
        self.generic_visit(node)
        return node if node.ctx != "load" else _filtered(node, _VALUE)

    def visit_List(self, node: nodes.List) -> nodes.Node:
        self.generic_visit(node)
        return _filtered(node, _LITERAL)

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:
        self.generic_visit(node)
        for pair in node.items:
            pair.key = _measured(pair.key)
        return _filtered(node, _LITERAL)

    def visit_Call(self, node: nodes.Call) -> nodes.Node:
        return self._spread(node)

    def visit_Filter(self, node: nodes.Filter) -> nodes.Node:
        return self._spread(node)

    def visit_Test(self, node: nodes.Test) -> nodes.Node:
        return self._spread(node)

    def _spread(self, node: nodes.Call | nodes.Filter | nodes.Test) -> nodes.Node:
        """What is spread over arguments is copied before anybody is called."""
        self.generic_visit(node)
        if node.dyn_args is not None:
            node.dyn_args = _filtered(node.dyn_args, _LOOP)
        if node.dyn_kwargs is not None:
            node.dyn_kwargs = _filtered(node.dyn_kwargs, _LOOP)
        return node

    def visit_Macro(self, node: nodes.Macro) -> list[nodes.Node]:
        self.generic_visit(node)
        return [_charge_for(node), node]

    def visit_CallBlock(self, node: nodes.CallBlock) -> list[nodes.Node]:
        self.generic_visit(node)
        return [_charge_for(node), node]


def _other_template(tag: str, node: nodes.Node) -> TemplateSyntaxError:
    problem = f"{{% {tag} %}} asks for another template, but a chat template must be complete in one file"
    return TemplateSyntaxError(problem, node.lineno)


def _filtered(node: nodes.Expr, name: str, args: list[nodes.Expr] | None = None) -> nodes.Filter:
    return nodes.Filter(node, name, args or [], [], None, None, lineno=node.lineno)


def _charge_for(node: nodes.Node) -> nodes.Node:
    return nodes.ExprStmt(_filtered(nodes.Const(0, lineno=node.lineno), _DEFINITION), lineno=node.lineno)


def _measured(node: nodes.Expr) -> nodes.Expr:
    return node if isinstance(node, nodes.Const) else _filtered(node, _VALUE)


def _check_size(tree: nodes.Node) -> None:
    """Refuse a tree that takes long to compile."""
    weight = 0
    stack: list[tuple[nodes.Node, int]] = [(tree, 0)]
    while stack:
        node, depth = stack.pop()
        weight += (
            _FRAME_WEIGHT if isinstance(node, nodes.Macro | nodes.Block | nodes.CallBlock | nodes.For) else 1
        )
        if weight > MAX_NODES:
            raise LimitError(f"it has more than {MAX_NODES:,} parts")
        if depth > MAX_DEPTH:
            raise LimitError(f"it nests more than {MAX_DEPTH} deep")
        stack += [(child, depth + 1) for child in node.iter_child_nodes()]


class _MeteredGenerator(CodeGenerator):
    def visit_Template(self, node: nodes.Template, frame: Any = None) -> None:
        _check_size(node)
        super().visit_Template(_Metering().visit(node), frame)


class _GenerationTag(Extension):
    """`{% generation %}`: marks the assistant's own text for trainers; here its body is printed."""

    tags = {"generation"}  # noqa: RUF012 - the name and kind jinja2 reads

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        for count, token in enumerate(stream):
            if count > MAX_TOKENS:
                raise LimitError(f"it has more than {MAX_TOKENS:,} words and signs of code")
            yield token

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _range(*bounds: int) -> range:
    numbers = range(*bounds)
    if len(numbers) > MAX_RANGE:
        raise LimitError(f"it counts over more than {MAX_RANGE:,} numbers")
    meter.current.charge(1 + len(numbers) // 8)
    return numbers


class _Namespace(Namespace):
    """A namespace whose text is its name: what it holds may be without end."""

    def __repr__(self) -> str:
        return "<Namespace>"


def _raise_exception(message: object) -> None:
    raise JinjaTemplateError(meter.text_of(message)[:MAX_MESSAGE])


def _strftime_now(layout: str) -> str:
    meter.current.charge(16)
    return clock().strftime(meter.text_of(layout)[:200])


def _lorem_ipsum(*_args: Any, **_kwargs: Any) -> str:
    raise SecurityError("lipsum is not offered to chat templates")


def clock() -> datetime:
    """What `strftime_now` shows; tests put a fixed one in its place."""
    return datetime.now()


class _Limits:
    """The accounting both environments share."""

    code_generator_class = _MeteredGenerator
    concat = staticmethod(meter.bounded_join)
    intercepted_binops = frozenset({"*", "**", "%", "+", "-", "/", "//"})

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        methods.check_binop(operator, left, right)
        return SandboxedEnvironment.default_binop_table[operator](left, right)


class FrozenEnvironment(_Limits, ImmutableSandboxedEnvironment):
    """The sandbox that refuses changes of lists and dicts."""

    def call(self, context: Context, target: Any, /, *args: Any, **kwargs: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().call(context, target, *methods.before_call(target, args, kwargs), **kwargs)


class MutableEnvironment(_Limits, SandboxedEnvironment):
    """The sandbox for templates that change lists, which are copies made for one render."""

    def call(self, context: Context, target: Any, /, *args: Any, **kwargs: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().call(context, target, *methods.before_call(target, args, kwargs), **kwargs)


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
    offered_filters = cast("dict[str, Any]", env.filters)
    offered_filters.clear()
    offered_filters |= filters.offered_filters() | {
        _LOOP: meter.loop, _VALUE: meter.operand, _SLICE: meter.sliced, _CONCAT: meter.concat,
        _CONTAINER: meter.container, _LITERAL: meter.literal, _DEFINITION: meter.definition,
    }  # fmt: skip
    offered_tests = cast("dict[str, Any]", env.tests)
    offered_tests.clear()
    offered_tests |= filters.offered_tests()
    offered = cast("dict[str, Any]", env.globals)
    offered.update(
        range=_range,
        raise_exception=_raise_exception,
        strftime_now=_strftime_now,
        lipsum=_lorem_ipsum,
        namespace=_Namespace,
    )
    return env


def run_metered(chunks: Callable[[], Iterable[str]], cpu_s: float, max_output: int | None = None) -> str:
    """Join what a template prints; raises LimitError when it passes a limit, `cpu_s` of this thread's
    processor time or `max_output` characters."""
    meter.current.start(cpu_s, max_output or meter.MAX_OUTPUT)
    try:
        return meter.bounded_join(chunks())
    finally:
        meter.current.stop()

"""Regular languages over code points, matched in linear time and walked as an automaton.

Works by derivatives (Brzozowski 1964; Owens, Reppy and Turon 2009), which makes intersection and
complement as cheap as union.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from backend.grammar.pattern import BEGIN, END, LAST_CODE_POINT, Tree, UnsupportedPattern, merge, parse
from backend.grammar.rules import Ranges

_MAX_EXPRESSIONS = 5_000
_MAX_DERIVATIVES = 15_000
_MAX_WORK = 60_000
"""Steps for one language, each some microseconds; those of the known formats take 8,000 at most."""


Kind = Literal["none", "empty", "chars", "cat", "alt", "and", "not", "repeat"]


class Expr:
    """An interned expression: equal ones are the same object within one `Algebra`."""

    __slots__ = ("high", "items", "kind", "low", "moves", "nullable", "ranges", "serial")

    def __init__(
        self, kind: Kind, items: tuple[Expr, ...], ranges: Ranges, low: int, high: int | None, serial: int
    ) -> None:
        self.kind: Kind = kind
        self.items = items
        self.ranges = ranges
        self.low = low
        self.high = high
        self.serial = serial
        self.moves: tuple[list[int], list[Expr]] | None = None
        self.nullable = _nullable(self)


def _nullable(expr: Expr) -> bool:
    match expr.kind:
        case "empty":
            return True
        case "cat" | "and":
            return all(item.nullable for item in expr.items)
        case "alt":
            return any(item.nullable for item in expr.items)
        case "not":
            return not expr.items[0].nullable
        case "repeat":
            return expr.low == 0 or expr.items[0].nullable
        case "none" | "chars":
            return False


class Algebra:
    """Builds expressions and their derivatives; refuses to grow past a fixed number of them."""

    def __init__(self) -> None:
        self._table: dict[tuple[object, ...], Expr] = {}
        self._derived: dict[tuple[int, int], Expr] = {}
        self._cuts: dict[int, frozenset[int]] = {}
        self._spent = 0
        self.none = self._make("none")
        self.empty = self._make("empty")
        self.any_symbol = self.chars(((0, END),))
        self.all = self.repeat(self.any_symbol, 0, None)
        self.any_char = self.chars(((0, LAST_CODE_POINT),))

    def _make(
        self,
        kind: Kind,
        items: tuple[Expr, ...] = (),
        ranges: Ranges = (),
        low: int = 0,
        high: int | None = None,
    ) -> Expr:
        self._spend(1 + (len(items) + len(ranges)) // 4)
        key = (kind, tuple(item.serial for item in items), ranges, low, high)
        found = self._table.get(key)
        if found is None:
            if len(self._table) >= _MAX_EXPRESSIONS:
                raise UnsupportedPattern("it needs too many states")
            found = self._table[key] = Expr(kind, items, ranges, low, high, len(self._table))
        return found

    def _spend(self, steps: int) -> None:
        self._spent += steps
        if self._spent > _MAX_WORK:
            raise UnsupportedPattern("it needs too many states")

    def chars(self, ranges: Iterable[tuple[int, int]]) -> Expr:
        merged = merge(ranges)
        return self._make("chars", ranges=merged) if merged else self.none

    def text(self, text: str) -> Expr:
        return self.cat(*(self.chars(((ord(char), ord(char)),)) for char in text))

    def cat(self, *items: Expr) -> Expr:
        spine: list[Expr] = []
        for item in items:
            while item.kind == "cat":
                spine.append(item.items[0])
                item = item.items[1]
            spine.append(item)
        result = self.empty
        for item in reversed(spine):
            if item is self.none or result is self.none:
                return self.none
            if item is self.empty:
                continue
            result = item if result is self.empty else self._make("cat", (item, result))
        return result

    def alt(self, items: Iterable[Expr]) -> Expr:
        found: dict[int, Expr] = {}
        symbols: list[tuple[int, int]] = []
        for item in items:
            parts = item.items if item.kind == "alt" else (item,)
            self._spend(1 + len(parts) // 4)
            for part in parts:
                if part is self.all:
                    return self.all
                if part.kind == "chars":
                    symbols.extend(part.ranges)
                elif part is not self.none:
                    found[part.serial] = part
        if symbols:
            merged = self.chars(symbols)
            found[merged.serial] = merged
        return self._combined("alt", found, self.none)

    def both(self, items: Iterable[Expr]) -> Expr:
        found: dict[int, Expr] = {}
        for item in items:
            parts = item.items if item.kind == "and" else (item,)
            self._spend(1 + len(parts) // 4)
            for part in parts:
                if part is self.none:
                    return self.none
                if part is not self.all:
                    found[part.serial] = part
        return self._combined("and", found, self.all)

    def _combined(self, kind: Literal["alt", "and"], found: dict[int, Expr], neutral: Expr) -> Expr:
        if len(found) < 2:
            return next(iter(found.values()), neutral)
        return self._make(kind, tuple(found[serial] for serial in sorted(found)))

    def negate(self, item: Expr) -> Expr:
        if item.kind == "not":
            return item.items[0]
        if item is self.none:
            return self.all
        return self.none if item is self.all else self._make("not", (item,))

    def repeat(self, item: Expr, low: int, high: int | None) -> Expr:
        if high == 0 or item is self.empty:
            return self.empty
        if item is self.none:
            return self.empty if low == 0 else self.none
        if low == high == 1 or (item.kind == "repeat" and (item.low, item.high) == (0, None)):
            return item
        return self._make("repeat", (item,), low=0 if item.nullable else low, high=high)

    def whole(self, inner: Expr) -> Expr:
        """`inner` framed as a whole text, which is what `step`, `accepts` and `automaton` walk."""
        begin, end = self.chars(((BEGIN, BEGIN),)), self.chars(((END, END),))
        return self.cat(begin, inner, end)

    def search(self, pattern: str) -> Expr:
        """The framed texts in which `pattern` is found anywhere, as `re.search` would."""
        body = self._build(parse(pattern), self.all)
        frame = self.whole(self.repeat(self.any_char, 0, None))
        return self.both((self.cat(self.all, body), frame))

    def lengths(self, low: int, high: int | None) -> Expr:
        """The framed texts of `low` to `high` code points."""
        return self.whole(self.repeat(self.any_char, low, high))

    def without(self, part: str) -> Expr:
        """The framed texts that do not contain `part`."""
        return self.both((self.lengths(0, None), self.negate(self.cat(self.all, self.text(part), self.all))))

    def _build(self, tree: Tree, rest: Expr) -> Expr:
        # What follows is handed down, so that a lookahead is an intersection with it.
        match tree.kind:
            case "chars":
                return self.cat(self.chars(tree.ranges), rest)
            case "cat":
                for item in reversed(tree.items):
                    rest = self._build(item, rest)
                return rest
            case "alt":
                return self.alt(self._build(item, rest) for item in tree.items)
            case "repeat":
                if tree.looks():
                    raise UnsupportedPattern("it repeats a lookahead")
                inner = self._build(tree.items[0], self.empty)
                return self.cat(self.repeat(inner, tree.low, tree.high), rest)
            case "look":
                return self.both((self._build(tree.items[0], self.all), rest))
            case "look not":
                return self.both((self.negate(self._build(tree.items[0], self.all)), rest))

    def derive(self, expr: Expr, symbol: int) -> Expr:
        match expr.kind:
            case "none" | "empty":
                return self.none
            case "chars":
                return self.empty if _within(expr.ranges, symbol) else self.none
            case _:
                pass
        key = (expr.serial, symbol)
        found = self._derived.get(key)
        if found is None:
            if len(self._derived) >= _MAX_DERIVATIVES:
                raise UnsupportedPattern("it needs too many states")
            found = self._derived[key] = self._derive(expr, symbol)
        return found

    def _derive(self, expr: Expr, symbol: int) -> Expr:
        match expr.kind:
            case "cat":
                head, tail = expr.items
                step = self.cat(self.derive(head, symbol), tail)
                return self.alt((step, self.derive(tail, symbol))) if head.nullable else step
            case "alt":
                return self.alt(self.derive(item, symbol) for item in expr.items)
            case "and":
                return self.both(self.derive(item, symbol) for item in expr.items)
            case "not":
                return self.negate(self.derive(expr.items[0], symbol))
            case _:
                item, high = expr.items[0], expr.high
                rest = self.repeat(item, max(expr.low - 1, 0), None if high is None else high - 1)
                return self.cat(self.derive(item, symbol), rest)

    def cuts(self, expr: Expr) -> frozenset[int]:
        """Where, along the symbols, the derivative of `expr` may change."""
        found = self._cuts.get(expr.serial)
        if found is None:
            found = self._cuts[expr.serial] = self._cut(expr)
            self._spend(1 + len(found) // 4)
        return found

    def _cut(self, expr: Expr) -> frozenset[int]:
        if expr.kind == "chars":
            return frozenset(edge for low, high in expr.ranges for edge in (low, high + 1))
        if expr.kind == "cat":
            head, tail = expr.items
            return self.cuts(head) | self.cuts(tail) if head.nullable else self.cuts(head)
        return frozenset[int]().union(*(self.cuts(item) for item in expr.items))

    def moves(self, expr: Expr) -> tuple[list[int], list[Expr]]:
        """Starts of the intervals of code points, and the state each leads to."""
        if expr.moves is None:
            starts = sorted({0} | {cut for cut in self.cuts(expr) if cut <= LAST_CODE_POINT})
            self._spend(len(starts))
            expr.moves = starts, [self.derive(expr, start) for start in starts]
        return expr.moves

    def start(self, framed: Expr) -> Expr:
        return self.derive(framed, BEGIN)

    def accepts(self, state: Expr) -> bool:
        """Whether the text may end in this state."""
        return self.derive(state, END).nullable

    def matches(self, framed: Expr, text: str) -> bool:
        state = self.start(framed)
        for char in text:
            if state is self.none:
                return False
            starts, targets = self.moves(state)
            state = targets[bisect_right(starts, ord(char)) - 1]
        return self.accepts(state)

    def automaton(self, framed: Expr, max_states: int) -> list[State]:
        """All states reachable from the first; raises `UnsupportedPattern` past `max_states`."""
        order = [self.start(framed)]
        number = {order[0].serial: 0}
        states: list[State] = []
        while len(states) < len(order):
            expr = order[len(states)]
            steps: dict[int, list[tuple[int, int]]] = {}
            starts, targets = self.moves(expr)
            for index, target in enumerate(targets):
                if target is self.none:
                    continue
                if target.serial not in number:
                    if len(order) >= max_states:
                        raise UnsupportedPattern(f"it needs more than {max_states} states")
                    number[target.serial] = len(order)
                    order.append(target)
                last = starts[index + 1] - 1 if index + 1 < len(starts) else LAST_CODE_POINT
                steps.setdefault(number[target.serial], []).append((starts[index], last))
            states.append(
                State(self.accepts(expr), tuple((to, merge(ranges)) for to, ranges in steps.items()))
            )
        return states


@dataclass(frozen=True, slots=True)
class State:
    """One state of a deterministic automaton: the code points that lead on, and whether it may end."""

    accepting: bool
    moves: tuple[tuple[int, Ranges], ...]


def _within(ranges: Ranges, symbol: int) -> bool:
    return any(low <= symbol <= high for low, high in ranges)

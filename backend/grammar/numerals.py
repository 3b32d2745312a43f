"""Decimal numerals as rules: exactly those that JSON allows within given bounds."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from backend.grammar import rules as gbnf
from backend.grammar.rules import AnyOf, Node, Ref, Repeat, Rules, choice, optional, seq, span

MAX_DIGITS = 18
"""Digits of an integer without bounds of its own; bounded ones may have more."""
_MAX_BOUND_DIGITS = 40
_MAX_PLACES = 20
"""Digits behind the point: every double from 1e-4 up is written with no more."""
_DIGIT = span("0", "9")
_CONTEXT = Context(prec=400, Emin=-2000, Emax=2000)


def integer(low: int | None, high: int | None) -> Node:
    """The integers from `low` to `high`, both included, without leading zeros or `-0`."""
    limit = 10 ** _digits_for(low, high) - 1
    least, most = -limit if low is None else low, limit if high is None else high
    options: list[Node] = []
    if least < 0:
        options.append(seq("-", _whole(max(1, -most), -least)))
    if most >= 0:
        options.append(_whole(max(0, least), most))
    return choice(options)


def representable(bound: float) -> bool:
    """Whether a bound is written with few enough digits to be held to."""
    return abs(bound) < 10**_MAX_BOUND_DIGITS


def _digits_for(low: int | None, high: int | None) -> int:
    return max([MAX_DIGITS, *(len(str(abs(bound))) for bound in (low, high) if bound is not None)])


def _digits(low: int, high: int) -> Node:
    return gbnf.NOTHING if high == 0 else _DIGIT if low == high == 1 else Repeat(_DIGIT, low, high)


def _whole(low: int, high: int) -> Node:
    """0 <= low <= number <= high."""
    if low > high:
        return gbnf.NEVER
    options: list[Node] = []
    if low == 0:
        options.append(seq("0"))
        low = 1
    while low <= high:
        first, last = str(low), str(min(high, 10 ** len(str(low)) - 1))
        if (
            first.strip("0") == "1"
            and last.strip("9") == ""
            and (more := len(str(high + 1)) - 1) >= len(first)
        ):
            options.append(seq(span("1", "9"), _digits(len(first) - 1, more - 1)))
            low = 10**more
        else:
            options.append(_same_length(first, last))
            low = int(last) + 1
    return choice(options)


def _same_length(low: str, high: str) -> Node:
    if not low:
        return gbnf.NOTHING
    if low.strip("0") == "" and high.strip("9") == "":
        return _digits(len(low), len(low))
    if low[0] == high[0]:
        return seq(low[0], _same_length(low[1:], high[1:]))
    rest = len(low) - 1
    first, last = low[0], high[0]
    options: list[Node] = []
    if low[1:].strip("0"):
        options.append(seq(first, _same_length(low[1:], "9" * rest)))
        first = chr(ord(first) + 1)
    if high[1:].strip("9"):
        options.append(seq(last, _same_length("0" * rest, high[1:])))
        last = chr(ord(last) - 1)
    if first <= last:
        options.append(seq(span(first, last), _digits(rest, rest)))
    return choice(options)


def number_rule(rules: Rules) -> Ref:
    """Any finite number: up to 16 digits, 20 places and an exponent that stays within a double."""
    places = optional(seq(".", _digits(1, _MAX_PLACES)))
    exponent = seq(gbnf.chars("eE"), optional(gbnf.chars("+-")))
    small = optional(seq(exponent, _digits(1, 2)))
    large = seq(span("1", "2"), _digits(2, 2)), seq("30", span("0", "7"))
    any_size = optional(seq(exponent, choice((_digits(1, 2), *large))))
    unsigned = choice(
        (
            seq("0", places, small),
            seq(span("1", "9"), places, any_size),
            seq(span("1", "9"), _digits(1, 15), places, small),
        )
    )
    rules.add("unsigned", unsigned)
    return rules.add("number", seq(optional(gbnf.chars("-")), Ref("unsigned")))


def number(low: Decimal | None, high: Decimal | None) -> Node:
    """The decimal numerals, without exponents, from `low` to `high`, both included."""
    if low is not None and high is not None and low > high:
        return gbnf.NEVER
    options: list[Node] = []
    if low is None or low < 0:
        least = Decimal(0) if high is None or high >= 0 else -high
        options.append(seq("-", _magnitude(least, None if low is None else -low)))
    if high is None or high >= 0:
        options.append(_magnitude(max(low or Decimal(0), Decimal(0)), high))
    return choice(options)


def beyond(bound: float, direction: float) -> Decimal:
    """The nearest value past an exclusive bound: the next double, at least 1e-20 away."""
    step = Decimal(repr(math.nextafter(bound, direction)))
    away = Decimal(repr(bound)) + Decimal("1e-20").copy_sign(Decimal(direction))
    return max(step, away) if direction > 0 else min(step, away)


def _magnitude(low: Decimal, high: Decimal | None) -> Node:
    """0 <= low <= number <= high."""
    whole, places = _split(low, ROUND_CEILING)
    if high is None:
        top = 10 ** max(MAX_DIGITS, len(str(whole))) - 1
        above = seq(_whole(whole + 1, top), _any_places()) if whole < top else AnyOf(())
        return choice((seq(str(whole), _places_from(places)), above))
    top, top_places = _split(high, ROUND_FLOOR)
    if (whole, places) > (top, top_places):
        return gbnf.NEVER
    if whole == top:
        return seq(str(whole), _places_between(places, top_places))
    return choice(
        (
            seq(str(whole), _places_from(places)),
            seq(_whole(whole + 1, top - 1), _any_places()) if top - whole > 1 else AnyOf(()),
            seq(str(top), _places_to(top_places)),
        )
    )


def _split(value: Decimal, rounding: str) -> tuple[int, str]:
    """The digits before the point, and those behind it without trailing zeros."""
    rounded = value.quantize(Decimal(1).scaleb(-_MAX_PLACES), rounding=rounding, context=_CONTEXT)
    whole, _, places = f"{rounded:f}".partition(".")
    return int(whole), places.rstrip("0")


def _any_places() -> Node:
    return optional(seq(".", _digits(1, _MAX_PLACES)))


def _places_from(low: str) -> Node:
    return seq(".", _at_least(low, _MAX_PLACES)) if low else _any_places()


def _places_to(high: str) -> Node:
    return optional(
        seq(".", _at_most(high, _MAX_PLACES) if high else Repeat(gbnf.chars("0"), 1, _MAX_PLACES))
    )


def _places_between(low: str, high: str) -> Node:
    return seq(".", _between(low, high, _MAX_PLACES)) if low else _places_to(high)


def _at_least(low: str, room: int) -> Node:
    if not low:
        return _digits(0, room)
    options: list[Node] = [seq(low[0], _at_least(low[1:], room - 1))]
    if low[0] < "9":
        options.append(seq(span(chr(ord(low[0]) + 1), "9"), _digits(0, room - 1)))
    return choice(options)


def _at_most(high: str, room: int) -> Node:
    if not high:
        return Repeat(gbnf.chars("0"), 0, room) if room else gbnf.NOTHING
    rest = _at_most(high[1:], room - 1)
    options: list[Node] = [seq(high[0], optional(rest) if high[1:] else rest)]
    if high[0] > "0":
        options.append(seq(span("0", chr(ord(high[0]) - 1)), _digits(0, room - 1)))
    return choice(options)


def _between(low: str, high: str, room: int) -> Node:
    if not low:
        # What was read so far equals both bounds, and the lower one has ended: it may end here.
        return optional(_at_most(high, room)) if high else _at_most(high, room)
    if low[0] == high[0]:
        return seq(low[0], _between(low[1:], high[1:], room - 1))
    after = _at_most(high[1:], room - 1)
    options: list[Node] = [
        seq(low[0], _at_least(low[1:], room - 1)),
        seq(high[0], optional(after) if high[1:] else after),
    ]
    if ord(high[0]) - ord(low[0]) > 1:
        middle = span(chr(ord(low[0]) + 1), chr(ord(high[0]) - 1))
        options.append(seq(middle, _digits(0, room - 1)))
    return choice(options)

"""Which texts a string schema allows: patterns, formats and lengths as one regular language, for
the grammar (as rules) and for checking (in linear time).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from backend.grammar import rules as gbnf
from backend.grammar.pattern import UnsupportedPattern, intersect, invert
from backend.grammar.regular import Algebra, Expr, State
from backend.grammar.rules import Chars, Node, Ranges, Ref, Rules, choice, seq

MAX_STATES = 600

_MONTH_DAY = (
    r"(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)"
    r"|02-(?:0[1-9]|1\d|2[0-8]))"
)
_LEAP_YEAR = r"(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DATE = rf"(?!0000)(?:\d{{4}}-{_MONTH_DAY}|{_LEAP_YEAR}-02-29)"
_TIME = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_HEX = r"[0-9a-fA-F]"
_IPV6 = "|".join(
    [rf"(?:{_HEX}{{1,4}}:){{7}}{_HEX}{{1,4}}", rf"(?:{_HEX}{{1,4}}:){{1,7}}:"]
    + [rf"(?:{_HEX}{{1,4}}:){{1,{7 - n}}}(?::{_HEX}{{1,4}}){{1,{n}}}" for n in range(1, 7)]
    + [rf":(?::{_HEX}{{1,4}}){{1,7}}", "::"]
)
_URI_CHARS = r"(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})"
FORMATS: dict[str, str] = {
    "date": rf"^{_DATE}$",
    "time": rf"^{_TIME}$",
    "date-time": rf"^{_DATE}T{_TIME}$",
    "duration": (
        r"^P(?=[\dT])(?!.*T$)(?:\d{1,9}Y)?(?:\d{1,9}M)?(?:\d{1,9}D)?"
        r"(?:T(?:\d{1,9}H)?(?:\d{1,9}M)?(?:\d{1,9}S)?)?$|^P\d{1,9}W$"
    ),
    "uuid": rf"^{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}$",
    "email": rf"^{_ATOM}(?:\.{_ATOM})*@(?:{_LABEL}\.)+{_LABEL}$",
    "hostname": rf"^(?:{_LABEL}\.)*{_LABEL}$",
    "ipv4": rf"^(?:{_OCTET}\.){{3}}{_OCTET}$",
    "ipv6": rf"^(?:{_IPV6})$",
    "uri": rf"^[A-Za-z][A-Za-z0-9+.-]*:{_URI_CHARS}+$",
    "json-pointer": r"^(?:/(?:[^/~]|~[01])*)*$",
}
"""Formats that are held to, as patterns; every other format is an annotation."""


@dataclass(frozen=True, slots=True)
class Texts:
    """A set of texts: each of `patterns` is found in them, each of `formats` holds, the length is
    within bounds, they are one of `only`, not one of `excluded`, and do not contain any of `without`."""

    patterns: frozenset[str] = frozenset()
    formats: frozenset[str] = frozenset()
    low: int = 0
    high: int | None = None
    only: frozenset[str] | None = None
    excluded: frozenset[str] = frozenset()
    excluded_patterns: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()

    @property
    def plain(self) -> bool:
        """Whether nothing but the length is asked for."""
        asked = self.patterns or self.formats or self.excluded or self.excluded_patterns or self.without
        return not asked and self.only is None

    def expression(self, algebra: Algebra) -> Expr:
        parts = [algebra.lengths(self.low, self.high)]
        parts += [algebra.search(pattern) for pattern in sorted(self.patterns)]
        parts += [algebra.search(FORMATS[name]) for name in sorted(self.formats)]
        parts += [algebra.negate(algebra.search(pattern)) for pattern in sorted(self.excluded_patterns)]
        parts += [algebra.without(part) for part in sorted(self.without)]
        if self.only is not None:
            parts.append(algebra.whole(algebra.alt(map(algebra.text, sorted(self.only)))))
        if self.excluded:
            names = algebra.alt(map(algebra.text, sorted(self.excluded)))
            parts.append(algebra.negate(algebra.whole(names)))
        return algebra.both(parts)


@lru_cache(maxsize=128)
def searchers(pattern: str) -> tuple[Algebra, Expr] | UnsupportedPattern:
    algebra = Algebra()
    try:
        return algebra, algebra.search(pattern)
    except RecursionError:
        return UnsupportedPattern("it is nested too deeply")
    except UnsupportedPattern as err:
        return err


def found(pattern: str, text: str) -> bool:
    """Whether the ECMAScript `pattern` is found in `text`; time grows with the text only.

    Raises UnsupportedPattern outside the supported subset.
    """
    searcher = searchers(pattern)
    if isinstance(searcher, UnsupportedPattern):
        raise type(searcher)(str(searcher))
    algebra, expression = searcher
    try:
        return algebra.matches(expression, text)
    except RecursionError:
        raise UnsupportedPattern("it is nested too deeply") from None


def automaton(texts: Texts) -> tuple[State, ...]:
    """The states that read exactly these texts, the first one first.

    Raises UnsupportedPattern where a pattern is outside the subset or needs too many states.
    """
    found = automata(texts)
    if isinstance(found, UnsupportedPattern):
        raise UnsupportedPattern(str(found))
    return found


@lru_cache(maxsize=128)
def automata(texts: Texts) -> tuple[State, ...] | UnsupportedPattern:
    algebra = Algebra()
    try:
        return tuple(algebra.automaton(texts.expression(algebra), MAX_STATES))
    except RecursionError:
        return UnsupportedPattern("it is nested too deeply")
    except UnsupportedPattern as err:
        return err


Encoding = Literal["json", "single", "raw"]
"""JSON in double quotes, the same in single quotes, or as it is."""


def text_rule(texts: Texts, rules: Rules, name: str, encoding: Encoding) -> Node:
    """Rules for exactly these texts, without quotes around. Raises as `automaton`."""
    states = automaton(texts)
    refs = [rules.reserve(name) for _ in states]
    for ref, state in zip(refs, states, strict=True):
        options: list[Node] = [gbnf.NOTHING] if state.accepting else []
        for target, ranges in state.moves:
            options.extend(seq(node, refs[target]) for node in _chars(ranges, encoding))
        rules.define(ref, choice(options))
    return refs[0]


_SURROGATES: Ranges = ((0xD800, 0xDFFF),)
_WRITABLE: Ranges = invert(((0, 0), *_SURROGATES))
_SHORT_ESCAPES = {8: "b", 9: "t", 10: "n", 12: "f", 13: "r"}


def _bare(quote: str) -> Ranges:
    """What stands in a quoted text as it is."""
    return invert(((0, 0x1F), (ord(quote), ord(quote)), (0x5C, 0x5C), *_SURROGATES))


@lru_cache(maxsize=1024)
def _chars(ranges: Ranges, encoding: Encoding) -> tuple[Node, ...]:
    """The ways to write one of these code points, one way for each."""
    if encoding == "raw":
        inside = intersect(ranges, _WRITABLE)
        return (Chars(inside),) if inside else ()
    quote = '"' if encoding == "json" else "'"
    ways: list[Node] = []
    if bare := intersect(ranges, _bare(quote)):
        ways.append(Chars(bare))
    codes = [code for low, high in intersect(ranges, ((0, 0x5C),)) for code in range(low, high + 1)]
    escapes = {**_SHORT_ESCAPES, ord(quote): quote, 0x5C: "\\"}
    if short := "".join(escapes[code] for code in codes if code in escapes):
        ways.append(seq("\\", gbnf.chars(short)))
    long = [f"{code:04x}" for code in codes if code < 0x20 and code not in escapes]
    for start in ("000", "001"):
        if last := "".join(text[3] for text in long if text.startswith(start)):
            ways.append(seq(f"\\u{start}", gbnf.chars(last)))
    return tuple(ways)


def char_rule(rules: Rules, quote: str = '"') -> Ref:
    """Any one character of a quoted text, in every way JSON has but as half of a surrogate pair."""
    digit = Chars(((0x30, 0x39), (0x41, 0x46), (0x61, 0x66)))
    low_half = seq("\\u", gbnf.chars("dD"), Chars(((0x43, 0x46), (0x63, 0x66))), digit, digit)
    escaped = choice(
        (
            gbnf.chars(f"{quote}\\/bfnrt"),
            seq(
                "u",
                Chars(((0x30, 0x39), (0x41, 0x43), (0x45, 0x46), (0x61, 0x63), (0x65, 0x66))),
                *[digit] * 3,
            ),
            seq("u", gbnf.chars("dD"), gbnf.span("0", "7"), digit, digit),
            seq(
                "u",
                gbnf.chars("dD"),
                Chars(((0x38, 0x39), (0x41, 0x42), (0x61, 0x62))),
                digit,
                digit,
                low_half,
            ),
        )
    )
    return rules.add("char", choice((Chars(_bare(quote)), seq("\\", escaped))))


def json_text(text: str) -> str | None:
    """`text` as JSON writes it, or None where it holds half a surrogate pair, which no UTF-8 can."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return None
    return json.dumps(text, ensure_ascii=False)

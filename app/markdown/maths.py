"""TeX formulas as Unicode text, as far as Unicode goes.

A script that has no Unicode form keeps its source form; a formula with a command that is not known
here stays source as a whole.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from app.markdown.maths_symbols import (
    ACCENTS,
    BLACKBOARD,
    FUNCTIONS,
    LETTERS,
    OPERATORS,
    SCRIPT,
    SPACES,
    SUBSCRIPTS,
    SUPERSCRIPTS,
)

if TYPE_CHECKING:
    from markdown_it.rules_inline import StateInline

DOLLAR_LIMIT = 200
"""Longest formula between single dollar signs, in characters: a lone sign is soon a lone sign."""
FORMULA_LIMIT = 2_000

_TOKEN = re.compile(r"\\(?:[A-Za-z]+\*?|.)|\s+|.", re.DOTALL)
_MONEY = re.compile(r"[\d.,]+[^\S\n][^\\^_{}=+*/<>-]*$")
_LINES = frozenset("align align* aligned equation equation* gather gather* gathered split".split())
_AS_THEY_ARE = frozenset(
    "text textrm textit textbf texttt mbox operatorname operatorname* mathrm mathbf mathit mathsf mathtt"
    " boldsymbol bm".split()
)
_DROPPED = frozenset(
    "left right middle big Big bigg Bigg bigl bigr Bigl Bigr limits nolimits displaystyle textstyle nonumber"
    " notag".split()
)
_MAX_DEPTH = 24


def maths_rule(state: StateInline, silent: bool) -> bool:
    r"""markdown-it rule for `\(..\)`, `\[..\]`, `$$..$$` and `$..$`; the token says both forms."""
    found = find_formula(state.src, state.pos)
    if found is None:
        return False
    end, formula = found
    if not silent:
        token = state.push("maths", "", 0)
        token.markup = state.src[state.pos : end]
        token.content = to_unicode(formula) or token.markup
    state.pos = end
    return True


def find_formula(text: str, at: int) -> tuple[int, str] | None:
    """End and inside of the formula that starts at `at`, if one does."""
    opening = text[at : at + 2]
    match opening:
        case "$$":
            closing, limit = "$$", FORMULA_LIMIT
        case "\\(":
            closing, limit = "\\)", FORMULA_LIMIT
        case "\\[":
            closing, limit = "\\]", FORMULA_LIMIT
        case _ if opening[:1] == "$":
            return _between_dollars(text, at)
        case _:
            return None
    end = text.find(closing, at + 2, at + 2 + limit)
    formula = text[at + 2 : end] if end > 0 else ""
    if not formula.strip() or "`" in formula:
        return None
    return end + 2, formula


def _between_dollars(text: str, at: int) -> tuple[int, str] | None:
    end = text.find("$", at + 1, at + 1 + DOLLAR_LIMIT)
    while end > 0 and text[end - 1] == "\\":
        end = text.find("$", end + 1, at + 1 + DOLLAR_LIMIT)
    formula = text[at + 1 : end] if end > 0 else ""
    if not formula or formula[0].isspace() or formula[-1].isspace() or "`" in formula or "\n" in formula:
        return None
    before, after = text[at - 1 : at], text[end + 1 : end + 2]
    if before.isalnum() or after.isdigit() or after in ("_", "$"):
        return None
    if after.isalpha() and not (len(formula) == 1 or "\\" in formula or "^" in formula):
        return None  # $HOME/$USER
    if _MONEY.match(formula):
        return None  # $5 or 6$
    return end + 1, formula


@lru_cache(maxsize=512)
def to_unicode(formula: str) -> str | None:
    """`formula` without its delimiters as text, or None where it cannot be written."""
    try:
        return _Formula(formula).text()
    except _CannotBeWritten:
        return None


class _CannotBeWritten(Exception):
    pass


class _Formula:
    def __init__(self, formula: str) -> None:
        self._tokens: list[str] = _TOKEN.findall(formula)
        self._at = 0
        self._depth = 0

    def text(self) -> str:
        lines = self._until("").split("\n")
        return "\n".join([" ".join(line.split()) for line in lines if line.strip()])

    def _next(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1] if self._at <= len(self._tokens) else ""

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _skip_blanks(self) -> None:
        if self._peek().isspace():
            self._at += 1

    def _until(self, closing: str) -> str:
        """Everything up to the token `closing`, which is taken too; the end of the formula is ""."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise _CannotBeWritten
        parts: list[str] = []
        while (token := self._next()) != closing:
            if not token or token == "}":
                raise _CannotBeWritten
            if token in "^_":
                self._add_script(parts, token)
            else:
                parts.append(self._atom(token))
        self._depth -= 1
        return "".join(parts)

    def _atom(self, token: str) -> str:
        if token == "{":
            return self._until("}")
        if token == "&":
            return ""
        if token == "'":
            return "\u2032"
        if token.isspace() or token == "~":
            return " "
        return self._command(token[1:]) if token[0] == "\\" and len(token) > 1 else token

    def _command(self, name: str) -> str:
        if name in LETTERS:
            self._skip_blanks()
            return LETTERS[name]
        if name in OPERATORS:
            return f" {OPERATORS[name]} "
        if name in FUNCTIONS:
            return name if self._peek() in ("^", "_", "(", "{", "") else f"{name} "
        if name in SPACES:
            return SPACES[name]
        if name in ACCENTS:
            return self._accented(name)
        if name in _AS_THEY_ARE:
            return self._verbatim()
        if name in _DROPPED:
            self._skip_blanks()
            if self._peek() == ".":
                self._at += 1
            return ""
        return self._construct(name)

    def _construct(self, name: str) -> str:
        match name:
            case "frac" | "dfrac" | "tfrac" | "cfrac":
                above, below = self._argument(), self._argument()
                return f"{_in_brackets(above)}/{_in_brackets(below)}"
            case "sqrt":
                return self._root()
            case "mathbb":
                return "".join([BLACKBOARD.get(char, char) for char in self._argument()])
            case "mathcal" | "mathscr":
                return "".join([SCRIPT.get(char, char) for char in self._argument()])
            case "boxed":
                return f"[{self._argument()}]"
            case "pmod":
                return f" (mod {self._argument()})"
            case "begin" | "end":
                if self._verbatim() not in _LINES:
                    raise _CannotBeWritten
                return "\n"
            case "tag":
                return f"  ({self._argument()})"
            case "\\":
                if self._peek() == "[":
                    self._until("]")  # a distance between lines
                return "\n"
            case _:
                raise _CannotBeWritten

    def _argument(self) -> str:
        self._skip_blanks()
        token = self._next()
        if not token or token in "^_}":
            raise _CannotBeWritten
        return " ".join(self._atom(token).split())

    def _verbatim(self) -> str:
        """An argument whose blanks count."""
        self._skip_blanks()
        if self._peek() != "{":
            return self._argument()
        self._at += 1
        return self._until("}")

    def _root(self) -> str:
        degree = ""
        if self._peek() == "[":
            self._at += 1
            degree = self._until("]").strip()
        inside = self._argument()
        sign = {"": "\u221a", "2": "\u221a", "3": "\u221b", "4": "\u221c"}.get(degree)
        if sign is None:
            sign = _script(degree, SUPERSCRIPTS) + "\u221a"
        return sign + (inside if len(inside) == 1 or inside.isdigit() else f"({inside})")

    def _accented(self, name: str) -> str:
        inside = self._argument()
        if name in ("overline", "underline"):
            return "".join([char + ACCENTS[name] for char in inside])
        if len(inside) != 1:
            raise _CannotBeWritten
        return inside + ACCENTS[name]

    def _add_script(self, parts: list[str], sign: str) -> None:
        # A script belongs to what stands before it, without the blank an operator brings.
        if parts and parts[-1].endswith(" ") and parts[-1].strip():
            parts[-1] = parts[-1].rstrip()
        inside = self._argument()
        if sign == "^" and inside in ("\u2032", "\u2032\u2032", "\u00b0", "\u2218"):
            parts.append("\u00b0" if inside == "\u2218" else inside)
            return
        written = _script(inside, SUPERSCRIPTS if sign == "^" else SUBSCRIPTS)
        if not written:
            written = sign + (inside if len(inside) == 1 else f"{{{inside}}}")
        big = parts and parts[-1].strip() in ("\u2211", "\u220f", "\u222b", "lim", "max", "min")
        parts.append(f"{written} " if big and self._peek() not in ("^", "_") else written)


def _script(text: str, signs: dict[str, str]) -> str:
    """`text` in raised or lowered signs, or "" where one is missing."""
    text = text.replace(" ", "")
    return "".join([signs[char] for char in text]) if all(char in signs for char in text) else ""


def _in_brackets(text: str) -> str:
    simple = len(text) == 1 or text.isalnum() or not re.search(r"[\s+\-*/=<>\u00b7\u00d7\u00b1,]", text)
    return text if simple else f"({text})"

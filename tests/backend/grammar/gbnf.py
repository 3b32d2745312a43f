"""A small GBNF interpreter: the tests' own idea of what a grammar accepts, and a source of texts."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from backend import native
from backend.grammar.check import check_grammar
from backend.samplers import GrammarSampler

Symbol = tuple  # ("ref", name) or ("class", negated, ranges)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
_HEX = {"x": 2, "u": 4, "U": 8}
_FAR = 10**6


@dataclass
class Grammar:
    """A parsed grammar: each rule is a list of alternatives, each a list of symbols."""

    rules: dict[str, list[list[Symbol]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._count = 0
        self._steps: dict[tuple, list] = {}

    @classmethod
    def parse(cls, text: str) -> Grammar:
        grammar = cls()
        for line in text.splitlines():
            name, _, body = line.partition(" ::= ")
            grammar.rules[name], rest = grammar._alternatives(body)
            assert not rest, line
        for alternatives in grammar.rules.values():
            for symbol in (symbol for items in alternatives for symbol in items):
                assert symbol[0] != "ref" or symbol[1] in grammar.rules, symbol
        return grammar

    # ---- reading ---------------------------------------------------------------------------

    def _fresh(self, alternatives: list[list[Symbol]]) -> Symbol:
        self._count += 1
        name = f"_{self._count}"
        self.rules[name] = alternatives
        return ("ref", name)

    def _alternatives(self, text: str) -> tuple[list[list[Symbol]], str]:
        found: list[list[Symbol]] = [[]]
        while text and text[0] != ")":
            if text[0] == "|":
                found.append([])
                text = text[1:]
            elif text[0] == " ":
                text = text[1:]
            else:
                symbols, text = self._item(text)
                symbols, text = self._repeated(symbols, text)
                found[-1].extend(symbols)
        return found, text

    def _item(self, text: str) -> tuple[list[Symbol], str]:
        if text[0] == "(":
            alternatives, rest = self._alternatives(text[1:])
            assert rest[0] == ")"
            return [self._fresh(alternatives)], rest[1:]
        if text[0] == '"':
            symbols, text = [], text[1:]
            while text[0] != '"':
                char, text = _char(text)
                symbols.append(("class", False, ((char, char),)))
            return symbols, text[1:]
        if text[0] == "[":
            text = text[1:]
            negated = text[0] == "^"
            text = text[negated:]
            ranges = []
            while text[0] != "]":
                low, text = _char(text)
                high = low
                if text[0] == "-" and text[1] != "]":
                    high, text = _char(text[1:])
                ranges.append((low, high))
            return [("class", negated, tuple(ranges))], text[1:]
        end = next((i for i, c in enumerate(text) if not (c.isalnum() or c == "-")), len(text))
        assert end, f"no name at {text[:20]!r}"
        return [("ref", text[:end])], text[end:]

    def _repeated(self, symbols: list[Symbol], text: str) -> tuple[list[Symbol], str]:
        if not text or text[0] not in "*+?{":
            return symbols, text
        rest = text[1:]
        low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(text[0], (0, 0))
        if text[0] == "{":
            inner, _, rest = text[1:].partition("}")
            first, comma, last = inner.partition(",")
            low, high = int(first), int(last) if last else None if comma else int(first)
        assert high is None or high < 2000
        assert low < 2000
        if high is None:
            tail = self._fresh([])
            self.rules[tail[1]] = [[*symbols, tail], []]
            return [*symbols * low, tail], rest
        tail: list[Symbol] = []
        for _ in range(high - low):
            tail = [self._fresh([[*symbols, *tail], []])]
        return [*symbols * low, *tail], rest

    # ---- matching --------------------------------------------------------------------------

    def accepts(self, text: str) -> bool:
        """Whether the whole text is in the language of `root`."""
        return () in self.stacks(text)

    def allows(self, text: str) -> bool:
        """Whether the text is a beginning of the language of `root`."""
        return bool(self.stacks(text))

    def stacks(self, text: str) -> set[tuple]:
        stacks = self._expand((("ref", "root"),))
        for char in text:
            after: set[tuple] = set()
            for stack in stacks:
                if stack and _matches(stack[-1], char):
                    after |= self._expand(stack[:-1])
            stacks = after
        return stacks

    def _expand(self, stack: tuple) -> set[tuple]:
        done: set[tuple] = set()
        seen: set[tuple] = set()
        todo = [stack]
        while todo:
            current = todo.pop()
            if current in seen:
                continue
            seen.add(current)
            if not current or current[-1][0] == "class":
                done.add(current)
                continue
            todo.extend(current[:-1] + tuple(reversed(items)) for items in self.rules[current[-1][1]])
        return done

    # ---- writing ---------------------------------------------------------------------------

    def shortest(self) -> dict[str, int]:
        """The length of the shortest text of each rule."""
        best = dict.fromkeys(self.rules, _FAR)
        changed = True
        while changed:
            changed = False
            for name, alternatives in self.rules.items():
                length = min((_length(items, best) for items in alternatives), default=_FAR)
                if length < best[name]:
                    best[name], changed = length, True
        return best

    def sample(self, source: random.Random, best: dict[str, int], budget: int = 60) -> str:
        """A random text of the language; short once `budget` symbols are written."""
        written: list[str] = []
        stack: list[Symbol] = [("ref", "root")]
        steps = 0
        while stack:
            steps += 1
            symbol = stack.pop()
            if symbol[0] == "class":
                written.append(_some_char(symbol, source))
                continue
            alternatives = self.rules[symbol[1]]
            if steps > budget:
                alternatives = [min(alternatives, key=lambda items: _length(items, best))]
            stack.extend(reversed(source.choice(alternatives)))
        return "".join(written)


def _length(items: list[Symbol], best: dict[str, int]) -> int:
    return sum(1 if symbol[0] == "class" else best[symbol[1]] for symbol in items)


def _char(text: str) -> tuple[int, str]:
    if text[0] != "\\":
        return ord(text[0]), text[1:]
    if text[1] in _HEX:
        end = 2 + _HEX[text[1]]
        return int(text[2:end], 16), text[end:]
    assert text[1] in '\\"[]-' or text[1] in _ESCAPES, text[:2]
    return ord(_ESCAPES.get(text[1], text[1])), text[2:]


def _matches(symbol: Symbol, char: str) -> bool:
    _, negated, ranges = symbol
    return any(low <= ord(char) <= high for low, high in ranges) != negated


def _some_char(symbol: Symbol, source: random.Random) -> str:
    _, negated, ranges = symbol
    assert not negated
    low, high = source.choice(ranges)
    return chr(source.randint(low, min(high, low + 200)))


class LlamaCpp:
    """The real thing: llama.cpp's grammar sampler over a byte-level vocabulary."""

    def __init__(self, model: native.Model) -> None:
        self.model = model
        self.bytes = {model.piece(token): token for token in range(model.n_vocab)}
        self.end = next(token for token in range(model.n_vocab) if model.is_eog(token))

    def compiles(self, grammar: str) -> bool:
        check_grammar(grammar)
        GrammarSampler(self.model, grammar).close()
        return True

    def accepts(self, grammar: str, text: str) -> bool:
        """Whether llama.cpp lets these bytes through, one after another, and then the end."""
        sampler = GrammarSampler(self.model, grammar)
        try:
            for byte in text.encode():
                token = self.bytes[bytes([byte])]
                if not sampler.allows(token):
                    return False
                sampler.accept(token)
            return sampler.allows(self.end)
        finally:
            sampler.close()

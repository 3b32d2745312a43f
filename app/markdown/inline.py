"""The text inside a leaf: markdown-it's inline tokens as styled spans with exact source positions.

The parser's tokens carry no positions; without its last rule their text is verbatim, so each piece is
found again by walking forward. A long text is read again only behind the last place that is safe, and
a very long one in windows, so that what is never closed costs no more than one window again and again.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from app.markdown.clean import Cleaner, clean
from app.markdown.grammar import parser
from app.markdown.links import target_note
from app.markdown.maths import DOLLAR_LIMIT, FORMULA_LIMIT
from app.markdown.rows import Mode, Run, add_attributes

if TYPE_CHECKING:
    from markdown_it.token import Token

_SETTLED = re.compile(r"(?<=\w)_(?=\w)|(?<= )[*_<](?= )|<(?=[\s\d=])")
_DELIMITER = re.compile(r"[*_`\[<~]")
_FORMULA_SIGN = re.compile(r"\$(?=\S)|\\[(\[]")
_BARE_URL = re.compile(r"\bhttps?://[^\s<>\"`]+")
_LINE_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_ONE_SPACE = {ord("\n"): " ", ord("\t"): " "}
_URL_END = ".,;:!?'*_~"
_REUSE_FROM = 400
"""Texts shorter than this, in characters, are read whole."""
_WINDOW = 3_000
"""Characters that are read at once. Where each window ends, its text alone decides."""


@dataclass(slots=True)
class Meter:
    """What one layout of a message read: characters given to parsers, and what else costs as much."""

    characters: int = 0


class Text(NamedTuple):
    """What inline reading needs: a text, where its lines stand, and how it is drawn."""

    text: str
    origin: list[tuple[int, int]]
    cleaner: Cleaner
    references: Mapping[str, dict[str, str]]
    mode: Mode
    style: str = "text"
    meter: Meter | None = None


@dataclass(slots=True)
class Inline:
    """Spans of one text, and the part of them that more text at the end cannot change."""

    text: str
    runs: list[Run]
    joined: str
    safe: int = 0
    safe_runs: list[Run] = field(default_factory=list[Run])
    window: int = 0
    """Where the last window starts."""
    window_runs: list[Run] = field(default_factory=list[Run])
    kept: int = 0
    """Characters of `joined` that are as they were in the reading before."""


def read_inline(text: Text, before: Inline | None = None) -> Inline:
    """The runs of `text`; `before` is an earlier reading of its beginning in the same circumstances."""
    start, kept = 0, list[Run]()
    window, window_runs = 0, list[Run]()
    size = len(text.text)
    if before is not None and before.safe and text.text.startswith(before.text[: before.safe]):
        start, kept = before.safe, before.safe_runs
        window, window_runs = before.window, before.window_runs
    same = sum([len(run.text) for run in window_runs]) if size - window > _WINDOW else -1
    while size - window > _WINDOW:
        window, window_runs = _read_window(text, window, window_runs)
        start, kept = window, window_runs
    reader = _Reader(text, start, size)
    reader.read()
    runs = [*kept, *reader.runs]
    inline = Inline(text.text, runs, "".join([run.text for run in runs]), start, kept, window, window_runs)
    inline.kept = sum([len(run.text) for run in kept]) if same < 0 else same
    if text.meter is not None:
        text.meter.characters += len(inline.joined) // 32
    if size > _REUSE_FROM and (cut := _safe_cut(reader, size)):
        inline.safe, inline.safe_runs = cut, [*kept, *reader.runs_before(cut)]
    return inline


def _read_window(text: Text, start: int, runs: list[Run]) -> tuple[int, list[Run]]:
    """Read one window from `start` on: its end and all runs up to there. What is open there stays open."""
    end = start + _WINDOW
    reader = _Reader(text, start, end)
    reader.read()
    cut = _safe_cut(reader, end)
    if not cut:
        cut = max(text.text.rfind(" ", start + 1, end), text.text.rfind("\n", start + 1, end)) + 1 or end
        reader = _Reader(text, start, cut)
        reader.read()
        return cut, [*runs, *reader.runs]
    return cut, [*runs, *reader.runs_before(cut)]


def _safe_cut(reader: _Reader, size: int) -> int:
    """The last blank or line end in plain text before all that what follows may still pair with; or 0."""
    text, start = reader.source, reader.start
    before = max(0, min(reader.first_open, _first_open_formula(text, start)) - 1)
    cut = max(text.rfind(" ", start, before), text.rfind("\n", start, before)) + 1
    if cut < start + 60 or text[cut : cut + 1] in ("", " ", "\n") or cut >= size:
        return 0
    return cut if reader.index_at(cut) >= 0 else 0


def _first_open_formula(text: str, start: int) -> int:
    """Position of the first sign that may still open a formula with what comes."""
    end = len(text)
    for match in _FORMULA_SIGN.finditer(text, max(start, end - FORMULA_LIMIT - 4)):
        limit = (
            DOLLAR_LIMIT
            if match.group() == "$" and not text.startswith("$$", match.start())
            else FORMULA_LIMIT
        )
        if match.start() + limit + 4 >= end:
            return match.start()
    return end


class _Reader:
    """Reads `text` from `start` to `end`, as if there were nothing else."""

    def __init__(self, text: Text, start: int, end: int) -> None:
        self._in = text
        self.source = self._source = text.text[:end]
        self._at = start
        self.start = self._start = start
        self._starts = [position for position, _ in text.origin]
        self._style = text.style
        self._href: str | None = None
        self._open: list[tuple[str, str | None, int]] = []
        """The style and target around each thing that is open, and how many runs came before it."""
        self.runs: list[Run] = []
        self.positions: list[tuple[int, bool]] = []
        """For each run: its position in the text, and whether a cut inside it is safe."""
        self.first_open = len(self._source)

    def read(self) -> None:
        tokens: list[Token] = []
        env: dict[str, Any] = {"references": self._in.references}
        md = parser()
        source = self._source[self._start :] if self._start else self._source
        if self._in.meter is not None:
            self._in.meter.characters += len(source)
        try:
            md.inline.parse(source, md, env, tokens)
        except RecursionError:  # Pictures in pictures: it is text.
            self._verbatim(source, self._style, self._start)
            return
        for token in tokens:
            match token.type:
                case "text":
                    self._text(token.content)
                case "code_inline":
                    self._code(token)
                case "text_special":
                    self._special(token)
                case "maths":
                    self._maths(token)
                case "softbreak" | "hardbreak":
                    self._break()
                case "html_inline":
                    self._html(token.content)
                case "image":
                    self._image(token)
                case _:
                    self._nest(token)

    def index_at(self, cut: int) -> int:
        """The run that may be cut at a position of the text, -1 where none may."""
        for index in range(len(self.runs) - 1, -1, -1):
            position, is_plain = self.positions[index]
            if is_plain and position < cut <= position + len(self.runs[index].text):
                return index
        return -1

    def runs_before(self, cut: int) -> list[Run]:
        """The runs up to a position that `index_at` knows."""
        index = self.index_at(cut)
        run = self.runs[index]
        return [*self.runs[:index], run._replace(text=run.text[: cut - self.positions[index][0]])]

    def _find(self, piece: str) -> int:
        found = self._source.find(piece, self._at)
        return self._at if found < 0 else found

    def _put(self, text: str, style: str, position: int) -> None:
        """Show `text`, which runs parallel to the source from `position` within one line."""
        text = text.replace("\t", " ")
        plain = style == self._in.style and self._href is None
        done = 0
        while done < len(text):
            line = max(0, bisect_right(self._starts, position) - 1)
            start, offset = self._in.origin[line]
            # Behind an escaped pipe of a table the source is one character further.
            border = self._starts[line + 1] - position if line + 1 < len(self._starts) else len(text)
            part = text[done : done + border]
            done += len(part)
            for piece, at in self._in.cleaner.pieces(part, offset + position - start):
                self.runs.append(Run(piece, style, at, self._href))
                self.positions.append((position, plain))
                position += len(piece)

    def _add(self, text: str, style: str, position: int, size: int) -> None:
        """Show `text` for the `size` characters of the source at `position`; none: words of our own."""
        at = -1
        if size:
            line = max(0, bisect_right(self._starts, position) - 1)
            start, offset = self._in.origin[line]
            at = self._in.cleaner.source_offset(offset + position - start)
        self.runs.append(Run(text, style, at, self._href, size if size > 1 else 0))
        self.positions.append((position, text == "\n" and style == self._in.style and self._href is None))

    def _verbatim(self, text: str, style: str, position: int | None = None) -> None:
        """Show a piece of source that may run over lines."""
        at = self._find(text) if position is None else position
        for index, piece in enumerate(text.split("\n")):
            if index:
                self._add(" ", style, at - 1, 1)
            self._put(piece, style, at)
            at += len(piece) + 1
        self._at = at - 1

    def _text(self, content: str) -> None:
        if not content:
            return
        at = self._find(content)
        if self.first_open == len(self._source) and _DELIMITER.search(content):
            sign = _DELIMITER.search(_SETTLED.sub(lambda found: " " * len(found.group()), content))
            if sign:
                self.first_open = at if self._open else at + sign.start()
        self._at = at + len(content)
        if "://" not in content or self._href is not None:
            self._put(content, self._style, at)
            return
        done = 0
        for match in _BARE_URL.finditer(content):
            url = match.group().rstrip(_URL_END)
            if url.count(")") > url.count("("):
                url = url.rstrip(")")
            self._put(content[done : match.start()], self._style, at + done)
            self._href = url
            self._put(url, _with_role(self._style, "link:u"), at + match.start())
            self._href = None
            done = match.start() + len(url)
            self._note(url, url, self._style, at + done)
        self._put(content[done:], self._style, at + done)

    def _code(self, token: Token) -> None:
        opening = self._find(token.markup)
        at = opening + len(token.markup)
        end = self._source.find(token.markup, at + len(token.content))
        if self._source[at : at + 1] in (" ", "\n") and end - at == len(token.content) + 2:
            at += 1
        source = self._source[at : at + len(token.content)]
        if self._in.mode.plain:
            closing = end + len(token.markup) if end > 0 else at + len(source)
            self._verbatim(self._source[opening:closing], self._style, opening)
        else:
            self._verbatim(source, _with_role(self._style, "chip"), at)
        self._at = end + len(token.markup) if end > 0 else at + len(token.content)

    def _special(self, token: Token) -> None:
        at = self._find(token.markup)
        if token.markup == "\\" + token.content:
            self._put(token.content, self._style, at + 1)
        else:
            # An entity can name what the cleaner took out of the text.
            self._add(clean(token.content).translate(_ONE_SPACE), self._style, at, len(token.markup))
        self._at = at + len(token.markup)

    def _maths(self, token: Token) -> None:
        at = self._find(token.markup)
        self._at = at + len(token.markup)
        if self._in.mode.ascii or token.content == token.markup:
            self._verbatim(token.markup, self._style, at)
            return
        self._add(token.content, self._style, at, len(token.markup))

    def _break(self) -> None:
        # A model that starts a new line means one; only hard-wrapped text would gain by joining lines.
        at = self._find("\n")
        self._add("\n", self._style, at, 1)
        self._at = at + 1

    def _html(self, tag: str) -> None:
        """A tag as it is written, but for the one with which a cell of a table breaks its line."""
        if not _LINE_BREAK.fullmatch(tag):
            self._verbatim(tag, self._style)
            return
        at = self._find(tag)
        self._add("\n", self._style, at, len(tag))
        self._at = at + len(tag)

    def _image(self, token: Token) -> None:
        at = self._find("![")
        source = str(token.attrGet("src") or "")
        self._add("image: ", _with_role(self._style, "muted"), at, 0)
        outer, self._href = self._href, source
        words = clean(token.content).translate(_ONE_SPACE) or source or "?"
        self._at = max(self._start + int(token.meta["end"]), at + 2)
        self._add(words, _with_role(self._style, "link:u"), at, self._at - at)
        self._href = outer
        self._note(words, source, self._style, at)

    def _nest(self, token: Token) -> None:
        if token.nesting > 0:
            self._open.append((self._style, self._href, len(self.runs)))
            self._enter(token)
        elif token.nesting < 0 and self._open:
            self._leave(token)

    def _enter(self, token: Token) -> None:
        match token.type:
            case "strong_open":
                self._style = add_attributes(self._style, "b")
            case "em_open":
                self._style = add_attributes(self._style, "i")
            case "s_open":
                self._style = add_attributes(self._style, "s")
            case "link_open":
                self._style = _with_role(self._style, "link:u")
                self._href = str(token.attrGet("href") or "")
                self._at += 1
                return
            case _:
                return
        at = self._find(token.markup)
        self._at = at + len(token.markup)
        if token.type == "s_open" and self._in.mode.plain:
            self._add("~", self._style, at, 0)

    def _leave(self, token: Token) -> None:
        if token.type == "link_close":
            self._leave_link(token)
            return
        at = self._find(token.markup)
        if token.type == "s_close" and self._in.mode.plain:
            self._add("~", self._style, at, 0)
        self._at = at + len(token.markup)
        self._style, self._href, _ = self._open.pop()

    def _leave_link(self, token: Token) -> None:
        href = self._href or ""
        style, outer, first = self._open.pop()
        text = "".join([run.text for run in self.runs[first:]])
        at = self._at
        if token.info == "auto":
            self._at = self._source.find(">", at) + 1 or at
        else:
            self._at = max(self._start + int(token.meta["end"]), at)
        self._style, self._href = style, outer
        self._note(text, href, style, at)

    def _note(self, text: str, href: str, style: str, at: int) -> None:
        """Say where a link leads that does not say it itself."""
        if href and (note := target_note(text, href, whole=self._in.mode.link_targets)):
            self._add(note, _with_role(style, "muted"), at, 0)


def _with_role(style: str, role: str) -> str:
    """`role` with the attributes of `style`."""
    return add_attributes(role, style.partition(":")[2])

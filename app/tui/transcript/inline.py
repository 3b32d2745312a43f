"""The text inside a leaf: markdown-it's inline tokens as styled spans with exact source positions.

The parser's tokens carry no positions; without its last rule their text is verbatim, so each piece is
found again by walking forward. A long text is read again only behind the last place that is safe.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from app.tui.transcript.clean import Cleaner, clean
from app.tui.transcript.grammar import parser
from app.tui.transcript.leaves import References
from app.tui.transcript.links import target_note
from app.tui.transcript.maths import DOLLAR_LIMIT, FORMULA_LIMIT
from app.tui.transcript.rows import Mode, Run, add_attributes

if TYPE_CHECKING:
    from markdown_it.token import Token

_SETTLED = re.compile(r"(?<=\w)_(?=\w)|(?<= )[*_<](?= )|<(?=[\s\d=])")
_DELIMITER = re.compile(r"[*_`\[<~]")
_FORMULA_SIGN = re.compile(r"\$(?=\S)|\\[(\[]")
_BARE_URL = re.compile(r"\bhttps?://[^\s<>\"`]+")
_ONE_SPACE = {ord("\n"): " ", ord("\t"): " "}
_URL_END = ".,;:!?'*_~"
_REUSE_FROM = 400
"""Texts shorter than this, in characters, are read whole."""


class Text(NamedTuple):
    """What inline reading needs: a text, where its lines stand, and how it is drawn."""

    text: str
    origin: list[tuple[int, int]]
    cleaner: Cleaner
    references: References
    mode: Mode
    style: str = "text"


@dataclass(slots=True)
class Inline:
    """Spans of one text, and the part of them that more text at the end cannot change."""

    text: str
    runs: list[Run]
    joined: str
    safe: int = 0
    safe_runs: list[Run] = field(default_factory=list[Run])
    kept: int = 0
    """Characters of `joined` that are as they were in the reading before."""


def read_inline(text: Text, before: Inline | None = None) -> Inline:
    """The runs of `text`; `before` is an earlier reading of its beginning in the same circumstances."""
    start, kept = 0, list[Run]()
    if before is not None and before.safe and text.text.startswith(before.text[: before.safe]):
        start, kept = before.safe, before.safe_runs
    reader = _Reader(text, start)
    reader.read()
    runs = [*kept, *reader.runs]
    inline = Inline(text.text, runs, "".join([run.text for run in runs]), start, kept)
    inline.kept = sum([len(run.text) for run in kept])
    if len(text.text) > _REUSE_FROM:
        _find_safe(inline, reader, text, len(kept))
    return inline


def _find_safe(inline: Inline, reader: _Reader, text: Text, kept: int) -> None:
    """The last blank or line end in plain text before anything that what follows may still pair with."""
    end = min(reader.first_open, _first_open_formula(text.text, inline.safe))
    before = max(0, end - 1)
    cut = max(text.text.rfind(" ", inline.safe, before), text.text.rfind("\n", inline.safe, before)) + 1
    if cut < inline.safe + 60 or text.text[cut : cut + 1] in ("", " ", "\n"):
        return
    for index in range(len(reader.runs) - 1, -1, -1):
        position, style = reader.positions[index]
        run = reader.runs[index]
        if position < cut <= position + len(run.text) and style:
            part = run._replace(text=run.text[: cut - position])
            inline.safe, inline.safe_runs = cut, [*inline.runs[: kept + index], part]
            return


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
    def __init__(self, text: Text, start: int) -> None:
        self._in = text
        self._source = text.text
        self._at = start
        self._start = start
        self._starts = [position for position, _ in text.origin]
        self._style = text.style
        self._href: str | None = None
        self._open: list[tuple[str, str | None]] = []
        self.runs: list[Run] = []
        self.positions: list[tuple[int, bool]] = []
        """For each run: its position in the text, and whether a cut inside it is safe."""
        self.first_open = len(self._source)

    def read(self) -> None:
        tokens: list[Token] = []
        env: dict[str, Any] = {"references": self._in.references}
        md = parser()
        source = self._source[self._start :] if self._start else self._source
        md.inline.parse(source, md, env, tokens)
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
                    self._verbatim(token.content, self._style)
                case "image":
                    self._image(token)
                case _:
                    self._nest(token)

    def _find(self, piece: str) -> int:
        found = self._source.find(piece, self._at)
        return self._at if found < 0 else found

    def _put(self, text: str, style: str, position: int) -> None:
        """Show `text`, which runs parallel to the source from `position` within one line."""
        if not text:
            return
        line = max(0, bisect_right(self._starts, position) - 1)
        start, offset = self._in.origin[line]
        border = self._starts[line + 1] - position if line + 1 < len(self._starts) else len(text)
        if border < len(text):
            # Behind an escaped pipe of a table the source is one character further.
            self._put(text[:border], style, position)
            self._put(text[border:], style, position + border)
            return
        shown = text.replace("\t", " ")
        plain = style == self._in.style and self._href is None
        for piece, at in self._in.cleaner.pieces(shown, offset + position - start):
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

    def _image(self, token: Token) -> None:
        at = self._find("![")
        source = str(token.attrGet("src") or "")
        self._add("image: ", _with_role(self._style, "muted"), at, 0)
        outer, self._href = self._href, source
        words = clean(token.content).translate(_ONE_SPACE) or source or "?"
        end = _link_end(self._source, self._source.find("]", at + 2))
        self._at = max(end, at + 2)
        self._add(words, _with_role(self._style, "link:u"), at, self._at - at)
        self._href = outer
        self._note(words, source, self._style, at)

    def _nest(self, token: Token) -> None:
        if token.nesting > 0:
            self._open.append((self._style, self._href))
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
        self._style, self._href = self._open.pop()

    def _leave_link(self, token: Token) -> None:
        href = self._href or ""
        style, outer = self._open.pop()
        text = self._linked_text(href)
        at = self._at
        if token.info == "auto":
            self._at = self._source.find(">", at) + 1 or at
        else:
            self._at = _link_end(self._source, self._source.find("]", at))
            self._at = max(self._at, at)
        self._style, self._href = style, outer
        self._note(text, href, style, at)

    def _note(self, text: str, href: str, style: str, at: int) -> None:
        """Say where a link leads that does not say it itself."""
        if href and (note := target_note(text, href, whole=self._in.mode.link_targets)):
            self._add(note, _with_role(style, "muted"), at, 0)

    def _linked_text(self, href: str) -> str:
        """The text shown for the link that ends here."""
        count = 0
        while count < len(self.runs) and self.runs[-1 - count].href == href:
            count += 1
        return "".join([run.text for run in self.runs[len(self.runs) - count :]])


def _with_role(style: str, role: str) -> str:
    """`role` with the attributes of `style`."""
    return add_attributes(role, style.partition(":")[2])


def _link_end(source: str, bracket: int) -> int:
    """The position after a link whose text ends at `bracket`: after its target or label, if it has one."""
    if bracket < 0:
        return -1
    end = bracket + 1
    if source[end : end + 1] == "(":
        depth = 0
        for at in range(end, len(source)):
            depth += (source[at] == "(") - (source[at] == ")")
            if not depth:
                return at + 1
    elif source[end : end + 1] == "[":
        return source.find("]", end) + 1 or end
    return end

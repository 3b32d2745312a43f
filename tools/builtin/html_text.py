"""The text of an HTML page, as a reader would copy it: no scripts, no markup, links kept.

Reads every page in time proportional to its length, however broken or hostile it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape
from typing import TypeAlias

_RAW = frozenset("script style title textarea noscript iframe".split())
_HIDDEN = frozenset("noscript template svg object canvas select".split())
_BLOCKS = frozenset(
    "address article aside blockquote br dd details div dl dt fieldset figcaption figure footer form h1 h2 "
    "h3 h4 h5 h6 header hr li main nav ol p pre section summary table tr ul".split()
)
_STARTS = {
    **{f"h{level}": f"\n{'#' * level} " for level in range(1, 7)},
    "li": "- ",
    "td": " | ",
    "th": " | ",
}
_NAME = re.compile(r"[a-zA-Z][^\s/>]{0,100}")
_HREF = re.compile(r"(?:^|[\s/])href\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s>\"']+))", re.IGNORECASE)
_LONGEST_TAG = 20_000


def html_to_text(html: str) -> str:
    """The readable text of `html`, its title first."""
    reader = _Reader()
    for token in _tokens(html):
        reader.take(token)
    return reader.text()


@dataclass(frozen=True)
class _Tag:
    name: str
    closes: bool = False
    target: str = ""


_Token: TypeAlias = _Tag | str


def _tokens(html: str) -> Iterator[_Token]:
    """Tags and the text between them. What is opened and never closed takes the rest of the page."""
    at = 0
    while at < len(html):
        start = html.find("<", at)
        if start < 0:
            start = len(html)
        if start > at:
            yield html[at:start]
        at = start
        if html.startswith("<!--", start):
            at = _after(html, "-->", start + 4)
        elif html.startswith(("<!", "<?"), start):
            at = _after(html, ">", start + 2)
        elif name := _NAME.match(html, start + 1):
            at = _tag_end(html, name.end())
            tag = name[0].lower()
            yield _Tag(tag, target=_target(html[name.end() : at]) if tag == "a" else "")
            if tag in _RAW:
                close = re.compile(rf"</{tag}(?=[\s/>])", re.IGNORECASE).search(html, at)
                end = close.start() if close else len(html)
                if tag in ("title", "textarea"):
                    yield html[at:end]
                at = _after(html, ">", end)
                yield _Tag(tag, closes=True)
        elif name := _NAME.match(html, start + 2) if html.startswith("</", start) else None:
            at = _after(html, ">", name.end())
            yield _Tag(name[0].lower(), closes=True)
        elif start < len(html):
            yield "<"
            at = start + 1


def _after(html: str, mark: str, start: int) -> int:
    found = html.find(mark, start)
    return len(html) if found < 0 else found + len(mark)


_TAG_STOP = re.compile(r"[>\"']")


def _tag_end(html: str, at: int) -> int:
    """Past the `>` that ends a tag, those in quoted values left aside."""
    while stop := _TAG_STOP.search(html, at):
        if stop[0] == ">":
            return stop.end()
        at = _after(html, stop[0], stop.end())
    return len(html)


def _target(attributes: str) -> str:
    found = _HREF.search(attributes[:_LONGEST_TAG])
    return _plain(found[1] or found[2] or found[3] or "") if found else ""


def _plain(text: str) -> str:
    try:
        return unescape(text)
    except ValueError:  # A numeric reference of thousands of digits.
        return text


@dataclass
class _Reader:
    """Collects text in pieces, with line ends where blocks begin and end."""

    _title: list[str] = field(default_factory=list[str])
    _parts: list[str] = field(default_factory=list[str])
    _hidden: list[str] = field(default_factory=list[str])
    _links: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    _in_title: bool = False
    _pre: int = 0

    def take(self, token: _Token) -> None:
        match token:
            case str():
                self._take_text(_plain(token))
            case _Tag(name="title", closes=closes):
                self._in_title = not closes
            case _Tag(name=name, closes=closes) if name in _HIDDEN:
                self._hide(name, closes=closes)
            case _Tag() if self._hidden:
                pass
            case _Tag(closes=True):
                self._close(token.name)
            case _Tag():
                self._open(token)

    def text(self) -> str:
        # A pattern of blanks around a line's end would try each blank of a long row anew.
        body = "\n".join(line.strip(" \t") for line in "".join(self._parts).split("\n"))
        body = re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]{2,}", " ", body)).strip()
        title = " ".join("".join(self._title).split())
        return f"{title}\n\n{body}".strip()

    def _take_text(self, text: str) -> None:
        if self._in_title:
            self._title.append(text)
        elif not self._hidden:
            self._parts.append(text if self._pre else re.sub(r"\s+", " ", text))

    def _hide(self, name: str, *, closes: bool) -> None:
        if not closes:
            self._hidden.append(name)
        elif name in self._hidden[-50:]:
            while self._hidden.pop() != name:
                pass

    def _open(self, tag: _Tag) -> None:
        if tag.name in _BLOCKS:
            self._parts.append("\n")
        self._parts.append(_STARTS.get(tag.name, ""))
        if tag.name == "pre":
            self._pre += 1
        if tag.name == "a":
            self._links.append((tag.target, len(self._parts)))

    def _close(self, name: str) -> None:
        if name in _BLOCKS:
            self._parts.append("\n")
        if name == "pre":
            self._pre = max(self._pre - 1, 0)
        if name == "a" and self._links:
            target, start = self._links.pop()
            self._links.clear()
            linked = any(part.strip() for part in self._parts[start:])
            if linked and target.startswith(("http://", "https://", "/")):
                self._parts.append(f" ({target})")

"""A message that is parsed while it grows. One file, because its one cut decides every step.

The block parser sees only the part that can still change.
Everything before the cut is final. The tail behind it is parsed inside context lines that stand for
the lists and quotes around it, or continues the fence or table that is open.
"""

from __future__ import annotations

import logging
import re
from collections import ChainMap
from collections.abc import Mapping

from app.markdown.blocks import Parsed, Start, parse_blocks
from app.markdown.leaves import TRIMMED, Container, Leaf, References

_log = logging.getLogger(__name__)

_CHECKED = 10_000
"""Characters up to which a finished text is parsed as a whole once more, in one go."""
_LONG_TEXT = 6
"""Lines from which on a paragraph or HTML is parsed in pieces."""
_LABEL = re.compile(r"\[((?:[^\[\]\\]|\\.){1,999})\]", re.DOTALL)
_PROSE = re.compile(r"[^\s\d#>\-+*_=~`|:<\[]|[*_]{1,2}[^\W\d_]|`{1,2}[^`]|\d+[^\d.)]")
"""How a line starts that can be nothing but a paragraph's."""


class Document:
    """The leaves of one growing text, which must be clean (see clean.py)."""

    def __init__(self) -> None:
        self.leaves: list[Leaf] = []
        self._known: References = {}
        self._latest: References = {}
        """Definitions in the part that can still change."""
        self.references: Mapping[str, dict[str, str]] = ChainMap(self._known, self._latest)
        """Link definitions in force, half-written ones included."""
        self._new: set[str] = set()
        """Labels that came to be known since links were last looked at."""
        self.read = 0
        """Characters the block parser was given so far."""
        self._tail = ""
        self._start = Start()
        self._final = 0
        self._open: Leaf | None = None
        self._uses: dict[str, list[int]] = {}
        self._used = 0
        self._next = self._latest
        self._above: dict[int, Leaf | None] = {}
        self._prose_end = -1
        self._blank_end = 0

    def append(self, text: str) -> int:
        """Take more text; the index of the first leaf that may differ from before."""
        if not text:
            return len(self.leaves)
        self._tail += text
        if "\n" not in text and self._prose_end >= 0:
            self._grow_prose()
            return len(self.leaves) - 1
        first = self._final - (self._open is not None)
        if "\n" in text:
            self._advance(self._tail.rfind("\n") + 1)
        if not self._tail.endswith("\n") and self._tail:
            self._show(self._tail)
        self._prose_end, self._blank_end = self._find_prose_end(), 0
        return max(0, min(first, self._link_again()))

    def finish(self, whole: str) -> int:
        """The text is complete and `whole` is all of it; the index of the first leaf that may differ."""
        self._prose_end = -1
        if self.leaves and self.leaves[-1].kind in ("fence", "table"):
            self.leaves[-1].closed = True
        if len(whole) > _CHECKED:
            return max(0, len(self.leaves) - 1)
        fresh = parse_whole(whole)
        if [leaf.key() for leaf in fresh.leaves] == [leaf.key() for leaf in self.leaves]:
            return max(0, len(self.leaves) - 1)
        _log.debug("a message of %d characters parsed differently in pieces", len(whole))
        self.leaves, self.references = fresh.leaves, fresh.references
        return 0

    def _parse(self, text: str) -> Parsed:
        if self._open is not None:
            for container in self._open.path:
                container.labelled = True
        parsed = parse_blocks(text, self._start)
        self.read += parsed.read
        self._next = parsed.references
        return parsed

    def _show(self, text: str) -> None:
        self._install(self._parse(text).leaves)
        last = self.leaves[-1] if self.leaves else None
        if last is not None and last.kind == "table":
            last.closed = last.end_line <= self._start.line + text.count("\n")

    def _install(self, new: list[Leaf]) -> list[Leaf]:
        """Put freshly parsed leaves behind the final ones; those that continue the open leaf go there."""
        if self._open is not None and new and new[0].start_line < 0:
            _continue(self._open, new.pop(0))
            self._open.gap = _gap(self._last_visible(self._final - 1), self._open)
        before = self._last_visible(self._final)
        for index, leaf in enumerate(new, self._final):
            if leaf.kind != "definition":
                leaf.gap = _gap(before, leaf)
                before = leaf
            if index < len(self.leaves):
                old = self.leaves[index]
                if (old.kind, old.first, old.cont) == (leaf.kind, leaf.first, leaf.cont):
                    leaf.laid = old.laid
        self.leaves[self._final :] = new
        return new

    def _last_visible(self, end: int) -> Leaf | None:
        """The last leaf before number `end` that shows; all before it are final."""
        if end not in self._above:
            if len(self._above) > 8:
                self._above = {at: leaf for at, leaf in self._above.items() if at >= end - 8}
            at = end
            while at > 0 and (at == end or at not in self._above):
                at -= 1
                if self.leaves[at].kind != "definition":
                    self._above[end] = self.leaves[at]
                    return self.leaves[at]
            self._above[end] = self._above.get(at)
        return self._above[end]

    def _advance(self, size: int) -> None:
        """Parse the `size` characters of whole lines, then move the cut as far as it may go."""
        body = self._tail[:size]
        new = self._install(self._parse(body).leaves)
        end_line = self._start.line + body.count("\n")
        resumed = self._open
        if resumed is not None and not new:
            resumed.closed = resumed.closed or resumed.kind == "table"
            if _goes_on(resumed, end_line):
                self._cut(_set_done(resumed), *self._start.inside())
                return
            self._open = None
            self._cut_after(resumed)
            rest = self._tail[: self._tail.rfind("\n") + 1]
            if rest:
                self._install(self._parse(rest).leaves)
            return
        if new:
            self._settle(new, end_line)

    def _settle(self, new: list[Leaf], end_line: int) -> None:
        """Make final what whole lines have decided: all of `new` but the last leaf, with exceptions."""
        place = _cut_place(new)
        if place is None:
            return
        if self._open is not None:
            self._open = None
            self._start = self._start._replace(resume=())
        index, line, context = place
        for leaf in new[:index]:
            if leaf.kind == "definition" and leaf.info not in self._known:
                self._new.add(leaf.info)
                self._known[leaf.info] = leaf.target
        self._cut(line, context, (), new[index].top)
        self._final += index
        last = new[-1]
        if index == len(new) - 1 and not any(container.unclear for container in last.path):
            self._pass_or_resume(last, line, end_line)

    def _pass_or_resume(self, last: Leaf, line: int, end_line: int) -> None:
        """Leave a fence or table behind that has ended; parse only new lines of a leaf that goes on."""
        if not _goes_on(last, end_line):
            if last.kind in ("fence", "table"):
                self._final += 1
                self._cut_after(last)
            return
        to_opening = last.start_line - line + 1
        start = self._start
        blank = _blank_inside(last.path)
        match last.kind:
            case "fence" if last.lines:
                start = start._replace(resume=(*self._tail_lines(to_opening), blank))
            case "table":
                start = start._replace(resume=self._tail_lines(to_opening + 1))
            case "indented" if len(last.lines) > 1:
                start = start._replace(resume=(*self._tail_lines(to_opening), f"{blank}    x"))
            case "html" if len(last.origin) >= _LONG_TEXT:
                start = start._replace(resume=(*self._tail_lines(to_opening), f"{blank}x"))
            case "paragraph" if len(last.origin) >= _LONG_TEXT and last.text[0] != "[":
                start = start._replace(context=last.path, resume=(f"{blank}x",), top=last.top)
            case _:
                return
        self._open = last
        self._final = len(self.leaves)
        self._cut(_set_done(last), *start.inside())

    def _cut_after(self, leaf: Leaf) -> None:
        # The line after the leaf, not the end of the text: an empty quote mark may follow it.
        self._cut(leaf.end_line, leaf.path, (), leaf.top if leaf.path else leaf.top + 1)

    def _cut(self, line: int, context: tuple[Container, ...], resume: tuple[str, ...], top: int) -> None:
        size = 0
        for _ in range(line - self._start.line):
            size = self._tail.index("\n", size) + 1
        self._tail = self._tail[size:]
        self._start = Start(context, resume, line, self._start.offset + size, top)

    def _tail_lines(self, count: int) -> tuple[str, ...]:
        return tuple(self._tail.split("\n", count)[:count])

    def _find_prose_end(self) -> int:
        """Where the text of a paragraph ends that only a newline can turn into something else, or -1.

        That is one whose last line has begun as no rule but the paragraph's allows, and that is not on its
        way to become a definition.
        """
        last = self.leaves[-1] if self.leaves else None
        if last is None or last.kind != "paragraph" or self._open not in (None, last) or not last.text:
            return -1
        if len(self.leaves) > 1 and _may_join(self.leaves[-2], last):
            return -1
        position, offset = last.origin[-1]
        line = last.text[position:]
        end = offset + len(line) - self._start.offset
        if not _PROSE.match(line) or last.text[0] == "[":
            return -1
        return end if self._tail.endswith(line, 0, end) and "\n" not in self._tail[end:] else -1

    def _grow_prose(self) -> None:
        leaf = self.leaves[-1]
        if not self._tail[max(self._prose_end, self._blank_end) :].strip(TRIMMED):
            self._blank_end = len(self._tail)
            return
        more = self._tail[self._prose_end :].rstrip(TRIMMED)
        leaf.text += more
        self._prose_end += len(more)

    def _link_again(self) -> int:
        """Definitions act backwards: forget the layout of leaves that use one that came or changed."""
        before, now = self._latest, self._next
        labels = [
            label
            for label in before.keys() | now.keys() | self._new
            if (label in self._new or label not in self._known)
            and before.get(label) != self._known.get(label, now.get(label))
        ]
        self._new.clear()
        self._latest = now
        self.references = ChainMap(self._known, now)
        first = len(self.leaves)
        if not labels:
            return first
        self._note_uses()
        changed = {_squeeze(label) for label in labels}
        using = [index for label in changed for index in self._uses.get(label, ())]
        for index in range(self._used, len(self.leaves)):
            if not changed.isdisjoint(_labels(self.leaves[index])):
                using.append(index)
        for index in using:
            self.leaves[index].laid = None
            first = min(first, index)
        return first

    def _note_uses(self) -> None:
        """Which final leaves have what label in brackets: each is looked through once."""
        end = max(self._used, self._final - (self._open is not None))
        for index in range(self._used, end):
            for label in _labels(self.leaves[index]):
                self._uses.setdefault(label, []).append(index)
        self._used = end


def _labels(leaf: Leaf) -> set[str]:
    """What stands in brackets in a leaf, as definitions are compared."""
    text = leaf.text or " ".join(cell for row in leaf.cells for cell in row)
    return {_squeeze(label) for label in _LABEL.findall(text)} if "[" in text else set()


def parse_whole(text: str) -> Document:
    """The leaves of a complete text by one ordinary parse: what every parse in pieces must equal."""
    document = Document()
    parsed = parse_blocks(text, Start())
    document.references = parsed.references
    before: Leaf | None = None
    for leaf in parsed.leaves:
        if leaf.kind != "definition":
            leaf.gap = _gap(before, leaf)
            before = leaf
    if parsed.leaves and parsed.leaves[-1].kind == "fence":
        parsed.leaves[-1].closed = True
    document.leaves = parsed.leaves
    return document


def _gap(before: Leaf | None, leaf: Leaf) -> int:
    """Empty rows above `leaf`: decided by what is above it alone, so it never changes afterwards."""
    if before is None:
        return 0
    if leaf.top != before.top or leaf.start_line > before.end_line:
        return 1
    return int(_stands_apart(leaf) or _stands_apart(before))


def _stands_apart(leaf: Leaf) -> bool:
    return leaf.kind == "heading" and leaf.level <= 2


def _goes_on(leaf: Leaf, end_line: int) -> bool:
    """True if the line at `end_line` may belong to `leaf`, the last one before it."""
    match leaf.kind:
        case "fence":
            return not leaf.closed and leaf.end_line >= end_line
        case "table" | "paragraph" | "html":
            return leaf.end_line >= end_line
        case "indented":
            return True
        case _:
            return False


def _set_done(leaf: Leaf) -> int:
    """Note what of `leaf` is final; the line to cut at."""
    match leaf.kind:
        case "table":
            leaf.done = len(leaf.cells)
        case "paragraph" | "html":
            # The last line may yet become the header of a table, or be what ends the HTML.
            leaf.done = len(leaf.origin) - 1
            leaf.head = leaf.text[: max(0, leaf.origin[leaf.done][0] - 1)]
            return leaf.start_line + leaf.skipped + leaf.done
        case _:
            leaf.done = len(leaf.lines)
    return leaf.end_line


def _continue(leaf: Leaf, part: Leaf) -> None:
    """Replace what is not final of `leaf` by the newly parsed `part`, whose first entries are context."""
    # The opening, and for these a second line: without it a table could start at the first.
    ahead = 2 if leaf.kind in ("indented", "html") else 1
    if leaf.origin:
        _continue_text(leaf, part, ahead)
    del leaf.lines[leaf.done :], leaf.line_offsets[leaf.done :]
    del leaf.cells[leaf.done :], leaf.cell_lines[leaf.done :]
    leaf.lines += part.lines[ahead:]
    leaf.line_offsets += part.line_offsets[ahead:]
    leaf.cells += part.cells[ahead:]
    leaf.cell_lines += part.cell_lines[ahead:]
    leaf.end_line = part.end_line
    leaf.closed = part.closed


def _continue_text(leaf: Leaf, part: Leaf, ahead: int) -> None:
    """The same for HTML and for a paragraph, which an underline makes a heading."""
    leaf.kind, leaf.level = part.kind, part.level
    leaf.origin = leaf.origin[: leaf.done]
    if len(part.origin) <= ahead:
        leaf.text = leaf.head.rstrip(TRIMMED)
        return
    skipped = part.origin[ahead][0]
    moved = len(leaf.head) + 1 - skipped
    leaf.text = f"{leaf.head}\n{part.text[skipped:]}"
    leaf.origin += [(at + moved, offset) for at, offset in part.origin[ahead:]]


def _cut_place(new: list[Leaf]) -> tuple[int, int, tuple[Container, ...]] | None:
    """Index of the first leaf that stays open, the line to cut at, and the context there."""
    index = _first_unsure(new)
    leaf = new[index]
    path = leaf.path
    keep = next((depth for depth, container in enumerate(path) if container.owner is leaf), len(path))
    unclear = next((depth for depth in range(keep) if path[depth].unclear), None)
    if unclear is not None:
        # No line can stand for that container, so its own line must stay in the tail.
        keep = unclear
        line = path[keep].line
        while keep and path[keep - 1].line == line:
            keep -= 1
        if path[keep].index > 0:
            return None
        index = next(at for at, leaf in enumerate(new) if leaf.start_line >= line)
        if index == 0 and new[0].start_line > line:
            return None
    line = path[keep].line if keep < len(path) else leaf.start_line
    context = path[:keep]
    if keep < len(path) and path[keep].index > 0:
        if path[keep].unclear:
            return None
        context = (*context, path[keep].sibling())
    return index, line, context


def _first_unsure(new: list[Leaf]) -> int:
    """Index of the first leaf that the next line may change: the last one, or what stands close above it.

    A definition's title may go on below it, and its label over what looks like underlined headings.
    """
    at = index = len(new) - 1
    while at and _may_join(new[at - 1], new[at]):
        at -= 1
        if new[at].kind == "definition":
            return at
        if new[at].text.startswith("["):
            index = at
    return index


def _may_join(above: Leaf, below: Leaf) -> bool:
    """True for a definition or an underlined heading with no line between it and what is below."""
    is_underlined = above.kind == "heading" and above.end_line - above.start_line > 1
    return above.end_line == below.start_line and (above.kind == "definition" or is_underlined)


def _blank_inside(path: tuple[Container, ...]) -> str:
    """An empty line inside the containers."""
    return "".join([" " * container.content if container.is_item else "> " for container in path])


def _squeeze(text: str) -> str:
    return "".join(text.split()).casefold()

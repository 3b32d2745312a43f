"""What a search over all chats found, as rows: grouped by chat, who said it, and the words marked.

Pure. Texts come from the store and may be hostile; they are made printable here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len

from app.frontend.ages import when
from app.frontend.model_name import short_name
from app.terminal.glyphs import Glyphs
from app.tui.widgets.cells import Span, fitted, marked, plain, width_of
from app.tui.widgets.rows import BLANK, ListRow

MODEL = "model"
"""Who answered, where the store does not know which model it was."""
PUT_AWAY = "archived"
_TONES = {"you": "user", "thought": "reasoning", "tool": "tool", "error": "error"}
_WHO_WIDTH = 11
_WORD = re.compile(r"[^\W_]+")
_ELLIPSIS = "\u2026"


@dataclass(frozen=True)
class Hit:
    """One place that was found. Texts are printable lines."""

    session_id: str
    item_id: str
    """Empty for a chat that was found by its title."""
    title: str
    role: str
    """you, model, thought, tool, summary, system, error or title."""
    created_at: int
    preview: str
    archived: bool = False
    model: str = ""
    """Who wrote it, where a model did and is known."""

    @property
    def key(self) -> str:
        """What tells it from the others."""
        return self.item_id or self.session_id

    @property
    def who(self) -> str:
        """Who said it, in a word or two."""
        return self.model if self.role == MODEL and self.model else self.role


def hit_of(wire: Mapping[str, Any]) -> Hit:
    """A hit as the manager tells it."""
    kind = str(wire.get("type") or "")
    words = {"reasoning": "thought", "compaction": "summary", "error": "error", "title": "title"}
    role = words.get(kind, "tool")
    if kind == "message":
        role = {"user": "you", "assistant": MODEL}.get(str(wire.get("role")), "system")
    model = wire.get("llm_model")
    return Hit(
        session_id=str(wire["session_id"]),
        item_id=str(wire["item_id"] or ""),
        title=plain(str(wire.get("title") or "")) or "untitled",
        role=role,
        created_at=int(wire.get("created_at") or 0),
        preview=plain(str(wire.get("preview") or "")),
        archived=bool(wire.get("archived")),
        model=plain(short_name(str(model))) if model else "",
    )


def places_of(query: str, text: str) -> list[tuple[int, int]]:
    """Where the words of a query stand in a text, touching ones as one; sorted and apart."""
    folded = "".join(low if len(low := char.lower()) == 1 else char for char in text)
    found: list[tuple[int, int]] = []
    for word in {word.lower() for word in _WORD.findall(query)}:
        start = folded.find(word)
        while start >= 0:
            found.append((start, start + len(word)))
            start = folded.find(word, start + len(word))
    merged: list[tuple[int, int]] = []
    for start, end in sorted(found):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def by_chat(hits: Iterable[Hit]) -> dict[str, list[Hit]]:
    """Hits under their chats, in the order in which the chats were met."""
    chats: dict[str, list[Hit]] = {}
    for hit in hits:
        chats.setdefault(hit.session_id, []).append(hit)
    return chats


def counted(hits: Sequence[Hit], seconds: float, limit: int) -> str:
    """`7 matches in 4 chats, 3 ms`; no more were looked for than `limit`."""
    chats = len({hit.session_id for hit in hits})
    more = "over " if len(hits) >= limit else ""
    matches = "1 match" if len(hits) == 1 else f"{more}{len(hits)} matches"
    return f"{matches} in {chats} chat{'s' if chats != 1 else ''}, {max(1, round(seconds * 1000))} ms"


def hit_rows(hits: Iterable[Hit], query: str, now: float, width: int, glyphs: Glyphs) -> list[ListRow]:
    """A chat's title and when, then its hits; a blank row between chats. `width` cells for a row."""
    rows: list[ListRow] = []
    for group in by_chat(hits).values():
        first = group[0]
        away = (Span(f"{PUT_AWAY}   ", "muted"),) if first.archived else ()
        rows += [BLANK] if rows else []
        rows.append(
            ListRow((Span(first.title, bold=True),), (*away, Span(when(first.created_at, now), "muted")))
        )
        rows += [_hit_row(hit, query, width, glyphs) for hit in group]
    return rows


def _hit_row(hit: Hit, query: str, width: int, glyphs: Glyphs) -> ListRow:
    who = fitted(
        [Span(_short(hit.who), _TONES.get(hit.role, "assistant" if hit.role == MODEL else "muted"))],
        _WHO_WIDTH - 1,
        glyphs.cut_right,
    )
    # The store marks what it cut with an ellipsis, whose width no two terminals agree on.
    before, after = hit.preview.startswith(_ELLIPSIS), hit.preview.endswith(_ELLIPSIS)
    text = hit.preview.strip(_ELLIPSIS) if before or after else hit.preview
    room = width - _WHO_WIDTH
    shown = shown_from(text, query, room)
    before = before or shown > 0
    text = text[shown:]
    said = marked(text, places_of(query, text), Span(""), Span("", "accent", bold=True, underline=True))
    left = [Span(glyphs.cut_left, "faint")] if before else []
    right = [Span(glyphs.cut_right, "faint")] if after and width_of(said) + len(left) < room else []
    return ListRow([*who, Span(" "), *left, *said, *right], (), hit.key)


def _short(who: str) -> str:
    """As many words of a name as the column holds; its first one at least."""
    words = who.split(" ")
    while len(words) > 1 and cell_len(" ".join(words)) >= _WHO_WIDTH:
        words.pop()
    return " ".join(words)


def shown_from(text: str, query: str, room: int) -> int:
    """The first character shown, so that the words found lie within `room` cells; a word's beginning."""
    places = places_of(query, text)
    if not places or width_of([Span(text[: places[0][1]])]) < room - 1:
        return 0
    start = places[0][0]
    earliest = max(0, start - room // 3)
    blank = text.find(" ", earliest, start)
    return blank + 1 if blank >= 0 else start

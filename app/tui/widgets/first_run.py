"""The page without a model: what was looked at, four ways on, and how far a download is."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from textual.events import Paste
from textual.message import Message

from app.tui.grid import Grid
from app.tui.transcript.entries import KeyChoice
from app.tui.widgets.cells import Line, Span, cut, cut_left, fitted, plain, wrapped
from app.tui.widgets.choices import DETAIL_AT, ChoicePage, PageRow
from app.tui.widgets.style import WidgetStyle

MOST_PATH_CHARS = 4096


STARTER, OPEN, PULL, SERVER = "enter", "o", "p", "u"


@dataclass(frozen=True)
class Download:
    """A download that runs. Bytes; 0 in all is not known yet."""

    name: str
    done: int = 0
    total: int = 0


class FirstRun(ChoicePage):
    """No model: what was looked at, and the ways on. `looked` are (path, what is there).

    `servers`: whether a chat can be had from a server too.
    """

    def __init__(
        self,
        looked: Sequence[tuple[str, str]],
        *,
        starter: str,
        servers: bool = False,
        id: str | None = "first-run",
    ) -> None:
        choices = [
            KeyChoice(STARTER, "download the starter", starter),
            KeyChoice(OPEN, "open a GGUF file", "or drop its path here"),
            KeyChoice(PULL, "pull from Hugging Face", "owner/name"),
        ]
        if servers:
            choices.append(KeyChoice(SERVER, "use a server", "any OpenAI-compatible URL"))
        super().__init__(choices, id=id)
        self._looked = [(plain(path), plain(found)) for path, found in looked]
        self._download: Download | None = None
        self._problem: tuple[str, str] | None = None

    class Dropped(Message):
        """The path of a model file was dropped or pasted here."""

        def __init__(self, path: str) -> None:
            super().__init__()
            self.path = path

    @property
    def download(self) -> Download | None:
        return self._download

    def on_paste(self, event: Paste) -> None:
        if path := dropped_path(event.text):
            event.stop()
            self.post_message(self.Dropped(path))

    def downloading(self, download: Download | None) -> None:
        """Show how far a download is, or that none runs."""
        self._download = download
        if download is not None:
            self._problem = None
        self.show()

    def failed(self, reason: str, remedy: str = "") -> None:
        """Tell why it did not work, and what to do instead."""
        self._download = None
        self._problem = (plain(reason), plain(remedy))
        self.show()

    def page(self, grid: Grid, ink: WidgetStyle, height: int) -> list[PageRow]:
        parts = [
            [self._title(ink)],
            [_row(Span("No model here yet.", bold=True))],
            self._looked_rows(ink),
            self.choice_rows(grid, ink),
            [_row(*line) for line in self._news(grid, ink)],
        ]
        rows = [BLANK_ROW, *_apart(parts), BLANK_ROW]
        if len(rows) <= height:
            return rows
        # What is needed to go on stays longest: the fact, the choices, and how they go.
        fact, choices, news = parts[1], parts[3], parts[4]
        for rows in (
            [BLANK_ROW, *_apart([fact, [self._looked_in_short()], choices, news])],
            [BLANK_ROW, *_apart([fact, choices, news])],
            _apart([fact, choices, news]),
            [*fact, *choices, *news],
            [*choices, *news],
        ):
            if len(rows) <= height:
                return rows
        return [*news, *choices] if self._download or self._problem else choices

    def _title(self, ink: WidgetStyle) -> PageRow:
        words = Span("  chat with models on this machine", "muted")
        return PageRow(Span(ink.glyphs.ember[0], "primary"), (Span("fireside", "primary", bold=True), words))

    def _looked_in_short(self) -> PageRow:
        return _row(Span(f"looked in {len(self._looked)} folders", "muted"))

    def _looked_rows(self, ink: WidgetStyle) -> list[PageRow]:
        rows = [_row(Span("looked in", "muted"))]
        room = DETAIL_AT - 4
        for path, found in self._looked:
            shown = cut_left(path, room, ink.glyphs.cut_left)
            aside = Span(f"{ink.glyphs.aside} ", "faint")
            rows.append(_row(aside, *fitted((Span(shown),), room + 2), Span(found, "muted")))
        return rows

    def _news(self, grid: Grid, ink: WidgetStyle) -> list[Line]:
        if self._problem is not None:
            reason, remedy = self._problem
            lines: list[Line] = [
                (
                    Span(
                        f"{ink.glyphs.failed} {line}" if not number else f"  {line}", "error", bold=not number
                    ),
                )
                for number, line in enumerate(wrapped(reason, grid.measure - 2))
            ]
            return [*lines, *((Span(f"  {line}", "muted"),) for line in wrapped(remedy, grid.measure - 2))]
        if self._download is not None:
            return _progress_lines(self._download, grid.measure, ink)
        server = any(choice.key == SERVER for choice in self.choices)
        words = f"Chats stay on this machine{' unless you choose a server' if server else ''}."
        return [(Span(line, "muted"),) for line in wrapped(words, grid.measure)]


BLANK_ROW = PageRow(Span(" "), ())


def _row(*spans: Span) -> PageRow:
    return PageRow(Span(" "), spans)


def _apart(parts: Sequence[Sequence[PageRow]]) -> list[PageRow]:
    """Parts with a blank row between them."""
    rows: list[PageRow] = []
    for part in parts:
        rows += [*([BLANK_ROW] if rows else []), *part]
    return rows


def _progress_lines(download: Download, measure: int, ink: WidgetStyle) -> list[Line]:
    """Two rows: a meter with its number, and how to stop it."""
    cells = max(8, min(32, measure - 40))
    name = f"fetching {plain(download.name)}"
    if not download.total:
        return [(Span(name, "muted"),), (Span(f"{ink.key('esc')} stops", "muted"),)]
    share = min(1.0, download.done / download.total)
    done = round(share * cells)
    meter = (
        Span(f"{cut(name, 28, ink.glyphs.cut_right)}  ", "muted"),
        Span(ink.glyphs.meter * done, "primary"),
        Span(ink.glyphs.rule * (cells - done), "faint"),
        Span(f"  {share:.0%}".replace("%", " %")),
    )
    amount = f"{download.done / (1 << 20):,.0f} of {download.total / (1 << 20):,.0f} MiB"
    return [meter, (Span(f"{amount}   {ink.key('esc')} stops", "muted"),)]


def dropped_path(text: str) -> str | None:
    """The path in what a terminal sends for a dropped file; None where it is no GGUF file's.

    Terminals quote it, escape its blanks, or send a `file:` address.
    """
    text = text.strip()
    if not text or len(text) > MOST_PATH_CHARS or "\n" in text:
        return None
    if text.startswith("file:"):
        text = unquote(urlsplit(text).path)
    elif text[0] in "'\"" or "\\" in text:
        try:
            parts = shlex.split(text)
        except ValueError:
            return None
        text = parts[0] if len(parts) == 1 else text
    return text if text.lower().endswith(".gguf") else None

"""The status bar: one row of facts, and which of them go first when it does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from textual.content import Content
from textual.widgets import Static

from app.terminal.figures import short_count
from app.terminal.glyphs import Glyphs
from app.terminal.text_rows import Span, cut
from app.tui.grid import Grid, grid_of

GAP = 3
METER_CELLS = 8
UNKNOWN = "-"
"""In the place of a number, so that nothing moves when it is there."""
TIGHT_MODEL_CELLS = 16
WARN_AT = 0.8
ALARM_AT = 0.95
# The meter outlives the mode of the tools: at 80 columns it is the one that is looked for.
DROPS = ("machine", "reused", "first", "tools", "meter", "speed", "gpu", "help", "context")


class Facts(NamedTuple):
    """What the status bar tells. None and empty texts are not known, or not worth a word."""

    asking: int = 0
    machine: Sequence[tuple[str, str]] = ()
    """What this machine has, where no model is there to tell of."""
    state: str = ""
    state_role: str = "primary"
    private: bool = False
    mode: str = ""
    """Of vi's keys, for who uses them."""
    model: str = ""
    gpu_layers: int | None = None
    layers: int = 0
    has_gpu: bool = False
    """Whether there is a GPU that layers could be on."""
    server: str = ""
    """Where a model that runs elsewhere is."""
    context_tokens: int | None = None
    context_window: int | None = None
    exact: bool = True
    reused: int | None = None
    first_ms: float | None = None
    speed: float | None = None
    tools: str = ""
    home: bool = False
    """Tools work in the whole home folder, or in one that holds it."""
    help_key: str = "?"


def status_row(facts: Facts, width: int, glyphs: Glyphs) -> list[Span]:
    """The bar as texts with styles, `width` cells wide together, or less on the right."""
    left, right = _segments(facts, glyphs), _right(facts, glyphs)
    if _width(left, right) > width and cell_len(facts.model) > TIGHT_MODEL_CELLS:
        facts = facts._replace(model=cut(facts.model, TIGHT_MODEL_CELLS, glyphs.cut_right))
        left = _segments(facts, glyphs)
    for name in DROPS:
        if _width(left, right) <= width:
            break
        left = [segment for segment in left if segment.name != name]
        right = [segment for segment in right if segment.name != name]
    spans = _joined(left)
    if right:
        used = sum(cell_len(text) for text, _ in spans)
        ends = _joined(right)
        room = width - used - sum(cell_len(text) for text, _ in ends)
        spans = [*spans, (" " * max(GAP if spans else 0, room), ""), *ends]
    return spans


def speed(tokens_per_second: float) -> str:
    """`109 tok/s`; one decimal below ten."""
    digits = 0 if tokens_per_second >= 9.95 else 1
    return f"{tokens_per_second:,.{digits}f} tok/s"


def duration(seconds: float) -> str:
    """`12 ms`, `3.2 s`, `41 s`, `2 m 05 s`."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} m {rest:02} s"


class _Segment(NamedTuple):
    name: str
    spans: tuple[Span, ...]
    gap: int = GAP


def _segments(facts: Facts, glyphs: Glyphs) -> list[_Segment]:
    found: list[_Segment] = []
    if facts.asking:
        found.append(_Segment("waiting", ((f"{facts.asking} asking", "bold $approval"),)))
    if facts.state:
        found.append(_Segment("state", ((facts.state, f"bold ${facts.state_role}"),)))
    if facts.private:
        found.append(_Segment("private", (("private", "bold"),)))
    if facts.mode:
        found.append(_Segment("mode", ((facts.mode, "$muted" if facts.mode == "insert" else "bold"),)))
    if facts.model:
        found.append(_Segment("model", ((facts.model, ""),)))
    for name, amount in facts.machine:
        found.append(_Segment("machine", ((f"{name} ", "$muted"), (amount, ""))))
    if facts.gpu_layers is not None and facts.layers:
        found.append(_gpu(facts.gpu_layers, facts.layers, facts.has_gpu))
    if facts.server:
        found.append(_Segment("gpu", (("on ", "$muted"), (facts.server, ""))))
    found += _context(facts, glyphs)
    if facts.reused:
        found.append(_Segment("reused", (("reused ", "$muted"), (f"{facts.reused:,}", ""))))
    if facts.first_ms is not None:
        found.append(_Segment("first", (("first ", "$muted"), (duration(facts.first_ms / 1000), ""))))
    if facts.speed is not None:
        found.append(_Segment("speed", ((speed(facts.speed), ""),)))
    return found


def _gpu(on_gpu: int, layers: int, has_gpu: bool) -> _Segment:
    """How much of the model is on the GPU; where there is one, less than all is a warning, and stays."""
    if on_gpu <= 0 and not has_gpu:
        return _Segment("gpu", (("cpu", "$muted"),))
    if on_gpu <= 0:
        return _Segment("gpu warning", (("cpu only", "$warning"),))
    if on_gpu < layers:
        return _Segment("gpu warning", ((f"gpu {on_gpu}/{layers}", "$warning"),))
    return _Segment("gpu", (("gpu ", "$muted"), (f"{on_gpu}/{layers}", "")))


def _tokens(facts: Facts) -> str:
    """What the chat fills of the context, as far as is known."""
    if facts.context_tokens is None:
        return UNKNOWN
    return f"{'' if facts.exact else '~'}{short_count(facts.context_tokens)}"


def _context(facts: Facts, glyphs: Glyphs) -> list[_Segment]:
    if not (window := facts.context_window):
        unknown = _Segment("context", (("ctx ", "$muted"), (f"{_tokens(facts)}/unknown", "")))
        return [unknown] if facts.server else []
    tokens = facts.context_tokens or 0
    share = tokens / window
    role = "$error" if share >= ALARM_AT else "$warning" if share >= WARN_AT else "$muted"
    numbers = f"{_tokens(facts)}/{short_count(window)}"
    done = min(METER_CELLS, round(share * METER_CELLS)) if tokens else 0
    if tokens:
        done = max(1, done)
    meter = ((glyphs.meter * done, role), (glyphs.rule * (METER_CELLS - done), "$faint"))
    return [_Segment("context", (("ctx ", "$muted"), (numbers, ""))), _Segment("meter", meter, gap=2)]


def _right(facts: Facts, glyphs: Glyphs) -> list[_Segment]:
    found: list[_Segment] = []
    if facts.tools:
        warns = facts.tools == "all" or facts.home
        where: tuple[Span, ...] = ((" in home", "$warning"),) if facts.home else ()
        role = "$warning" if facts.tools == "all" else ""
        name = "tools warning" if warns else "tools"
        found.append(_Segment(name, (("tools ", "$muted"), (facts.tools, role), *where)))
    if facts.help_key:
        found.append(_Segment("help", ((facts.help_key, "bold"), (" help", "$muted"))))
    return found


def _joined(segments: Sequence[_Segment]) -> list[Span]:
    spans: list[Span] = []
    for place, segment in enumerate(segments):
        if place:
            spans.append((" " * segment.gap, ""))
        spans += segment.spans
    return spans


def _width(left: Sequence[_Segment], right: Sequence[_Segment]) -> int:
    texts = [text for text, _ in (*_joined(left), *_joined(right))]
    return sum(map(cell_len, texts)) + (GAP if left and right else 0)


class StatusBar(Static):
    """The row itself: surface ground over the whole width, words in the text's column."""

    DEFAULT_CSS = "StatusBar { height: 1; width: 1fr; background: $surface; color: $foreground; }"

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__("", markup=False)
        self._glyphs = glyphs
        self._facts = Facts()
        self._grid = grid_of(80)

    def show(self, facts: Facts, grid: Grid) -> None:
        """Tell `facts` in the columns of `grid`."""
        if (facts, grid) == (self._facts, self._grid) and self.content:
            return
        self._facts, self._grid = facts, grid
        spans = status_row(facts, grid.column, self._glyphs)
        # The row keeps its size: a layout of the screen would cost more than the row.
        self.update(Content.assemble(" " * grid.edge, *spans), layout=False)

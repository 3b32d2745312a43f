"""What the transcript costs: a token in every case, keys, focus, resizing, opening, beside Textual's widget.

Run on a quiet machine, from the repository:
    python -m tests.benchmarks.transcript [--quick] [--json]

Times are processor time of this process in milliseconds unless a row says otherwise; each includes
painting the frame and writing it as control codes. Nothing is shown meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import re
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any, cast

from textual._compositor import CompositorUpdate
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Markdown, TextArea

from app.tui.transcript.entries import Answer, NameRow, UserTurn
from app.tui.transcript.entry import Entry
from app.tui.transcript.view import Transcript

SIZE = (100, 40)
_PROSE = (
    "The quick **brown** fox jumps over the `lazy` dog and keeps running "
    "through the [forest](http://x.y) until night. "
)
_CODE = "    result = compute(value, key='abc') + [x for x in range(10)]  # note\n"
_ITEM = "- item **two** three `four` five\n"
_ROW = "| one | **two** words | three |\n"
_WIDE_ROW = f"| {'some longer cell text here ' * 3}| **two** words and more, so that it wraps | three |\n"
_HEAD = "| a | b | c |\n|---|---|---|\n"
_WORDS = "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod ".split(" ")


@dataclass(frozen=True)
class Case:
    """Tokens appended to a reply that begins with `before`, below `messages` other messages."""

    name: str
    before: str
    tokens: tuple[str, ...]
    messages: int = 0
    target: float = 3.0


@dataclass(frozen=True)
class Row:
    """One line of the result. `textual` is what Textual's Markdown widget takes for the same."""

    name: str
    ms: float
    target: float | None
    worst: float | None = None
    layout: float | None = None
    """Of it, reading and laying out."""
    textual: float | None = None

    @property
    def reached(self) -> bool | None:
        """Whether the target is reached; None without one."""
        return None if self.target is None else self.ms <= self.target


def _words(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\s*\S+\s?|\s+", text))


_PLAIN = tuple([f"{word} " for word in _WORDS if word])
_PARAGRAPH = f"{(_PROSE * 4).strip()}\n\n"
_IN_ITEM = "".join([f"   {line}\n" for line in (_CODE * 3000).split("\n")[:-1]])
CASES = (
    Case("empty message", "x", _PLAIN),
    Case("after 400 paragraphs", _PARAGRAPH * 400, _PLAIN),
    Case("in a 3,000-line fence", f"```python\n{_CODE * 3000}", _words(_CODE)),
    Case("in a 3,000-line fence in a list item", f"1. a\n   ```python\n{_IN_ITEM}", _words(f"   {_CODE}")),
    Case("200-item list", _ITEM * 200, _words(_ITEM)),
    Case("200-item list, nested", f"1. top\n{f'   {_ITEM}' * 200}", _words(f"   {_ITEM}")),
    Case("200-row table", f"{_HEAD}{_ROW * 200}", _words(_ROW)),
    Case("200-row table that wraps", f"{_HEAD}{_WIDE_ROW * 200}", _words(_WIDE_ROW)),
    Case("beside 1,000 messages", "x", _PLAIN, messages=1000),
)


def history(messages: int) -> Iterator[Entry]:
    """That many messages, questions and answers in turn."""
    text = f"{_PROSE * 3}\n\n- a\n- b\n\n```py\nx = 1\n```\n"
    for index in range(messages):
        if index % 2:
            yield NameRow("SmolLM2 360M", ("2.4 s", "109 tok/s"))
            yield Answer(f"{index} {text}")
        else:
            yield UserTurn(f"{index} {_PROSE}", time="14:02")


class _Bench(App[None]):
    """An application that writes its frames as a terminal would get them, and drops them."""

    CSS = "TextArea { height: 3; border: none; } Transcript, Markdown { height: 1fr; }"

    def __init__(self, entries: Sequence[Entry] = (), *, stock: bool = False) -> None:
        super().__init__()
        self._entries = entries
        self._stock = stock

    def compose(self) -> ComposeResult:
        if self._stock:
            yield Markdown()
        else:
            yield Transcript(self._entries, motion=False)
        yield TextArea()

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        if isinstance(renderable, CompositorUpdate):
            renderable.render_segments(self.console)
        super()._display(screen, cast("Any", renderable))  # pyright: ignore[reportUnknownMemberType]


@asynccontextmanager
async def _running(app: _Bench) -> AsyncGenerator[Pilot[None]]:
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        yield pilot


@contextmanager
def _quiet() -> Generator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def _times(count: int, step: Callable[[int], Awaitable[None]]) -> list[float]:
    """Processor time of each step in milliseconds."""
    with _quiet():
        times: list[float] = []
        for index in range(count):
            begun = time.process_time()
            await step(index)
            times.append((time.process_time() - begun) * 1e3)
        return times


async def _append(case: Case, count: int) -> Row:
    app = _Bench(list(history(case.messages)))
    async with _running(app) as pilot:
        transcript = app.query_one(Transcript)
        reply = Answer(live=True)
        transcript.add(reply)
        transcript.append_text(reply, case.before)
        transcript.flush()
        while not transcript.settled:
            await asyncio.sleep(0)
        await pilot.pause()
        spent = 0.0

        async def token(index: int) -> None:
            nonlocal spent
            begun = time.process_time()
            transcript.append_text(reply, case.tokens[index % len(case.tokens)])
            transcript.flush()
            spent += time.process_time() - begun
            await pilot.pause()

        await _times(5, token)
        spent = 0.0
        times = await _times(count, token)
        return Row(case.name, sum(times) / count, case.target, max(times), spent / count * 1e3)


async def _append_stock(case: Case, count: int) -> float:
    app = _Bench(stock=True)
    async with _running(app) as pilot:
        markdown = app.query_one(Markdown)
        await markdown.append(case.before)
        await pilot.pause()

        async def token(index: int) -> None:
            await markdown.append(case.tokens[index % len(case.tokens)])
            await pilot.pause()

        return median(await _times(count, token))


async def _thirty_frames() -> Row:
    """A reply at 280 tokens a second, as it comes: frames gather what came meanwhile."""
    app = _Bench()
    async with _running(app) as pilot:
        transcript = app.query_one(Transcript)
        reply = Answer(live=True)
        transcript.add(reply)
        await pilot.pause()
        count = 300
        with _quiet():
            begun = time.process_time()
            due = time.perf_counter()
            for index in range(count):
                transcript.append_text(reply, _PLAIN[index % len(_PLAIN)])
                due += 1 / 280
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
            transcript.finish(reply)
            await pilot.pause()
            spent = (time.process_time() - begun) / count * 1e3
    return Row("a token of 280 a second, at 30 frames", spent, 0.5)


async def _beside(messages: int, count: int) -> list[Row]:
    """What a long chat makes of keys, focus and size, and how long it takes to open."""
    app = _Bench()
    label = f"{messages:,} messages"
    async with _running(app) as pilot:
        transcript = app.query_one(Transcript)
        with _quiet():
            begun = time.perf_counter()
            transcript.replace_all(history(messages))
            await pilot.pause()
            opened = (time.perf_counter() - begun) * 1e3
        area = app.query_one(TextArea)
        area.focus()
        await pilot.pause()

        async def key(index: int) -> None:
            await pilot.press("abcdefgh"[index % 8])

        async def focus(index: int) -> None:
            (transcript if index % 2 else area).focus()
            await pilot.pause()

        async def resize(index: int) -> None:
            await pilot.resize_terminal(SIZE[0] - 10 * (index % 3), SIZE[1])
            await pilot.pause()

        async def scroll(index: int) -> None:
            transcript.scroll_relative(y=-1, animate=False, immediate=True)
            await pilot.pause()

        async def page(index: int) -> None:
            transcript.scroll_relative(y=-35, animate=False, immediate=True)
            await pilot.pause()

        rows = [Row(f"open {label} (wall time)", opened, 150.0)]
        for name, step, target in (
            ("a key beside", key, 5.0),
            ("a change of focus beside", focus, 20.0),
            ("a resize of", resize, 40.0),
            ("a line scrolled in", scroll, None),
            ("a new page scrolled in", page, None),
        ):
            await _times(3, step)
            times = await _times(count, step)
            rows.append(Row(f"{name} {label}", sum(times) / count, target, max(times)))
        return rows


async def _measure(quick: bool, told: Callable[[Row], None]) -> list[Row]:
    count = 40 if quick else 150
    rows: list[Row] = []

    def tell(row: Row) -> None:
        rows.append(row)
        told(row)

    for case in CASES:
        row = await _append(case, count)
        if not quick and not case.messages:
            row = replace(row, textual=await _append_stock(case, 3))
        tell(row)
    tell(await _thirty_frames())
    for row in await _beside(1000 if quick else 10_000, 12 if quick else 40):
        tell(row)
    return rows


def calibrate() -> float:
    """Wall time of an interpreter that does nothing, in milliseconds: 11 on the machine of the targets."""
    times: list[float] = []
    for _ in range(5):
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-I", "-c", "pass"], check=True)
        times.append((time.perf_counter() - begun) * 1e3)
    return median(times)


def _line(row: Row) -> str:
    target = "" if row.target is None else f"at most {row.target:g}"
    verdict = {None: "", True: "reached", False: "missed"}[row.reached]
    stock = "" if row.textual is None else f"Textual's Markdown {row.textual:,.0f}"
    worst = "" if row.worst is None else f"worst {row.worst:.1f}"
    return f"{row.name:<42}{row.ms:>8.2f} ms  {worst:<12}{target:<14}{verdict:<9}{stock}".rstrip()


def main(as_json: bool = False, quick: bool = False) -> int:
    """Measure and print; 0. `quick` takes some seconds and leaves Textual's widget out."""
    calibration = calibrate()

    def told(row: Row) -> None:
        if not as_json:
            print(_line(row), flush=True)

    rows = asyncio.run(_measure(quick, told))
    if as_json:
        found = [{**asdict(row), "reached": row.reached} for row in rows]
        print(json.dumps({"size": SIZE, "interpreter_ms": calibration, "rows": found}, indent=2))
    else:
        print(f"an interpreter that does nothing: {calibration:.1f} ms (11 where the targets are from)")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    raise SystemExit(main(as_json=given.json, quick=given.quick))

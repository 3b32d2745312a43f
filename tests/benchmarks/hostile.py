"""How long a key waits while hostile text streams into the screen: the longest turn of the event loop.

Run on a quiet machine, from the repository:
    python -m tests.benchmarks.hostile [SHAPES] [CHARACTERS]
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable
from random import Random
from time import perf_counter

from tests.app.tui.pilot import running
from tests.growth.shapes import BLANKS, CODE, MARKDOWN, MODEL, SIGNS, mixed, shapes

TOKEN = 4
KNOWN = ("'[a](b)' repeated", "'_a*' repeated", "'[a][' repeated", "'<a@b.c>' repeated", "'> ' repeated")


def sources(count: int, size: int) -> Iterable[tuple[str, str]]:
    """Names and texts: a fence of empty lines, known ones, and a choice of the others."""
    for language in ("c", "python", "html"):
        yield f"{size:,} empty lines of {language}", f"```{language}\n" + "\n" * size
    fragments = (*MARKDOWN, *BLANKS, *SIGNS, *MODEL, *CODE)
    every = [*shapes(fragments), *mixed(fragments, seed=1, count=400)]
    chosen = [shape for shape in every if shape.name in KNOWN]
    for shape in [*chosen, *Random(1).sample(every, max(0, count - len(chosen)))]:
        yield shape.name, shape.make(size)


async def longest_wait(text: str) -> tuple[float, float]:
    """Milliseconds that a key written during the stream waits at most, and the seconds of the stream."""
    async with running([[text[at : at + TOKEN] for at in range(0, len(text), TOKEN)]]) as run:
        draft, waits = run.app.parts.draft, list[float]()
        # Beside it: a pilot's key comes back once nothing is left to do, which is after the stream.
        sending = asyncio.create_task(run.send("hi"))
        while not run.app.chat.busy:
            await asyncio.sleep(0)
        began = perf_counter()
        while run.app.chat.busy:
            start = perf_counter()
            draft.insert_text("x")
            await asyncio.sleep(0)
            run.app.screen.refresh()
            await asyncio.sleep(0.005)
            waits.append((perf_counter() - start - 0.005) * 1e3)
        took = perf_counter() - began
        await sending
        return max(waits), took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shapes", nargs="?", type=int, default=20)
    parser.add_argument("characters", nargs="?", type=int, default=24_000)
    given = parser.parse_args()
    for name, text in sources(given.shapes, given.characters):
        wait, took = asyncio.run(longest_wait(text))
        print(f"{wait:7.0f} ms at most, {took:5.1f} s of stream: {name}", flush=True)


if __name__ == "__main__":
    main()

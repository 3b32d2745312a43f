"""What the whole program costs in a terminal: streaming while a person scrolls, the first frame, long
chats, reading ahead, and the prompt of the line-by-line face.

Run on a quiet machine, from the repository, in an environment with the starter model:
    python -m tests.benchmarks.tui [--pairs N] [--quick] [--only NAMES] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import select
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from app.sessions.items import Message, output_text, user_message
from app.sessions.store.rows import Change, SessionRecord
from app.sessions.store.store import STORE_FILE, Store
from backend.bench.cases import REFERENCE_S, ResultRow, row_of
from backend.bench.fresh import bare_interpreter
from backend.bench.pairs import LEAST_PAIRS, MIN_S, Estimate, Target, compare, estimate, sample
from backend.bench.report import line
from backend.bench.workload import mean_time
from backend.chat_engine import LoadSpec, Request
from backend.engines.host import EngineHost
from backend.models import starter_model
from backend.types import ChatOutcome, GenerationConfig
from tests.app.terminal_process import ROOT
from tests.benchmarks.on_pty import Program, cpu_seconds, program
from tests.benchmarks.startup import FIRESIDE, clean_environment
from tests.benchmarks.times import timed
from tests.benchmarks.tui_inside import Plan, Told, command

COMPOSER = b"/ command"
"""What the empty composer shows."""
PROMPT = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}".encode()
"""What the line-by-line face shows before one writes."""
BARE = """
from textual.app import App
from textual.widgets import Static
class Bare(App):
    def compose(self):
        yield Static("here it is")
Bare().run()
"""
ASKED = "Tell me of the harbour."
PROSE = "The quick **brown** fox jumps over the `lazy` dog and keeps running through the forest.\n\n"
SENTENCE = "In the evening the old man put another log on the fire, and told them how the harbour looked. "
PAGE_UP, PAGE_DOWN, OLDEST, NEWEST = "\x1b[5~", "\x1b[6~", "\x1b[1;5H", "\x1b[1;5F"
KEYS_EVERY_S = 0.25
"""How often a person who scrolls presses a key."""
REPLY_PATIENCE_S = 90
SETTLE_S = 0.3
"""After a reply, so that what the screen still does is not the other side's cost."""
OPEN_S, PROMPT_S = 0.15, 0.3
WRITTEN_WORDS, PAUSES, PAUSE_S, WORD_S = 200, 4, 1.0, 0.02
CELLS = {"stream": 2048, "ahead": 6144}


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    pairs: int
    tokens: int
    """Of a reply, about."""
    messages: int
    """In a long chat."""
    ahead_pairs: int


QUICK = Size(pairs=3, tokens=96, messages=1_000, ahead_pairs=1)


@dataclass(frozen=True)
class Bench:
    """What all cases share."""

    size: Size
    runner: asyncio.Runner
    unit: Estimate
    """Of `python -c pass`."""
    model: str
    environ: Mapping[str, str]
    home: Path

    @property
    def data(self) -> Path:
        """The folder that holds the chats."""
        return self.home / "data"

    def took(self, name: str, seconds: Callable[[], float], limit_s: float, note: str = "") -> ResultRow:
        """The row of a time, taken `pairs` times."""
        return timed("tui", name, sample(seconds, count=self.size.pairs), self.unit, limit_s, note)


# ---- streaming -----------------------------------------------------------------------------


def streaming(bench: Bench) -> Iterator[ResultRow]:
    """The engine's speed while the screen shows its reply in a long chat and a person scrolls, against
    the same engine child with nobody looking."""
    reply = PROSE * (bench.size.tokens // 23)
    store_chat(bench, "sess_stream", 1_000)
    cells = ("--ctx", str(CELLS["stream"]))
    costs: list[tuple[float, float]] = []
    with watched(bench, Plan(-1, reply, ASKED), "--resume", "sess_stream", *cells) as face:
        load_all(face)

        def ours() -> float:
            size, used = face.program.size, cpu_seconds(face.program.face)
            told = face.ask("x", scrolling=True)
            time.sleep(SETTLE_S)
            spent = cpu_seconds(face.program.face) - used
            costs.append(((face.program.size - size) / told.tokens, 1000 * spent / told.tokens))
            return told.per_second

        with headless(bench, reply) as theirs:
            result = compare(ours, theirs, pairs=bench.size.pairs)
    size, spent = (median(values) for values in zip(*costs, strict=True))
    note = f"{size:.0f} bytes and {spent:.1f} ms of the screen's processor time per token, keys included"
    name = "a reply into 1,000 messages while a person scrolls, against headless"
    yield row_of("tui", name, "tok/s", result, Target("at least", 0.95), note)


def load_all(face: Watched) -> None:
    """Scroll up until nothing older comes, and back."""
    for _ in range(12):
        face.program.send(OLDEST)
        face.quiet()
    face.program.send(NEWEST)
    face.quiet()


@contextmanager
def headless(bench: Bench, reply: str) -> Generator[Callable[[], float]]:
    """What gives the tokens per second of the same request to an engine child of our own."""
    engine = EngineHost()
    cells = CELLS["stream"]
    bench.runner.run(engine.load(LoadSpec(bench.model, {"slots": 4, "max_seq": cells})))

    async def once() -> float:
        messages = ({"role": "user", "content": ASKED},)
        request = Request(messages=messages, config=GenerationConfig(), forced=reply)
        async for pieces in engine.submit(request):
            for piece in pieces:
                if isinstance(piece, ChatOutcome):
                    return piece.tokens_per_second
        raise AssertionError("a reply had no outcome")

    yield lambda: bench.runner.run(once())
    bench.runner.run(engine.unload())


class Watched:
    """`fireside` with its chat open and its model loaded, which tells how its replies went."""

    def __init__(self, program: Program, told: int) -> None:
        self.program = program
        self._told = told

    def ask(self, words: str, *, scrolling: bool = False) -> Told:
        """Send a message, and wait for the end of its reply."""
        size = self.program.size
        self.program.send(words)
        self.program.shows(words[-1:].encode(), size)
        self.program.send("\r")
        return self.answered(scrolling=scrolling)

    def answered(self, *, scrolling: bool = False) -> Told:
        """Wait for the end of a reply; a person who is `scrolling` presses keys meanwhile."""
        keys = itertools.cycle([PAGE_UP] * 3 + [PAGE_DOWN] * 3)
        until = time.monotonic() + REPLY_PATIENCE_S
        while not select.select([self._told], [], [], KEYS_EVERY_S)[0]:
            if time.monotonic() > until:
                raise AssertionError(f"no reply came; at last:\n{self.program.display.raw[-2000:]!r}")
            if scrolling:
                self.program.send(next(keys))
        self.program.send(NEWEST)
        return Told(**json.loads(os.read(self._told, 4096)))

    def quiet(self) -> None:
        """Wait until nothing is drawn any more."""
        size = -1
        while size != self.program.size:
            size = self.program.size
            time.sleep(0.1)


@contextmanager
def watched(bench: Bench, plan: Plan, *arguments: str, **settings: str) -> Generator[Watched]:
    """A program that follows `plan`, once its model is loaded."""
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    planned = Plan(writing, plan.forced, plan.asked)
    environ = {**bench.environ, **settings}
    try:
        with program(command(planned, *arguments), environ) as face:
            face.shows(b"SmolLM2")
            made = Watched(face, reading)
            made.quiet()
            yield made
    finally:
        os.close(reading)
        os.close(writing)


# ---- beginning -----------------------------------------------------------------------------


def beginning(bench: Bench) -> Iterator[ResultRow]:
    """The first frame against a bare Textual app's, and a key that is typed right then."""
    ours = repeated(bench, (*FIRESIDE,), COMPOSER)
    theirs = repeated(bench, (sys.executable, "-c", BARE), b"here it is")
    result = compare(ours, theirs, pairs=bench.size.pairs)
    yield row_of("tui", "first frame, against a bare Textual app's", "ms", result, Target("at most", 1.5))
    early: list[bool] = []

    def typed() -> float:
        with program(FIRESIDE, bench.environ) as face:
            face.shows(COMPOSER)
            size = face.size
            pressed = face.send("Q")
            shown = face.shows(b"Q", size)
            early.append(face.shows(b"SmolLM2", size) > shown)
            return shown - pressed

    row = bench.took("a key typed at the first frame is shown", typed, 0.1)
    yield noted(row, f"before the model was loaded in {sum(early)} of {len(early)}")


def repeated(bench: Bench, arguments: tuple[str, ...], text: bytes) -> Callable[[], float]:
    """Milliseconds from a program's start to a text, by as many runs as last half a second."""
    return lambda: 1000 * mean_time(lambda: first(bench, arguments, text), MIN_S)


def first(bench: Bench, arguments: tuple[str, ...], text: bytes) -> float:
    """Seconds from a program's start to a text."""
    with program(arguments, bench.environ) as face:
        return face.shows(text) - face.began


def noted(row: ResultRow, note: str) -> ResultRow:
    """`row` with a note."""
    return ResultRow(**{**vars(row), "note": note})


# ---- long chats ----------------------------------------------------------------------------


def long_chats(bench: Bench) -> Iterator[ResultRow]:
    """A stored chat of 10,000 messages: at the start, and opened in the running program."""
    chats = [f"sess_long{number}" for number in range(bench.size.pairs + 2)]
    for chat in chats:
        store_chat(bench, chat, bench.size.messages)
    store_chat(bench, "sess_short", 1)
    turn = itertools.count()

    def resumed(chat: str) -> tuple[tuple[str, ...], bytes]:
        return (*FIRESIDE, "--resume", chat), newest(chat)

    def beyond(other: tuple[tuple[str, ...], bytes]) -> float:
        runs = (resumed(chats[0]), other)
        order = (0, 1) if next(turn) % 2 else (1, 0)
        seconds = {index: first(bench, *runs[index]) for index in order}
        return seconds[0] - seconds[1]

    what = f"a chat of {bench.size.messages:,} messages"
    name = f"--resume with {what}, beyond one of one message"
    yield bench.took(name, lambda: beyond(resumed("sess_short")), OPEN_S)
    name = f"--resume with {what}, beyond the first frame of an empty one"
    yield bench.took(name, lambda: beyond((FIRESIDE, COMPOSER)), OPEN_S)
    with program((*FIRESIDE, "--no-tools"), bench.environ) as face:
        face.shows(b"SmolLM2")
        unopened = iter(itertools.cycle(chats))

        def opened() -> float:
            chat = next(unopened)
            size = face.size
            face.send(f"/resume {chat}")
            face.shows(chat[-1:].encode(), size)
            time.sleep(SETTLE_S)
            size = face.size
            pressed = face.send("\r")
            return face.shows(newest(chat), size) - pressed

        yield bench.took(f"open {what} in the running program", opened, OPEN_S)


def newest(chat: str) -> bytes:
    """A word of the last message of a stored chat."""
    return f"newest_{chat}".encode()


def store_chat(bench: Bench, chat: str, messages: int, words: str = SENTENCE) -> None:
    """Put a chat into the store."""

    async def work() -> None:
        bench.data.mkdir(exist_ok=True)
        store = Store(bench.data / STORE_FILE)
        items = [
            user_message(f"{number} {words}")
            if number % 2 == 0
            else Message(role="assistant", content=(output_text(f"{number} {words * 2}"),))
            for number in range(messages - 1)
        ]
        items.append(Message(role="assistant", content=(output_text(newest(chat).decode()),)))
        await store.add_session(SessionRecord(id=chat, agent={"name": "fireside"}, title=f"of {chat}"))
        await store.apply(chat, Change(items=items))
        await store.close()

    bench.runner.run(work())


# ---- reading ahead -------------------------------------------------------------------------


def reading_ahead(bench: Bench) -> Iterator[ResultRow]:
    """The wait for a reply to a message of 200 words that was typed with pauses, with the setting and
    without, in a chat of 2,000 tokens: the first one after the start, and later ones."""
    plan, cells = Plan(-1, "Yes."), ("--ctx", str(CELLS["ahead"]), "--no-tools")
    for chat in ("sess_ahead", "sess_plain"):
        store_chat(bench, chat, 62)
    with contextlib.ExitStack() as stack:

        def opened(chat: str, **settings: str) -> Callable[[], float]:
            face = stack.enter_context(watched(bench, plan, "--resume", chat, *cells, **settings))
            return lambda: written(face)

        ours = opened("sess_ahead", FIRESIDE_TYPE_AHEAD="true")
        theirs = opened("sess_plain")
        began = (ours(), theirs())
        name = "first message in a resumed chat of 2,000 tokens, type_ahead on and off"
        yield ResultRow("tui", name, "ms", 1000 * began[0], 1000 * began[1], estimate([began[0] / began[1]]))
        taken = [
            (theirs(), ours())[::-1] if turn % 2 else (ours(), theirs())
            for turn in range(bench.size.ahead_pairs)
        ]
        ratio = estimate([a / b for a, b in taken])
        a, b = (1000 * median(values) for values in zip(*taken, strict=True))
        yield ResultRow("tui", "a later message of 200 words, type_ahead on and off", "ms", a, b, ratio)


def written(face: Watched) -> float:
    """Write 200 words as a person does, send them, and wait; seconds to the first of the reply."""
    words = (SENTENCE * WRITTEN_WORDS).split()[:WRITTEN_WORDS]
    for number, word in enumerate(words):
        face.program.send(f"{word} ")
        time.sleep(WORD_S)
        if (number + 1) % (WRITTEN_WORDS // PAUSES) == 0:
            time.sleep(PAUSE_S)
    pressed = face.program.send("\r")
    return face.answered().first - pressed


# ---- the line-by-line face -----------------------------------------------------------------


def prompting(bench: Bench) -> Iterator[ResultRow]:
    """From the start of the line-by-line face to its prompt."""
    once = (*FIRESIDE, "repl")
    yield bench.took("the prompt of `fireside repl`", lambda: first(bench, once, PROMPT), PROMPT_S)


CASES = {
    "stream": streaming,
    "first": beginning,
    "long": long_chats,
    "repl": prompting,
    "ahead": reading_ahead,
}


def measured(bench: Bench, name: str) -> Iterator[ResultRow]:
    """The rows of a case; one that cannot be measured tells why, and the next ones follow."""
    try:
        yield from CASES[name](bench)
    except AssertionError as err:
        yield ResultRow("tui", f"{name}: not measured", note=str(err).partition("\n")[0])


def names(text: str) -> list[str]:
    """Names of cases, with commas."""
    found = [name.strip() for name in text.split(",") if name.strip()]
    if wrong := [name for name in found if name not in CASES]:
        raise argparse.ArgumentTypeError(f"{wrong[0]!r}; there are {', '.join(CASES)}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=LEAST_PAIRS)
    parser.add_argument("--quick", action="store_true", help="few and small, which supports no claim")
    parser.add_argument("--only", type=names, default=list(CASES), help=f"of {', '.join(CASES)}")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    size = QUICK if options.quick else Size(options.pairs, 184, 10_000, 3)
    rows: list[ResultRow] = []
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        home = Path(folder)
        os.chdir(home)
        environ = {
            **clean_environment(folder),
            "FIRESIDE_DATA": str(home / "data"),
            "PYTHONPATH": str(ROOT),
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
        }
        unit = sample(lambda: mean_time(bare_interpreter, MIN_S), count=1 if options.quick else 5)
        bench = Bench(size, runner, unit, str(starter_model()), environ, home)
        if not options.json:
            python, reference = 1000 * unit.median, 1000 * REFERENCE_S
            print(f"`python -c pass` {python:.1f} ms ({reference:.0f} where the limits are from)", flush=True)
        for name in options.only:
            for row in measured(bench, name):
                rows.append(row)
                if not options.json:
                    print(line(row), flush=True)
        os.chdir(ROOT)
    if options.json:
        print(json.dumps({"python_s": unit.median, "rows": [asdict(row) for row in rows]}, indent=2))


if __name__ == "__main__":
    main()

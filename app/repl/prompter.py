"""The line being written, by prompt_toolkit. One file, because it is one buffer and its keys.

One row that may be a draft, a live reply, or a question.
Finished rows are printed above it; nothing above it is ever drawn again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import IO, TYPE_CHECKING, Any, TextIO, cast

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application, run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import ConditionalCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts import CompleteStyle

from app.frontend.draft import as_keys, blocks_of
from app.frontend.paste import Folds, is_long, normalized
from app.repl.beginnings import Beginnings
from app.repl.cluster_keys import add_cluster_keys
from app.repl.clusters import Clusters
from app.repl.console import ARM_S, Ended, Line
from app.repl.keys_input import KeysInput
from app.terminal.output import sanitize
from app.terminal.prompt_style import prompt_depth, prompt_style

if TYPE_CHECKING:
    from prompt_toolkit.completion import Completer

    from app.markdown.sgr import Span, TerminalStyle

FRAME_S = 1 / 30
_BARE: dict[str, Any] = {"set_exception_handler": False, "handle_sigint": False}


class LinearOutput(Vt100_Output):
    """A terminal on which bracketed paste is switched on once: no paste may meet it switched off."""

    def enable_bracketed_paste(self) -> None:
        pass

    def disable_bracketed_paste(self) -> None:
        pass

    def hold_paste(self, on: bool) -> None:
        """Switch it on at the beginning, off at the end."""
        self.write_raw("\x1b[?2004h" if on else "\x1b[?2004l")
        self.flush()


class Prompter:
    """Reads lines and prints rows above them. One at a time reads."""

    def __init__(self, out: IO[str], ink: TerminalStyle, history: History, completer: Completer) -> None:
        pty = Vt100_Output.from_pty(cast("TextIO", out))
        self.output = LinearOutput(cast(Any, out), pty.get_size, term=pty.term, enable_cpr=False)
        self.input = KeysInput(sys.stdin)
        self.folds = Folds()
        self.live: Sequence[Span] | None = None
        """What the row shows while the draft is empty; None shows the prompt."""
        self.status = ""
        """Behind the prompt while the draft is empty: a word about what goes on."""
        self.interrupted: Callable[[], bool] = lambda: False
        """Called on Ctrl-C: True where it was the reply that stopped."""
        self.cleared: Callable[[], None] = lambda: None
        """Called when Ctrl-C met an empty line and nothing runs."""
        self.lent: tuple[int, int] | None = None
        self.emptied: Callable[[], bool] = lambda: False
        """Asked whenever the draft became empty: True wakes whoever reads."""
        self.drafted: Callable[[str], None] = lambda text: None
        """Told what the draft has become."""
        self.answers: Callable[[], bool] = lambda: False
        """Whether Tab leads to a waiting question."""
        self._ink = ink
        self._beginnings = Beginnings()
        self._raw = contextlib.ExitStack()
        self._reading: asyncio.Task[Line | Ended] | None = None
        self._asking: Application[Any] | None = None
        self._session: PromptSession[Any] = PromptSession(
            message=self._message,
            multiline=True,
            prompt_continuation=lambda width, number, is_soft: "  ",
            placeholder=self._placeholder,
            history=history,
            completer=ConditionalCompleter(completer, Condition(self._may_complete)),
            complete_while_typing=Condition(self._completes),
            complete_style=CompleteStyle.COLUMN,
            reserve_space_for_menu=6,
            input_processors=[Clusters()],
            key_bindings=self._keys(),
            erase_when_done=True,
            search_ignore_case=True,
            tempfile_suffix=".md",
            input=self.input,
            output=self.output,
            style=prompt_style(ink.palette),
            include_default_pygments_style=False,
            color_depth=prompt_depth(ink.palette),
        )
        self._session.app.min_redraw_interval = FRAME_S
        self._session.default_buffer.on_text_changed += self._changed
        self._session.default_buffer.on_text_insert += self._inserted

    # ---- as a whole ------------------------------------------------------------------------

    def __enter__(self) -> Prompter:
        # Between two lines the terminal stays raw: what is typed then is not echoed into the answer.
        self._raw.enter_context(self.input.raw_mode())
        self.output.hold_paste(True)
        return self

    def __exit__(self, *reason: object) -> None:
        self.output.hold_paste(False)
        self._raw.close()

    def cooked(self) -> AbstractContextManager[tuple[int, int] | None]:
        """Within, the terminal is as other programs expect it; the descriptors for their output."""

        @contextlib.contextmanager
        def within() -> Any:
            self.output.hold_paste(False)
            with self.input.cooked_mode():
                yield self.lent
            self.output.hold_paste(True)

        return within()

    piped = False
    draws = True

    def rest(self, busy: bool) -> None:
        """A reply began or ended: the row shows it by itself."""

    @property
    def columns(self) -> int:
        """Of the screen, at least 20."""
        return max(20, self.output.get_size().columns)

    def restyle(self, ink: TerminalStyle) -> None:
        """Use another theme."""
        self._ink = ink
        self._session.style = prompt_style(ink.palette)

    # ---- printing --------------------------------------------------------------------------

    def print(self, rows: Sequence[str]) -> None:
        """Print rows for good, above the line being written."""
        if not rows:
            return
        app = self._asking or self._session.app
        running = app if app.is_running and not app.is_done else None
        if running is not None:
            running.renderer.erase(leave_alternate_screen=False)
        self.output.write_raw("".join(f"{row}\n" for row in rows))
        self.output.flush()
        if running is not None:
            running.invalidate()

    def send_sequence(self, sequence: str) -> None:
        """Write a control sequence that moves nothing."""
        self.output.write_raw(sequence)
        self.output.flush()

    def show(self, live: Sequence[Span] | None) -> None:
        """Show a live row where there is no draft; None shows the prompt again."""
        self.live = live
        self.refresh()

    def refresh(self) -> None:
        """Draw the row anew."""
        if self._session.app.is_running:
            self._session.app.invalidate()

    # ---- reading ---------------------------------------------------------------------------

    @property
    def draft(self) -> str:
        """What is being written, pastes folded."""
        return self._session.default_buffer.text

    def wake(self) -> None:
        """End `read` without a line; the draft comes back with the next one."""
        self._end(Ended.WOKEN)

    def insert(self, text: str, *, typed: bool = True) -> None:
        """Put text into the draft that is written now, or else into that of the next line."""
        if self._session.app.is_running and not self._session.app.is_done:
            self._insert(self._session.default_buffer, normalized(text), pasted=not typed)
        else:
            self._put_by(normalized(text), typed=typed)

    def take_draft(self) -> Line:
        """The draft that reading ended with; the next line begins without it."""
        line = self._line(self._next, typed=self._next_typed)
        self._next, self._place, self._next_typed = "", None, True
        return line

    def _line(self, shown: str, *, typed: bool) -> Line:
        """A draft as it leaves, its pastes whole."""
        typed = typed and not self.folds.begins(shown)
        blocks = blocks_of(shown, self.folds, typed=typed)
        line = Line(self.folds.unfold(shown), shown, tuple(blocks), typed)
        self.folds.clear()
        return line

    def _put_by(self, text: str, *, typed: bool) -> None:
        """Text for the line that is written next."""
        if not self._next.strip() and text.strip():
            self._next_typed = typed
        self._next, self._place = self._next + text, None

    def _insert(self, buffer: Buffer, text: str, *, pasted: bool) -> None:
        self._beginnings.pasting = pasted
        buffer.insert_text(text)
        self._beginnings.pasting = False

    async def begin(self) -> None:
        """Show the prompt and take keys; what is written is the next `read`'s."""
        shown = asyncio.Event()

        def tell(app: Application[Any]) -> None:
            shown.set()

        self._session.app.after_render += tell
        self._reading = asyncio.create_task(self._read())
        waiting = asyncio.create_task(shown.wait())
        await asyncio.wait([self._reading, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()

    async def read(self) -> Line | Ended:
        """The next line of the person, or why there is none."""
        reading, self._reading = self._reading, None
        return await (reading or self._read())

    async def _read(self) -> Line | Ended:
        default, self._next = self._next, ""
        place, self._place = self._place, None
        self._beginnings.reset(default, typed=self._next_typed)
        self._next_typed = True
        start = Document(default, len(default) if place is None else min(place, len(default)))
        found = await self._session.prompt_async(
            default=start, set_exception_handler=False, handle_sigint=False
        )
        if isinstance(found, Ended):
            return found
        line = self._line(str(found), typed=self._submitted_typed)
        self.drafted("")  # the field was emptied without a word
        return line

    async def ask(self, message: Sequence[Span], default: str = "", *, armed: bool = False) -> str | None:
        """One more line, about something else than the chat; None on Ctrl-C and Ctrl-D.

        With `armed`, whatever was typed before it appeared and shortly after is dropped.
        """
        keys = KeyBindings()
        add_cluster_keys(keys)

        @keys.add("c-c")
        def _none(event: KeyPressEvent) -> None:  # pyright: ignore[reportUnusedFunction]
            self.interrupt()

        @keys.add("<bracketed-paste>")
        def _paste(event: KeyPressEvent) -> None:  # pyright: ignore[reportUnusedFunction]
            text = sanitize(normalized(event.data))
            if armed:
                # What was written elsewhere is a part of the message, and answers nothing.
                self._put_by(event.current_buffer.text + text, typed=False)
                event.current_buffer.reset()
            else:
                event.current_buffer.insert_text(" ".join(text.split("\n")).strip())

        if armed:
            clear_typeahead(self.input)
            self.input.deaf_until = time.monotonic() + ARM_S
        session: PromptSession[Any] = PromptSession(
            message=_fragments(message),
            input_processors=[Clusters()],
            key_bindings=keys,
            input=self.input,
            output=self.output,
            style=self._session.style,
            include_default_pygments_style=False,
            color_depth=self._session.color_depth,
        )
        self._asking, self.input.whole = session.app, True
        try:
            found = await session.prompt_async(
                default=default, set_exception_handler=False, handle_sigint=False
            )
        except EOFError:
            return None
        finally:
            self._asking, self.input.whole = None, False
        return None if found is None else str(found)

    # ---- parts -----------------------------------------------------------------------------

    _next = ""
    _place: int | None = None
    _next_typed = True
    _submitted_typed = True

    def _end(self, reason: Ended) -> None:
        app = self._session.app
        if app.is_running and not app.is_done:
            buffer = self._session.default_buffer
            self._next, self._place = buffer.text, buffer.cursor_position
            self._next_typed = self._beginnings.typed
            app.exit(result=reason)
            buffer.reset()

    def _message(self) -> StyleAndTextTuples:
        if self.live is not None and not self.draft:
            return _fragments(self.live)
        return [("class:prompt", f"{self._ink.glyphs.prompt} ")]

    def _placeholder(self) -> StyleAndTextTuples:
        return [("class:placeholder", self.status)] if self.live is None else []

    def _completes(self) -> bool:
        before = self._session.default_buffer.document.current_line_before_cursor
        word = before.rpartition(" ")[2]
        return self._is_command() or (word.startswith("@") and len(word) > 1)

    def _may_complete(self) -> bool:
        """A path that was pasted is no command that is begun."""
        return not self.draft.startswith("/") or self._completes()

    def _is_command(self) -> bool:
        text = self.draft
        return (
            text.startswith("/") and not text.startswith("//") and "\n" not in text and self._beginnings.typed
        )

    def _changed(self, buffer: Buffer) -> None:
        self._beginnings.changed(buffer)
        self.drafted(self._kept(buffer))
        if not buffer.text and self.emptied():
            self.wake()

    def _inserted(self, buffer: Buffer) -> None:
        self._beginnings.inserted(buffer)
        self.drafted(self._kept(buffer))

    def _kept(self, buffer: Buffer) -> str:
        """The draft as keys would have to write it, for a place that keeps only text."""
        return as_keys(buffer.text, self.folds, typed=self._beginnings.typed)

    def _is_behind_fold(self) -> bool:
        document = self._session.default_buffer.document
        return bool(self.folds.word_before(document.text_before_cursor))

    def _folded(self, text: str) -> str:
        return self.folds.fold(text) if is_long(text) else text

    def remember(self, text: str) -> bool:
        """Let the key up bring this text."""
        history = self._session.history
        if history.get_strings()[-1:] != [text]:
            history.append_string(text)
        return True

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        add_cluster_keys(keys)
        tab_answers = Condition(lambda: self.answers())

        @keys.add("enter")
        def _enter(event: KeyPressEvent) -> None:  # pyright: ignore[reportUnusedFunction]
            buffer = event.current_buffer
            buffer.complete_state = None
            if buffer.document.char_before_cursor == "\\":
                buffer.delete_before_cursor()
                buffer.newline(copy_margin=False)
            elif buffer.text.strip():
                self.remember(self._kept(buffer))
                self._submitted_typed = self._beginnings.typed
                event.app.exit(result=buffer.text)
                buffer.reset()

        @keys.add("c-j")
        @keys.add("escape", "enter")
        def _newline(event: KeyPressEvent) -> None:  # pyright: ignore[reportUnusedFunction]
            event.current_buffer.newline(copy_margin=False)

        @keys.add("<bracketed-paste>")
        def _paste(event: KeyPressEvent) -> None:  # pyright: ignore[reportUnusedFunction]
            self._insert(event.current_buffer, self._folded(normalized(event.data)), pasted=True)

        @keys.add("c-h", filter=Condition(self._is_behind_fold))
        def _unfold(event: KeyPressEvent) -> None:  # pyright: ignore[reportUnusedFunction]
            buffer = event.current_buffer
            word = self.folds.word_before(buffer.document.text_before_cursor) or ""
            buffer.delete_before_cursor(count=len(word))

        @keys.add("c-g")
        @keys.add("c-x", "c-e")
        def _edit(event: KeyPressEvent) -> None:  # pyright: ignore[reportUnusedFunction]
            self._end(Ended.EDIT)

        @keys.add("c-c")
        def _interrupt(event: KeyPressEvent) -> None:  # pyright: ignore[reportUnusedFunction]
            self.interrupt()

        @keys.add("c-d", filter=Condition(lambda: not self.draft))
        def _leave(event: KeyPressEvent) -> None:  # pyright: ignore[reportUnusedFunction]
            event.app.exit(result=Ended.LEAVE)

        @keys.add("c-z")
        def _suspend(event: KeyPressEvent) -> None:  # pyright: ignore[reportUnusedFunction]
            run_in_terminal(self._stop)

        @keys.add("tab", filter=tab_answers)
        def _answer(event: KeyPressEvent) -> None:  # pyright: ignore[reportUnusedFunction]
            self.wake()

        return keys

    def _stop(self) -> None:
        """Stop as a job of the shell; the engine, in a group of its own, runs on."""
        self.output.hold_paste(False)
        os.kill(0, signal.SIGTSTP)
        self.output.hold_paste(True)

    def interrupt(self) -> None:
        """What Ctrl-C does: stop the reply, else clear the draft, else hint, then leave."""
        if self._asking is not None:
            if self._asking.is_running and not self._asking.is_done:
                self._asking.exit(result=None)
            return
        if self.interrupted():
            return
        if self.draft:
            self._session.default_buffer.reset()
            self.folds.clear()
            self.drafted("")  # a field that is reset tells nobody
            if self.emptied():
                self.wake()
        else:
            self.cleared()

    def cancel_ask(self) -> None:
        """End `ask` without an answer: nobody waits for it any more."""
        if self._asking is not None:
            self.interrupt()

    def leave(self) -> None:
        """End reading as Ctrl-D does."""
        self._end(Ended.LEAVE)


def _fragments(spans: Sequence[Span]) -> StyleAndTextTuples:
    """Spans as prompt_toolkit takes them: tones are classes there."""
    found: StyleAndTextTuples = []
    for text, style in spans:
        words = [f"class:{word[1:]}" if word.startswith("$") else word for word in style.split()]
        # Without that a fragment takes the style of prompts.
        found.append((" ".join(["noinherit", *(word for word in words if word != "on")]), text))
    return found

"""The loop of the chat line by line: reads a line, acts on it, and lets nothing but leaving end it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Generator

from app.exits import ExitCode, Failure, explain, session_failure
from app.frontend.draft import Wish, wish_of
from app.repl.console import Ended, Line, PlainConsole
from app.repl.face import ReplFace
from app.repl.prompter import Prompter
from app.sessions.errors import FiresideError
from app.terminal.output import notify

LEAVE_HINT = "Press Ctrl-C again to quit, or Ctrl-D."


class Loop:
    """Runs one face on its console until the person leaves."""

    def __init__(self, face: ReplFace, console: Prompter | PlainConsole) -> None:
        self.face = face
        self.console = console
        self.code: int = ExitCode.ANSWERED
        self.failure: Failure | None = None
        """Why the chat could not begin; it was told."""
        self._hinted = False
        self._answering = False
        self._sending = False
        self._stops = False
        """Whether the message that is being sent is to be stopped."""
        self._rested = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._opening: asyncio.Task[None] | None = None
        face.chat.changed = self._changed

    async def run(self) -> int:
        """Read and act; returns the exit code."""
        self._opening = asyncio.create_task(self.face.open())
        self._opening.add_done_callback(self._opened)
        try:
            with self._signals():
                if self.console.piped or self.face.start.resume == "":
                    await self._ready()
                if self.face.start.resume == "" and not self.face.leaving:
                    await self._command("/resume")
                while not self.face.leaving:
                    await self._step()
        except asyncio.CancelledError:
            if self.code == ExitCode.ANSWERED:
                raise
        finally:
            await self._close()
        return self.code

    # ---- one step --------------------------------------------------------------------------

    async def _step(self) -> None:
        if self.face.narrator.questions and (self.console.piped or not self.console.draft):
            await self._answer()
            return
        if self.console.piped and self.face.narrator.busy:
            self._rested.clear()
            await self._rested.wait()
            return
        if not self.face.narrator.busy:
            self.face.page.rest()
        match await self.console.read():
            case Ended.LEAVE:
                self.face.leaving = True
            case Ended.EDIT:
                await self._edit_draft()
            case Ended.WOKEN:
                if self.face.narrator.questions:
                    await self._answer()
            case Line() as line:
                self._hinted = False
                await self._act(line)

    async def _act(self, line: Line) -> None:
        # What stands folded in the draft is a paste: it is sent, and never run.
        wish = wish_of(line.shown, typed=line.typed, meant=self._is_meant)
        self._sending, self._stops = wish.kind == "message", False
        try:
            if not await self._ready() or self._stops:
                self.console.insert(line.text, typed=line.typed)
                return
            await self._do(wish, line)
        finally:
            self._sending = False

    async def _do(self, wish: Wish, line: Line) -> None:
        match wish.kind:
            case "command":
                self._echo(line.shown)
                await self._command(line.text.strip())
            case "shell":
                self._echo(line.shown)
                await self._told(self.face.run_shell(wish_of(line.text).text))
            case "message":
                # Files are those that the person named, not those that a paste speaks of.
                sent = await self._guarded(self.face.send(wish.text, line.blocks))
                self._sending = False
                if sent and wish.hint:
                    self.face.page.news(wish.hint)
                if not sent:
                    self.console.insert(line.text, typed=line.typed)
                elif self._stops:
                    await self._guarded(self.face.chat.interrupt())
                if sent and self.console.piped:
                    await self._whole_turn()
            case "nothing":
                pass

    def _is_meant(self, name: str) -> bool:
        from app.commands import is_meant

        return is_meant(self.face, name)

    def _echo(self, shown: str) -> None:
        if isinstance(self.console, Prompter):
            self.face.page.user(shown)

    async def _whole_turn(self) -> None:
        """Of piped lines each waits for the reply to the one before."""
        narrator = self.face.narrator
        while not narrator.settled:
            if narrator.questions:
                await self._answer()
                continue
            self._rested.clear()
            await self._rested.wait()
        if narrator.failed is not None and not self.code:
            error = narrator.failed
            self.code = session_failure(str(error.get("code")), str(error.get("message"))).exit_code
        elif narrator.denied and not self.code:
            self.code = ExitCode.DENIED

    async def _command(self, line: str) -> None:
        from app.commands import run_line

        await self._told(run_line(self.face, line))
        await self._guarded(self.face.chat.notice_turn())
        if self.console.piped:
            await self._whole_turn()

    async def _told(self, command: Awaitable[None]) -> None:
        """Run a command. One that fails in a pipe, where nobody reads why, is told by the exit code."""
        self.face.has_failed = False
        await self._guarded(command)
        if self.console.piped and self.face.has_failed:
            self.code = self.code or ExitCode.FAILED

    async def _guarded(self, work: Awaitable[None]) -> bool:
        """Await `work`; what goes wrong is told, and False comes back."""
        try:
            await work
        except (FiresideError, Failure, ValueError, OSError) as err:
            failure = explain(err)
            self._tell(failure)
            return False
        return True

    def _tell(self, failure: Failure) -> None:
        if self.console.piped:
            self.code = self.code or failure.exit_code
            notify(str(failure))
        else:
            self.face.page.news(str(failure), error=True)

    async def _edit_draft(self) -> None:
        draft = self.console.take_draft()
        try:
            changed = await self.face.edit_text(draft.text)
        except Failure as failure:
            self._tell(failure)
            changed = None
        text = draft.text if changed is None else changed.rstrip("\n")
        # What keys began stays a command; what the editor begins is text.
        first = draft.text.lstrip()[:1]
        self.console.insert(text, typed=draft.typed and bool(first) and text.lstrip()[:1] == first)

    async def _answer(self) -> None:
        self._answering = True
        try:
            await self._guarded(self.face.resolve())
        finally:
            self._answering = False

    # ---- what happens meanwhile ------------------------------------------------------------

    def _changed(self) -> None:
        """A turn or a question began or ended."""
        narrator = self.face.narrator
        self._rested.set()
        if not narrator.busy:
            self.face.page.rest()
        if not narrator.questions:
            self.console.rest(narrator.busy)
        if self._answering and self.face.asked not in [one.id for one in narrator.questions]:
            self.console.cancel_ask()
        elif narrator.questions and not self._answering and not self.console.draft:
            self.console.wake()

    def _opened(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is None:
            return
        failure = explain(_as_exception(task.exception()))
        self.code, self.failure = failure.exit_code, failure
        self._tell(failure)
        self.face.leaving = True
        self.console.leave()

    async def _ready(self) -> bool:
        """Wait for the chats; False where they cannot be opened."""
        assert self._opening is not None
        await asyncio.wait([self._opening])
        return not self._opening.cancelled() and self._opening.exception() is None

    # ---- stopping --------------------------------------------------------------------------

    def interrupt_reply(self) -> bool:
        """Ctrl-C stops the reply from when its message is sent: a long one is read for a while first."""
        if self._sending:
            self._stops = True
            return True
        if not self.face.narrator.busy and self.face.narrator.settled:
            return False
        task = asyncio.create_task(self.face.chat.interrupt())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    def hint_or_leave(self) -> None:
        """Ctrl-C on an empty line: a hint first, then the end."""
        if self._hinted:
            self.face.leaving = True
            self.console.leave()
            return
        self._hinted = True
        self.face.page.news(LEAVE_HINT)
        self.face.page.rest()
        self.console.rest(self.face.narrator.busy)

    @contextlib.contextmanager
    def _signals(self) -> Generator[None]:
        loop = asyncio.get_running_loop()
        main = asyncio.current_task()

        def end(code: int) -> None:
            self.code = code
            if main is not None:
                main.cancel()

        def interrupt() -> None:
            if self.face.outside or self.face.stop_shell():
                return  # It is the other program's.
            if self._answering or isinstance(self.console, Prompter):
                self.console.interrupt()
            elif not self.interrupt_reply():
                if self.console.piped:
                    end(ExitCode.INTERRUPTED)
                else:
                    self.hint_or_leave()

        handlers = {
            signal.SIGINT: interrupt,
            signal.SIGTERM: lambda: end(ExitCode.TERMINATED),
            signal.SIGHUP: lambda: end(128 + signal.SIGHUP),
        }
        # A shell starts background jobs with SIGINT ignored, and so it stays.
        taken = {
            number: handler
            for number, handler in handlers.items()
            if signal.getsignal(number) is not signal.SIG_IGN
        }
        for number, handler in taken.items():
            loop.add_signal_handler(number, handler)
        try:
            yield
        finally:
            for number in taken:
                loop.remove_signal_handler(number)

    async def _close(self) -> None:
        if self._opening is not None and not self._opening.done():
            self._opening.cancel()
            await asyncio.wait([self._opening])
        await self.face.close()


def _as_exception(error: BaseException | None) -> Exception:
    return error if isinstance(error, Exception) else RuntimeError(str(error))

"""The REPL's loop: reads a line, streams the reply, and goes on after every error."""

from __future__ import annotations

import shutil
import sys
import textwrap
from contextlib import closing
from typing import IO, TYPE_CHECKING

from app.config import Settings
from app.exits import ExitCode, explain
from app.markdown_stream import MarkdownStream
from app.repl.commands import run_command
from app.repl.line_reader import LineReader
from app.terminal import is_terminal, notify, sanitize
from backend.types import ChatOutcome, ContextOverflowError, GenerationConfig, ReasoningPiece, TextPiece

if TYPE_CHECKING:
    from backend import ChatSession, GenerativeModel

PLAIN_ROLE = "model: "
FULL = "This chat is full: /new begins a new one."


class Repl:
    """A chat with `model`, a line at a time.

    `piped` tells that no person reads along: errors then go to standard error, and into the exit code.
    """

    def __init__(
        self,
        model: GenerativeModel,
        settings: Settings,
        read: LineReader,
        out: IO[str],
        *,
        styled: bool,
        piped: bool = False,
    ) -> None:
        self.model = model
        self.settings = settings
        self.unsent = ""
        """The last message that got no reply."""
        self.leaving = False
        self._read = read
        self._out = out
        self._styled = styled
        self._piped = piped
        self._code = ExitCode.ANSWERED
        self.chat: ChatSession = self._new_chat()

    def run(self) -> ExitCode:
        """Read and answer until the person leaves; of piped lines, the first failure is the exit code."""
        self._say(f"{self.model.card.model_id}. /help lists the commands, Ctrl-D leaves.")
        hinted = False
        while not self.leaving:
            try:
                line = self._read()
                hinted = False
                if line.strip():
                    self._take(line)
            except KeyboardInterrupt:
                if hinted:
                    break
                hinted = True
                self._say("Ctrl-C once more leaves; so does Ctrl-D.")
            except EOFError:
                break
        return self._code

    def start_chat(self) -> None:
        """Begin anew, with the system prompt that now holds."""
        self.chat.close()
        self.chat = self._new_chat()

    def answer(self, text: str) -> None:
        """Send `text` and stream the reply; when there is none, `unsent` keeps the text."""
        self.unsent = text
        try:
            self._stream(text)
        except KeyboardInterrupt:
            self._say("Stopped.")
        except Exception as err:
            self._fail(err)
            return
        self.unsent = ""

    def _take(self, line: str) -> None:
        """Obey or answer a line."""
        if line.startswith("/") and not line.startswith("//"):
            self._say(run_command(self, line))
        else:
            self.answer(line.removeprefix("/") if line.startswith("//") else line)

    def _fail(self, err: Exception) -> None:
        failure = explain(err)
        has_turns = any(turn["role"] != "system" for turn in self.chat.messages)
        full = f"{FULL} " if isinstance(err, ContextOverflowError) and has_turns else ""
        if self._piped:
            self._code = self._code or failure.exit_code
            notify(f"{full}{failure}")
        else:
            back = "Arrow up brings it back, /retry" if self._styled else "/retry"
            self._say(f"{full}{failure}\nYour message was not answered. {back} sends it again.")

    def _stream(self, text: str) -> None:
        config = self.settings.generation()
        if config.max_new_tokens is None:
            config = GenerationConfig(max_new_tokens=self.model.max_seq).over(config)
        markdown = MarkdownStream(self._out) if self._styled else None
        if markdown is None:
            self._out.write(PLAIN_ROLE)
        finished = False
        outcome: ChatOutcome | None = None
        try:
            with closing(self.chat.send(text, stream="events", config=config)) as pieces:
                for piece in pieces:
                    match piece:
                        case ChatOutcome():
                            outcome = piece
                        case TextPiece() if markdown is not None:
                            markdown.write(piece.text)
                        case TextPiece():
                            self._out.write(sanitize(piece.text))
                            self._out.flush()
                        case ReasoningPiece() if self.settings.get("show_thinking"):
                            sys.stderr.write(sanitize(piece.text))
                            sys.stderr.flush()
                        case _:
                            pass
            finished = True
        finally:
            if markdown is not None:
                markdown.finish(draw=finished)
            else:
                self._out.write("\n")
            self._out.flush()
        if outcome is not None and outcome.finish == "length":
            self._say(self._cut(outcome, config))

    def _cut(self, outcome: ChatOutcome, config: GenerationConfig) -> str:
        if outcome.prompt_tokens + outcome.new_tokens >= self.model.max_seq:
            return f"The reply was cut. {FULL}"
        return f"The reply was cut at {config.max_new_tokens} tokens; /set max_new_tokens allows more."

    def _new_chat(self) -> ChatSession:
        # The application sets no limit but the context; the library's default is a short one.
        return self.model.chat_session(system=self.settings.get("system"), default_budget=self.model.max_seq)

    def _say(self, text: str) -> None:
        if not text:
            return
        lines = sanitize(text).splitlines()
        if is_terminal(self._out):
            width = shutil.get_terminal_size().columns - 1
            lines = [part for line in lines for part in _wrapped(line, width)]
        self._out.write("\n".join(lines) + "\n")
        self._out.flush()


def _wrapped(line: str, width: int) -> list[str]:
    """`line` in parts that end between words; a longer word is left to the terminal."""
    if len(line) <= width:
        return [line]
    return textwrap.wrap(
        line, max(width, 20), break_long_words=False, break_on_hyphens=False, replace_whitespace=False
    )

"""The REPL's loop: reads a line, streams the reply, and goes on after every error."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import IO, TYPE_CHECKING

from app.config import Settings
from app.exits import ExitCode, explain
from app.markdown_stream import MarkdownStream
from app.repl.commands import run_command
from app.repl.line_reader import LineReader
from app.terminal import sanitize
from backend.types import GenerationConfig, ReasoningPiece, TextPiece

if TYPE_CHECKING:
    from backend import ChatSession, GenerativeModel

PLAIN_ROLE = "model: "


class Repl:
    """A chat with `model`, a line at a time."""

    def __init__(
        self, model: GenerativeModel, settings: Settings, read: LineReader, out: IO[str], *, styled: bool
    ) -> None:
        self.model = model
        self.settings = settings
        self.unsent = ""
        """The last message that got no reply."""
        self.leaving = False
        self._read = read
        self._out = out
        self._styled = styled
        self.chat: ChatSession = self._new_chat()

    def run(self) -> ExitCode:
        """Read and answer until the person leaves."""
        self._say(f"{self.model.card.model_id}. /help lists the commands, Ctrl-D leaves.")
        hinted = False
        draft = ""
        while not self.leaving:
            try:
                line = self._read(draft)
                hinted, draft = False, ""
                if line.strip():
                    draft = self._take(line)
            except KeyboardInterrupt:
                if hinted:
                    break
                hinted, draft = True, ""
                self._say("Ctrl-C once more leaves; so does Ctrl-D.")
            except EOFError:
                break
        return ExitCode.ANSWERED

    def start_chat(self) -> None:
        """Begin anew, with the system prompt that now holds."""
        self.chat.close()
        self.chat = self._new_chat()

    def answer(self, text: str) -> bool:
        """Send `text` and stream the reply; False when there was none, and `unsent` keeps the text."""
        self.unsent = text
        try:
            self._stream(text)
        except KeyboardInterrupt:
            self._say("Stopped.")
        except Exception as err:
            self._say(str(explain(err)))
            return False
        self.unsent = ""
        return True

    def _take(self, line: str) -> str:
        """Obey or answer a line; returns the text to offer again."""
        if line.startswith("/") and not line.startswith("//"):
            self._say(run_command(self, line))
            return ""
        return "" if self.answer(line.removeprefix("/") if line.startswith("//") else line) else line

    def _stream(self, text: str) -> None:
        config = self.settings.generation()
        if config.max_new_tokens is None:
            config = GenerationConfig(max_new_tokens=self.model.max_seq).over(config)
        markdown = MarkdownStream(self._out) if self._styled else None
        if markdown is None:
            self._out.write(PLAIN_ROLE)
        finished = False
        try:
            with closing(self.chat.send(text, stream="events", config=config)) as pieces:
                for piece in pieces:
                    match piece:
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

    def _new_chat(self) -> ChatSession:
        # The application sets no limit but the context; the library's default is a short one.
        return self.model.chat_session(system=self.settings.get("system"), default_budget=self.model.max_seq)

    def _say(self, text: str) -> None:
        if text:
            self._out.write(sanitize(text) + "\n")
            self._out.flush()

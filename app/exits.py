"""Exit codes, and how an error becomes one: a code word, a sentence, a remedy, a number."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from enum import IntEnum
from typing import Any, get_args

from app.terminal.output import write_nowhere

_UNWRITTEN = {
    errno.ENOSPC: "no space is left",
    errno.EDQUOT: "your disk quota is used up",
    errno.EFBIG: "it would be larger than a file may be",
    errno.EROFS: "its disk is read-only",
}
"""Why a disk takes nothing."""
FOLDER_GONE = "The folder that Fireside was started in is gone."


class ExitCode(IntEnum):
    """What the process returns to the shell."""

    ANSWERED = 0
    FAILED = 1
    USAGE = 2
    NO_MODEL = 3
    OVERFLOW = 4
    DENIED = 5
    CUT = 6
    UNFIT = 7
    INTERRUPTED = 130
    TERMINATED = 143


class Failure(Exception):
    """Why there is no whole answer, ready for a person (`message`, `remedy`) and a program (`code`)."""

    def __init__(self, code: str, message: str, *, remedy: str = "", exit_code: ExitCode) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.remedy = remedy
        self.exit_code = exit_code

    def as_dict(self) -> dict[str, Any]:
        """The failure as JSON output shows it."""
        error = {"code": self.code, "message": self.message, "remedy": self.remedy}
        return {"error": error, "exit": int(self.exit_code)}

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".strip()


class ExplainedError(Exception):
    """An error that says itself which failure it means to a person."""

    def failure(self) -> Failure:
        """Why there is no whole answer."""
        raise NotImplementedError


def leave_quietly(code: ExitCode = ExitCode.ANSWERED) -> ExitCode:
    """Nobody reads standard output any more, and maybe no messages: what is still buffered goes nowhere."""
    write_nowhere(sys.stdout)
    try:
        if sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison]
            sys.stderr.flush()
    except OSError:
        write_nowhere(sys.stderr)
    return code


def usage(message: str, remedy: str = "") -> Failure:
    """A failure of the caller: a flag, a setting or an input that cannot be used."""
    return Failure("usage", message, remedy=remedy, exit_code=ExitCode.USAGE)


def is_folder_gone(error: OSError) -> bool:
    """Whether a path could not be followed because there is no current folder any more."""
    if error.errno != errno.ENOENT or error.filename is not None:
        return False
    try:
        os.getcwd()
    except OSError:
        return True
    return False


def session_failure(code: str, message: str, remedy: str = "", status: int | None = None) -> Failure:
    """The failure that a session's error means; `code` is one of its words, `status` as in HTTP."""
    from backend.types import LoadCause

    exit_code = ExitCode.NO_MODEL if code in get_args(LoadCause) else ExitCode.FAILED
    if status in (400, 404):
        exit_code = ExitCode.USAGE
    if code == "context_overflow":
        exit_code = ExitCode.OVERFLOW
    return Failure(code, message, remedy=remedy, exit_code=exit_code)


def explain(error: Exception) -> Failure:
    """The failure that `error` means to a person; unknown errors count as a failed generation."""
    if isinstance(error, ImportError):  # what tells other errors apart may be missing too
        return Failure(
            "internal",
            f"A part of Fireside could not be loaded: {error}.",
            remedy="Reinstall Fireside to repair it; your chats stay.",
            exit_code=ExitCode.FAILED,
        )
    return _explain(error)


def _of_system(error: OSError) -> Failure | None:
    if is_folder_gone(error):
        remedy = "Change to another one (cd), or give whole paths."
        return Failure("folder", FOLDER_GONE, remedy=remedy, exit_code=ExitCode.FAILED)
    if error.errno not in _UNWRITTEN:
        return None
    message = f"{error.filename or 'The answer'} could not be written: {_UNWRITTEN[error.errno]}."
    return Failure("output", message, exit_code=ExitCode.FAILED)


def _explain(error: Exception) -> Failure:
    from backend.places import ForeignPathError
    from backend.types import ContextOverflowError, EngineError, ModelLoadError, TemplateError

    match error:
        case Failure():
            return error
        case ForeignPathError():
            return usage(str(error))
        case ModelLoadError():
            return Failure(error.cause, str(error), remedy=error.remedy, exit_code=ExitCode.NO_MODEL)
        case ContextOverflowError():
            message, advice, rest = str(error).partition("Shorten it")
            remedy = advice + rest or "Shorten the prompt, or give --ctx a larger number."
            return Failure("context_overflow", message.strip(), remedy=remedy, exit_code=ExitCode.OVERFLOW)
        case EngineError():
            return Failure("engine", str(error), remedy=error.remedy, exit_code=ExitCode.FAILED)
        case TemplateError():
            return Failure("template", str(error), exit_code=ExitCode.FAILED)
        case ExplainedError():
            return error.failure()
        case UnicodeEncodeError():
            return usage(
                "The input contains bytes that are not UTF-8 text.", "Type it again, or give it as a file."
            )
        case ValueError():
            return usage(str(error))
        case OSError() if (failure := _of_system(error)) is not None:
            return failure
        case _:
            if os.environ.get("FIRESIDE_DEBUG"):
                traceback.print_exception(error)
            return Failure(
                "internal",
                f"{type(error).__name__}: {error}",
                remedy="FIRESIDE_DEBUG=1 shows where it happened.",
                exit_code=ExitCode.FAILED,
            )

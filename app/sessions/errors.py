"""The errors of the session layer; each reads as a sentence for a person and has a code for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.exits import ExplainedError, Failure, explain, session_failure

if TYPE_CHECKING:
    from backend.types import BackendError


NOT_WAITING = "not_waiting"
"""The code of the error for a result that comes when its call has ended or was stopped."""


class FiresideError(ExplainedError):
    """The root of what the session layer raises on purpose.

    `status_code` is the HTTP status it would be, `code` one word for programs; a thing that is
    not there is this very class with status 404.
    """

    def __init__(self, message: str, status_code: int | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.status_code = status_code
        self.code = code
        self.remedy = ""

    def failure(self) -> Failure:
        """The failure it means; what the backend said of it first comes through as it is."""
        from backend.types import BackendError

        if isinstance(self.__cause__, BackendError):
            return explain(self.__cause__)
        failure = session_failure(self.code or "error", self.message, self.remedy, self.status_code)
        failure.__cause__ = self
        return failure


class InvalidInputError(FiresideError):
    """What was asked makes no sense (400)."""

    def __init__(self, message: str, status_code: int | None = 400, code: str | None = "invalid") -> None:
        super().__init__(message, status_code, code)


class ConflictError(FiresideError):
    """It makes sense, but not now: somebody else holds the session, or a turn runs (409)."""

    def __init__(self, message: str, status_code: int | None = 409, code: str | None = "conflict") -> None:
        super().__init__(message, status_code, code)


class ServerError(FiresideError):
    """The store or the engine failed (500 and above)."""

    def __init__(
        self, message: str, status_code: int | None = 500, code: str | None = "server_error"
    ) -> None:
        super().__init__(message, status_code, code)


def not_found(what: str, name: str) -> FiresideError:
    """The error for a session, item, file or rule that is not there."""
    return FiresideError(f"There is no {what} {name!r}.", 404, "not_found")


def wrapped(err: BackendError) -> FiresideError:
    """A backend's error as one of this family; raise it `from` the original."""
    # Faces import this module before their first frame, which needs nothing of the backend.
    from backend.types import ContextOverflowError, EngineError, ModelLoadError, QueueFullError

    match err:
        case ContextOverflowError():
            # What to do in a chat is more than what the library knows.
            found = FiresideError(str(err).partition(" Shorten it")[0], 400, "context_overflow")
            found.remedy = (
                "Shorten the message, compact the chat (/compact), leave out its oldest turns "
                "(--set overflow=truncate_oldest), or start with a larger context (--ctx)."
            )
        case ModelLoadError():
            found = FiresideError(str(err), 503, err.cause)
            found.remedy = err.remedy
        case QueueFullError():
            found = FiresideError(str(err), 503, "queue_full")
        case EngineError():
            found = ServerError(str(err), 500, "engine_error")
            found.remedy = err.remedy
        case _:
            found = ServerError(str(err), 500, "backend_error")
    return found

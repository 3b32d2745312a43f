"""Errors as answers: the status, and the body that clients of OpenAI's API and of the sessions API read."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from app.sessions.errors import FiresideError
from backend.types import (
    BackendError,
    ContextOverflowError,
    EngineError,
    ModelLoadError,
    QueueFullError,
)

logger = logging.getLogger("fireside.server")

_KINDS = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 409: "conflict_error"}


class ApiError(Exception):
    """A request that gets no answer. `status` is the one of HTTP, `code` one word for programs, `param` the
    field of the request that is meant."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.headers = dict(headers or {})

    @property
    def body(self) -> dict[str, Any]:
        """What the client reads."""
        return {
            "error": {
                "message": self.message,
                "type": self._kind,
                "param": self.param,
                "code": self.code,
            }
        }

    @property
    def _kind(self) -> str:
        if self.status == 429:
            return "rate_limit_error"
        return _KINDS.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")

    def response(self) -> Response:
        """The whole answer."""
        return JSONResponse(self.body, self.status, headers=self.headers)


def refused(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    """A request that makes no sense (400)."""
    return ApiError(400, message, param=param, code=code)


def described(error: BaseException) -> ApiError:
    """The answer that `error` means. What nobody foresaw is logged, and the client is told no more of it."""
    match error:
        case ApiError():
            return error
        case HTTPException():  # from reading a form
            return ApiError(error.status_code, f"The form cannot be read: {error.detail}", code="bad_form")
        case BaseExceptionGroup():
            return described(error.exceptions[0])
        case ContextOverflowError():
            return refused(str(error), "messages", "context_length_exceeded")
        case QueueFullError():
            return busy(str(error), 1)
        case ModelLoadError():
            status = {"not_found": 404, "not_a_chat_model": 400}.get(error.cause, 503)
            return ApiError(status, f"{error} {error.remedy}".strip(), code=error.cause)
        case EngineError():
            return ApiError(503, f"{error} {error.remedy}".strip(), code="engine_error")
        case FiresideError():
            if isinstance(error.__cause__, BackendError):
                return described(error.__cause__)
            return ApiError(error.status_code or 500, error.message, code=error.code)
        case ValueError():
            return refused(str(error))
        case BackendError():
            return ApiError(500, str(error), code="backend_error")
        case _:
            lines = "".join(traceback.format_exception(error))
            logger.error("A request failed: %s", lines.encode("unicode_escape").decode())
            return ApiError(500, "The server failed to answer this request.", code="internal")


def busy(message: str, retry_after_s: int) -> ApiError:
    """More is waiting than the queue takes (429)."""
    return ApiError(429, message, code="queue_full", headers={"Retry-After": str(retry_after_s)})

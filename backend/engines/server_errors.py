"""What a server says when it does not answer, in whatever shape, as an error of ours."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from backend.engines import foreign
from backend.types import BackendError, ContextOverflowError, EngineError

MOST_ERROR_BYTES = 64 << 10
_OVERFLOW_CODES = ("context_length_exceeded", "exceed_context_size_error", "context_overflow")
_OVERFLOW = re.compile(
    r"maximum context length|context (length|window|size)|exceeds? the (available )?context|"
    r"too many tokens|(prompt|input|request) (is|was)? ?too long|input length",
    re.IGNORECASE,
)
_NUMBER = r"([\d,]{1,12})"
_WINDOW = re.compile(
    rf"(?:maximum context length(?: is|:| of)?|context (?:length|window|size)(?: is| of|:)?|n_ctx[\"']?[=:]?)"
    rf"\D{{0,20}}{_NUMBER}|{_NUMBER} tokens? (?:of )?context",
    re.IGNORECASE,
)
_NEEDED = re.compile(
    rf"(?:requested|resulted in|have|has|contains?|request(?: is|:)?|prompt(?: is)?|input(?: is)?)"
    rf"\D{{0,20}}{_NUMBER} ?tokens?|request \({_NUMBER} tokens",
    re.IGNORECASE,
)
_TITLE = re.compile(r"<title[^>]{0,100}>([^<]{1,200})", re.IGNORECASE)
_SAID = ("message", "detail", "msg", "error", "error_description", "title", "reason", "errors")
"""Under which names servers say what is wrong."""
_DEEPEST = 6
_TOOLS = re.compile(r"\b(tools?|tool[-_](call|choice|use)\w*)\b", re.IGNORECASE)
_OF_ONE_TOOL = re.compile(r"schema|parameters|tools[.\[]\d", re.IGNORECASE)
"""What a definition of a tool may be refused for, where others would do."""
_CANNOT = re.compile(
    r"not support|no way|requires|cannot|can't|unsupported|not enabled|disabled|unable|no endpoints|"
    r"not available",
    re.IGNORECASE,
)
_UNKNOWN_FIELD = re.compile(
    r"unrecogni[sz]ed|unsupported|not supported|unknown|unexpected|not permitted|extra (fields|inputs)|"
    r"not allowed|invalid (field|argument|parameter)|does not support",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Complaint:
    """What a server said of an error. `status` is the one of HTTP, 0 within a stream."""

    status: int
    message: str
    code: str = ""
    window: int = 0
    """The context that it names, in tokens; 0 where it names none."""
    needed: int = 0
    retry_after_s: float | None = None

    @property
    def is_overflow(self) -> bool:
        """Whether the prompt does not fit the model's context."""
        if self.code in _OVERFLOW_CODES:
            return True
        return self.status in (0, 400, 413, 422, 500) and bool(_OVERFLOW.search(self.message))

    @property
    def is_quota(self) -> bool:
        """Whether waiting does not help."""
        return "quota" in self.code or "billing" in self.code

    @property
    def refuses_tools(self) -> bool:
        """Whether the model there cannot call tools, or the server was started without them."""
        said = f"{self.message} {self.code}"
        if self.status not in (400, 404, 422, 500, 501) or _OF_ONE_TOOL.search(said):
            return False
        return bool(_TOOLS.search(said) and _CANNOT.search(said))

    def unwanted(self, names: frozenset[str]) -> frozenset[str]:
        """Those of the request's fields in `names` that the server does not take."""
        if self.status not in (400, 422) or not (
            _UNKNOWN_FIELD.search(f"{self.message} {self.code}") or self.status == 422
        ):
            return frozenset()
        words = frozenset(re.findall(r"\w+", f"{self.message} {self.code}"))
        return names & words


def complaint_of(status: int, body: bytes, retry_after_s: float | None = None) -> Complaint:
    """What the body of an error says."""
    raw = body[:MOST_ERROR_BYTES].decode("utf-8", "replace").strip()
    try:
        value: object = json.loads(raw)
    except (ValueError, RecursionError):
        title = _TITLE.search(raw)
        words = title.group(1) if title else "" if raw.startswith("<") else raw
        return Complaint(status, foreign.one_line(words), retry_after_s=retry_after_s)
    return complaint_in(value, status, retry_after_s)


def complaint_in(value: object, status: int = 0, retry_after_s: float | None = None) -> Complaint:
    """What an error says that is JSON already."""
    found = foreign.fields(value)
    inner = found.get("error", found)
    about = foreign.fields(inner)
    for _ in range(3):
        if not isinstance(about.get("error"), dict):
            break
        about = foreign.fields(about["error"])
    message = foreign.one_line(_message(about) or _message(inner) or _message(value))
    codes = [foreign.text(about.get(key)) or foreign.text(found.get(key)) for key in ("code", "type")]
    code = next((one for one in codes if one in _OVERFLOW_CODES), next(filter(None, codes), ""))
    window = foreign.count(about.get("n_ctx")) or _number(_WINDOW, message)
    needed = foreign.count(about.get("n_prompt_tokens")) or _number(_NEEDED, message)
    return Complaint(status, message, foreign.one_line(code, 60), window, needed, retry_after_s)


def error_of(complaint: Complaint, where: str, *, has_key: bool, model: str = "") -> BackendError:
    """The error that a complaint of the server at `where` means."""
    said = f" It says: {complaint.message}" if complaint.message else ""
    if complaint.is_overflow:
        if complaint.window and complaint.needed:
            return ContextOverflowError(complaint.needed, complaint.window)
        return EngineError(
            f"The chat does not fit the context of the model on {where[0].lower()}{where[1:]}.{said}",
            remedy="Shorten the message, compact the chat (/compact), or start a new one.",
        )
    match complaint.status:
        case 401 | 403 if not has_key:
            return EngineError(f"{where} wants a key.{said}", remedy=KEY_REMEDY)
        case 401 | 403:
            return EngineError(
                f"{where} refuses the key.{said}", remedy="Check the key, and what it may be used for."
            )
        case 404:
            named = f" for the model {model}" if model else ""
            return EngineError(
                f"{where} has nothing{named} at this address.{said}",
                remedy="Check the address; it mostly ends in /v1. /model shows the models there.",
            )
        case 429 if complaint.is_quota:
            return EngineError(f"{where} refuses: the quota of the key is used up.{said}")
        case 429:
            return EngineError(f"{where} has too much to do.{said}", remedy="Send the message again later.")
        case 0:
            return EngineError(f"{where} ended the reply with an error.{said}")
        case status if 300 <= status < 400:
            return EngineError(
                f"{where} sends elsewhere: {complaint.message}",
                remedy="Use that address, if you trust it; nothing was sent there.",
            )
        case status if status >= 500:
            return EngineError(
                f"{where} failed (HTTP {status}).{said}", remedy="Send the message again, or look at its log."
            )
        case status:
            return EngineError(f"{where} refused the request (HTTP {status}).{said}")


KEY_REMEDY = (
    "Name the variable that has it in your settings (key_env of the server), or set FIRESIDE_SERVER_KEY."
)


def _message(value: object, depth: int = 0) -> str:
    if isinstance(value, str):
        return value
    if depth > _DEEPEST:
        return ""
    if parts := foreign.items(value):
        return "; ".join(filter(None, (_message(one, depth + 1) for one in parts[:3])))
    about = foreign.fields(value)
    for key in filter(about.__contains__, _SAID):
        if said := _message(about[key], depth + 1):
            place = [str(part) for part in foreign.items(about.get("loc")) if str(part) != "body"]
            return f"{'.'.join(place)}: {said}" if place else said
    return ""


def _number(pattern: re.Pattern[str], message: str) -> int:
    found = pattern.search(message)
    digits = next((group for group in found.groups() if group), "") if found else ""
    return int(digits.replace(",", "") or 0)

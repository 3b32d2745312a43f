"""A file of a session by its name, size and kind, and which kinds and sizes are taken."""

from __future__ import annotations

import mimetypes
import os
from dataclasses import dataclass

from app.characters import clean_text
from app.sessions.errors import FiresideError
from app.sessions.records import Json, new_id, now
from app.sessions.shapes import File

MB = 1_000_000
MAX_BYTES = 25 * MB
_LIMITS = {"image": 5 * MB, "pdf": 20 * MB, "text": 10 * MB, "audio": 25 * MB}
_NAME_CHARS = 255
_TEXT_TYPES = ("application/json", "application/xml", "application/toml", "application/yaml")


@dataclass(frozen=True)
class SessionFile:
    """A file's name, size and kind; its content is read by itself."""

    id: str
    session_id: str
    name: str
    content_type: str
    bytes: int
    created_at: int

    @classmethod
    def made(cls, session_id: str, name: str, content: bytes, *, any_kind: bool = False) -> SessionFile:
        """A new file. 413 where it is too large, 415 where its kind is not taken."""
        name = os.path.basename(clean_text(name).replace("\\", "/").replace("\0", " ")).strip()[-_NAME_CHARS:]
        name = name if name.strip(". ") else "file"
        content_type = mimetypes.guess_type(name)[0] or _guess(content)
        kind = kind_of(content_type)
        if kind is None and not any_kind:
            raise FiresideError(
                f"{name} is of a kind ({content_type}) that no model here reads.", 415, "unsupported_type"
            )
        limit = MAX_BYTES if kind is None or any_kind else _LIMITS[kind]
        if len(content) > limit:
            raise too_large(name, len(content), limit)
        return cls(new_id("file"), session_id, name, content_type, len(content), now())

    @property
    def filename(self) -> str:
        """The name, as a `File` has it."""
        return self.name

    def told(self) -> File:
        """What a caller is told of it."""
        return File(id=self.id, filename=self.name, bytes=self.bytes, created_at=self.created_at)

    def to_wire(self) -> Json:
        """The shape of the file routes."""
        metadata = {
            "filename": self.name,
            "bytes": self.bytes,
            "created_at": self.created_at,
            "content_type": self.content_type,
        }
        return {"id": self.id, "object": "session.file", "name": self.name, "metadata": metadata}


def kind_of(content_type: str) -> str | None:
    """How a model gets a file of that type: image, audio, text, pdf; None for no way."""
    main = content_type.partition("/")[0]
    if main in ("image", "audio", "text"):
        return main
    if content_type == "application/pdf":
        return "pdf"
    return "text" if content_type in _TEXT_TYPES or content_type.endswith(("+json", "+xml")) else None


def _guess(content: bytes) -> str:
    """Text is what decodes as UTF-8 and holds no zero byte."""
    head = content[:65536]
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as err:
        # A character cut by the end of the sample is no fault of the file.
        if err.start < len(head) - 3:
            return "application/octet-stream"
    return "application/octet-stream" if b"\0" in head else "text/plain"


def too_large(name: str, size: int, limit: int) -> FiresideError:
    """The refusal of a file of that size, in bytes."""
    return FiresideError(
        f"{name} has {size / MB:.1f} MB; files of its kind may have {limit / MB:.0f} MB.", 413, "too_large"
    )

"""What a person attaches to a message, for every face: text files, the text of PDFs, pictures.

A file of another kind, or one that is too large, is refused with the reason.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.bounded import read_bounded
from app.characters import clip
from app.files.text import fenced, marked_encoding, unmarked_wide
from app.terminal.figures import byte_size
from app.terminal.output import sanitize, squeezed

if TYPE_CHECKING:
    from backend.types import ChatCard

MB = 1_000_000
LIMITS = {"picture": 5 * MB, "PDF": 20 * MB, "text": 10 * MB}
"""Most bytes of a file, by its kind."""
_SAMPLE_BYTES = 65_536
_PICTURES = ((b"\x89PNG\r\n\x1a\n", "png"), (b"\xff\xd8\xff", "jpeg"), (b"GIF8", "gif"), (b"BM", "bmp"))
_OTHERS = (
    (b"PK\x03\x04", "an archive or an office document; save it as text or PDF"),
    (b"\xd0\xcf\x11\xe0", "an old office document; save it as text or PDF"),
    (b"\x1f\x8b", "compressed; unpack it first"),
    (b"\x7fELF", "a program"),
    (b"ID3", "a sound recording, which no model here can hear"),
    (b"OggS", "a sound recording, which no model here can hear"),
    (b"fLaC", "a sound recording, which no model here can hear"),
    (b"GGUF", "a model"),
    (b"SQLite format 3", "a database"),
)
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_HIGH = re.compile(rb"[\x80-\xff]")
_BAD = re.compile("[\udc80-\udcff]")


class AttachmentError(ValueError):
    """Why a file cannot be attached; the text names it, the reason, and what would do."""


@dataclass(frozen=True, slots=True)
class TextPart:
    """A file's text. `note` says how it was had where that is not plain: an encoding, pages."""

    name: str
    size_bytes: int
    text: str
    note: str = ""

    @property
    def title(self) -> str:
        """Its name and size, on one line."""
        about = ", ".join(part for part in (self.note, byte_size(self.size_bytes)) if part)
        return f"{self.name} ({about})"

    def fenced(self) -> str:
        """The part as it joins a message: its title, then the text in a fence of its own."""
        return fenced(self.title, self.text)


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture as it is in its file; `content_type` such as image/png."""

    name: str
    size_bytes: int
    content_type: str
    data: bytes

    @property
    def title(self) -> str:
        """Its name and size, on one line."""
        return f"{self.name} ({self.content_type.removeprefix('image/')}, {byte_size(self.size_bytes)})"

    @property
    def file_name(self) -> str:
        """Its name with an ending that tells what it is."""
        ending = f".{self.content_type.removeprefix('image/')}"
        kinds = (ending, ".jpg") if ending == ".jpeg" else (ending,)
        return self.name if self.name.lower().endswith(kinds) else f"{self.name}{ending}"

    def block(self) -> dict[str, Any]:
        """The content block of a message to the backend."""
        import base64

        data = base64.b64encode(self.data).decode("ascii")
        return {"type": "image_url", "image_url": {"url": f"data:{self.content_type};base64,{data}"}}


Attachment = TextPart | Picture


def attach(path: str | os.PathLike[str]) -> Attachment:
    """The file at `path`, read. AttachmentError where it cannot be attached."""
    shown = clip(sanitize(os.fspath(path)))
    try:
        data = read_bounded(os.path.expanduser(path), max(LIMITS.values()))
    except (OSError, ValueError) as err:
        reason = err.strerror if isinstance(err, OSError) else err
        raise AttachmentError(f"{shown or 'The file'} cannot be attached: {reason}.") from err
    try:
        return attach_bytes(os.path.basename(os.path.abspath(path)), data)
    except ValueError as err:
        raise AttachmentError(f"{shown} cannot be attached: {err}.") from err


def attach_bytes(name: str, data: bytes) -> Attachment:
    """`data` as the attachment of that name. ValueError says why it is none."""
    name = plain_name(name)
    if picture := picture_type(data):
        _require_size("picture", data)
        return Picture(name, len(data), picture, data)
    if data[:1024].lstrip().startswith(b"%PDF-"):
        _require_size("PDF", data)
        return _of_pdf(name, data)
    if reason := next((reason for mark, reason in _OTHERS if data.startswith(mark)), None):
        raise ValueError(f"it is {reason}")
    if data.startswith(b"RIFF") and data[8:12] == b"WAVE":
        raise ValueError("it is a sound recording, which no model here can hear")
    _require_size("text", data)
    text, encoding = decoded(data)
    return TextPart(name, len(data), text, "" if encoding == "utf-8" else encoding)


def plain_name(name: str) -> str:
    """A file's name on one line, without what a screen must not be sent."""
    return squeezed(name) or "file"


def decoded(data: bytes) -> tuple[str, str]:
    """The text in `data`, and the encoding that was found. ValueError where it is no text."""
    if encoding := marked_encoding(data):
        return data.decode(encoding, errors="replace"), encoding
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = None
    if text is not None and b"\0" not in data:
        return text, "utf-8"
    sample = data[:_SAMPLE_BYTES]
    if (encoding := unmarked_wide(sample)) is not None:
        return data.decode(encoding, errors="replace"), encoding
    if b"\0" in sample or len(_CONTROLS.findall(sample)) * 50 > len(sample):
        raise ValueError("it is binary, not text")
    if text is not None:
        return text, "utf-8"
    # Mostly well-formed UTF-8 with a few bad bytes is UTF-8; without any such sequence it is not.
    loose = data.decode("utf-8-sig", errors="surrogateescape")
    bad = len(_BAD.findall(loose))
    if sum(character > "\x7f" for character in loose) - bad > bad:
        return _BAD.sub("\ufffd", loose), "utf-8"
    try:
        # Western text is mostly ASCII: in other alphabets this encoding would be a wrong guess.
        if len(_HIGH.findall(sample)) * 3 < len(sample):
            return data.decode("cp1252"), "windows-1252"
    except UnicodeDecodeError:
        pass
    raise ValueError("its encoding is not known; convert it to UTF-8 first, with a program such as iconv")


def require_sight(attachments: Iterable[Attachment], card: ChatCard) -> None:
    """AttachmentError where there is a picture and the model of `card` cannot see."""
    pictures = [one for one in attachments if isinstance(one, Picture)]
    if pictures and not card.supports_vision:
        names = ", ".join(picture.name for picture in pictures[:3])
        raise AttachmentError(
            f"{card.model_id} cannot see, so {clip(names)} cannot be attached. "
            f"Choose a model with vision, or describe the picture."
        )


def _of_pdf(name: str, data: bytes) -> TextPart:
    from app.files.pdf import pdf_text

    found = pdf_text(data)
    pages = f"{found.pages} page{'s' if found.pages != 1 else ''}"
    note = pages if found.read >= found.pages else f"the first {found.read} of {pages}"
    return TextPart(name, len(data), found.text, note)


def picture_type(data: bytes) -> str:
    """The media type of a picture, empty for anything else."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    found = next((kind for mark, kind in _PICTURES if data.startswith(mark)), "")
    # Two letters make no picture: a text may begin with them.
    if found == "bmp" and int.from_bytes(data[2:6], "little") != len(data):
        return ""
    return f"image/{found}" if found else ""


def _require_size(kind: str, data: bytes) -> None:
    if len(data) > LIMITS[kind]:
        raise ValueError(f"it has {byte_size(len(data))}, and a {kind} may have {byte_size(LIMITS[kind])}")

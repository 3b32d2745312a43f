"""The text of a PDF, read in a child process: bounded in time, memory, pages and characters.

A PDF is a program for a printer, and some are made to never end; a child can be ended.
"""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

MOST_PAGES = 500
MOST_CHARS = 2_000_000
TIME_S = 30.0
"""For all pages; those that are read by then count."""
_GRACE_S = 15.0
"""Beyond that, for starting, and for a page that is being read."""
_MEMORY_BYTES = 2 << 30
_CHILD = "import sys; sys.path[:] = {path!r}; from app.files.pdf import main; main()"


class PdfError(ValueError):
    """Why a PDF gives no text; says what would."""


@dataclass(frozen=True, slots=True)
class PdfText:
    """The text of the first `read` of `pages` pages, separated by form feeds."""

    text: str
    pages: int
    read: int


def pdf_text(data: bytes, *, time_s: float = TIME_S) -> PdfText:
    """The text of the PDF in `data`. PdfError where it is encrypted, damaged, or has no text."""
    try:
        ended = subprocess.run(
            [sys.executable, "-I", "-c", _CHILD.format(path=sys.path), str(time_s)],
            input=data,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=time_s + _GRACE_S,
            check=False,
        )
        told: dict[str, Any] = json.loads(ended.stdout)
    except subprocess.TimeoutExpired:
        raise PdfError(f"reading its text took over {time_s + _GRACE_S:.0f} s") from None
    except ValueError:
        raise PdfError("it is damaged, or needs too much memory") from None
    if problem := told.get("problem"):
        raise PdfError(str(problem))
    return PdfText(str(told["text"]), int(told["pages"]), int(told["read"]))


def main() -> None:
    """The child's part: a PDF on standard input, its text or its problem on standard output, as JSON."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    try:
        told = _read(sys.stdin.buffer.read(), time.monotonic() + float(sys.argv[1]))
    except Exception:  # pypdf raises many kinds for a damaged file
        told = {"problem": "it is damaged"}
    json.dump(told, sys.stdout)


def _read(data: bytes, deadline: float) -> dict[str, Any]:
    from pypdf import PasswordType, PdfReader

    reader = PdfReader(io.BytesIO(data))
    if reader.is_encrypted and reader.decrypt("") is PasswordType.NOT_DECRYPTED:
        return {"problem": "it is encrypted; save it without its password first"}
    pages: list[str] = []
    chars = 0
    count = len(reader.pages)
    for page in reader.pages[:MOST_PAGES]:
        if chars > MOST_CHARS or time.monotonic() > deadline:
            break
        pages.append(_page(page))
        chars += len(pages[-1])
    text = "\f".join(pages)
    if not text.strip() and len(pages) < min(count, MOST_PAGES):
        return {"problem": f"reading page {len(pages) + 1} of {count} took too long"}
    if not text.strip():
        return {"problem": "its pages are pictures without text; a program such as ocrmypdf reads them"}
    return {"text": text[:MOST_CHARS], "pages": count, "read": len(pages)}


def _page(page: Any) -> str:
    try:
        return str(page.extract_text())
    except Exception:  # one bad page costs the others nothing
        return ""

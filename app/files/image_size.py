"""The size of a picture in pixels, read from its head without decoding it.

What is not understood has none.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

HEAD_BYTES = 1 << 18
"""Enough of a file to find its size: a photograph's preview may stand before it."""
_ORIENTATION = 0x0112
_LYING = (5, 6, 7, 8)
"""Orientations in which a camera was held on its side."""
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""The marks of JPEG after which the size stands."""
_ALONE = frozenset(range(0xD0, 0xDA)) | {0x01}
"""Marks without a length."""


def picture_size(head: bytes) -> tuple[int, int] | None:
    """Width and height of the PNG, JPEG, GIF, WebP or BMP that begins with `head`, as it is to be seen."""
    reader = next((reader for mark, reader in _READERS if head.startswith(mark)), None)
    if reader is None:
        return None
    try:
        found = reader(head)
    except (struct.error, IndexError):
        return None
    return found if found is not None and min(found) > 0 else None


def _png(head: bytes) -> tuple[int, int] | None:
    return struct.unpack_from(">II", head, 16) if head[12:16] == b"IHDR" else None


def _gif(head: bytes) -> tuple[int, int]:
    return struct.unpack_from("<HH", head, 6)


def _bmp(head: bytes) -> tuple[int, int]:
    if struct.unpack_from("<I", head, 14)[0] == 12:
        return struct.unpack_from("<HH", head, 18)
    width, height = struct.unpack_from("<ii", head, 18)
    return width, abs(height)


def _webp(head: bytes) -> tuple[int, int] | None:
    if head[8:12] != b"WEBP":
        return None
    match head[12:16]:
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", head, 26)
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":
            bits = struct.unpack_from("<I", head, 21)[0]
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X" if len(head) >= 30:
            return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
        case _:
            return None


def _jpeg(head: bytes) -> tuple[int, int] | None:
    place, lying = 2, False
    while place + 4 <= len(head):
        if head[place] != 0xFF:
            return None
        mark = head[place + 1]
        if mark == 0xFF or mark in _ALONE:
            place += 1 if mark == 0xFF else 2
            continue
        length = struct.unpack_from(">H", head, place + 2)[0]
        if mark in _FRAMES:
            height, width = struct.unpack_from(">HH", head, place + 5)
            return (height, width) if lying else (width, height)
        if mark == 0xE1 and head[place + 4 : place + 10] == b"Exif\0\0":
            lying = _is_lying(head[place + 10 : place + 2 + length])
        place += 2 + length
    return None


def _is_lying(exif: bytes) -> bool:
    order = "<" if exif[:2] == b"II" else ">"
    try:
        first = struct.unpack_from(f"{order}I", exif, 4)[0]
        for entry in range(struct.unpack_from(f"{order}H", exif, first)[0]):
            tag, _, _, value = struct.unpack_from(f"{order}HHIH", exif, first + 2 + 12 * entry)
            if tag == _ORIENTATION:
                return value in _LYING
    except struct.error:
        pass
    return False


_READERS: tuple[tuple[bytes, Callable[[bytes], tuple[int, int] | None]], ...] = (
    (b"\x89PNG\r\n\x1a\n", _png),
    (b"\xff\xd8\xff", _jpeg),
    (b"GIF8", _gif),
    (b"RIFF", _webp),
    (b"BM", _bmp),
)

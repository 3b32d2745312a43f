"""Pictures by kitty's protocol: sent once, and shown by rows of placeholders that are cells like any other.

So they scroll, are cut and are overwritten like text. textual-image makes both; what it would write and
ask itself is kept from the terminal, which Textual writes to and reads from.
"""

from __future__ import annotations

import fcntl
import io
import struct
import sys
import termios
import threading
from functools import cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from app.markdown.rows import Row, Run
from app.terminal.output import in_tmux
from app.tui.transcript.pictures import Cell, Drawing, shrunk

if TYPE_CHECKING:
    from PIL import Image

_USUAL = Cell(10, 20)
_ONE_AT_A_TIME = threading.Lock()
_START, _END = "\x1b_G", "\x1b\\"


def draw(data: bytes, columns: int, cell: Cell) -> Drawing:
    """The picture in `data` for a terminal with cells of so many pixels. PictureError where it cannot be."""
    small, size = shrunk(data, columns, cell)
    sent, rows, number = _placed(small, cell)
    cells = -(-small.width // cell.width), -(-small.height // cell.height)
    return Drawing(*size, cell, cells, rows, _passed(sent), _passed(f"{_START}a=d,d=I,i={number},q=2{_END}"))


def cell_size() -> Cell:
    """The pixels of a cell as the system knows them of the terminal's window, else a usual size."""
    try:
        answer = fcntl.ioctl(sys.__stdin__.fileno(), termios.TIOCGWINSZ, bytes(8))  # type: ignore[union-attr]
    except (AttributeError, OSError, ValueError):
        return _USUAL
    rows, columns, width, height = struct.unpack("HHHH", answer)
    cell = Cell(width // columns, height // rows) if rows and columns else _USUAL
    return cell if all(cell) else _USUAL


def _placed(picture: Image.Image, cell: Cell) -> tuple[str, tuple[Row, ...], int]:
    """What is sent, the rows that show it, and the number that it has in the terminal."""
    from rich.console import Console

    columns, rows = -(-picture.width // cell.width), -(-picture.height // cell.height)
    console = Console(file=io.StringIO(), width=max(columns, 80), height=max(rows, 25))
    with _ONE_AT_A_TIME:
        protocol, written = _protocol()
        protocol.get_cell_size = lambda: cell
        written.seek(0)
        written.truncate()
        image = protocol.Image(picture, columns, rows)
        segments = list(console.render(image))
        sent = written.getvalue()
    made = [
        Row((Run(segment.text.rstrip("\n"), segment.style.color.triplet.hex),))
        for segment in segments
        if segment.style and segment.style.color and segment.style.color.triplet
    ]
    return sent, tuple(made), image.terminal_image_id


@cache
def _protocol() -> tuple[Any, io.StringIO]:
    """textual-image's module of the protocol, and where it writes: not the terminal.

    It is loaded by its file, since the package around it puts questions to the terminal.
    """
    found = find_spec("textual_image")
    if found is None or not found.submodule_search_locations:
        raise ImportError("textual-image is not installed")
    file = Path(found.submodule_search_locations[0], "renderable", "tgp.py")
    spec = spec_from_file_location(f"{__name__}.protocol", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be loaded")
    module: Any = module_from_spec(spec)
    spec.loader.exec_module(module)
    written = io.StringIO()
    module.sys = SimpleNamespace(__stdout__=written)
    return module, written


def _passed(sequence: str) -> str:
    """`sequence`, each command of it wrapped for tmux where that stands between."""
    if not in_tmux():
        return sequence
    commands = [part + _END for part in sequence.split(_END) if part]
    return "".join(["\x1bPtmux;" + part.replace("\x1b", "\x1b\x1b") + _END for part in commands])

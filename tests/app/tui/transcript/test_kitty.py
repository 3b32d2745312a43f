"""kitty's protocol: what is sent, and the placeholders that are cells like any other."""

from __future__ import annotations

import base64
import io
import os
import re
import subprocess
import sys

import pytest
from PIL import Image
from rich.cells import cell_len
from rich.segment import Segment
from textual.strip import Strip

from app.tui.transcript.gallery import Content, Gallery
from app.tui.transcript.kitty import cell_size, draw
from app.tui.transcript.picture_entry import PictureRow
from app.tui.transcript.pictures import Cell, PictureError
from tests.app.tui.transcript.pages import reading, settled, shown, strips

pytestmark = pytest.mark.timeout(60)
HOLDER = "\U0010eeee"
CELL = Cell(10, 20)
_COMMAND = re.compile(r"\x1b_G([^;\x1b]*);?([^\x1b]*)\x1b\\")


def saved(width: int, height: int, color: tuple[int, ...] = (255, 0, 0)) -> bytes:
    data = io.BytesIO()
    Image.new("RGB" if len(color) == 3 else "RGBA", (width, height), color).save(data, "PNG")
    return data.getvalue()


def commands(sequence: str) -> list[tuple[dict[str, str], str]]:
    """The commands of a sequence that holds nothing else."""
    assert _COMMAND.sub("", sequence) == ""
    found = _COMMAND.findall(sequence)
    return [(dict(pair.split("=") for pair in keys.split(",")), payload) for keys, payload in found]


def test_a_picture_is_sent_whole_and_placed_without_an_answer() -> None:
    noise = Image.effect_noise((300, 200), 90)
    data = io.BytesIO()
    noise.save(data, "PNG")
    drawing = draw(data.getvalue(), 92, CELL)
    assert drawing.cells == drawing.fit(92) == (30, 10)
    found = commands(drawing.sent)
    assert len(found) > 3
    assert all(keys["q"] == "2" for keys, _ in found)
    number = {keys["i"] for keys, _ in found}
    assert len(number) == 1
    assert [keys["m"] for keys, _ in found[:-1]] == ["1"] * (len(found) - 2) + ["0"]
    sent = Image.open(io.BytesIO(base64.b64decode("".join(payload for _, payload in found))))
    assert sent.tobytes() == noise.tobytes()
    placed = found[-1][0]
    assert (placed["a"], placed["U"], placed["c"], placed["r"]) == ("p", "1", "30", "10")
    assert commands(drawing.unsent) == [({"a": "d", "d": "I", "i": number.pop(), "q": "2"}, "")]


def test_placeholders_are_cells_that_name_their_picture_row_and_column() -> None:
    drawing = draw(saved(50, 60), 92, CELL)
    number = int(commands(drawing.sent)[0][0]["i"])
    assert [len(row.text) // 4 for row in drawing.rows] == [5, 5, 5]
    assert {run.style for row in drawing.rows for run in row.runs} == {f"#{number & 0xFFFFFF:06x}"}
    places = [row.text[at : at + 4] for row in drawing.rows for at in range(0, 20, 4)]
    assert all(place[0] == HOLDER for place in places)
    assert len(set(places)) == 15
    assert len({place[3] for place in places}) == 1
    assert [cell_len(row.text) for row in drawing.rows] == [5, 5, 5]


def test_what_is_cut_from_a_row_are_whole_cells() -> None:
    text = draw(saved(100, 20), 92, CELL).rows[0].text
    for start in range(10):
        for end in range(start + 1, 11):
            assert Strip([Segment(text)]).crop(start, end).text == text[start * 4 : end * 4]


def test_what_is_transparent_stays_so() -> None:
    drawing = draw(saved(10, 20, (9, 9, 9, 0)), 92, CELL)
    payload = "".join(payload for _, payload in commands(drawing.sent))
    with Image.open(io.BytesIO(base64.b64decode(payload))) as sent:
        assert sent.convert("RGBA").getpixel((0, 0))[3] == 0  # type: ignore[index]


def test_a_file_that_is_no_picture_sends_nothing() -> None:
    with pytest.raises(PictureError):
        draw(b"no picture", 92, CELL)


def test_tmux_gets_each_command_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = draw(saved(10, 20), 92, CELL)
    assert len(commands(plain.sent)) == 2
    monkeypatch.setenv("TMUX", "/tmp/tmux-1/default,1,0")
    wrapped = draw(saved(10, 20), 92, CELL).sent
    parts = wrapped.split("\x1bPtmux;")[1:]
    assert len(parts) == 2
    assert all(part.startswith("\x1b\x1b_G") and part.endswith("\x1b\x1b\\\x1b\\") for part in parts)


def test_the_terminal_is_asked_nothing() -> None:
    """Its answer would come among the keys; the library asks when it is imported or drawn with."""
    code = """if True:
        import io, os, pty, sys
        child, master = pty.fork()
        if not child:
            from PIL import Image
            from app.tui.transcript.kitty import cell_size, draw
            data = io.BytesIO()
            Image.new("RGB", (40, 40)).save(data, "PNG")
            assert draw(data.getvalue(), 40, cell_size()).sent
            os._exit(0)
        told = b""
        while True:
            try:
                part = os.read(master, 1000)
            except OSError:
                break
            if not part:
                break
            told += part
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(code, told)
    """
    environ = {**os.environ, "TERM": "xterm-kitty"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environ, check=True
    )
    assert done.stdout.strip() == "0 b''"


def test_a_cell_has_a_size_also_where_nobody_tells_it() -> None:
    assert all(cell_size())


async def test_a_picture_is_sent_before_it_shows_and_forgotten_at_the_end() -> None:
    sent: list[str] = []
    data = saved(100, 60)
    row = PictureRow("chart.png", file_id="chart")

    async def read(_: PictureRow) -> Content:
        return Content("chart.png", "1 KB", data)

    async with reading([row]) as (transcript, pilot):
        transcript.gallery = Gallery("kitty", read, transcript.changed, sent.append)  # type: ignore[arg-type]
        transcript.changed(row)
        await settled(transcript, pilot)
        assert len(sent) == 1
        number = commands(sent[0])[0][0]["i"]
        assert shown(transcript)[0] == "  ▐ picture  chart.png  100x60  1 KB"
        assert row.drawing is not None
        assert shown(transcript)[1:4] == [f"  ▐ {line.text}" for line in row.drawing.rows]
        cell = next(segment for segment in strips(transcript)[1] if HOLDER in segment.text)
        assert cell.style is not None and cell.style.color is not None
        assert cell.style.color.name == f"#{int(number) & 0xFFFFFF:06x}"
        # after a stop the terminal may know nothing of it
        transcript.app.app_resume_signal.publish(transcript.app)
        await settled(transcript, pilot)
        assert [keys.get("a") for keys, _ in commands(sent[1])] == ["d"]
        again = commands(sent[2])[0][0]["i"]
        assert again != number
        await transcript.remove()
        assert commands(sent[-1]) == [({"a": "d", "d": "I", "i": again, "q": "2"}, "")]

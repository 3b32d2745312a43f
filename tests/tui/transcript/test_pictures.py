from __future__ import annotations

import io

import pytest
from PIL import Image

from app.glyphs import ASCII
from app.theming import palette, read
from app.tui.transcript.entries import PictureRow, UserTurn
from app.tui.transcript.pictures import UPPER, draw
from tests.tui.transcript.pages import reading, settled, shown, strips


def picture(width: int, height: int, color: tuple[int, ...], mode: str = "RGB") -> bytes:
    data = io.BytesIO()
    Image.new(mode, (width, height), color).save(data, "PNG")
    return data.getvalue()


def test_a_picture_keeps_its_shape_and_its_bounds() -> None:
    wide = draw(picture(600, 100, (255, 0, 0)), "#000000")
    assert wide is not None
    assert (wide.width, wide.height) == (600, 100)
    assert [len(row.text) for row in wide.rows] == [60] * 5
    tall = draw(picture(10, 900, (255, 0, 0)), "#000000")
    assert tall is not None
    assert len(tall.rows) == 18
    tiny = draw(picture(1, 1, (255, 0, 0)), "#000000")
    assert tiny is not None
    assert [row.text for row in tiny.rows] == [UPPER]


def test_what_shines_through_takes_the_ground() -> None:
    drawn = draw(picture(4, 4, (255, 255, 255, 0), "RGBA"), "#123456")
    assert drawn is not None
    assert {run.style for row in drawn.rows for run in row.runs} == {"#123456/#123456"}


@pytest.mark.parametrize(
    "data", [b"", b"no picture", b"\x89PNG\r\n\x1a\n" + b"\0" * 50, picture(4, 4, (1, 2, 3))[:-26]]
)
def test_what_cannot_be_read_is_not_drawn(data: bytes) -> None:
    assert draw(data, "#000000") is None


def test_a_picture_that_would_not_fit_into_memory_is_not_read() -> None:
    header = picture(4, 4, (1, 2, 3))
    bomb = header[:16] + (60_000).to_bytes(4, "big") * 2 + header[24:]
    assert draw(bomb, "#000000") is None


async def test_a_picture_stands_below_its_turn_when_it_is_ready() -> None:
    row = PictureRow("chart.png", size="120 KB", refused="this model cannot see pictures")
    async with reading([UserTurn("look"), row]) as (transcript, pilot):
        assert shown(transcript)[1:4] == [
            "  ▐ picture  chart.png  120 KB",
            "  ▐ this model cannot see pictures",
            "",
        ]
        row.drawing = draw(picture(40, 8, (255, 0, 0)), "#000000")
        transcript.changed(row)
        await settled(transcript, pilot)
        assert shown(transcript)[1] == "  ▐ picture  chart.png  40x8  120 KB"
        assert shown(transcript)[3:7] == ["  ▐ " + UPPER * 40] * 4
        cell = next(segment for segment in strips(transcript)[3] if UPPER in segment.text)
        assert cell.style is not None and cell.style.color is not None
        assert cell.style.color.name == "#ff0000"
        await pilot.resize_terminal(40, 20)
        await settled(transcript, pilot)
        assert UPPER not in "".join(shown(transcript))


@pytest.mark.parametrize("toneless", [True, False])
async def test_terminals_without_colours_or_signs_get_the_words(toneless: bool) -> None:
    row = PictureRow("chart.png", drawing=draw(picture(40, 8, (255, 0, 0)), "#000000"))
    looks = {"palette": palette(read("hearth"), None)} if toneless else {"glyphs": ASCII}
    async with reading([row], **looks) as (transcript, _):
        assert shown(transcript)[0].endswith("picture  chart.png  40x8")
        assert UPPER not in "".join(shown(transcript))

"""Pictures as rows: their shape, their colours, what strangers make of a file, and where they stand."""

from __future__ import annotations

import io
import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from app.terminal.colors import indexed, nearest_index
from app.terminal.glyphs import ASCII
from app.terminal.theming import palette, read
from app.tui.transcript import gallery, pictures
from app.tui.transcript.entries import Answer, UserTurn
from app.tui.transcript.gallery import Content, Gallery
from app.tui.transcript.picture_entry import PictureRow
from app.tui.transcript.pictures import ROWS, UPPER, Cell, Drawing, PictureError, draw, fit
from tests.app.tui.transcript.pages import reading, settled, shown, strips, until

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)
GROUND = "#123456"
pytestmark = pytest.mark.timeout(60)


def saved(picture: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    data = io.BytesIO()
    picture.save(data, kind, **options)
    return data.getvalue()


def picture(width: int, height: int, color: object = RED, mode: str = "RGB") -> bytes:
    return saved(Image.new(mode, (width, height), color))  # type: ignore[arg-type]


def quarters(mode: str = "RGB") -> Image.Image:
    """Red and green above, blue and white below."""
    made = Image.new("RGB", (4, 4))
    for at, color in (((0, 0), RED), ((2, 0), GREEN), ((0, 2), BLUE), ((2, 2), WHITE)):
        made.paste(color, (*at, at[0] + 2, at[1] + 2))
    return made.convert(mode)


def colors(drawing: Drawing) -> list[list[str]]:
    """The colours of all half cells, from the top."""
    lines: list[list[str]] = []
    for row in drawing.rows:
        pairs = [run.style.split("/") for run in row.runs for _ in run.text]
        lines += [[pair[0] for pair in pairs], [pair[1] for pair in pairs]]
    return lines


# ---- shape and colours ---------------------------------------------------------------------------


def test_a_picture_keeps_its_shape_and_its_bounds() -> None:
    wide = draw(picture(600, 100), GROUND, 60)
    assert (wide.width, wide.height) == (600, 100)
    assert wide.cells == (60, 5)
    assert [row.text for row in wide.rows] == [UPPER * 60] * 5
    assert draw(picture(500, 500), GROUND, 92).cells == (2 * ROWS, ROWS)
    assert draw(picture(10, 7), GROUND, 92).cells == (10, 4)
    assert draw(picture(1, 1), GROUND, 92).cells == (1, 1)


@given(st.tuples(st.integers(1, 40_000), st.integers(1, 40_000)), st.integers(1, 200))
@settings(deadline=None)
def test_any_size_fits_and_is_never_made_larger(size: tuple[int, int], columns: int) -> None:
    for cell in (Cell(1, 2), Cell(9, 21)):
        wide, high = fit(size, columns, cell)
        assert 1 <= wide <= columns
        assert 1 <= high <= ROWS
        assert wide <= -(-size[0] // cell.width)
        assert high <= -(-size[1] // cell.height)


@pytest.mark.parametrize("size", [(1, 10_000), (10_000, 1), (3, 5), (37, 91)])
def test_what_is_drawn_takes_the_place_that_was_foretold(size: tuple[int, int]) -> None:
    drawing = draw(picture(*size), GROUND, 40)
    assert drawing.cells == drawing.fit(40) == (len(drawing.rows[0].text), len(drawing.rows))


def test_each_half_of_a_cell_is_one_pixel() -> None:
    lines = colors(draw(saved(quarters()), GROUND, 40))
    assert lines == [["#ff0000"] * 2 + ["#00ff00"] * 2] * 2 + [["#0000ff"] * 2 + ["#ffffff"] * 2] * 2


def test_the_half_below_an_odd_picture_is_ground() -> None:
    assert colors(draw(picture(1, 3), GROUND, 40)) == [["#ff0000"]] * 3 + [[GROUND]]


def test_what_shines_through_takes_the_ground() -> None:
    assert colors(draw(picture(2, 2, (255, 255, 255, 0), "RGBA"), GROUND, 40)) == [[GROUND] * 2] * 2
    half = colors(draw(picture(1, 2, (255, 255, 255, 128), "RGBA"), "#000000", 40))
    assert half == [["#808080"]] * 2


@pytest.mark.parametrize(
    ("mode", "kind"), [("P", "PNG"), ("P", "GIF"), ("RGBA", "WEBP"), ("RGB", "BMP"), ("CMYK", "JPEG")]
)
def test_every_kind_of_file_has_its_colours(mode: str, kind: str) -> None:
    options = {"WEBP": {"lossless": True}, "JPEG": {"quality": 100, "subsampling": 0}}.get(kind, {})
    big = quarters().resize((32, 32), Image.Resampling.NEAREST).convert(mode)
    lines = colors(draw(saved(big, kind, **options), GROUND, 40))
    found = [lines[4][4], lines[4][27], lines[27][4], lines[27][27]]
    for color, wanted in zip(found, (RED, GREEN, BLUE, WHITE), strict=True):
        parts = bytes.fromhex(color[1:])
        assert all(abs(part - want) < 12 for part, want in zip(parts, wanted, strict=True)), found


def test_a_transparent_colour_of_a_palette_takes_the_ground() -> None:
    flat = Image.new("P", (2, 2), 0)
    flat.putpalette([255, 0, 0, 0, 0, 0])
    assert colors(draw(saved(flat, transparency=0), GROUND, 40)) == [[GROUND] * 2] * 2


def test_sixteen_bits_keep_their_greys() -> None:
    deep = Image.new("I;16", (2, 2), 0x8000)
    assert colors(draw(saved(deep), GROUND, 40)) == [["#808080"] * 2] * 2


def test_the_first_frame_is_shown() -> None:
    frames = [Image.new("RGB", (2, 2), color) for color in (BLUE, RED, GREEN)]
    data = saved(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert colors(draw(data, GROUND, 40)) == [["#0000ff"] * 2] * 2


@pytest.mark.parametrize(
    ("orientation", "corners"),
    [
        (1, (RED, GREEN, BLUE, WHITE)),
        (2, (GREEN, RED, WHITE, BLUE)),
        (3, (WHITE, BLUE, GREEN, RED)),
        (4, (BLUE, WHITE, RED, GREEN)),
        (5, (RED, BLUE, GREEN, WHITE)),
        (6, (BLUE, RED, WHITE, GREEN)),
        (7, (WHITE, GREEN, BLUE, RED)),
        (8, (GREEN, WHITE, RED, BLUE)),
    ],
)
def test_a_picture_stands_as_the_camera_was_held(
    orientation: int, corners: tuple[tuple[int, int, int], ...]
) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    wide = quarters().resize((16, 8), Image.Resampling.NEAREST)
    drawing = draw(saved(wide, exif=exif), GROUND, 40)
    assert (drawing.width, drawing.height) == ((8, 16) if orientation > 4 else (16, 8))
    lines = colors(drawing)
    found = lines[0][0], lines[0][-1], lines[-1][0], lines[-1][-1]
    assert found == tuple("#{:02x}{:02x}{:02x}".format(*color) for color in corners)


def test_few_colours_are_those_of_the_terminal() -> None:
    ramp = Image.linear_gradient("L").resize((60, 30))
    drawing = draw(saved(Image.merge("RGB", (ramp, ramp.rotate(180), ramp))), GROUND, 60, few_colors=True)
    used = {color for line in colors(drawing) for color in line}
    assert len(used) > 5
    assert used <= {indexed(index) for index in range(16, 256)}
    assert all(indexed(nearest_index(color)) == color for color in used)


# ---- what strangers make -------------------------------------------------------------------------


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_of(width: int, height: int, *chunks: bytes) -> bytes:
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(chunks) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not a known kind of picture"),
        (b"no picture", "not a known kind of picture"),
        (b"\x89PNG\r\n\x1a\n" + b"\0" * 50, "not a known kind of picture|broken"),
        (saved(quarters().resize((90, 90)))[:-60], "broken or cut off"),
        (saved(quarters().resize((90, 90)), "JPEG")[:-60], "broken or cut off"),
        (saved(quarters().resize((90, 90)), "GIF")[:-40], "broken or cut off"),
        (png_of(8, 8, chunk(b"IDAT", b"\0" * 9)), "broken or cut off"),
        (png_of(0, 8, chunk(b"IDAT", b"")), "not a known kind of picture|broken"),
        (png_of(9000, 9000, chunk(b"IDAT", zlib.compress(b""))), "9000x9000 pixels are too many"),
        (png_of(12_000, 9000, chunk(b"IDAT", zlib.compress(b""))), "too many"),
        (png_of(60_000, 60_000, chunk(b"IDAT", zlib.compress(b""))), "too many pixels"),
    ],
)
def test_what_cannot_be_drawn_says_why(data: bytes, reason: str) -> None:
    with pytest.raises(PictureError, match=reason):
        draw(data, GROUND, 40)


def test_words_beside_the_picture_are_not_unpacked_without_end() -> None:
    words = chunk(b"zTXt", b"a\0\0" + zlib.compress(b"\0" * 80_000_000, 1))
    with pytest.raises(PictureError, match="broken"):
        draw(png_of(2, 2, words, chunk(b"IDAT", b"")), GROUND, 40)


def test_a_file_of_too_many_bytes_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    data = picture(4, 4)
    monkeypatch.setattr(pictures, "MOST_BYTES", len(data) - 1)
    with pytest.raises(PictureError, match="too large"):
        draw(data, GROUND, 40)


@given(st.data())
@settings(deadline=None, max_examples=60)
def test_a_damaged_file_is_drawn_or_refused_and_nothing_else(given_data: st.DataObject) -> None:
    kind = given_data.draw(st.sampled_from(["PNG", "JPEG", "GIF", "WEBP", "BMP"]))
    data = bytearray(saved(quarters().resize((24, 24)), kind))
    for _ in range(given_data.draw(st.integers(1, 4))):
        place = given_data.draw(st.integers(0, len(data) - 1))
        data[place] = given_data.draw(st.integers(0, 255))
    try:
        drawing = draw(bytes(data), GROUND, 40)
    except PictureError as err:
        assert str(err)
    else:
        assert drawing.cells[0] <= 40
        assert len(drawing.rows) <= ROWS


# ---- on the page ---------------------------------------------------------------------------------


class Files:
    """A gallery's files: their contents by id, and how often each was asked for."""

    def __init__(self, **files: bytes) -> None:
        self.files = files
        self.asked: list[str] = []
        self.sent: list[str] = []

    async def read(self, row: PictureRow) -> Content:
        self.asked.append(row.file_id)
        data = self.files[row.file_id]
        return Content(f"{row.file_id}.png", f"{len(data)} B", data)

    def hang(self, transcript: object, way: str = "blocks") -> Gallery:
        made = Gallery(way, self.read, transcript.changed, self.sent.append)  # type: ignore[arg-type,attr-defined]
        transcript.gallery = made  # type: ignore[attr-defined]
        return made


async def test_a_picture_is_drawn_below_its_name() -> None:
    files = Files(chart=picture(40, 8))
    row = PictureRow("chart.png", size="120 KB", file_id="chart")
    async with reading([UserTurn("look"), row]) as (transcript, pilot):
        assert shown(transcript)[1:3] == ["  ▐ picture  chart.png  120 KB", ""]
        files.hang(transcript)
        transcript.changed(row)
        await settled(transcript, pilot)
        assert shown(transcript)[1] == f"  ▐ picture  chart.png  40x8  {len(files.files['chart'])} B"
        assert shown(transcript)[2:7] == [*["  ▐ " + UPPER * 40] * 4, ""]
        cell = next(segment for segment in strips(transcript)[3] if UPPER in segment.text)
        assert cell.style is not None and cell.style.color is not None and cell.style.bgcolor is not None
        assert (cell.style.color.name, cell.style.bgcolor.name) == ("#ff0000", "#ff0000")
        assert files.asked == ["chart"]


async def test_another_width_draws_it_anew_in_the_place_that_was_kept() -> None:
    files = Files(chart=picture(400, 100))
    row = PictureRow("chart.png", file_id="chart")
    async with reading([row, Answer("below")], (100, 24)) as (transcript, pilot):
        files.hang(transcript)
        transcript.changed(row)
        await settled(transcript, pilot)
        assert row.drawing is not None and row.drawing.cells == (92, 12)
        await pilot.resize_terminal(40, 24)
        await until(lambda: transcript.size.width == 40)
        columns, rows = row.drawing.fit(transcript.page.sheet.measure)
        assert row.height == rows + 1
        await settled(transcript, pilot)
        assert row.drawing.cells == (columns, rows) == (37, 5)
        assert shown(transcript)[1:7] == [*["▐ " + UPPER * 37] * 5, ""]


async def test_what_shines_through_follows_the_theme() -> None:
    files = Files(ball=picture(2, 2, (0, 0, 0, 0), "RGBA"))
    row = PictureRow("ball.png", file_id="ball")
    async with reading([row]) as (transcript, pilot):
        files.hang(transcript)
        for name in ("hearth", "daylight"):
            look = palette(read(name))
            transcript.set_look(look)
            transcript.changed(row)
            await settled(transcript, pilot)
            assert row.drawing is not None
            assert {color for line in colors(row.drawing) for color in line} == {look.hex("surface")}
        few = palette(read("daylight"), "256")
        transcript.set_look(few)
        await settled(transcript, pilot)
        assert {color for line in colors(row.drawing) for color in line} == {
            indexed(few.colors["surface"].index)
        }


@pytest.mark.parametrize("look", ["no colours", "16 colours", "ascii", "off"])
async def test_terminals_that_cannot_show_it_get_the_words(look: str) -> None:
    files = Files(chart=picture(40, 8))
    row = PictureRow("chart.png", size="1 KB", file_id="chart")
    depth = {"no colours": None, "16 colours": "standard"}.get(look, "truecolor")
    looks = {"palette": palette(read("hearth"), depth)}  # type: ignore[arg-type]
    looks |= {"glyphs": ASCII} if look == "ascii" else {}  # type: ignore[dict-item]
    async with reading([row], **looks) as (transcript, pilot):  # type: ignore[arg-type]
        files.hang(transcript, "off" if look == "off" else "blocks")
        transcript.changed(row)
        await settled(transcript, pilot)
        assert "picture  chart.png" in shown(transcript)[0]
        assert UPPER not in "".join(shown(transcript))


async def test_a_broken_file_says_so_under_its_name() -> None:
    files = Files(bad=b"no picture at all")
    row, gone = PictureRow("bad.png", file_id="bad"), PictureRow("gone.png", file_id="gone")
    async with reading([row, gone]) as (transcript, pilot):
        files.hang(transcript)
        transcript.changed(row)
        await settled(transcript, pilot)
        assert shown(transcript)[:4] == [
            "  ▐ picture  bad.png  17 B",
            "  ▐ not a known kind of picture",
            "  ▐ picture  gone.png",
            "  ▐ cannot be read",
        ]
        transcript.changed(row)
        await settled(transcript, pilot)
        assert files.asked == ["bad", "gone"]


def talk(pictures_at: set[int], turns: int = 40) -> list[UserTurn | PictureRow | Answer]:
    entries: list[UserTurn | PictureRow | Answer] = []
    for turn in range(turns):
        entries.append(UserTurn(f"question {turn}"))
        entries += [PictureRow(f"{turn}.png", file_id="chart")] if turn in pictures_at else []
        entries.append(Answer(f"answer {turn}\n\nwith a second paragraph"))
    return entries


async def test_only_what_comes_near_the_view_is_drawn() -> None:
    files = Files(chart=picture(40, 24))
    entries = talk({2, 20, 39})
    rows = [entry for entry in entries if isinstance(entry, PictureRow)]
    async with reading(entries) as (transcript, pilot):
        files.hang(transcript)
        transcript.to_end()
        await settled(transcript, pilot)
        assert [row.drawing is not None for row in rows] == [False, False, True]
        transcript.scroll_to(y=0, animate=False, immediate=True)
        await settled(transcript, pilot)
        assert [row.drawing is not None for row in rows] == [True, False, True]


async def test_the_line_at_the_top_stays_when_pictures_above_and_below_come_late() -> None:
    files = Files(chart=picture(64, 64))
    entries = talk(set(range(40)))
    async with reading(entries) as (transcript, pilot):
        transcript.scroll_to(y=60, animate=False, immediate=True)
        await settled(transcript, pilot)
        before = shown(transcript)[0], transcript.page.total, transcript.scroll_offset.y
        files.hang(transcript)
        transcript.changed(next(entry for entry in entries if isinstance(entry, PictureRow)))
        await settled(transcript, pilot)
        assert shown(transcript)[0] == before[0]
        assert transcript.page.total > before[1]
        assert transcript.scroll_offset.y > before[2]
        assert transcript.new_below == 0


async def test_the_end_stays_in_view_when_a_picture_comes_late() -> None:
    files = Files(chart=picture(64, 64))
    entries = talk({38})
    async with reading(entries) as (transcript, pilot):
        last = shown(transcript)[-1]
        files.hang(transcript)
        transcript.to_end()
        await settled(transcript, pilot)
        assert transcript.at_tail
        assert shown(transcript)[-1] == last
        assert any(UPPER in line for line in shown(transcript))


async def test_a_picture_is_cut_by_the_view_row_by_row() -> None:
    ramp = Image.linear_gradient("L").resize((8, 32), Image.Resampling.NEAREST)
    files = Files(chart=saved(ramp))
    row = PictureRow("chart.png", file_id="chart")
    async with reading([row, *talk(set(), 30)]) as (transcript, pilot):
        files.hang(transcript)
        transcript.scroll_to(y=0, animate=False, immediate=True)
        await settled(transcript, pilot)
        whole = [strip for strip in strips(transcript) if UPPER in strip.text]
        assert len(whole) == 16
        assert len({str(strip) for strip in whole}) == 16
        for y in range(1, 17):
            transcript.scroll_to(y=y, animate=False, immediate=True)
            await settled(transcript, pilot)
            assert [strip for strip in strips(transcript) if UPPER in strip.text] == whole[y - 1 :]


async def test_rows_of_pictures_far_away_are_given_up_and_their_place_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gallery, "MOST_KEPT", 3)
    files = Files(chart=picture(64, 64))
    entries = talk(set(range(12)), 12)
    rows = [entry for entry in entries if isinstance(entry, PictureRow)]
    async with reading(entries) as (transcript, pilot):
        files.hang(transcript)
        for row in rows:
            transcript.jump_to(row)
            await settled(transcript, pilot)
        kept = [row for row in rows if row.drawing and row.drawing.rows]
        assert rows[0] not in kept
        assert rows[-1] in kept
        assert rows[0].drawing is not None and not rows[0].drawing.rows
        assert rows[0].height == 1 + ROWS
        transcript.jump_to(rows[0])
        await settled(transcript, pilot)
        assert rows[0].drawing.rows


async def test_many_small_pictures_in_view_are_all_drawn_and_none_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gallery, "MOST_KEPT", 3)
    files = Files(icon=picture(4, 2))
    rows = [PictureRow(f"{at}.png", file_id="icon") for at in range(9)]
    async with reading(rows) as (transcript, pilot):
        files.hang(transcript)
        transcript.changed(rows[0])
        await settled(transcript, pilot)
        assert all(row.drawing and row.drawing.rows for row in rows)
        assert len(files.asked) == 9

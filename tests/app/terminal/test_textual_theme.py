from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
from rich.color import Color, ColorSystem, ColorType
from rich.segment import Segment
from rich.style import Style
from textual.app import App, ComposeResult
from textual.color import Color as TextualColor
from textual.strip import Strip
from textual.widgets import Input, OptionList, Static, TextArea

from app.terminal import output, theming
from app.terminal.textual_theme import PaletteFilter, install, tone_style
from app.terminal.theming import SHIPPED, TONES, Palette

BLACK = TextualColor(0, 0, 0)
COLORED = [name for name in SHIPPED if name != "terminal"]


def palette(name: str = "hearth", depth: output.ColorSystem | None = "256", dark: bool = True) -> Palette:
    return theming.palette(theming.read(name), depth, dark_ground=dark)


def mapped(drawn: Palette, style: Style) -> Style:
    [(_, result, _)] = PaletteFilter(drawn).apply([Segment("x", style)], BLACK)
    assert result is not None
    return result


@pytest.mark.parametrize("name", COLORED)
def test_256_colours_are_the_very_indices(name: str) -> None:
    drawn = palette(name)
    for tone in TONES:
        style = mapped(drawn, tone_style(drawn, tone, "panel"))
        assert style.color == Color.from_ansi(drawn.colors[tone].index)
        assert style.bgcolor == Color.from_ansi(drawn.colors["panel"].index)


def test_a_blend_becomes_the_index_that_looks_most_like_it() -> None:
    style = mapped(palette(), Style(color="#8a8a8b", bold=True))
    assert style.color == Color.from_ansi(245)
    assert style.bold


def test_16_colours_leave_grounds_alone_and_reverse_the_selection() -> None:
    drawn = palette(depth="standard")
    style = mapped(drawn, tone_style(drawn, "tool", "surface"))
    assert style.color == Color.from_ansi(6)
    assert style.bgcolor == Color.default()
    assert mapped(drawn, tone_style(drawn, "text", "selection")).reverse
    for caret in ("primary", "text", "error"):
        assert mapped(drawn, tone_style(drawn, "background", caret)).reverse
    for ground in ("background", "panel", "chip", "diff_add_background"):
        assert not mapped(drawn, tone_style(drawn, "text", ground)).reverse
    light = palette(depth="standard", dark=False)
    assert mapped(light, tone_style(light, "tool")).color == Color.from_ansi(4)


def test_without_colour_only_attributes_are_left() -> None:
    drawn = palette(depth=None)
    for tone in TONES:
        style = mapped(drawn, tone_style(drawn, tone, "panel"))
        assert style.color == style.bgcolor == Color.default()
    assert mapped(drawn, tone_style(drawn, "approval")).bold


def test_true_colour_passes_untouched() -> None:
    assert not PaletteFilter(palette(depth="truecolor")).enabled


class Sample(App[None]):
    def compose(self) -> ComposeResult:
        yield Static("some text")
        yield Input(placeholder="write")
        yield TextArea("lines\nof text")
        yield OptionList("one", "two")


def segments(app: App[None]) -> Iterator[Segment]:
    for strip in app.screen._compositor.render_strips():  # pyright: ignore[reportPrivateUsage]
        assert isinstance(strip, Strip)
        yield from strip


@pytest.mark.parametrize("no_color", [False, True])
@pytest.mark.parametrize(
    ("depth", "kinds"),
    [
        ("truecolor", {ColorType.TRUECOLOR}),
        ("256", {ColorType.EIGHT_BIT}),
        ("standard", {ColorType.DEFAULT, ColorType.STANDARD}),
        (None, {ColorType.DEFAULT}),
    ],
)
async def test_textuals_own_widgets_keep_to_the_depth(
    depth: output.ColorSystem | None,
    kinds: set[ColorType],
    no_color: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    app = Sample()
    install(app, palette(depth=depth))
    async with app.run_test():
        found = {
            color.type
            for _, style, _ in segments(app)
            if style is not None
            for color in (style.color, style.bgcolor)
            if color is not None
        }
    assert found <= kinds


async def test_grounds_of_a_running_app_are_those_of_the_theme_and_follow_it() -> None:
    app = Sample()
    install(app, palette())
    async with app.run_test() as pilot:
        for name in COLORED:
            drawn = palette(name)
            install(app, drawn)
            await pilot.pause()
            grounds = {style.bgcolor for _, style, _ in segments(app) if style is not None}
            assert Color.from_ansi(drawn.colors["background"].index) in grounds
            black = {ground for ground in grounds if ground is not None and ground.number == 16}
            assert not black or name == "high-contrast"


async def test_the_terminal_gets_the_filters_colours_as_they_are() -> None:
    app = Sample()
    install(app, palette())
    async with app.run_test():
        strip = Strip([Segment("x", tone_style(palette(), "text", "background"))])
        out = io.StringIO(strip.apply_filter(app._filters[-1], BLACK).render(app.console))
    assert app.console._color_system == ColorSystem.TRUECOLOR  # pyright: ignore[reportPrivateUsage]
    assert "38;5;188;48;5;233m" in out.getvalue()

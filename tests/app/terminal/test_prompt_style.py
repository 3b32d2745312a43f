from __future__ import annotations

import io

import pytest
from prompt_toolkit.data_structures import Size
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from rich.console import Console

from app.terminal import theming
from app.terminal.output import ColorSystem
from app.terminal.prompt_style import (
    prompt_depth,
    prompt_style,
    rich_style,
)
from app.terminal.theming import SHIPPED, TONES, Palette, Tone

DEPTHS: list[ColorSystem | None] = ["truecolor", "256", "standard", None]


def palette(name: str = "hearth", depth: ColorSystem | None = "truecolor", dark: bool = True) -> Palette:
    return theming.palette(theming.read(name), depth, dark_ground=dark)


def printed(drawn: Palette, text: str, tone: Tone) -> str:
    out = io.StringIO()
    console = Console(
        file=out,
        force_terminal=True,
        color_system=drawn.depth,
        no_color=drawn.depth is None,
        _environ={},
    )
    console.print(text, style=rich_style(drawn, tone), end="")
    return out.getvalue()


@pytest.mark.parametrize(
    ("depth", "expected"),
    [
        ("truecolor", "\x1b[38;2;240;186;39mx\x1b[0m"),
        ("256", "\x1b[38;5;178mx\x1b[0m"),
        ("standard", "\x1b[1;93mx\x1b[0m"),
    ],
)
def test_rich_writes_what_the_theme_says(depth: ColorSystem, expected: str) -> None:
    assert printed(palette(depth=depth), "x", "approval") == expected


def test_without_colour_rich_keeps_attributes_only() -> None:
    drawn = palette(depth=None)
    style = rich_style(drawn, "approval", "selection")
    assert style.color is None
    assert style.bgcolor is None
    assert style.bold
    assert style.reverse
    assert rich_style(drawn, "reasoning").italic


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("dark", [True, False])
def test_each_library_takes_each_palette(name: str, depth: ColorSystem | None, dark: bool) -> None:
    drawn = palette(name, depth, dark)
    attributes = prompt_style(drawn).get_attrs_for_style_str("class:approval")
    assert bool(attributes.color) == (drawn.depth is not None)
    console = Console(file=io.StringIO(), force_terminal=True, color_system=drawn.depth, _environ={})
    for tone in TONES:
        console.print("x", style=rich_style(drawn, tone, "selection"))


@pytest.mark.parametrize("name", [name for name in SHIPPED if name != "terminal"])
def test_prompt_toolkit_shows_the_very_index(name: str) -> None:
    drawn = palette(name, "256")
    assert drawn.colors
    style = prompt_style(drawn)
    out = io.StringIO()
    output = Vt100_Output(out, lambda: Size(24, 80))
    for tone in TONES:
        output.set_attributes(style.get_attrs_for_style_str(f"class:{tone}"), prompt_depth(drawn))
        output.write_raw("x")
        output.flush()
        assert f"38;5;{drawn.colors[tone].index}m" in out.getvalue()
        out.seek(0)
        out.truncate()


def test_a_comment_is_muted_and_italic() -> None:
    drawn = palette()
    style = prompt_style(drawn).get_attrs_for_style_str("class:code.comment")
    assert style.italic
    assert f"#{style.color}" == drawn.hex("muted")
    assert prompt_depth(drawn) is ColorDepth.DEPTH_24_BIT

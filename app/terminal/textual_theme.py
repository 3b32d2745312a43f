"""A palette as Textual takes it: its theme, and the filter that maps true colours to what the terminal shows.

Widgets draw with true colours everywhere. Left alone, Textual's own fallback would move palette greys,
turn dark grounds black, and under NO_COLOR turn the picture grey.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Any

from rich.color import Color, ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.color import Color as TextualColor
from textual.filter import ANSIToTruecolor, LineFilter, Monochrome, NoColor
from textual.theme import Theme

from app.terminal.colors import nearest_index
from app.terminal.theming import REVERSE, TONES, Attribute, Palette, Tone

_DEFAULT = Color.default()
_GROUNDS: frozenset[Tone] = frozenset(
    {
        "background",
        "surface",
        "panel",
        "code_background",
        "diff_add_background",
        "diff_remove_background",
        "chip",
        "backdrop",
    }
)
"""What lies behind text. Any other tone there, as under a caret, is reverse where there are no tones."""


def install(app: App[Any], palette: Palette) -> None:
    """Draw `app` with `palette` from now on: once before it runs, and at each change of theme."""
    theme = textual_theme(palette)
    app.register_theme(theme)
    kept = [
        each
        for each in app._filters  # pyright: ignore[reportPrivateUsage] # there is no public way
        if not isinstance(each, PaletteFilter | ANSIToTruecolor | Monochrome | NoColor)
    ]
    # A new filter each time: strips remember what a filter made of them. Colours are true ones
    # already, so in true colour no filter is left to look at what is painted.
    app._filters[:] = [*kept, PaletteFilter(palette)]  # pyright: ignore[reportPrivateUsage]
    # The filter's colours are final, so the console is to pass them on as they are.
    app.console._color_system = ColorSystem.TRUECOLOR  # pyright: ignore[reportPrivateUsage]
    if app.theme != theme.name:
        app.theme = theme.name
    elif app.is_running:
        app.refresh_css(animate=False)


def textual_theme(palette: Palette) -> Theme:
    """The palette as a Textual theme. Each tone is a CSS variable: `$muted`, `$code-background`, `$user`."""
    color = palette.hex
    tones = {tone.replace("_", "-"): color(tone) for tone in TONES}
    tones |= {"text-muted": color("muted"), "text-disabled": color("faint")}
    tones |= {"foreground-muted": color("muted"), "foreground-disabled": color("faint")}
    tones |= {f"text-{role}": color(role) for role in ("primary", "accent", "success", "warning", "error")}
    tones |= {
        "text-secondary": color("user"),
        "block-cursor-foreground": color("text"),
        "block-cursor-background": color("selection"),
        "block-cursor-blurred-foreground": color("text"),
        "block-cursor-blurred-background": color("panel"),
        "block-hover-background": color("panel"),
        "border": color("faint"),
        "border-blurred": color("faint"),
        "surface-active": color("surface"),
        "scrollbar-hover": color("muted"),
        "scrollbar-active": color("muted"),
        "scrollbar-background": color("background"),
        "scrollbar-background-hover": color("background"),
        "scrollbar-background-active": color("background"),
        "scrollbar-corner-color": color("background"),
        "link-color": color("accent"),
        "link-color-hover": color("accent"),
        "link-background-hover": color("panel"),
        "input-cursor-foreground": color("background"),
        "input-cursor-background": color("primary"),
        "input-selection-background": color("selection"),
        "input-selection-foreground": color("text"),
        "screen-selection-background": color("selection"),
        "screen-selection-foreground": color("text"),
        "footer-background": color("surface"),
        "footer-foreground": color("muted"),
        "footer-key-foreground": color("text"),
    }
    return Theme(
        name=palette.name,
        primary=color("primary"),
        secondary=color("user"),
        warning=color("warning"),
        error=color("error"),
        success=color("success"),
        accent=color("accent"),
        foreground=color("text"),
        background=color("background"),
        surface=color("surface"),
        panel=color("panel"),
        boost=color("panel"),
        dark=palette.dark,
        variables=tones,
    )


@lru_cache(1024)
def tone_style(
    palette: Palette,
    tone: Tone = "text",
    on: Tone | None = None,
    attributes: tuple[Attribute, ...] = (),
) -> Style:
    """`tone`, on the ground `on` if given, for a Strip: true colours, which the filter maps.

    Where there are no tones, the attributes that carry the role come by themselves.
    """
    flags = {*attributes, *palette.attributes.get(tone, ())}
    return _style(palette, tone, on, flags)


def _style(palette: Palette, tone: Tone, on: Tone | None, flags: Collection[str]) -> Style:
    return Style(
        color=palette.hex(tone),
        bgcolor=palette.hex(on) if on else None,
        bold="bold" in flags or None,
        italic="italic" in flags or None,
        underline="underline" in flags or None,
        dim="dim" in flags or None,
    )


def laid_over(style: Style, over: Style) -> Style:
    """`style` with `over` on it. A link keeps its id, for which rich would take another each time."""
    combined = style + over
    if style.link:
        combined._link_id = style.link_id  # pyright: ignore[reportPrivateUsage] # there is no public way
    return combined


class PaletteFilter(LineFilter):
    """Maps true colours to the palette's 256 indices, to its 16 colours, or to none at all.

    Colours outside the palette, such as blends, become the index that looks most like them; among 16
    colours the default. Does nothing in true colour.
    """

    def __init__(self, palette: Palette) -> None:
        super().__init__(enabled=palette.depth != "truecolor")
        self.palette = palette
        self._tones: dict[str, Tone] = {}
        for tone in TONES:
            self._tones.setdefault(palette.hex(tone), tone)
        self._styles: dict[Style, Style] = {}

    def apply(self, segments: list[Segment], background: TextualColor) -> list[Segment]:
        """The segments in the terminal's colours."""
        return [Segment(text, style and self._mapped(style), control) for text, style, control in segments]

    def _mapped(self, style: Style) -> Style:
        mapped = self._styles.get(style)
        if mapped is None:
            if len(self._styles) > 4096:
                self._styles.clear()
            mapped = self._styles[style] = self._map(style)
        return mapped

    def _map(self, style: Style) -> Style:
        if self.palette.depth == "256":
            colors = Style.from_color(self._indexed(style.color), self._indexed(style.bgcolor))
            return laid_over(style, colors)
        ground = self._tone(style.bgcolor)
        reverse = ground is not None and ground not in _GROUNDS
        color = _DEFAULT if reverse else self._standard(style.color)
        mapped = laid_over(style, Style.from_color(color, _DEFAULT))
        return laid_over(mapped, Style(reverse=True)) if reverse else mapped

    def _indexed(self, color: Color | None) -> Color | None:
        if color is None or color.triplet is None:
            return color
        tone = self._tone(color)
        return Color.from_ansi(
            nearest_index(color.triplet.hex) if tone is None else self.palette.colors[tone].index
        )

    def _tone(self, color: Color | None) -> Tone | None:
        if color is None or color.triplet is None:
            return None
        return self._tones.get(color.triplet.hex)

    def _standard(self, color: Color | None) -> Color:
        tone = self._tone(color)
        number = self.palette.ansi[tone] if tone and self.palette.depth else None
        return _DEFAULT if number is None or number == REVERSE else Color.from_ansi(number)

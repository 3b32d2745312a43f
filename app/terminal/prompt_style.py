"""A palette as Rich and as prompt_toolkit take it: the colours that the terminal shows, and attributes.

Rich and prompt_toolkit are imported by the functions that need them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from app.terminal.colors import indexed
from app.terminal.theming import REVERSE, TONES, Attribute, Palette, Style, Tone

if TYPE_CHECKING:
    import prompt_toolkit.output
    import prompt_toolkit.styles
    import rich.style

PLAIN: Final = Style("text")

_ANSI_NAMES = (
    *("ansiblack", "ansired", "ansigreen", "ansiyellow", "ansiblue", "ansimagenta", "ansicyan", "ansigray"),
    *("ansibrightblack", "ansibrightred", "ansibrightgreen", "ansibrightyellow"),
    *("ansibrightblue", "ansibrightmagenta", "ansibrightcyan", "ansiwhite"),
)


@lru_cache(512)
def rich_style(
    palette: Palette,
    tone: Tone = "text",
    on: Tone | None = None,
    attributes: tuple[Attribute, ...] = (),
) -> rich.style.Style:
    """`tone`, on the ground `on` if given, as a console of that colour depth shows it.

    Where there are no tones, the attributes that carry the role come by themselves.
    """
    from rich.style import Style as RichStyle

    flags = {*attributes, *palette.attributes.get(tone, ())}
    return RichStyle(
        color=_rich_color(palette, tone),
        bgcolor=_rich_color(palette, on) if on else None,
        bold="bold" in flags or None,
        italic="italic" in flags or None,
        underline="underline" in flags or None,
        dim="dim" in flags or None,
        reverse=(on is not None and not palette.tones and palette.ansi[on] == REVERSE) or None,
    )


def prompt_style(palette: Palette) -> prompt_toolkit.styles.Style:
    """Every tone as a class of its name (`class:muted`), code as `class:code.keyword`, and the menus."""
    from prompt_toolkit.styles import Style as PromptStyle

    def rule(tone: Tone, on: Tone | None = None, *attributes: Attribute) -> str:
        flags = {*attributes, *palette.attributes.get(tone, ())}
        words = [word for word in ("bold", "italic", "underline", "dim") if word in flags]
        if color := _prompt_color(palette, tone):
            words.append(f"fg:{color}")
        if on and not palette.tones and palette.ansi[on] == REVERSE:
            words.append("reverse")
        elif on and (ground := _prompt_color(palette, on)):
            words.append(f"bg:{ground}")
        return " ".join(words)

    styles = {tone: rule(tone) for tone in TONES}
    styles |= {
        f"code.{kind}": rule(style.role, None, *style.attributes) for kind, style in palette.syntax.items()
    }
    styles |= {
        "prompt": rule("primary", None, "bold"),
        "placeholder": rule("faint"),
        "control-character": "fg:default",
        "auto-suggestion": rule("faint"),
        "selected": rule("text", "selection"),
        "search": rule("accent", None, "bold", "underline"),
        "completion-menu": f"noinherit {rule('text', 'panel')}",
        "completion-menu.completion": rule("text", "panel"),
        "completion-menu.completion.current": f"noreverse {rule('text', 'selection', 'bold')}",
        "completion-menu.meta.completion": rule("muted", "panel"),
        "completion-menu.meta.completion.current": rule("text", "selection"),
        "scrollbar.background": rule("text", "panel"),
        "scrollbar.button": rule("text", "scrollbar"),
        "bottom-toolbar": f"noreverse {rule('muted', 'surface')}",
    }
    return PromptStyle.from_dict({name: style.strip() for name, style in styles.items()})


def prompt_depth(palette: Palette) -> prompt_toolkit.output.ColorDepth:
    """The palette's colour depth, in prompt_toolkit's words."""
    from prompt_toolkit.output import ColorDepth

    match palette.depth:
        case "truecolor":
            return ColorDepth.DEPTH_24_BIT
        case "256":
            return ColorDepth.DEPTH_8_BIT
        case "standard":
            return ColorDepth.DEPTH_4_BIT
        case None:
            return ColorDepth.DEPTH_1_BIT


def _rich_color(palette: Palette, tone: Tone) -> str | None:
    match palette.depth:
        case "truecolor":
            return palette.colors[tone].hex
        case "256":
            return f"color({palette.colors[tone].index})"
        case _:
            number = palette.ansi[tone] if palette.depth else None
            return None if number is None or number == REVERSE else f"color({number})"


def _prompt_color(palette: Palette, tone: Tone) -> str | None:
    match palette.depth:
        case "truecolor":
            return palette.colors[tone].hex
        case "256":  # the exact colour of an index is the one that prompt_toolkit finds again
            return indexed(palette.colors[tone].index)
        case _:
            number = palette.ansi[tone] if palette.depth else None
            return None if number is None or number == REVERSE else _ANSI_NAMES[number]

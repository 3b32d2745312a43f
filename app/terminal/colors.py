"""Arithmetic on colours: contrast, mixing, distance, and the 256 colours of xterm.

A colour is text, `#rrggbb`; an index is 16 to 255. The first 16 have no fixed colour, so they never occur.
"""

from __future__ import annotations

import math
from functools import cache

RGB = tuple[int, int, int]
Lab = tuple[float, float, float]

_LEVELS = (0, 95, 135, 175, 215, 255)


def rgb_of(color: str) -> RGB:
    """The three bytes of `#rrggbb`; ValueError for anything else."""
    if len(color) != 7 or color[0] != "#":
        raise ValueError(f"{color!r} is not a colour such as #f28d5b")
    try:
        red, green, blue = bytes.fromhex(color[1:])
    except ValueError as err:
        raise ValueError(f"{color!r} is not a colour such as #f28d5b") from err
    return red, green, blue


def hex_of(rgb: RGB) -> str:
    """`#rrggbb` of three bytes."""
    return "#{:02x}{:02x}{:02x}".format(*rgb)


def contrast(color: str, ground: str) -> float:
    """The contrast ratio of WCAG 2, from 1 to 21."""
    high, low = sorted((_luminance(color), _luminance(ground)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def is_dark(color: str) -> bool:
    """True where white stands out better from `color` than black."""
    return contrast("#ffffff", color) > contrast("#000000", color)


def blend(ground: str, color: str, share: float) -> str:
    """`share` (0 to 1) of `color`, the rest of `ground`."""
    below, above = rgb_of(ground), rgb_of(color)
    red, green, blue = (round(b + (a - b) * share) for b, a in zip(below, above, strict=True))
    return hex_of((red, green, blue))


def indexed(index: int) -> str:
    """The colour at `index` of xterm's palette, 16 to 255."""
    if not 16 <= index <= 255:
        raise ValueError(f"{index} is not between 16 and 255")
    if index >= 232:
        level = 8 + 10 * (index - 232)
        return hex_of((level, level, level))
    place = index - 16
    return hex_of((_LEVELS[place // 36], _LEVELS[place // 6 % 6], _LEVELS[place % 6]))


@cache
def nearest_index(color: str) -> int:
    """The index whose colour looks most like `color`."""
    if (exact := _indexes().get(color)) is not None:
        return exact
    target = _lab(color)
    return min(range(16, 256), key=lambda index: _difference(target, _indexed_lab(index)))


def difference(one: str, other: str) -> float:
    """How different two colours look: CIEDE2000, where 1 is barely seen."""
    return _difference(_lab(one), _lab(other))


@cache
def _indexes() -> dict[str, int]:
    return {indexed(index): index for index in range(16, 256)}


@cache
def _indexed_lab(index: int) -> Lab:
    return _lab(indexed(index))


def _linear(byte: int) -> float:
    value = byte / 255
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4


def _luminance(color: str) -> float:
    red, green, blue = map(_linear, rgb_of(color))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _lab(color: str) -> Lab:
    """CIELAB under D65."""
    red, green, blue = map(_linear, rgb_of(color))
    x = (0.4124564 * red + 0.3575761 * green + 0.1804375 * blue) / 0.95047
    y = 0.2126729 * red + 0.7151522 * green + 0.0721750 * blue
    z = (0.0193339 * red + 0.1191920 * green + 0.9503041 * blue) / 1.08883

    def root(value: float) -> float:
        return value ** (1 / 3) if value > 216 / 24389 else value * 841 / 108 + 4 / 29

    return 116 * root(y) - 16, 500 * (root(x) - root(y)), 200 * (root(y) - root(z))


def _difference(one: Lab, other: Lab) -> float:
    """CIEDE2000 by Sharma, Wu and Dalal (2005); names are those of the paper."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    mean_c = (math.hypot(a1, b1) + math.hypot(a2, b2)) / 2
    g = 0.5 * (1 - math.sqrt(mean_c**7 / (mean_c**7 + 25**7)))
    a1, a2 = a1 * (1 + g), a2 * (1 + g)
    c1, c2 = math.hypot(a1, b1), math.hypot(a2, b2)
    h1, h2 = math.degrees(math.atan2(b1, a1)) % 360, math.degrees(math.atan2(b2, a2)) % 360

    delta_h = h2 - h1
    mean_h = (h1 + h2) / 2
    if c1 * c2 == 0:
        delta_h, mean_h = 0.0, h1 + h2
    elif abs(h2 - h1) > 180:
        delta_h -= math.copysign(360, delta_h)
        mean_h += 180 if h1 + h2 < 360 else -180
    big_h = 2 * math.sqrt(c1 * c2) * math.sin(math.radians(delta_h / 2))

    mean_l, mean_c = (l1 + l2) / 2, (c1 + c2) / 2
    t = (
        1
        - 0.17 * math.cos(math.radians(mean_h - 30))
        + 0.24 * math.cos(math.radians(2 * mean_h))
        + 0.32 * math.cos(math.radians(3 * mean_h + 6))
        - 0.20 * math.cos(math.radians(4 * mean_h - 63))
    )
    scale_l = 1 + 0.015 * (mean_l - 50) ** 2 / math.sqrt(20 + (mean_l - 50) ** 2)
    scale_c = 1 + 0.045 * mean_c
    scale_h = 1 + 0.015 * mean_c * t
    angle = 60 * math.exp(-(((mean_h - 275) / 25) ** 2))
    rotation = -math.sin(math.radians(angle)) * 2 * math.sqrt(mean_c**7 / (mean_c**7 + 25**7))
    lightness, chroma, hue = (l2 - l1) / scale_l, (c2 - c1) / scale_c, big_h / scale_h
    return math.sqrt(lightness**2 + chroma**2 + hue**2 + rotation * chroma * hue)

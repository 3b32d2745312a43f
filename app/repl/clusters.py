"""What a person takes for one character, as the line that is written shows it: by the width that all faces
know, not by the sum of its parts.

prompt_toolkit draws and counts code point by code point. So a cluster whose parts sum up to another
width goes through it as one code point that stands for it, and the terminal gets the cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import prompt_toolkit.utils
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.formatted_text.utils import fragment_list_to_text
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.layout.screen import Char
from prompt_toolkit.layout.utils import explode_text_fragments
from prompt_toolkit.utils import get_cwidth

_FIRST, _LAST = 0x100000, 0x10FFFD
"""The private characters of the last plane stand for clusters here; one that is typed does so too."""
_widths = cast("dict[str, int]", prompt_toolkit.utils._CHAR_SIZES_CACHE)  # pyright: ignore[reportPrivateUsage]
_signs: dict[str, str] = {}


class Clusters(Processor):
    """Draws each cluster in the cells that it takes, and puts the cursor beside it, never into it."""

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """The line with one code point for each cluster of another width."""
        fragments = transformation_input.fragments
        text = fragment_list_to_text(fragments)
        if text.isascii():
            return Transformation(fragments)
        spans = [span for span in _clusters(text) if _is_odd(text[span[0] : span[1]], span[2])]
        if not spans:
            return Transformation(fragments)
        shown = explode_text_fragments(fragments)
        drawn: StyleAndTextTuples = []
        places: list[int] = []
        done = 0
        for start, end, width in [*spans, (len(text), len(text), 0)]:
            places += range(len(drawn), len(drawn) + start - done)
            drawn += shown[done:start]
            if end > start:
                places += [len(drawn)] * (end - start)
                drawn.append((shown[start][0], _sign(text[start:end], width)))
            done = end
        places.append(len(drawn))
        return Transformation(drawn, _at(places), _at(_back(places)))


def size_before(text: str) -> int:
    """How many code points the cluster at the end of `text` has."""
    return _size(text, -1)


def size_after(text: str) -> int:
    """How many code points the cluster at the beginning of `text` has."""
    return _size(text, 0)


def _size(text: str, place: int) -> int:
    near = text[-_MOST:] if place else text[:_MOST]
    if not near or near.isascii():
        return min(1, len(near))
    start, end, _ = _clusters(near)[place]
    return end - start


def _clusters(text: str) -> list[tuple[int, int, int]]:
    """Begin, end and cells of each cluster: rich's, but that two letters of a flag are one."""
    from rich.cells import split_graphemes  # the prompt is there before a text needs it

    found: list[tuple[int, int, int]] = []
    is_half = False
    for start, end, width in split_graphemes(text)[0]:
        is_flag = "\U0001f1e6" <= text[start] <= "\U0001f1ff"
        if is_flag and is_half:
            found[-1] = (found[-1][0], end, found[-1][2] + width)
        else:
            found.append((start, end, width))
        is_half = is_flag and not is_half
    return found


_MOST = 64
"""Code points that are looked at for the cluster beside the cursor."""


def _is_odd(cluster: str, width: int) -> bool:
    return 0 < width != sum(map(get_cwidth, cluster)) or _FIRST <= ord(cluster[0]) <= _LAST


def _sign(cluster: str, width: int) -> str:
    """The code point that stands for a cluster; the beginning of it where all are taken."""
    sign = _signs.get(cluster)
    if sign is None:
        number = _FIRST + len(_signs)
        if number > _LAST:
            return cluster[0]
        sign = _signs[cluster] = chr(number)
        Char.display_mappings[sign] = cluster
        _widths[sign] = _widths[cluster] = width
    return sign


def _at(places: list[int]) -> Callable[[int], int]:
    return lambda place: places[min(max(place, 0), len(places) - 1)]


def _back(places: list[int]) -> list[int]:
    """For each place on the screen, the first one in the text that is shown there."""
    found: list[int] = []
    for at, place in enumerate(places):
        if place == len(found):
            found.append(at)
    return found

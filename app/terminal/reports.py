"""Takes answers and events of a terminal out of what it sends, so that none of them is typed as text.

An answer that comes late (over ssh, after a question was given up) arrives among the keys. Knows
no key: what it does not know goes on to the parser of the face.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

KEY_S, ANSWER_S = 0.05, 1.0
"""How long the beginning of a sequence waits for its rest: one that may be a key, one that is none."""
_MOST_CHARS = 65_536

_OPENED = r"\x1b(?:\][0-9]{1,5};|P[0-9>=!?]|_G)[^\x00-\x1f\x9c]*"
_STRING = re.compile(rf"{_OPENED}(?:\x07|\x1b\\|\x9c)")
"""OSC, DCS and APC, told from alt with `]`, `P` and `_` by what follows."""
_BROKEN = re.compile(rf"{_OPENED}(?=[\x00-\x06\x08-\x1f])(?!\x1b(?:\\|\Z))")
_ANSWER = re.compile(r"\x1b\[(?:[?>=][0-9;:]*[A-Za-z]|[0-9;]*[cn]|(?!48;)[0-9;]+t)")
"""Attributes, flags of the keyboard, colour scheme, status, size."""
_EVENT = re.compile(
    r"\x1b\[(?:[IO](?![A-Za-z])|\?[0-9;]*\$y|<[0-9;]*[Mm]|48;[0-9;:]*t)"  # focus, modes, mouse, size
)
_OTHER_FORM = re.compile(r"\x1b\[27;([0-9]+);([0-9]+)~")
"""A key with modifiers as xterm and tmux report it; the standard form is `CSI key ; modifiers u`."""
_DETAILED = re.compile(r"\x1b\[([0-9:]*)(?:;([0-9:]*))?(?:;([0-9:]*))?([u~A-HPQS])")
"""A key that may also tell its other names, whether it was released, and its text."""
_RELEASED = "3"
_MOST_MODIFIER_DIGITS = 3
"""A set of eight bits, and one."""
_MAYBE_KEY = re.compile(r"\x1b(?:\][0-9]{0,5}|P|_|\[[?>=<]?[0-9;:]*\$?)\Z")
_NO_KEY = re.compile(rf"{_OPENED}\x1b?\Z")


class ReportFilter:
    """Lets keys pass. `events`: take out focus, mouse, size and modes too, where the face knows none."""

    def __init__(self, *, events: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._events = events
        self._clock = clock
        self._held = ""
        self._since = 0.0

    def take(self, data: str) -> str:
        """The keys in `data`; a sequence that is not whole waits for the next part."""
        now, held = self._clock(), self._held
        waits = bool(held) and _NO_KEY.match(held) is not None
        data = data if waits and now - self._since >= ANSWER_S else held + data
        for pattern in (_STRING, _BROKEN, _ANSWER, *([_EVENT] if self._events else ())):
            data = pattern.sub("", data)
        data = _OTHER_FORM.sub("\x1b[\\2;\\1u", data)
        data = _DETAILED.sub(_plain, data)
        unfinished = _NO_KEY.search(data) or _MAYBE_KEY.search(data)
        cut = unfinished.start() if unfinished else len(data)
        if not (waits and data[cut:].startswith(held)):
            self._since = now
        self._held = data[cut:][:_MOST_CHARS]
        return data[:cut]

    def expire(self) -> str:
        """What waited long enough, if it may be keys; an answer that never came whole is dropped."""
        if not self._held:
            return ""
        is_answer = _NO_KEY.match(self._held) is not None
        if self._clock() - self._since < (ANSWER_S if is_answer else KEY_S):
            return ""
        held, self._held = self._held, ""
        return "" if is_answer else held


def _plain(found: re.Match[str]) -> str:
    """A key as parsers read it: without its other names; nothing for one that was released."""
    key, modifiers, text, end = (part or "" for part in found.groups())
    key, (modifiers, _, event) = key.partition(":")[0], modifiers.partition(":")
    if event == _RELEASED or len(modifiers) > _MOST_MODIFIER_DIGITS:
        return ""
    if not all(map(_is_character, (key, *text.split(":")))):
        return ""
    if ":" not in found[0]:
        return found[0]
    return "\x1b[" + ";".join((key, modifiers, text)).rstrip(";") + end


def _is_character(number: str) -> bool:
    code = int(number.lstrip("0")[:9] or 0)
    return code < 0x110000 and not 0xD800 <= code < 0xE000

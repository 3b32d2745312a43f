"""Text from strangers, written so that a person sees every character of it, and sees which it is.

Two texts that differ are written differently: what stands in ⟨brackets⟩ is never the text's own.
Whole words of any one script stay plain; letters of one that pose as another's are told, and so is a
character that is not written as Unicode usually writes it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache

_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0\U0001d159]")
"""Letters and signs that are drawn as nothing."""
_PADDING = re.compile(r" {12,}| +(?=\n|\Z)|\n(?: *+\n){3,}+")
_TOKEN_CHARS = 64
"""How far around a word its neighbours are looked at."""

# Letters of one alphabet that look like Latin ones.
_LIKE_LATIN = frozenset(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u04bb\u0501\u051b\u051d"  # Cyrillic
    "\u0475\u04cf\u0410\u0412\u0415\u0405\u0406\u0408\u041a\u041c\u041d\u041e\u0420\u0421"
    "\u0422\u0425\u0423\u04ae\u050c\u051a\u051c\u04c0"
    "\u03b1\u03b9\u03ba\u03bd\u03bf\u03c1\u03c5\u03c7\u03f2\u03f3\u03b3\u03b7\u03c4\u03c9"  # Greek
    "\u03b5\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5"
    "\u03a7\u03f9"
)
_ALPHABETS = frozenset(
    "LATIN CYRILLIC GREEK ARMENIAN COPTIC CHEROKEE LISU GEORGIAN GOTHIC DESERET OLD CANADIAN TIFINAGH "
    "OSAGE WARANG CARIAN LYCIAN LYDIAN RUNIC PHOENICIAN ELBASAN VITHKUQI GLAGOLITIC ADLAM".split()
)
_LIKE_SIGNS = frozenset(
    "\u2215\u2044\u29f8\u2571\u2024\ua4f8\u0589\u1361\u2236\u02d0\ua789\u01c3\u01c0\u2223"
    "\u2010\u2011\u2212\u2217\u066d\u204e\u201a\u02b9\u02bc\u02c8\u2032\u07f4\u223c\u29f5"
    "\u2216\ufe68\u2039\u203a\u276f\u3008\u3009\u2035\u02cb\u02ba\u2033\u02dc\u02cd\u02c6"
    "\u23d0\u2758\u01c1\u2225\ua78a\u2e40\u30a0\u066a\u2052\u266f\u2768\u2769\u2774\u2775\u2772\u2773"
    "\u29f9\u2572\u27cb\u27cd\u2a74\u2e35\u061b\u066b\u060d\u0703\u0704\u05c3\u16eb\u16ed\u2795\u204a\ua4fd"
    "\u02d7\u02c2\u02c3\u02f8\u07fa\ufe30\ua78f\u2041\u3033\u1735"
)
"""Signs that look like those of ASCII which mean something to a shell, a path or an address."""
_LIKE_SAME = frozenset(
    "\u0251\u0261\ua731\u1d04\u1d0f\u1d11\u1d1c\u1d20\u1d21\u1d22\u0196\ua7fe\u2c9f\u026a\u0269\u0185\u01bd\u0299\u029f\u1e9d\uab62"
)
"""Latin letters that look like others which every keyboard has. Not the dotless i, which Turkish needs."""
_WITHOUT_BLANKS = frozenset(
    "CJK HIRAGANA KATAKANA KATAKANA-HIRAGANA HANGUL BOPOMOFO YI THAI LAO KHMER TIBETAN IDEOGRAPHIC HALFWIDTH "
    "FEMININE MASCULINE".split()
)
"""Scripts that set no blank between their words and Latin ones, and signs that end a word."""
_DASHES = frozenset("\u2012\u2013\u2014\u2015\u2043\ufe58\ufe31\ufe32")
"""Dashes, which in front of a word look like the sign of an option."""
_OVERLAYS = frozenset("\u0334\u0335\u0336\u0337\u0338\u20d2\u20d3\u20d8\u20d9\u20da\u20e5\u20e6\u20ea\u20eb")


def visible(text: str) -> str:
    """`text` as it came from somebody, every character readable; newlines stay.

    Spells out controls, invisible and bidirectional characters, bytes that are no UTF-8
    (`surrogateescape`), blanks at the end of a line, long padding, stacked marks, and look-alike letters.
    """
    odd = [(found.start(), found.end(), _padding(found[0])) for found in _PADDING.finditer(text)]
    if not text.isascii():
        odd = sorted([*odd, *_odd_letters(text)])
    if not odd:
        return text.translate(_SPELLED)
    parts: list[str] = []
    place = 0
    for start, end, written in odd:
        if start >= place:
            parts += (text[place:start].translate(_SPELLED), written)
            place = end
    return "".join([*parts, text[place:].translate(_SPELLED)])


def clean(text: str) -> str:
    """A sentence of ours, whose foreign parts are `visible` already; controls in it are spelled out.

    Once more changes nothing.
    """
    return text.translate(_CLEAN)


def one_row(text: str) -> str:
    """As `visible`, with line breaks spelled out too."""
    return visible(text).replace("\n", "⏎")


class _Table(dict[int, str]):
    """What stands for each character; found when it is first met."""

    def __init__(self, marks: bool) -> None:
        super().__init__()
        self._marks = marks

    def __missing__(self, code: int) -> str:
        found = self[code] = self._written(code, chr(code))
        return found

    def _written(self, code: int, char: str) -> str:
        if self._marks and (char in "\u27e8\u23ce" or 0x2400 <= code <= 0x2421):
            return _spelled(char)
        if char == "\n" or (char.isascii() and char.isprintable()):
            return char
        if char < "\x20":
            return chr(0x2400 + code)
        if char == "\x7f":
            return "␡"
        if 0xDC80 <= code <= 0xDCFF:
            return f"⟨byte {code - 0xDC00:02X}⟩"
        kind = unicodedata.category(char)
        if kind[0] in "CZ" or (kind == "Mn" and char > "\ufdff") or _BLANK.match(char):
            return _spelled(char)
        return char


_SPELLED, _CLEAN = _Table(marks=True), _Table(marks=False)


def _spelled(char: str) -> str:
    return f"⟨U+{ord(char):04X}⟩"


def _padding(blanks: str) -> str:
    if blanks[0] == " ":
        return f"⟨{_count(len(blanks), 'space')}⟩"
    lines = blanks[1:-1].split("\n")
    written: list[str] = []
    at = 0
    while at < len(lines):
        end = at
        while end < len(lines) and lines[end] == lines[at]:
            end += 1
        size = len(lines[at])
        if end - at < 3:
            written += [f"⟨{_count(size, 'space')}⟩" if size else ""] * (end - at)
        elif size:
            written.append(f"⟨{end - at} lines of {_count(size, 'space')}⟩")
        else:
            written.append(f"⟨{end - at} empty lines⟩")
        at = end
    return "\n".join(["", *written, ""])


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


# ---- letters that are not what they seem ---------------------------------------------------------
#
# A text is turned into one of the same length that has a letter for the kind of each character:
# a, d, s, p: an ASCII letter, digit, blank, sign; L: another Latin letter; y, g: Cyrillic and Greek
# ones that look Latin, Y, G: others; o: another alphabet; f, F: a styled form of an ASCII letter that
# nothing but a disguise needs, or that East Asian text has; w: a sign that looks like an ASCII one,
# W: a form of one; t, l: a dash, a line as in tables; c, v, m: a combining mark, one that covers its
# letter, a mark of a script; `.` anything else.

_WORD = re.compile("[aLyYgGofFdc]+")
_MARKS = re.compile("c{3,}|m{5,}|v+|(?:^|(?<=[sdpwW]))c+")
_SIGN = re.compile(
    "(?<=[adp])[wW]+(?=[adsp]|$)|(?:^|(?<=s))[wWt]+(?=[adp])|(?<=[adp]s)W+(?=s[adp])|(?<=[ad])l(?=[ad])"
)
_RUN = re.compile(".m+|s", re.DOTALL)
_MOST_MARKS = 30


_PAIRS = (("Y", "y"), ("G", "g"))


_POSING = {
    **dict.fromkeys(_LIKE_SIGNS, "w"),
    **dict.fromkeys(_DASHES, "t"),
    **dict.fromkeys("\u2502\u2503", "l"),
    **dict.fromkeys(_LIKE_SAME, "F"),
}


class _Kinds(dict[int, str]):
    def __missing__(self, code: int) -> str:
        found = self[code] = _kind(chr(code))
        return found


_KINDS = _Kinds()


def _kind(char: str) -> str:
    if char.isascii():
        return "a" if char.isalpha() else "d" if char.isdigit() else "s" if char.isspace() else "p"
    category = unicodedata.category(char)
    if category[0] == "M":
        return _kind_of_mark(char, category)
    disguised = _POSING.get(char) or _disguise(char)
    if disguised:
        return disguised
    if category[0] != "L" and category != "Nd":
        return "."
    match _script(char):
        case "LATIN":
            return "L"
        case "CYRILLIC":
            return "y" if char in _LIKE_LATIN else "Y"
        case "GREEK":
            return "g" if char in _LIKE_LATIN else "G"
        case "":
            return "."
        case _:
            return "o"


def _kind_of_mark(char: str, category: str) -> str:
    if char in _OVERLAYS or category == "Me":
        return "v"
    if category == "Mc" or char > "\ufdff":
        return "."
    return "c" if unicodedata.name(char, "").startswith("COMBINING") else "m"


def _disguise(char: str) -> str:
    """The kind of a styled form of one ASCII character; empty for all else."""
    plain = unicodedata.normalize("NFKC", char)
    if len(plain) > 1 and plain.isascii() and plain.isalpha():
        return "F"  # Letters drawn as one, as in a ligature.
    if len(plain) != 1 or not plain.isascii():
        return ""
    how = unicodedata.decomposition(char).partition(" ")[0]
    if how in ("<super>", "<sub>", "<noBreak>", "<circle>") or plain == " ":
        return ""
    if not plain.isalnum():
        return "W"
    return "f" if how == "<font>" else "F"


@cache
def _script(char: str) -> str:
    """The script of a letter or digit; empty for those that honestly stand in a word with Latin ones."""
    first = unicodedata.name(char, "").partition(" ")[0]
    is_apart = unicodedata.category(char) in ("Lo", "Nd") and first not in _WITHOUT_BLANKS
    return first if first in _ALPHABETS or is_apart else ""


class _Joins(dict[int, str]):
    """m: what may become one character with what stands before it, s: one that another is written for."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        joins = unicodedata.category(char)[0] == "M" or 0x1161 <= code <= 0x1175 or 0x11A8 <= code <= 0x11C2
        other = not joins and unicodedata.normalize("NFC", char) != char
        found = self[code] = "m" if joins else "s" if other else "."
        return found


_JOINS = _Joins()


def _twice_written(text: str) -> Iterator[tuple[int, int, str]]:
    """Characters that are drawn as another way to write them is, which Unicode calls the usual one."""
    for found in _RUN.finditer(text.translate(_JOINS)):
        start, end = found.span()
        few = end - start <= _MOST_MARKS
        if not few or unicodedata.normalize("NFC", text[start:end]) != text[start:end]:
            first = start if end - start == 1 else start + 1
            yield first, end, "".join(map(_spelled, text[first:end]))


def _odd_letters(text: str) -> Iterator[tuple[int, int, str]]:
    """What is written in place of a part of `text`, or behind a word (a part of no length)."""
    yield from _twice_written(text)
    kinds = text.translate(_KINDS)
    for found in _MARKS.finditer(kinds):
        yield found.start(), found.end(), "".join(map(_spelled, text[found.start() : found.end()]))
    for found in _SIGN.finditer(kinds):
        yield found.start(), found.end(), "".join(map(_spelled, text[found.start() : found.end()]))
    if all(kind not in kinds for kind in "yYgGofF"):
        return
    own = "".join(kind for kind in "aYG" if kind in kinds)
    for found in _WORD.finditer(kinds):
        yield from _odd_word(text, kinds, found.start(), found.end(), own)


def _odd_word(text: str, kinds: str, start: int, end: int, own: str) -> Iterator[tuple[int, int, str]]:
    """`own`: kinds of letters that tell that a text is written in their script."""
    held = set(kinds[start:end]) - {"d", "c"}
    if held <= {"a", "L"} or (held <= {"Y", "y"} and "Y" in held) or (held <= {"G", "g"} and "G" in held):
        return
    latin = not held.isdisjoint("aL")
    if "f" in held or ("F" in held and latin):
        for place in range(start, end):
            if kinds[place] in "fF":
                yield place, place + 1, _spelled(text[place])
    if held in ({"y"}, {"g"}):
        if _poses(kinds, start, end, "Y" if held == {"y"} else "G", own):
            yield end, end, f"⟨look-alike letters: {_told(text[start:end])}⟩"
        return
    if held == {"o"} and text[start:end].isdigit():
        if not set(_beside(kinds, start, end)).isdisjoint("ad"):
            yield end, end, f"⟨mixed scripts: {_told(text[start:end])}⟩"
        return
    mixed = held & {"y", "Y", "g", "o"} if latin else held & {"y", "Y", "g", "G", "o"}
    if mixed and (latin or len({_script(char) for char in text[start:end]} - {""}) > 1):
        yield end, end, f"⟨mixed scripts: {_told(text[start:end])}⟩"


def _poses(kinds: str, start: int, end: int, honest: str, own: str) -> bool:
    """Whether a word of nothing but look-alikes stands among Latin ones rather than its own kind."""
    return "a" in _beside(kinds, start, end) or ("a" in own and honest not in own)


def _beside(kinds: str, start: int, end: int) -> str:
    """What stands around a word up to the next blanks."""
    before = kinds[max(0, start - _TOKEN_CHARS) : start].rpartition("s")[2]
    return before + kinds[end : end + _TOKEN_CHARS].partition("s")[0]


def _told(word: str) -> str:
    """Its letters that are not Latin, by their script and number."""
    found: dict[str, list[str]] = {}
    for char in [char for char in dict.fromkeys(word) if _KINDS[ord(char)] in "yYgGo"]:
        found.setdefault(_script(char).capitalize(), []).append(f"U+{ord(char):04X}")
    return ", ".join(f"{script} {' '.join(codes)}" for script, codes in found.items())

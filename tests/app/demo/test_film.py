"""The moving picture of a demo: what stood on the screen, when, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from app.demo.film import LAST_FRAME_S, Film
from app.demo.script import read_demo

SCREENSHOTS = Path(__file__).parents[3] / "screenshots"
SVG = "{http://www.w3.org/2000/svg}"


class Filmed:
    """A film of `parts`, each heard a second after the one before."""

    def __init__(self, folder: Path, *parts: bytes) -> None:
        now = 0.0
        with Film(folder / "film.svg", (20, 3), "A <title>", clock=lambda: now) as film:
            for part in parts:
                now += 1.0
                film.hear(part)
        self.source = (folder / "film.svg").read_text(encoding="utf-8")
        self.root = ElementTree.fromstring(self.source)
        self.length = LAST_FRAME_S + len(parts) - 1

    def rows(self) -> list[str]:
        return ["".join(text.text or "" for text in group.iter(f"{SVG}text")) for group in self._groups()]

    def spans(self, row: str) -> list[tuple[float, float]]:
        """The seconds in which a row is visible."""
        group = next(group for group, said in zip(self._groups(), self.rows(), strict=True) if said == row)
        name = group.attrib["style"].removeprefix("animation-name:")
        frames = re.search(rf"@keyframes {name}{{(.*)}}\n", self.source)
        assert frames
        marks = [
            (float(at) * self.length / 100, word == "visible")
            for at, word in re.findall(r"([\d.]+)%\{visibility:(\w+)\}", frames[1])
        ]
        ends = [at for at, _ in marks[1:]] + [self.length]
        return [(round(at, 2), round(end, 2)) for (at, seen), end in zip(marks, ends, strict=True) if seen]

    def still(self) -> list[str]:
        """What a person sees who asked for less motion."""
        return [
            "".join(text.text or "" for text in group.iter(f"{SVG}text"))
            for group in self._groups()
            if group.get("class") == "last"
        ]

    def _groups(self) -> list[ElementTree.Element]:
        return list(self.root.iter(f"{SVG}g"))


def test_a_row_is_seen_while_it_stood_on_the_screen(tmp_path: Path) -> None:
    film = Filmed(tmp_path, b"one\r\n", b"two", b"\rTWO", b"\rtwo")
    assert film.spans("one") == [(0, film.length)]
    assert film.spans("two") == [(1, 2), (3, film.length)]
    assert film.spans("TWO") == [(2, 3)]
    assert film.still() == ["one", "two"]


def test_text_is_escaped_and_colours_are_kept(tmp_path: Path) -> None:
    film = Filmed(tmp_path, b"\x1b[1;38;2;1;2;3m<b>&\x1b[0m", b"\r\n\x1b[48;2;9;8;7mx")
    assert film.rows() == ["<b>&", "x"]
    bold = next(film.root.iter(f"{SVG}text"))
    assert (bold.get("fill"), bold.get("font-weight")) == ("#010203", "bold")
    assert 'fill="#090807"' in film.source
    assert "<title>A &lt;title&gt;</title>" in film.source
    assert "http" not in film.source.replace("http://www.w3.org/2000/svg", ""), "it loads nothing"


@pytest.mark.parametrize("cut", range(1, 12))
def test_settings_of_keys_are_not_written_out(tmp_path: Path, cut: int) -> None:
    sent = b"a\x1b[>4;1m\x1b[<ub"
    film = Filmed(tmp_path, sent[:cut], sent[cut:])
    assert film.still() == ["ab"]


def test_it_ends_where_the_program_leaves_the_screen(tmp_path: Path) -> None:
    film = Filmed(tmp_path, b"kept", b"\x1b[?1049l\rgone", b"\rmore")
    assert film.still() == ["kept"]


def test_nothing_is_written_of_a_demo_that_failed(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), Film(tmp_path / "film.svg", (20, 3), "t") as film:
        film.hear(b"half")
        raise RuntimeError
    assert not (tmp_path / "film.svg").exists()


def test_the_film_of_the_readme_shows_what_its_demo_says() -> None:
    """Made by `fireside demo screenshots/film.toml --cast screenshots/film.svg --speed 1.4`."""
    root = ElementTree.fromstring((SCREENSHOTS / "film.svg").read_text(encoding="utf-8"))
    rows = {"".join(text.text or "" for text in group.iter(f"{SVG}text")) for group in root.iter(f"{SVG}g")}
    shown = "\n".join(rows).replace(" ", "")
    demo = read_demo(SCREENSHOTS / "film.toml")
    typed = [step.value for step in demo.steps if step.action == "type"]
    said = [line for reply in demo.replies for line in reply.splitlines() if not line.startswith(("<", "{"))]
    for text in typed + said:
        plain = re.sub(r"[`*]|^```\w*$|\s", "", text)
        assert plain in shown, text

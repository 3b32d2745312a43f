"""The pictures beside the README: all are shown there, tell what they show, and load nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.demo.picture import portable
from app.demo.script import read_demo

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PICTURES = sorted((ROOT / "screenshots").glob("*.svg"))
MOST_COLUMNS = 120
"""More of them are too small to read in the 830 pixels that a browser gives a README."""
SHOWN = re.compile(r'!\[([^\]]+)\]\((screenshots/[^)]+)\)|<img alt="([^"]+)" src="([^"]+)"|srcset="([^"]+)"')


def test_the_readme_shows_every_picture_there_is_and_no_other() -> None:
    found = [match for match in SHOWN.finditer(README)]
    shown = sorted({next(filter(None, (match[2], match[4], match[5]))) for match in found})
    assert shown == [f"screenshots/{file.name}" for file in PICTURES]
    assert all(match[1] or match[3] for match in found if not match[5])


def test_the_readme_says_that_what_pictures_show_was_written_beforehand() -> None:
    assert re.search(r"pictures are scripted", README)
    assert README.index("pictures are scripted") < README.index("## In full screen")


def test_every_picture_is_drawn_by_a_demo_of_a_readable_width() -> None:
    drawn: dict[str, int] = {}
    for file in (ROOT / "screenshots").glob("*.toml"):
        demo = read_demo(file)
        names = [step.screenshot for step in demo.steps if step.screenshot]
        # A demo without a picture of its own is there for its recording.
        drawn |= dict.fromkeys(names or [file.stem], demo.size[0])
    assert sorted(drawn) == sorted(file.stem for file in PICTURES)
    assert {name: size for name, size in drawn.items() if size > MOST_COLUMNS} == {}


@pytest.mark.parametrize("file", PICTURES, ids=lambda file: file.stem)
def test_a_picture_loads_nothing_and_needs_no_font_of_its_own(file: Path) -> None:
    svg = file.read_text(encoding="utf-8")
    assert svg == portable(svg)
    assert "@font-face" not in svg and "url(http" not in svg and "Fira" not in svg
    assert re.search(r"font-family: ?[^;]*Menlo[^;]*, monospace;", svg)
    links = set(re.findall(r"https?://[^\s\"'<&]+", svg)) - {"http://www.w3.org/2000/svg"}
    assert not [link for link in links if re.search(rf'(href|src)="{re.escape(link)}', svg)]

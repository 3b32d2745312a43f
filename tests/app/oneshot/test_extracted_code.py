"""Code that is printed alone or copied is the code that the screen shows."""

from __future__ import annotations

import pytest

from app.commands.replies import _last_code
from app.oneshot.sinks import first_fenced_block

FIVE_DEEP = """- a
  - b
    - c
      - d
        - e
          ```sh
          ls
            -l
          ```
"""
CODE = {
    "in an item": ("- a\n  ```py\n  x\n    y\n  ```\n", "x\n  y\n"),
    "in a quote": ("> ```\n> q\n> ```\nafter", "q\n"),
    "in a quote of an item": ("1. > ~~~\n   > q\n   > ~~~\n", "q\n"),
    "five deep": (FIVE_DEEP, "ls\n  -l\n"),
    "line ends of Windows": ("```py\r\na\r\nb\r\n```\r\n", "a\nb\n"),
    "not finished": ("so:\n```py\nx = 1", "x = 1\n"),
    "ended by its quote": ("> ```\n> q\n\nafter", "q\n"),
    "a fence in a fence": ("````\n```\nin\n```\n````", "```\nin\n```\n"),
    "a longer end": ("```\nx\n``````\n", "x\n"),
    "the other sign inside": ("~~~\n```\n~~~\n", "```\n"),
    "backticks in its name": ("~~~a`b\nz\n~~~", "z\n"),
    "empty lines": ("```\n\na\n\n```", "\na\n\n"),
    "indented up to three": ("   ```\n   a\n  b\n   ```", "a\nb\n"),
    "a tab": ("```make\nall:\n\tls\n```", "all:\n\tls\n"),
    "no end on the line of other text": ("```\na ```\nb\n```", "a ```\nb\n"),
}


@pytest.mark.parametrize("name", CODE)
def test_code_is_extracted_as_it_is_drawn(name: str) -> None:
    source, code = CODE[name]
    assert first_fenced_block(source) == code
    assert _last_code(source) == code


def test_of_several_blocks_the_first_is_printed_and_the_last_is_copied() -> None:
    source = "```\na\n```\n\ntext\n\n- ```\n  b\n  ```\n"
    assert first_fenced_block(source) == "a\n"
    assert _last_code(source) == "b\n"


@pytest.mark.parametrize("source", ["", "text", "`x`", "``\nx\n``", "    indented\n", "a ```b``` c"])
def test_what_is_no_fence_is_not_extracted(source: str) -> None:
    assert first_fenced_block(source) is None


def test_indented_code_is_copied() -> None:
    assert _last_code("text\n\n    x\n    y\n") == "x\ny\n"
    assert _last_code("text") == ""

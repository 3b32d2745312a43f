"""Text that only looks like something else is shown as it is: tags, markup, marks of thoughts."""

from __future__ import annotations

import re

import pytest

from tests.app.repl.chatting import chat

TAGS = "keep 3<x and y>1 ok ; List<Item> ; <name>value</name> ; <!-- note -->"
MARKUP = ["x [/] y", "[/tmp/a]", "a [/ b", '{"k": [true, false]}', "see [1] and [/opt/data] then [bold"]
THOUGHT = 'Please explain <think>x</think> and <details type="reasoning">y</details>'
BLOCKS = [
    "<div>\ninside <b>bold</b>\n</div>\n\nafter",
    "<script>\nlet x = 1;\n\nlet y = 2;\n</script>\nend",
    "<!-- several\n\nlines -->",
    "a < b > c <= d >= e and Map<K, List<V>>",
    "std::vector<int> v; if (a<b && c>d)",
]


def letters(text: str) -> str:
    return re.sub(r"\s", "", text)


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("text", [TAGS, THOUGHT, *MARKUP])
async def test_it_stays_in_a_message_and_in_an_answer(text: str, plain: bool) -> None:
    told = await chat(text, scripts=[[text[:7], text[7:]]], plain=plain, columns=100)
    assert letters(told.seen).count(letters(text)) == (1 if plain else 2)


@pytest.mark.parametrize("text", BLOCKS)
async def test_every_letter_of_a_block_is_there(text: str) -> None:
    told = await chat("go", scripts=[[*text]], columns=100)
    assert letters(text) in letters(told.seen)

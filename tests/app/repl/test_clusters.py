"""What a person takes for one character is one in the line that is written: its width, and the cursor."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text.utils import fragment_list_to_text
from prompt_toolkit.layout.processors import TransformationInput
from prompt_toolkit.layout.screen import Char
from prompt_toolkit.utils import get_cwidth
from rich.cells import cell_len

from app.repl.clusters import Clusters, size_after, size_before
from tests.app.repl.terminal import scripted

FAMILY, FLAG, HEART, SKIN = "👨\u200d👩\u200d👧", "🇩🇪", "❤\ufe0f", "👍🏽"
PIECES = ("a", "語", "e\u0301", FAMILY, FLAG, HEART, SKIN, "1\ufe0f\u20e3", " ", "ก็")


def transformed(text: str) -> Any:
    given = TransformationInput(
        cast("Any", None), Document(text), 0, lambda place: place, [("class:x", text)], 80, 24
    )
    return Clusters().apply_transformation(given)


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_a_line_takes_the_cells_that_every_face_counts(text: str) -> None:
    shown = fragment_list_to_text(transformed(text).fragments)
    assert sum(Char(char).width for char in shown) == get_cwidth(shown) == cell_len(text)
    assert "".join(Char(char).char for char in shown) == text


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_the_cursor_is_beside_a_cluster_and_comes_back_to_where_it_was(text: str) -> None:
    made = transformed(text)
    shown = fragment_list_to_text(made.fragments)
    places = [made.source_to_display(place) for place in range(len(text) + 1)]
    assert places == sorted(places) and places[-1] == len(shown)
    for place in range(len(shown) + 1):
        assert made.source_to_display(made.display_to_source(place)) == place


@pytest.mark.parametrize("cluster", [FAMILY, FLAG, HEART, SKIN, "e\u0301", "a", "語"])
def test_a_step_is_a_whole_cluster(cluster: str) -> None:
    assert size_before(f"x{cluster}") == size_after(f"{cluster}x") == len(cluster)
    assert size_before("") == size_after("") == 0


@pytest.mark.timeout(120)
def test_keys_move_over_and_delete_whole_clusters(tmp_path: Path) -> None:
    with scripted(tmp_path, [["fine"]]) as terminal:
        terminal.wait("ctrl+d leaves")
        # From behind b over b and the flag, the family away; then to the end and one more letter.
        terminal.type(f"a{FAMILY}{FLAG}b\x1b[D\x1b[D\x7f\x1b[C\x1b[C!\r")
        terminal.wait("fine")
        assert f"a{FLAG}b!\r\n" in terminal.output.decode()


@pytest.mark.timeout(120)
def test_they_do_so_in_a_question_and_with_control_keys_too(tmp_path: Path) -> None:
    with scripted(tmp_path, [["fine"]]) as terminal:
        terminal.wait("ctrl+d leaves")
        # ctrl+d deletes the family, ctrl+b and ctrl+f step over the flag.
        terminal.type(f"a{FAMILY}{FLAG}b\x02\x02\x02\x04\x06!\r")
        terminal.wait("fine")
        assert f"a{FLAG}!b\r\n" in terminal.output.decode()
        terminal.type("/save\r")
        terminal.wait("Profile name")
        terminal.type(f"x{FAMILY}\x7f{FLAG}\x1b[D\x1b[3~y\r")
        terminal.wait("xy.toml")

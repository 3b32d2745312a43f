from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from app.terminal.figures import short_count
from app.terminal.glyphs import ASCII, UNICODE
from app.tui.widgets.status import Facts, duration, status_row

FULL = Facts(
    model="SmolLM2 360M",
    gpu_layers=30,
    layers=30,
    context_tokens=1200,
    context_window=8192,
    reused=900,
    first_ms=41,
    speed=109,
    tools="ask",
)


def text(facts: Facts, width: int) -> str:
    return "".join(part for part, _ in status_row(facts, width, UNICODE))


def test_at_full_width_all_is_told_in_order() -> None:
    row = text(FULL, 140)
    words = ["SmolLM2 360M", "gpu 30/30", "ctx 1.2k/8k", "\u254d", "reused 900", "first 41 ms", "109 tok/s"]
    places = [row.index(word) for word in [*words, "tools ask", "? help"]]
    assert places == sorted(places)
    assert row.endswith("tools ask   ? help")
    assert cell_len(row) == 140


def test_at_80_columns_as_the_picture_shows() -> None:
    row = text(FULL, 75)
    assert row.startswith("SmolLM2 360M   gpu 30/30   ctx 1.2k/8k  \u254d")
    assert "109 tok/s" in row and row.endswith("? help")
    assert "tools" not in row and "first" not in row and "reused" not in row


def test_at_40_columns_what_waits_state_model_and_context_are_left() -> None:
    facts = Facts(**{**FULL._asdict(), "asking": 2, "state": "reading 61 %", "context_tokens": 900})
    row = text(facts, 39)
    assert "2 asking" in row and "reading 61 %" in row
    assert "SmolLM2" in row
    assert "gpu" not in row and "help" not in row and "tok/s" not in row


def test_warnings_never_go() -> None:
    assert "cpu only" in text(Facts(**{**FULL._asdict(), "gpu_layers": 0, "has_gpu": True}), 45)
    assert "gpu 12/48" in text(Facts(**{**FULL._asdict(), "gpu_layers": 12, "layers": 48}), 45)
    assert "tools all" in text(Facts(**{**FULL._asdict(), "tools": "all"}), 45)
    assert "tools read in home" in text(Facts(**{**FULL._asdict(), "tools": "read", "home": True}), 45)
    assert "gpu" not in text(FULL, 30)


def test_a_machine_without_a_gpu_is_warned_of_nothing() -> None:
    facts = Facts(**{**FULL._asdict(), "gpu_layers": 0, "has_gpu": False})
    row = status_row(facts, 140, UNICODE)
    assert ("cpu", "$muted") in row and "cpu only" not in text(facts, 140)
    assert "cpu" not in text(facts, 36)


def test_a_long_name_is_cut_when_it_is_tight() -> None:
    facts = Facts(**{**FULL._asdict(), "model": "A Very Long Model Name Indeed 70B"})
    assert "A Very Long Mod\u203a" in text(facts, 75)
    assert "A Very Long Model Name Indeed 70B" in text(facts, 140)


@pytest.mark.parametrize(("tokens", "role"), [(6400, "$muted"), (6600, "$warning"), (7800, "$error")])
def test_the_meter_warns(tokens: int, role: str) -> None:
    row = status_row(Facts(**{**FULL._asdict(), "context_tokens": tokens}), 140, UNICODE)
    assert next(style for part, style in row if "\u254d" in part) == role


def test_an_estimate_says_so() -> None:
    assert "ctx ~1.2k/8k" in text(Facts(**{**FULL._asdict(), "exact": False}), 140)


@settings(deadline=None)
@given(
    st.integers(1, 160),
    st.integers(0, 99),
    st.text(max_size=40).filter(str.isprintable),
    st.booleans(),
    st.integers(0, 10**7),
    st.integers(1, 10**6),
)
def test_parts_go_whole_and_in_their_order(
    width: int, asking: int, model: str, private: bool, tokens: int, window: int
) -> None:
    facts = Facts(
        **{
            **FULL._asdict(),
            "asking": asking,
            "model": model,
            "private": private,
            "context_tokens": tokens,
            "context_window": window,
        }
    )
    row = "".join(part for part, _ in status_row(facts, width, ASCII))
    shown = [name for name in ("help", "gpu", "tok/s", "tools", "first", "reused") if name in row]
    order = ["help", "gpu", "tok/s", "tools", "first", "reused"]
    if cell_len(model) < 20 and not any(name in model for name in order):
        assert shown == order[: len(shown)]
    if asking:
        assert f"{asking} asking" in row
    if any(name in shown for name in order):
        assert cell_len(row) <= max(width, 0) or width < 20


def test_numbers_read_well() -> None:
    assert [short_count(n) for n in (900, 1200, 8192, 12_400, 32_768)] == [
        "900",
        "1.2k",
        "8k",
        "12.4k",
        "32k",
    ]
    assert [duration(s) for s in (0.012, 3.21, 41.2, 125)] == ["12 ms", "3.2 s", "41 s", "2 m 05 s"]


def test_a_context_that_is_not_counted_yet_has_no_number_and_takes_its_place() -> None:
    unknown = text(FULL._replace(context_tokens=None, exact=False), 140)
    assert "ctx -/8k  \u254c\u254c\u254c\u254c\u254c\u254c\u254c\u254c   " in unknown
    assert "ctx 0/8k" in text(FULL._replace(context_tokens=0), 140)

"""Ages and groups by calendar days, over midnight, summer time and times that cannot be."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.frontend.ages import age, grouped, heading, moment, when

ZONE = ZoneInfo("Europe/Zurich")
NOW = datetime(2026, 11, 29, 14, 5, tzinfo=ZONE).timestamp()
H, D = 3600, 86400


@dataclass(frozen=True)
class Chat:
    name: str
    updated_at: int
    pinned: bool = False


@pytest.mark.parametrize(
    ("passed", "word"),
    [
        (-900, "now"),
        (0, "now"),
        (59, "now"),
        (60, "1 m"),
        (3599, "59 m"),
        (H, "1 h"),
        (14 * H, "14 h"),
        (15 * H, "1 d"),
        (4 * D, "4 d"),
        (7 * D, "7 d"),
        (8 * D, "21 Nov"),
        (109 * D, "12 Aug"),
    ],
)
def test_ages(passed: int, word: str) -> None:
    assert age(NOW - passed, NOW, ZONE) == word


def test_a_minute_before_midnight_is_yesterday_but_minutes_old() -> None:
    midnight = datetime(2026, 11, 29, 0, 4, tzinfo=ZONE).timestamp()
    assert age(midnight - 300, midnight, ZONE) == "5 m"
    assert heading(midnight - 300, moment(midnight, ZONE).date(), ZONE) == "yesterday"


def test_the_long_form() -> None:
    words = [when(NOW - passed, NOW, ZONE) for passed in (300, D, 5 * D, 109 * D, 400 * D)]
    assert words == ["today 14:00", "yesterday", "5 days ago", "12 Aug", "25 Oct 2025"]


def test_an_hour_that_summer_time_took_is_no_day() -> None:
    after = datetime(2026, 10, 25, 23, 30, tzinfo=ZONE).timestamp()
    before = datetime(2026, 10, 24, 23, 50, tzinfo=ZONE).timestamp()
    assert age(before, after, ZONE) == "1 d"


def test_groups_in_order_with_the_newest_first() -> None:
    chats = [
        Chat("old", int(NOW - 400 * D)),
        Chat("yesterday", int(NOW - D)),
        Chat("pinned", int(NOW - 90 * D), pinned=True),
        Chat("today 1", int(NOW - 2 * H)),
        Chat("today 2", int(NOW - H)),
        Chat("week", int(NOW - 6 * D)),
        Chat("month", int(NOW - 20 * D)),
    ]
    groups = [(name, [chat.name for chat in found]) for name, found in grouped(chats, NOW, ZONE)]
    assert groups == [
        ("pinned", ["pinned"]),
        ("today", ["today 2", "today 1"]),
        ("yesterday", ["yesterday"]),
        ("last 7 days", ["week"]),
        ("november", ["month"]),
        ("october 2025", ["old"]),
    ]


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**18), 10**18))
def test_no_time_in_a_foreign_export_breaks_a_list(then: float) -> None:
    assert age(then, NOW, ZONE)
    assert when(then, NOW, ZONE)
    assert heading(then, moment(NOW, ZONE).date(), ZONE)

"""How long ago a chat was changed, in words as short as a list has room for. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, tzinfo
from typing import Protocol, TypeVar

from app.clock import moment

_MONTHS = "January February March April May June July August September October November December".split()
_MINUTE_S, _HOUR_S = 60, 3600
_WEEK_DAYS = 7


class Dated(Protocol):
    """Anything a list sorts by time: pinned ones first, the newest first."""

    @property
    def updated_at(self) -> int: ...
    @property
    def pinned(self) -> bool: ...


DatedT = TypeVar("DatedT", bound=Dated)


def age(then: float, now: float, zone: tzinfo | None = None) -> str:
    """`now`, `2 m`, `3 h`, `4 d`, `12 Aug`: calendar days, since that is how a list is grouped."""
    passed = now - then
    if passed < _MINUTE_S:
        return "now"
    if passed < _HOUR_S:
        return f"{int(passed // _MINUTE_S)} m"
    day = moment(then, zone)
    days = (moment(now, zone).date() - day.date()).days
    if days < 1:
        return f"{int(passed // _HOUR_S)} h"
    if days <= _WEEK_DAYS:
        return f"{days} d"
    return f"{day.day} {_MONTHS[day.month - 1][:3]}"


def when(then: float, now: float, zone: tzinfo | None = None) -> str:
    """The same where there is more room: `today 14:02`, `yesterday`, `5 days ago`, `12 Aug 2025`."""
    day, today = moment(then, zone), moment(now, zone).date()
    days = (today - day.date()).days
    if days < 1:
        return f"today {day:%H:%M}"
    if days == 1:
        return "yesterday"
    if days <= _WEEK_DAYS:
        return f"{days} days ago"
    year = "" if day.year == today.year else f" {day.year}"
    return f"{day.day} {_MONTHS[day.month - 1][:3]}{year}"


def heading(then: float, today: date, zone: tzinfo | None = None) -> str:
    """The group of a time: today, yesterday, last 7 days, else the month, with the year of another one."""
    day = moment(then, zone).date()
    days = (today - day).days
    if days < 1:
        return "today"
    if days == 1:
        return "yesterday"
    if days <= _WEEK_DAYS:
        return "last 7 days"
    name = _MONTHS[day.month - 1].lower()
    return name if day.year == today.year else f"{name} {day.year}"


def grouped(
    chats: Iterable[DatedT], now: float, zone: tzinfo | None = None
) -> list[tuple[str, list[DatedT]]]:
    """Chats under their headings: pinned, today, yesterday, last 7 days, by month; newest first."""
    today = moment(now, zone).date()
    groups: dict[str, list[DatedT]] = {}
    for chat in sorted(chats, key=lambda chat: (not chat.pinned, -chat.updated_at)):
        name = "pinned" if chat.pinned else heading(chat.updated_at, today, zone)
        groups.setdefault(name, []).append(chat)
    return list(groups.items())

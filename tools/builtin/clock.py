"""The tool that tells the time."""

from __future__ import annotations

from datetime import datetime

from tools.definition import ToolError, tool


@tool(does="nothing")
def now(timezone: str = "") -> str:
    """The date, the weekday and the time now.

    Args:
        timezone: A name such as Europe/Berlin; the machine's own time zone when empty.
    """
    if not timezone:
        return _shown(datetime.now().astimezone())
    from zoneinfo import ZoneInfo

    try:
        zone = ZoneInfo(timezone)
    except (ValueError, OSError, KeyError) as err:
        raise ToolError(f"There is no time zone {timezone[:80]!r}; names are like Europe/Berlin.") from err
    return _shown(datetime.now(zone))


def _shown(moment: datetime) -> str:
    return f"{moment:%A, %Y-%m-%d %H:%M:%S %Z (UTC%z)}"

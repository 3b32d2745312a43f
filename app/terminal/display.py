"""What a person said about colours, put where every library of a screen looks for it."""

from __future__ import annotations

import os
from collections.abc import MutableMapping

_VARIABLES: dict[str, dict[str, str | None]] = {
    "always": {"NO_COLOR": None},
    "never": {"NO_COLOR": "1"},
    "16": {"NO_COLOR": None, "COLORTERM": None, "TERM": "xterm-16color"},
    "256": {"NO_COLOR": None, "COLORTERM": None, "TERM": "xterm-256color"},
    "truecolor": {"NO_COLOR": None, "COLORTERM": "truecolor"},
}


def force_color(depth: str | None, environ: MutableMapping[str, str] = os.environ) -> None:
    """Make this process, and those it starts, show so many colours; `auto` and None leave it to them.

    A terminal that is dumb stays so, whatever is asked for.
    """
    for name, value in _VARIABLES.get(depth or "auto", {}).items():
        if value is None:
            environ.pop(name, None)
        elif name != "TERM" or environ.get("TERM", "dumb") not in ("", "dumb", "unknown"):
            environ[name] = value

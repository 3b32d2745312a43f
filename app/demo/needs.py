"""What a demo needs of this machine, looked for before the first one plays."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from app.demo.script import Demo
from app.exits import ExitCode, Failure
from app.extras import install_line


def check_needs(file: Path, demo: Demo) -> None:
    """Raise the Failure of what is missing for `demo`, with the way to get it."""
    if demo.face != "tui" and importlib.util.find_spec("pyte") is None:
        raise Failure(
            "missing_package",
            f"The demo {file} needs the package pyte, which is not installed.",
            remedy=f"Install it: {install_line('demo')}",
            exit_code=ExitCode.USAGE,
        )
    from app.models.catalog import require_writer
    from backend.types import ModelLoadError

    try:
        require_writer(demo.model)
    except ModelLoadError as err:
        raise Failure(
            err.cause,
            f"The demo {file} needs a model. {err}",
            remedy=err.remedy,
            exit_code=ExitCode.NO_MODEL,
        ) from err

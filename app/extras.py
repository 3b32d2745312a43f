"""How the packages are installed that a part of Fireside needs and the whole does not."""

from __future__ import annotations

import shlex
import sys
from typing import Literal

PACKAGES = {
    "demo": ("pyte>=0.8.2,<1",),
    "serve": (
        "prometheus-client>=0.21,<1",
        "python-multipart>=0.0.20,<1",
        "starlette>=1,<2",
        "uvicorn>=0.40,<1",
    ),
}
"""As the extras of `pyproject.toml` have them: from a checkout, no name of ours is in an index."""


def install_line(extra: Literal["demo", "serve"]) -> str:
    """The command that installs what `extra` needs, into the Python that runs this."""
    return shlex.join((sys.executable, "-m", "pip", "install", *PACKAGES[extra]))

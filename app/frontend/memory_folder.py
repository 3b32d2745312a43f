"""Where a private chat may have a file: in memory."""

from __future__ import annotations

import os
from pathlib import Path

MEMORY_FOLDER = Path("/dev/shm")


def memory_folder() -> Path | None:
    """A folder that lives in memory, where the system has one."""
    return MEMORY_FOLDER if MEMORY_FOLDER.is_dir() and os.access(MEMORY_FOLDER, os.W_OK) else None

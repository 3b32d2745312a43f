"""The folder that a chat and its tools work in: found once, when the program begins.

It may be gone by then, or go later. A chat needs none; what does need one says so.
"""

from __future__ import annotations

import os
from pathlib import Path

from app.exits import FOLDER_GONE, usage

NOWHERE = (
    f"{FOLDER_GONE} You can keep chatting; for tools and files, change to another folder (cd), "
    "or name one with --workspace."
)


def working_folder(named: str | None) -> Path | None:
    """The real path of the folder `named`, else of the current one; None where that one is gone.

    A usage failure for a name that leads nowhere: none, a tilde without a home, links in a circle, a part
    of a path without a folder.
    """
    if named == "":
        raise usage("--workspace expects a folder, and its name is empty.")
    try:
        whole = Path(named or ".").expanduser()
    except RuntimeError as err:
        raise usage(f"--workspace expects a folder; there is no home folder {named}.") from err
    try:
        return whole.resolve()
    except RuntimeError as err:
        raise usage(f"--workspace expects a folder; {named} is a link that leads in a circle.") from err
    except OSError as err:
        if named:
            raise usage(f"--workspace expects a folder. {FOLDER_GONE}", "Give a whole path.") from err
        return None


def chosen_folder(named: str | None) -> Path | None:
    """As `working_folder`, for what a flag names: a usage failure where it is not a folder."""
    folder = working_folder(named)
    if named and folder is not None and not os.path.isdir(folder):  # False too where it cannot be looked at
        raise usage(f"--workspace expects a folder; {folder} is not one.")
    return folder

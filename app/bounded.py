"""Reading what a person names, of bounded size: regular files and pipes, never a device without end."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from app.open_stores import refuse


def read_bounded(file: str | os.PathLike[str], limit_bytes: int) -> bytes:
    """What is in `file`, a regular file or a pipe. OSError for all else, and for more than the limit."""
    if not os.fspath(file):
        raise OSError(errno.ENOENT, "its name is empty")
    refuse(file)
    with Path(file).open("rb") as stream:
        mode = os.fstat(stream.fileno()).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
            raise OSError(errno.EINVAL, "it is neither a file nor a pipe")
        data = stream.read(limit_bytes + 1)
    if len(data) > limit_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {limit_bytes / 2**20:.3g} MiB")
    return data

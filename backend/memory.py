"""How much memory this process may still take on the host: the system's, held against container limits."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

_VM_STAT_TIMEOUT_S = 5


def host_free_bytes(root: Path = Path("/")) -> int:
    """Bytes that can be had without swapping, page cache included; 0 where the system does not tell.

    Linux: MemAvailable and every cgroup limit above this process (version 2 and 1). macOS: free,
    inactive and speculative pages. `root` stands for the file system's root.
    """
    if sys.platform == "darwin":
        return _mac_free_bytes()
    available = _meminfo(root).get("MemAvailable", 0)
    return max(1, min([available, *_cgroup_left(root)])) if available else 0


def _meminfo(root: Path) -> dict[str, int]:
    lines = _lines(root / "proc/meminfo")
    found = (re.match(r"(\w+):\s+(\d+) kB", line) for line in lines)
    return {match[1]: int(match[2]) * 1024 for match in found if match}


def _cgroup_left(root: Path) -> Iterator[int]:
    """What each limit above this process leaves, without the file cache that the kernel gives back."""
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if not controllers:
            names = ("memory.max", "memory.current", "inactive_file")
            yield from _limits(root / "sys/fs/cgroup", path, *names)
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            yield from _limits(root / "sys/fs/cgroup/memory", path, *names)


def _limits(mount: Path, path: str, limit: str, usage: str, cache: str) -> Iterator[int]:
    parts = [part for part in path.split("/") if part and part != ".."]
    for depth in range(len(parts) + 1):
        group = mount.joinpath(*parts[:depth])
        most, used = _number(group / limit), _number(group / usage)
        if most is None or used is None:
            continue
        returnable = (
            int(line.split()[1]) for line in _lines(group / "memory.stat") if line.startswith(f"{cache} ")
        )
        yield max(0, most - used + sum(returnable))


def _number(path: Path) -> int | None:
    text = "".join(_lines(path))
    return int(text) if text.isdigit() else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _mac_free_bytes() -> int:
    import subprocess

    try:
        text = subprocess.run(
            ["/usr/bin/vm_stat"], capture_output=True, text=True, timeout=_VM_STAT_TIMEOUT_S, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return 0
    pages = {match[1]: int(match[2]) for match in re.finditer(r"Pages (\w+):\s+(\d+)", text)}
    free = sum(pages.get(name, 0) for name in ("free", "inactive", "speculative"))
    return free * os.sysconf("SC_PAGE_SIZE")

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from backend.memory import host_free_bytes

MIB = 1 << 20
pytestmark = pytest.mark.skipif(sys.platform == "darwin", reason="/proc and cgroups are Linux's")


def put(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


MEMINFO = {"proc/meminfo": "MemTotal:       16384000 kB\nMemAvailable:    8192000 kB\n"}


def test_without_limits_the_system_decides(tmp_path: Path) -> None:
    put(tmp_path, MEMINFO)
    assert host_free_bytes(tmp_path) == 8_192_000 * 1024


def test_a_cgroup_2_limit_above_this_process_counts_without_its_file_cache(tmp_path: Path) -> None:
    put(
        tmp_path,
        {
            **MEMINFO,
            "proc/self/cgroup": "0::/pod/app\n",
            "sys/fs/cgroup/pod/memory.max": str(512 * MIB),
            "sys/fs/cgroup/pod/memory.current": str(300 * MIB),
            "sys/fs/cgroup/pod/memory.stat": f"anon 1\ninactive_file {100 * MIB}\n",
            "sys/fs/cgroup/pod/app/memory.max": "max\n",
            "sys/fs/cgroup/pod/app/memory.current": str(10 * MIB),
        },
    )
    assert host_free_bytes(tmp_path) == 312 * MIB


def test_a_cgroup_1_limit_counts(tmp_path: Path) -> None:
    put(
        tmp_path,
        {
            **MEMINFO,
            "proc/self/cgroup": "5:cpu:/\n4:memory:/box\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": str(1 << 62),
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "0",
            "sys/fs/cgroup/memory/box/memory.limit_in_bytes": str(256 * MIB),
            "sys/fs/cgroup/memory/box/memory.usage_in_bytes": str(400 * MIB),
            "sys/fs/cgroup/memory/box/memory.stat": "total_inactive_file 0\n",
        },
    )
    assert host_free_bytes(tmp_path) == 1


def test_a_system_that_tells_nothing_gives_zero(tmp_path: Path) -> None:
    assert host_free_bytes(tmp_path) == 0


def test_this_machine_has_some_memory() -> None:
    assert host_free_bytes() > 64 * MIB

"""Run inside the sandbox by `tools.sandbox.escape`: tries to get out, and prints what it could do, as JSON.

Harms nothing where it is not confined at all: a file that opens for writing is enough, and mounts are
left alone unless they are its own. Imports the standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import platform
import socket
import sys
from collections.abc import Callable
from typing import Any

Bait = dict[str, Any]
Attempt = Callable[[ctypes.CDLL, Bait], bool]

_REMOUNT, _BIND, _DETACH = 0x20, 0x1000, 2
_NEW_USER, _NEW_MOUNT, _CHILD_ENDS = 0x10000000, 0x00020000, 17
_CLONE = {"x86_64": 56, "aarch64": 220}
_KEYCTL = {"x86_64": 250, "aarch64": 219}
_SYSTEM = ("/", "/etc", "/usr", "/var")
_PROC = ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/sys/kernel/modprobe")
_SYS = ("/sys/kernel/uevent_helper", "/sys/power/state")


def main(bait: Bait) -> list[str]:
    """Every attempt; those that worked, in words."""
    libc = ctypes.CDLL(None, use_errno=True)
    reached: list[str] = []
    own_mounts = _has_own_mounts(bait)
    for what, attempt in _ATTEMPTS:
        if attempt in _ON_MOUNTS and not own_mounts:
            reached.append(what)
            continue
        with contextlib.suppress(Exception):
            if attempt(libc, bait):
                reached.append(what)
    return reached


def _has_own_mounts(bait: Bait) -> bool:
    """Whether what is done to mounts here is not done to those of the machine."""
    if os.readlink("/proc/self/ns/mnt") == bait["spaces"]["mnt"]:
        return False
    with open("/proc/self/mountinfo") as file:
        return not any("shared:" in line.partition(" - ")[0] for line in file)


def _new_namespace(libc: ctypes.CDLL, bait: Bait) -> bool:
    return libc.unshare(_NEW_USER) == 0 or libc.unshare(_NEW_MOUNT) == 0


def _clones(libc: ctypes.CDLL, bait: Bait) -> bool:
    number = _CLONE[platform.machine()]
    child = libc.syscall(number, ctypes.c_ulong(_NEW_USER | _CHILD_ENDS), None, None, None, None)
    if child == 0:
        os._exit(0)
    if child > 0:
        os.waitpid(child, 0)
    return child > 0


def _remounts(libc: ctypes.CDLL, bait: Bait) -> bool:
    done = [libc.mount(b"none", path.encode(), None, _REMOUNT | _BIND, None) for path in ("/", "/proc")]
    return 0 in done


def _unmounts(libc: ctypes.CDLL, bait: Bait) -> bool:
    return any(libc.umount2(path.encode(), _DETACH) == 0 for path in bait["covered"])


def _joins(libc: ctypes.CDLL, bait: Bait) -> bool:
    for kind in ("mnt", "user"):
        with contextlib.suppress(OSError):
            handle = os.open(f"/proc/1/ns/{kind}", os.O_RDONLY)
            if libc.setns(handle, 0) == 0:
                return True
    return False


def _writes_system(libc: ctypes.CDLL, bait: Bait) -> bool:
    for folder in _SYSTEM:
        with contextlib.suppress(OSError):
            os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o600))
            return True
    return False


def _writes_kernel(libc: ctypes.CDLL, bait: Bait) -> bool:
    for path in (*_PROC, *_SYS):
        with contextlib.suppress(OSError):
            os.close(os.open(path, os.O_WRONLY))
            return True
    return False


def _sees_beside(libc: ctypes.CDLL, bait: Bait) -> bool:
    roots = ("", "/proc/1/root", "/proc/1/cwd/../..", "/proc/self/root")
    return any(os.path.lexists(root + bait["beside"]) for root in roots)


def _sees_home(libc: ctypes.CDLL, bait: Bait) -> bool:
    return any(os.path.lexists(path) for path in bait["homes"])


def _reads_password(libc: ctypes.CDLL, bait: Bait) -> bool:
    with open(".env") as file:
        return "password" in file.read()


def _changes_code(libc: ctypes.CDLL, bait: Bait) -> bool:
    for attempt in (
        lambda: os.close(os.open(".git/hooks/pre-commit", os.O_WRONLY | os.O_CREAT, 0o600)),
        lambda: os.rename(".git", "git"),
        lambda: os.rename(".git/hooks", ".git/x"),
        lambda: os.unlink(".envrc"),
        lambda: os.link(".envrc", "envrc"),
        lambda: os.close(os.open(".envrc", os.O_WRONLY)),
    ):
        with contextlib.suppress(OSError):
            attempt()
            return True
    return False


def _connects(libc: ctypes.CDLL, bait: Bait) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", bait["port"]), 1):
        return True
    return False


def _reaches_sockets(libc: ctypes.CDLL, bait: Bait) -> bool:
    for address in ("socket", "\0" + bait["abstract"]):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as one:
            one.connect(address)
            return True
    return False


def _opens_sockets(libc: ctypes.CDLL, bait: Bait) -> bool:
    for family, kind in ((1, socket.SOCK_STREAM), (40, socket.SOCK_STREAM), (16, socket.SOCK_RAW)):
        with contextlib.suppress(OSError):
            socket.socket(family, kind, 0).close()
            if family != 16:
                return True
    with contextlib.suppress(OSError):
        socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        return True
    return False


def _sees_processes(libc: ctypes.CDLL, bait: Bait) -> bool:
    return any(os.readlink(f"/proc/self/ns/{kind}") == name for kind, name in bait["spaces"].items())


def _has_rights(libc: ctypes.CDLL, bait: Bait) -> bool:
    with open("/proc/self/status") as file:
        facts = dict(line.rstrip("\n").split(":", 1) for line in file)
    rights = any(int(facts[name], 16) for name in ("CapEff", "CapPrm", "CapBnd", "CapInh", "CapAmb"))
    return bool(rights) or facts["NoNewPrivs"].strip() != "1"


def _has_files(libc: ctypes.CDLL, bait: Bait) -> bool:
    open_ones: list[int] = []
    for number in range(3, 1024):
        with contextlib.suppress(OSError):
            fcntl.fcntl(number, fcntl.F_GETFD)
            open_ones.append(number)
    return bool(open_ones)


def _lends_rights(libc: ctypes.CDLL, bait: Bait) -> bool:
    with open("program", "w"):
        pass
    with contextlib.suppress(OSError):
        os.chmod("program", 0o4755)
        return True
    return False


def _reads_keys(libc: ctypes.CDLL, bait: Bait) -> bool:
    return libc.syscall(_KEYCTL[platform.machine()], 0, -3, 1) > 0


_ON_MOUNTS = (_remounts, _unmounts, _joins)
_ATTEMPTS: tuple[tuple[str, Attempt], ...] = (
    ("use files that were open outside", _has_files),
    ("keep root's rights", _has_rights),
    ("change mounts", _remounts),
    ("uncover the home folder", _unmounts),
    ("write to the system", _writes_system),
    ("write to the kernel's settings", _writes_kernel),
    ("see files beside the workspace", _sees_beside),
    ("see the home folder", _sees_home),
    ("read a password in the workspace", _reads_password),
    ("change files that become code", _changes_code),
    ("reach the network", _connects),
    ("reach other programs' sockets", _reaches_sockets),
    ("open sockets that lead outside", _opens_sockets),
    ("see what runs outside", _sees_processes),
    ("make programs that give away rights", _lends_rights),
    ("use the kernel's keys", _reads_keys),
    # Last, since rights and the folder are lost on the way into another namespace.
    ("join other namespaces", _joins),
    ("make namespaces of its own", _new_namespace),
    ("make namespaces of its own", _clones),
)


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))

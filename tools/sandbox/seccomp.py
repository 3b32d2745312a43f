"""The filter of system calls that what runs in the sandbox gets, as a program for the kernel.

It refuses new namespaces and mounts, sockets that lead past the namespaces (of Unix, of hypervisors),
keys of the kernel, input faked into a terminal, and files that lend out their owner's rights. Each call
of another architecture is refused too. Written for x86-64 and 64-bit ARM.
"""

from __future__ import annotations

import errno
import platform
import struct
import sys
from collections.abc import Iterator

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000

_NAMESPACES = 0x7E020000
"""CLONE_NEWNS, CGROUP, UTS, IPC, USER, PID and NET."""
_NEW_TIME = 0x80
_SET_ID = 0o6000
_CREATES = 0o100 | 0x400000
"""O_CREAT and O_TMPFILE: only then a mode is given."""
_UNIX, _STREAM, _SEQUENCED = 1, 1, 5
_FAMILIES = (2, 10, 16)
"""IPv4, IPv6 and netlink, which the network namespace bounds."""
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C

_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_REFUSED = {
    # name: (x86-64, 64-bit ARM); None where there is none
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "setns": (308, 268),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "vhangup": (153, 58),
    "lookup_dcookie": (212, 18),
    "iopl": (172, None),
    "ioperm": (173, None),
    "uselib": (134, None),
}
_UNKNOWN = {
    "clone3": (435, 435),
    "openat2": (437, 437),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
"""What takes its flags in memory, where no filter sees them: programs fall back to the older call."""
_MODES = {  # name: (x86-64, 64-bit ARM, argument with the mode, argument with the flags)
    "chmod": (90, None, 1, None),
    "fchmod": (91, 52, 1, None),
    "fchmodat": (268, 53, 2, None),
    "fchmodat2": (452, 452, 2, None),
    "creat": (85, None, 1, None),
    "mknod": (133, None, 1, None),
    "mknodat": (259, 33, 2, None),
    "open": (2, None, 2, 1),
    "openat": (257, 56, 3, 2),
}
_CLONE, _UNSHARE, _IOCTL, _SOCKET, _SOCKETPAIR = (56, 220), (272, 97), (16, 29), (41, 198), (53, 199)
_X32 = 0x40000000


def filter_program(machine: str | None = None) -> bytes | None:
    """The filter for a machine, by default this one, in the form `bwrap --seccomp` reads; None where
    there is none."""
    found = _MACHINES.get(machine or platform.machine())
    if found is None or (machine is None and (sys.platform != "linux" or sys.maxsize < 2**32)):
        return None
    architecture, column = found
    return b"".join(struct.pack("=HBBI", *step) for step in _program(architecture, column))


_Step = tuple[int, int, int, int]


def _program(architecture: int, column: int) -> Iterator[_Step]:
    yield _load(_ARCHITECTURE)
    yield from _unless(_EQUAL, architecture, errno.ENOSYS)
    yield _load(_NUMBER)
    if column == 0:
        yield from _when(_AT_LEAST, _X32, errno.ENOSYS)
    for numbers in _REFUSED.values():
        if (number := numbers[column]) is not None:
            yield from _when(_EQUAL, number, errno.EPERM)
    for numbers in _UNKNOWN.values():
        yield from _when(_EQUAL, numbers[column], errno.ENOSYS)
    yield from _call(_CLONE[column], [_argument(0), *_when(_ANY_BIT, _NAMESPACES, errno.EPERM)])
    yield from _call(_UNSHARE[column], [_argument(0), *_when(_ANY_BIT, _NAMESPACES | _NEW_TIME, errno.EPERM)])
    terminal = [*_when(_EQUAL, _TIOCSTI, errno.EPERM), *_when(_EQUAL, _TIOCLINUX, errno.EPERM)]
    yield from _call(_IOCTL[column], [_argument(1), *terminal])
    for numbers in _MODES.values():
        if (number := numbers[column]) is not None:
            yield from _call(number, _mode(numbers[2], numbers[3]))
    families = [step for family in _FAMILIES for step in ((_EQUAL, 0, 1, family), _allow())]
    yield from _call(_SOCKET[column], [_argument(0), *families, _refuse(errno.EAFNOSUPPORT)])
    # A pair of datagram sockets could be pointed at any other socket.
    kinds = [step for kind in (_STREAM, _SEQUENCED) for step in ((_EQUAL, 0, 1, kind), _allow())]
    pair = [
        _argument(0),
        *_unless(_EQUAL, _UNIX, errno.EAFNOSUPPORT),
        _argument(1),
        (_AND, 0, 0, 0xF),
        *kinds,
    ]
    yield from _call(_SOCKETPAIR[column], [*pair, _refuse(errno.EAFNOSUPPORT)])
    yield _allow()


def _mode(mode: int, flags: int | None) -> list[_Step]:
    refused = [_argument(mode), *_when(_ANY_BIT, _SET_ID, errno.EPERM)]
    if flags is None:
        return refused
    return [_argument(flags), (_ANY_BIT, 0, len(refused), _CREATES), *refused]


def _call(number: int, steps: list[_Step]) -> Iterator[_Step]:
    """`steps` for one system call, which end by allowing it; the number is loaded before and after."""
    yield (_EQUAL, 0, len(steps) + 1, number)
    yield from steps
    yield _allow()


def _load(offset: int) -> _Step:
    return (_LOAD, 0, 0, offset)


def _argument(index: int) -> _Step:
    """The lower half of an argument: all of these are 32 bits wide."""
    return _load(_ARGUMENTS + 8 * index)


def _when(test: int, value: int, error: int) -> Iterator[_Step]:
    yield (test, 0, 1, value)
    yield _refuse(error)


def _unless(test: int, value: int, error: int) -> Iterator[_Step]:
    yield (test, 1, 0, value)
    yield _refuse(error)


def _refuse(error: int) -> _Step:
    return (_RETURN, 0, 0, _ERRNO | error)


def _allow() -> _Step:
    return (_RETURN, 0, 0, _ALLOW)

"""What the sandbox shows of the file system, as options of bubblewrap.

The system is read-only. Homes, temporary files, other disks, folders beside the system's own and what it
keeps secret are covered. Shown again are installed programs, the repository that the workspace is a work
tree of, and the workspace, which can be written but for what becomes code.
"""

from __future__ import annotations

import glob
import os
import pwd
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from tools.sandbox.git_folder import linked_repository
from tools.sandbox.survey import Key, Survey
from tools.sandbox.system_secrets import system_secrets
from tools.secrets import is_secret
from tools.workspace import Workspace

_SYSTEM = ("/usr", "/etc", "/var", "/proc", "/sys", "/dev", "/run", "/boot", "/bin", "/sbin", "/lib", "/opt")
_WORKING = (
    "/usr /etc /bin /sbin /lib /lib32 /lib64 /libx32 /boot /proc /sys /dev /nix /gnu /snap /var/lib "
    "/var/spool /var/cache"
).split()
_NOT_WORKING = ("/dev/shm", "/usr/src", "/usr/local/src")
_OF_SYSTEM = frozenset(
    "bin sbin lib lib32 lib64 libx32 usr etc var opt nix gnu snap sw sys proc dev boot run".split()
)
"""Folders of `/` that are the system; programs that lie elsewhere are shown where PATH names them."""
_COVERED = (
    "/home /root /tmp /var/tmp /run /var/run /mnt /media /var/spool /var/mail /var/log /var/backups "
    "/var/lib/docker /var/lib/containerd /var/lib/containers /var/lib/kubelet /var/lib/private "
    "/var/lib/libvirt /var/lib/lxc /var/lib/incus /etc/ssl/private /etc/letsencrypt /etc/wireguard "
    "/etc/kubernetes /etc/rancher /etc/sudoers.d /etc/NetworkManager/system-connections"
).split()
_COVERED_FILES = (
    "/etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /etc/sudoers /etc/krb5.keytab /etc/ipsec.secrets "
    "/etc/security/opasswd /etc/ssh/ssh_host_*_key /etc/ppp/*-secrets"
).split()
_PROGRAMS = (
    ".pyenv .rbenv .nodenv .goenv .jenv .asdf .nvm .volta .bun/bin .deno/bin .cargo/bin .rustup go/bin "
    ".sdkman .ghcup .opam .juliaup .local/bin .local/share/mise .local/share/uv .local/share/pipx "
    ".local/pipx .local/share/pnpm miniconda3 anaconda3 miniforge3 mambaforge"
).split()
"""Where programs that a person installs for themself lie, below the home."""
_FIRST_PERSON, _NOBODY = 1000, 65534
_TMP_VARIABLES = ("TMPDIR", "XDG_RUNTIME_DIR", "TMUX_TMPDIR")
_MOST_GUARDS = 250
"""Mounts for what becomes code: each costs the more, the more there are."""


def homes() -> tuple[Path, ...]:
    """The real folders that are the home of the person who runs this, by the variable and the user
    database; not those that could not be told from the system, such as `/`."""
    written = [os.environ.get("HOME", "")]
    with suppress(KeyError):
        written.append(pwd.getpwuid(os.getuid()).pw_dir)
    found = dict.fromkeys(Path(os.path.realpath(path)) for path in written if path.startswith("/"))
    return tuple(path for path in found if path.is_dir())


def hides_homes() -> bool:
    """Whether each home is a folder that can be covered."""
    found = homes()
    return bool(found) and not any(holds_system(home) for home in found)


def holds_system(folder: Path) -> bool:
    """Whether `folder` is, or has in it, a part of the system."""
    return any(_is_within(Path(part), folder) for part in _SYSTEM)


def is_of_system(folder: Path) -> bool:
    """Whether what lies in `folder` makes this machine work, or runs by name."""
    of_system = any(_is_within(folder, Path(part)) for part in _WORKING)
    ours = any(_is_within(folder, Path(part)) for part in _NOT_WORKING)
    return (of_system and not ours) or _is_below(folder, _own_programs())


def holds_homes(folder: Path) -> bool:
    """Whether `folder` is, or has in it, somebody's home."""
    return any(_is_within(home, folder) for home in (*homes(), *_other_homes()))


def _other_homes() -> list[Path]:
    """The homes of people in the user database of this machine, and those in the usual place."""
    found = [Path("/root"), *(Path(path) for path in glob.glob("/home/*"))]
    with suppress(OSError), open("/etc/passwd", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            fields = line.rstrip("\n").split(":")
            if len(fields) == 7 and fields[2].isdecimal() and _FIRST_PERSON <= int(fields[2]) < _NOBODY:
                found.append(Path(os.path.realpath(fields[5])))
    return [path for path in found if path.is_dir() and len(path.parts) > 1 and not holds_system(path)]


def programs(space: Workspace) -> tuple[Path, ...]:
    """Folders that are code wherever they lie: those of PATH, and the Python that runs Fireside."""
    return tuple(dict.fromkeys((*_interpreter(), *space.path_folders)))


def shown_of_homes(space: Workspace | None) -> str:
    """What is shown of the homes although they are hidden, in words; "" for nothing."""
    programs_too = any(_is_below(path, homes()) for path in (*_interpreter(), *_own_programs()))
    linked = linked_repository(space.root) if space else ()
    repository = any(_is_below(path, homes()) for path in linked)
    parts = ("programs",) * programs_too + ("the repository of this work tree",) * repository
    return " and ".join(parts)


def options(space: Workspace, found: Survey, *, network: bool) -> tuple[list[str], frozenset[Key]]:
    """The mounts for `space`, which was looked over as `found`, and which places of code they guard."""
    covered = _covers()
    wanted = (*_own_programs(), *_interpreter(), *linked_repository(space.root), *_on_path(space))
    shown = [path for path in wanted if _is_below(path, covered)]
    resolver = Path(os.path.realpath("/etc/resolv.conf"))
    if network and resolver.exists() and _is_below(resolver, covered):
        shown.append(resolver)
    parts = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--remount-ro", "/proc"]
    for path in covered:
        parts += ("--tmpfs", str(path))
    for home in homes():
        if _is_below(home, covered) and home not in covered:
            parts += ("--tmpfs", str(home))
    for path in _covered_files():
        parts += ("--ro-bind", "/dev/null", str(path))
    for path in _by_depth(shown):
        parts += ("--ro-bind", str(path), str(path))
    parts += ("--bind", str(space.root), str(space.root))
    guards, guarded = _guards(found)
    parts += guards
    outside = _secrets_outside(space, found, covered, shown)
    for path in (*found.secrets, *_hidden(space, covered), *_linked_secrets(space), *outside):
        parts += ("--tmpfs", str(path)) if path.is_dir() else ("--ro-bind", "/dev/null", str(path))
    return parts, guarded


def _guards(found: Survey) -> tuple[list[str], frozenset[Key]]:
    parts: list[str] = []
    for path in _by_depth(found.repositories):
        # A mount cannot be moved or replaced, and git still writes to what is not code.
        parts += ("--bind", str(path), str(path))
    spots = sorted((spot for spot in found.code if not spot.is_link), key=lambda spot: len(spot.path.parts))
    for spot in spots[:_MOST_GUARDS]:
        parts += ("--ro-bind", str(spot.path), str(spot.path))
    return parts, frozenset(spot.key for spot in spots[:_MOST_GUARDS])


def _linked_secrets(space: Workspace) -> list[Path]:
    """Settings with a token, of the repository that is shown beside the workspace."""
    found = [
        folder / name for folder in linked_repository(space.root) for name in ("config", "config.worktree")
    ]
    return [path for path in found if path.is_file() and is_secret(path)]


def _secrets_outside(
    space: Workspace, found: Survey, covered: Sequence[Path], shown: Sequence[Path]
) -> list[Path]:
    """What is secret outside of the workspace and can be seen all the same."""
    taken = [Path(path) for path in (*covered, *map(str, _covered_files()))]
    kept: list[Path] = []
    for path in _by_depth({*space.links, *found.elsewhere, *system_secrets()}):
        if not os.path.exists(path) or path in space.root.parents or _is_within(path, space.root):
            continue
        is_seen = _is_below(path, shown) or not _is_below(path, taken)
        # A link may call a part of the system a secret, and nothing would run without that.
        is_needed = path.is_dir() and (holds_system(path) or is_of_system(path)) and not is_secret(path)
        if is_seen and not is_needed and not _is_below(path, kept):
            kept.append(path)
    return kept


def _hidden(space: Workspace, covered: Sequence[Path]) -> Iterator[Path]:
    for path in space.hidden:
        if path.exists() and (_is_within(path, space.root) or not _is_below(path, covered)):
            yield path


def _covers() -> list[Path]:
    """The folders to cover, none of them within another."""
    named = [*_COVERED, *(os.environ.get(name, "") for name in _TMP_VARIABLES)]
    real = {Path(os.path.realpath(path)) for path in named if path.startswith("/")}
    places = (*real, *_beside_system(), *homes(), *_other_homes())
    wanted = _by_depth({path for path in places if path.is_dir() and not _is_kept(path)})
    found: list[Path] = []
    for path in wanted:
        if not _is_below(path, found):
            found.append(path)
    return found


def _beside_system() -> list[Path]:
    found = [Path("/", name) for name in os.listdir("/") if name not in _OF_SYSTEM]
    return [path for path in found if not path.is_symlink()]


def _on_path(space: Workspace) -> Iterator[Path]:
    """Programs that lie neither in the system nor in a home: a folder of PATH, and what is around its
    `bin` where that is a folder of one program."""
    for folder in space.path_folders:
        if not folder.is_dir() or _is_below(folder, [*homes(), space.root]) or is_secret(folder):
            continue
        above = folder.parent
        alone = len(above.parts) > 2 and not _is_within(space.root, above) and not holds_homes(above)
        yield above if alone and folder.name in ("bin", "sbin") else folder


def _is_kept(path: Path) -> bool:
    """A part of the system that no variable may have covered."""
    return path != Path("/run") and (holds_system(path) or path == Path("/dev/shm"))


def _covered_files() -> list[Path]:
    found = [Path(path) for pattern in _COVERED_FILES for path in glob.glob(pattern)]
    return [path for path in found if path.is_file() and not path.is_symlink()]


def _interpreter() -> tuple[Path, ...]:
    """What Python needs to start, outermost first."""
    folders = {Path(os.path.realpath(path)) for path in (sys.prefix, sys.base_prefix, sys.exec_prefix)}
    return tuple(_by_depth(path for path in folders if path not in homes() and not holds_system(path)))


def _own_programs() -> list[Path]:
    found = [Path(os.path.realpath(home / name)) for home in homes() for name in _PROGRAMS]
    return [path for path in found if path.is_dir() and path not in homes() and not is_secret(path)]


def _by_depth(paths: Iterator[Path] | Sequence[Path] | set[Path]) -> list[Path]:
    return sorted(paths, key=lambda path: (len(path.parts), path))


def _is_within(path: Path, folder: Path) -> bool:
    return path == folder or folder in path.parents


def _is_below(path: Path, folders: Sequence[Path]) -> bool:
    return any(_is_within(path, folder) for folder in folders)

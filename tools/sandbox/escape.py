"""Trying to get out of the sandbox, once, with everything that is known to have worked somewhere.

A temporary workspace gets what must not be reached: a file beside it, settings of a repository, a
password, a socket. Then a program in the sandbox tries. Whatever it reached is the reason why this is
no sandbox.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import cast

from tools.process import tool_environment
from tools.sandbox import mounts
from tools.sandbox.bubblewrap import Sandbox, filtered, look_over
from tools.workspace import Workspace

_TRIAL_S = 30.0
_SCRIPT = Path(__file__).with_name("escape_attempts.py")
_SPACES = ("pid", "ipc", "uts", "net", "mnt")
_PROGRAMS = ("/usr/bin", "/bin", "/usr/local/bin")


@cache
def find_sandbox() -> Sandbox:
    """The sandbox of this machine, from which is tried to escape once. Takes about a tenth of a second the
    first time: not on the event loop."""
    if sys.platform != "linux":
        return Sandbox(None, "there is no sandbox on this system")
    # First where no project can put another one.
    folders = [*_PROGRAMS, *(name for name in os.environ.get("PATH", "").split(":") if name.startswith("/"))]
    program = shutil.which("bwrap", path=":".join(folders))
    if program is None:
        return Sandbox(None, "bubblewrap is not installed")
    started, trouble = try_to_escape(Sandbox(program))
    return Sandbox(program if started else None, trouble)


def try_to_escape(sandbox: Sandbox) -> tuple[bool, str]:
    """Whether `sandbox` starts at all, and why it is none, as the end of a sentence; "" where every
    attempt failed."""
    folder = Path()
    try:
        folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="fireside-escape-")))
        with _bait(folder) as bait:
            return _try(sandbox, folder, bait)
    except (OSError, subprocess.SubprocessError, ValueError) as err:
        return False, f"bubblewrap could not be tried: {str(err) or type(err).__name__}"
    finally:
        if folder.name.startswith("fireside-escape-"):
            shutil.rmtree(folder, ignore_errors=True)


def _try(sandbox: Sandbox, folder: Path, bait: dict[str, object]) -> tuple[bool, str]:
    space = Workspace.at(folder / "workspace")
    script = _SCRIPT.read_text()
    command = (sys.executable, "-I", "-S", "-c", script, json.dumps(bait))
    with filtered() as handle:
        wrapped = sandbox.confine(command, space, network=False, found=look_over(space), filter_fd=handle)
        ended = subprocess.run(
            wrapped.command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TRIAL_S,
            check=False,
            env=tool_environment(),
            pass_fds=() if handle is None else (handle,),
        )
    if ended.returncode != 0:
        told = ended.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2][:200]
        return False, f"bubblewrap is installed but does not work here: {told or ended.returncode}"
    reached = cast("list[str]", json.loads(ended.stdout))
    if (folder / "beside").read_text() != "beside":
        reached.append("change a file outside the workspace")
    return True, f"what ran in it could {', '.join(dict.fromkeys(reached))}" if reached else ""


@contextlib.contextmanager
def _bait(folder: Path) -> Generator[dict[str, object]]:
    """What must not be reached, laid out; yields what the attempts need to know."""
    root = folder / "workspace"
    hooks = root / ".git" / "hooks"
    hooks.mkdir(parents=True)
    (folder / "beside").write_text("beside")
    (root / ".env").write_text("password")
    (root / ".envrc").write_text("")
    with (
        socket.socket(socket.AF_INET) as network,
        socket.socket(socket.AF_UNIX) as named,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        network.bind(("127.0.0.1", 0))
        handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:  # The path of a socket is at most 108 bytes long, and this one is.
            named.bind(f"/proc/self/fd/{handle}/socket")
        finally:
            os.close(handle)
        name = f"fireside-escape-{folder.name}"
        abstract.bind(f"\0{name}")
        for one in (network, named, abstract):
            one.listen(8)
        yield {
            "beside": str(folder / "beside"),
            "covered": [
                str(path) for path in (*mounts.homes(), Path("/tmp")) if not mounts.holds_system(path)
            ],
            "homes": [entry for home in mounts.homes() if (entry := _entry_of(home))],
            "port": network.getsockname()[1],
            "abstract": name,
            "spaces": {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in _SPACES},
        }


def _entry_of(home: Path) -> str:
    """Something in the home that must not be seen."""
    if mounts.holds_system(home):
        return ""
    with os.scandir(home) as entries:
        names = [entry.path for entry in entries if entry.is_file(follow_symlinks=False)]
    return names[0] if names else ""

"""What runs in the sandbox tries to get out; what it is said to be is what its mounts make of it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.tools.conftest import Use
from tools.builtin.shell import run_python, run_shell
from tools.context import ToolContext
from tools.permission.permissions import decide
from tools.process import tool_environment
from tools.sandbox import bubblewrap as sandboxes
from tools.sandbox import escape, mounts
from tools.sandbox.bubblewrap import Sandbox, Wrapped, filtered, look_over
from tools.sandbox.seccomp import filter_program
from tools.sandbox.system_secrets import system_secrets
from tools.workspace import Workspace


@dataclass(frozen=True)
class Call:
    name: str
    arguments: dict[str, Any]


pytestmark = pytest.mark.timeout(60)  # They start processes.


def inside(
    sandbox: Sandbox, space: Workspace, command: str, *, network: bool = False
) -> subprocess.CompletedProcess[str]:
    """`command` in the sandbox, without a tool around it."""
    with filtered() as handle:
        wrapped = sandbox.confine(
            ("/bin/sh", "-c", command), space, network=network, found=look_over(space), filter_fd=handle
        )
        return subprocess.run(
            wrapped.command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
            env=tool_environment(),
            pass_fds=() if handle is None else (handle,),
        )


# ---- trying to get out ---------------------------------------------------------------------


def test_nothing_gets_out_of_the_sandbox_that_is_called_one(sandbox: Sandbox) -> None:
    assert escape.try_to_escape(Sandbox(sandbox.bwrap)) == (True, "")
    assert sandbox.proven


@pytest.mark.skipif(os.getuid() != 0, reason="only root has rights to keep")
def test_a_sandbox_that_keeps_the_rights_of_root_is_found_out(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    _leave_out(monkeypatch, "--cap-drop", 2)
    monkeypatch.setattr(sandboxes, "filter_program", lambda: None)
    started, trouble = escape.try_to_escape(Sandbox(sandbox.bwrap))
    assert started
    for reached in ("keep root's rights", "change mounts", "uncover the home folder"):
        assert reached in trouble
    assert Sandbox(sandbox.bwrap, trouble).proven is False


@pytest.mark.parametrize(
    ("option", "length", "reached"),
    [
        ("--seccomp", 2, "reach other programs' sockets"),
        ("--seccomp", 2, "make programs that give away rights"),
        ("--unshare-all", 1, "reach the network"),
        ("--unshare-all", 1, "see what runs outside"),
    ],
)
def test_each_part_that_is_missing_is_found_out(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, option: str, length: int, reached: str
) -> None:
    if option == "--unshare-all" and os.getuid() != 0:
        pytest.skip("without root bubblewrap always makes some namespaces")
    _leave_out(monkeypatch, option, length)
    assert reached in escape.try_to_escape(Sandbox(sandbox.bwrap))[1]


@pytest.mark.parametrize("covered", ["homes", "secrets", "code"])
def test_a_sandbox_that_shows_or_lends_too_much_is_found_out(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, covered: str
) -> None:
    (Path(os.environ["HOME"]) / "letter").write_text("private")
    original = mounts.options

    def less(*given: object, **named: object) -> tuple[list[str], frozenset[object]]:
        options, guarded = original(*given, **named)  # type: ignore[arg-type]
        drop = {"homes": "--tmpfs", "secrets": "/dev/null", "code": ".git/hooks"}[covered]
        kept: list[str] = []
        for one in _operations(options):
            if not any(part.endswith(drop) for part in one[: -1 if covered == "homes" else None]):
                kept += one
        return kept, guarded

    monkeypatch.setattr(mounts, "options", less)
    told = escape.try_to_escape(Sandbox(sandbox.bwrap))[1]
    wanted = {"homes": "see the home", "secrets": "read a password", "code": "change files that become code"}
    assert wanted[covered] in told


def _operations(options: list[str]) -> Iterator[list[str]]:
    one: list[str] = []
    for part in options:
        if part.startswith("--") and one:
            yield one
            one = []
        one.append(part)
    yield one


def _leave_out(monkeypatch: pytest.MonkeyPatch, option: str, length: int) -> None:
    original = Sandbox.confine

    def less(self: Sandbox, *given: object, **named: object) -> Wrapped:
        wrapped = original(self, *given, **named)  # type: ignore[arg-type]
        at = wrapped.command.index(option)
        return Wrapped(wrapped.command[:at] + wrapped.command[at + length :], wrapped.guarded)

    monkeypatch.setattr(Sandbox, "confine", less)


ATTEMPTS = [
    "mount -o remount,rw /",
    "mount -o remount,bind,rw /",
    "mount -t tmpfs none /mnt",
    "mount --bind / /mnt",
    'umount "$HOME"',
    "umount -l /tmp",
    "umount -l /proc",
    "unshare -U true",
    "unshare -Ur true",
    "unshare -m true",
    "unshare -n true",
    "unshare -p -f true",
    "nsenter -t 1 -m true",
    "nsenter -t 1 -U true",
    "chroot / true",
    "pivot_root . .",
    "mknod device c 1 3",
    "mknod disk b 254 0",
    ": >> /proc/sys/kernel/core_pattern",
    ": >> /proc/sys/kernel/hostname",
    ": >> /proc/sysrq-trigger",
    ": >> /proc/sys/vm/drop_caches",
    ": >> /sys/kernel/uevent_helper",
    ": >> /sys/power/state",
    ": >> /etc/evil",
    ": >> /etc/passwd",
    ": >> /usr/bin/evil",
    "echo x > /evil",
    "chmod u+s made",
    "chmod 2755 made",
    "install -m 4755 made other",
    "hostname evil",
    "dmesg",
    "cat /etc/shadow",
    "cat /proc/kcore",
]


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_as_root_too_an_attempt_fails(sandbox: Sandbox, space: Workspace, attempt: str) -> None:
    (space.root / "made").write_text("")
    ended = inside(sandbox, space, attempt)
    assert ended.returncode != 0, ended.stdout
    assert not Path("/evil").exists()


def test_no_file_process_or_variable_of_outside_is_there(
    sandbox: Sandbox, space: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "hunter2")
    monkeypatch.setenv("LC_PASSWORD", "hunter2")
    with open(os.devnull) as file:
        os.set_inheritable(file.fileno(), True)
        told = inside(
            sandbox, space, "ls /proc/self/fd | wc -l; cat /proc/1/environ; env; cat /proc/[0-9]*/cmdline"
        )
    first, _, rest = told.stdout.partition("\n")
    assert first == "4"  # the three, and the folder that is listed
    assert "hunter2" not in rest
    assert str(os.getpid()) not in inside(sandbox, space, "ls /proc").stdout.split() or os.getpid() < 10


def test_a_signal_reaches_nothing_outside(sandbox: Sandbox, space: Workspace) -> None:
    with subprocess.Popen(["sleep", "600"]) as outside:
        try:
            inside(sandbox, space, f"kill -9 {outside.pid}; kill -9 -1")
            assert outside.poll() is None
        finally:
            outside.kill()


@pytest.mark.parametrize("network", [False, True])
@pytest.mark.parametrize("place", ["workspace", "abstract", "system"])
def test_no_socket_of_another_program_is_reached(
    sandbox: Sandbox, space: Workspace, tmp_path: Path, network: bool, place: str
) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        address = {"workspace": "s", "abstract": f"\0{tmp_path.name}", "system": f"/dev/shm/{os.getpid()}.s"}[
            place
        ]
        folder = os.open(space.root, os.O_RDONLY)
        server.bind(f"/proc/self/fd/{folder}/s" if place == "workspace" else address)
        os.close(folder)
        server.listen()
        code = f"import socket; socket.socket(socket.AF_UNIX).connect({address!r}); print('reached')"
        ended = inside(sandbox, space, f"{sys.executable} -I -S -c {_quoted(code)}", network=network)
        if place == "system":
            os.unlink(address)
    assert "reached" not in ended.stdout
    assert ended.returncode != 0


def test_a_pair_of_sockets_works_and_cannot_be_pointed_elsewhere(sandbox: Sandbox, space: Workspace) -> None:
    code = (
        "import socket\n"
        "a, b = socket.socketpair(); a.send(b'x'); print(b.recv(1))\n"
        "for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):\n"
        "    try: socket.socketpair(socket.AF_UNIX, kind); print('made')\n"
        "    except OSError: print('refused')\n"
    )
    ended = inside(sandbox, space, f"{sys.executable} -I -S -c {_quoted(code)}")
    assert ended.stdout.split() == ["b'x'", "refused", "refused"]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def test_only_some_machines_have_a_filter() -> None:
    assert filter_program("riscv64") is None
    for machine in ("x86_64", "aarch64"):
        program = filter_program(machine)
        assert program is not None
        assert len(program) % 8 == 0


def test_without_bubblewrap_there_is_no_sandbox_and_why_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(escape, "_PROGRAMS", ())
    monkeypatch.setenv("PATH", "/nowhere")
    found = escape.find_sandbox.__wrapped__()
    assert not found.proven
    assert "not sandboxed" in found.describe(network=False)
    assert found.trouble in found.describe(network=False)


def test_a_bubblewrap_that_does_not_start_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if sys.platform != "linux":
        pytest.skip("bubblewrap is for Linux")
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setattr(escape, "_PROGRAMS", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    found = escape.find_sandbox.__wrapped__()
    assert found.bwrap is None
    assert "No permissions to create new namespace" in found.trouble


def test_a_bubblewrap_that_confines_nothing_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if sys.platform != "linux":
        pytest.skip("bubblewrap is for Linux")
    fake = tmp_path / "bwrap"
    fake.write_text(
        '#!/bin/sh\nwhile [ "$1" != -- ]; do [ "$1" = --chdir ] && cd "$2"; shift; done\nshift\nexec "$@"\n'
    )
    fake.chmod(0o755)
    monkeypatch.setattr(escape, "_PROGRAMS", ())
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (Path(os.environ["HOME"]) / "letter").write_text("private")
    found = escape.find_sandbox.__wrapped__()
    assert not found.proven
    for reached in ("see files beside the workspace", "see the home", "reach the network", "read a password"):
        assert reached in found.trouble
    assert "not sandboxed" in found.describe(network=False)
    assert Path("/proc/self/status").exists()


# ---- people's own commands -----------------------------------------------------------------


async def test_what_people_run_still_works(use: Use, space: Workspace, sandbox: Sandbox) -> None:
    script = """
        git init -q .
        git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git status --short
        echo text > made.txt && cat made.txt
        mktemp > /dev/null && echo temporary
        ls / > /dev/null && echo listed
        sh -c 'echo a | tr a b'
    """
    result = await use(run_shell, ToolContext(sandbox=sandbox), command=script)
    assert result.text.split("\n")[:1] == ["?? link"]
    assert result.text.splitlines()[-4:] == ["text", "temporary", "listed", "b"]
    assert (space.root / "made.txt").stat().st_uid == os.getuid()
    code = (
        "from multiprocessing import get_context\nimport tempfile, socket, json, ssl\n"
        "if __name__ == '__main__':\n"
        "    with get_context('fork').Pool(2) as pool: print(pool.map(abs, [-1, -2]))\n"
        "    print(bool(tempfile.mkdtemp()))\n"
        "    one = socket.create_server(('127.0.0.1', 0)); socket.create_connection(one.getsockname())\n"
    )
    assert (await use(run_python, ToolContext(sandbox=sandbox), code=code)).text == "[1, 2]\nTrue\n"


# ---- what is said of it --------------------------------------------------------------------


def at(folder: Path) -> Workspace:
    folder.mkdir(parents=True, exist_ok=True)
    return Workspace.at(folder)


def test_a_workspace_that_is_the_home_or_holds_it_hides_no_home() -> None:
    home = Path(os.environ["HOME"])
    sandbox = Sandbox("/usr/bin/bwrap")
    for folder in (home, home.parent):
        told = sandbox.describe(network=False, space=at(folder))
        assert "home not hidden" in told
        assert "only partly" in told
        assert sandbox.gap(at(folder))
    inner = sandbox.describe(network=False, space=at(home / "project"))
    assert inner.startswith("sandboxed: read-only system, home hidden")
    assert not sandbox.gap(at(home / "project"))


@pytest.mark.parametrize("folder", ["/", "/usr", "/etc", "/var"])
def test_a_workspace_that_holds_the_system_is_not_sandboxed(folder: str) -> None:
    sandbox, space = Sandbox("/usr/bin/bwrap"), Workspace.at(folder)
    assert sandbox.describe(network=False, space=space).startswith("not sandboxed")
    assert sandbox.wrap(("ls",), space, network=False) == ["ls"]


def test_a_home_that_cannot_be_told_from_the_system_is_not_called_hidden(
    space: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/")
    told = Sandbox("/usr/bin/bwrap").describe(network=False, space=space)
    assert "home not hidden" in told


def test_the_home_of_the_user_database_is_hidden_beside_that_of_the_variable(
    sandbox: Sandbox, space: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import pwd

    real = tmp_path / "real"
    for name in ("real", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "letter").write_text("private")
    entry = pwd.struct_passwd(("x", "x", os.getuid(), 0, "", str(real), "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda _number: entry)
    (tmp_path / "link").symlink_to(tmp_path / "other")
    for home in (str(tmp_path / "other"), str(tmp_path / "link"), None):
        monkeypatch.delenv("HOME") if home is None else monkeypatch.setenv("HOME", home)
        told = inside(
            sandbox, space, f"cat {real}/letter {tmp_path}/other/letter $HOME/letter; cd && echo home"
        )
        assert "private" not in told.stdout
        assert home is None or "home" in told.stdout


def test_secrets_in_the_workspace_are_covered(sandbox: Sandbox, space: Workspace) -> None:
    places = (
        ".ssh/id_rsa",
        ".env",
        "deep/er/.env.local",
        ".aws/credentials",
        ".config/gh/hosts.yml",
        ".netrc",
    )
    for place in (*places, ".fireside/.env", "real/plain"):
        (space.root / place).parent.mkdir(parents=True, exist_ok=True)
        (space.root / place).write_text("hunter2")
    (space.root / "real" / ".git-credentials").symlink_to("plain")
    (space.root / ".env.example").write_text("example")
    told = inside(sandbox, space, "cat $(find . -type f) real/.git-credentials .env.example")
    assert "hunter2" not in told.stdout
    assert "example" in told.stdout


def test_secrets_that_links_lead_to_are_covered_outside_of_the_workspace_too(
    sandbox: Sandbox, space: Workspace, beside_system: Path
) -> None:
    (beside_system / "keys").mkdir()
    for name in ("app.txt", "keys/deploy", "plain.txt"):
        (beside_system / name).write_text("open" if name == "plain.txt" else "hunter2")
    (space.root / ".env").symlink_to(beside_system / "app.txt")
    (space.root / "deep").mkdir()
    (space.root / "deep" / ".ssh").symlink_to(beside_system / "keys")
    (space.root / "deep" / ".aws").symlink_to("/usr/bin")
    (space.root / "deep" / ".env").symlink_to("/")
    (space.root / "plain").symlink_to(beside_system / "plain.txt")
    told = inside(
        sandbox, at(space.root), f"cat .env deep/.ssh/*; cat {beside_system}/*/* {beside_system}/*; cat plain"
    )
    assert "hunter2" not in told.stdout
    assert "open" in told.stdout


def test_secrets_beside_the_system_are_covered(
    sandbox: Sandbox, space: Workspace, beside_system: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (".env", "deep/id_rsa", "deep/.ssh/x", "plain.txt", "settings.xml"):
        (beside_system / name).parent.mkdir(parents=True, exist_ok=True)
        (beside_system / name).write_text("password" if name[-3:] in ("txt", "xml") else "hunter2")
    monkeypatch.setattr(mounts, "system_secrets", lambda: system_secrets((str(beside_system),)))
    told = inside(
        sandbox, at(space.root), f"cd {beside_system}; cat .e* deep/i* deep/.s*/*; cat plain.txt settings.xml"
    )
    assert "hunter2" not in told.stdout
    assert told.stdout.count("password") == 2


@pytest.fixture
def beside_system(space: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that the sandbox shows, because a program of PATH is in it."""
    folder = tmp_path / "kit"
    (folder / "bin").mkdir(parents=True)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
    return folder


@pytest.mark.parametrize("variable", ["TMPDIR", "XDG_RUNTIME_DIR"])
def test_folders_for_temporary_files_are_covered(
    sandbox: Sandbox, space: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    (folder / "letter").write_text("private")
    monkeypatch.setattr(mounts, "_COVERED", ())
    monkeypatch.setenv(variable, str(folder))
    told = inside(sandbox, space, f"cat {folder}/letter || echo $TMPDIR")
    assert told.stdout == "/tmp\n"


def test_with_network_the_card_says_what_else_is_reached(space: Workspace) -> None:
    told = Sandbox("/usr/bin/bwrap").describe(network=True, space=space)
    assert told.endswith("with network, this machine's own services included")


def test_a_workspace_too_large_to_watch_is_confined_in_part_only(
    space: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tools.sandbox import survey

    monkeypatch.setattr(survey, "MOST_ENTRIES", 2)
    for number in range(4):
        (space.root / f"{number}").write_text("")
    sandbox = Sandbox("/usr/bin/bwrap")
    told = sandbox.describe(network=False, space=space)
    assert told.startswith("only partly sandboxed, because the workspace contains more than 2 files")


def test_the_home_of_somebody_else_is_a_home_too(
    sandbox: Sandbox, space: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = tmp_path / "srv" / "alice"
    other.mkdir(parents=True)
    (other / "letter").write_text("private")
    monkeypatch.setattr(mounts, "_COVERED", ())
    monkeypatch.setattr(mounts, "_other_homes", lambda: [other])
    assert "private" not in inside(sandbox, space, f"cat {other}/letter").stdout
    told = sandbox.describe(network=False, space=Workspace.at(other))
    assert "home not hidden" in told and "only partly" in told


def test_homes_are_found_in_the_user_database() -> None:
    for home in mounts._other_homes():
        assert home.is_dir()
        assert home != Path("/")
        assert not mounts.holds_system(home)


def test_no_project_puts_its_own_bubblewrap_first(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if not any(Path(folder, "bwrap").exists() for folder in escape._PROGRAMS):
        pytest.skip("bubblewrap lies elsewhere here")
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\nexit 0\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert escape.find_sandbox.__wrapped__().bwrap == sandbox.bwrap


def test_the_system_keeps_its_secrets(sandbox: Sandbox, space: Workspace) -> None:
    told = inside(sandbox, space, "cat /etc/shadow /etc/gshadow /etc/sudoers /etc/ssh/ssh_host_*_key")
    assert told.stdout == ""


def test_beside_the_system_only_programs_of_path_are_seen(
    sandbox: Sandbox, space: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "kit" / "bin").mkdir(parents=True)
    (tmp_path / "kit" / "share").write_text("shown")
    (tmp_path / "letter").write_text("private")
    monkeypatch.setattr(mounts, "_OF_SYSTEM", mounts._OF_SYSTEM - {"opt"})
    monkeypatch.setattr(mounts, "_SYSTEM", tuple(path for path in mounts._SYSTEM if path != "/opt"))
    monkeypatch.setenv("PATH", f"{tmp_path}/kit/bin:{os.environ['PATH']}")
    told = inside(
        sandbox, Workspace.at(space.root), f"cat {tmp_path}/letter {tmp_path}/kit/share; ls -A /opt"
    )
    assert told.stdout == "shown"
    assert {path.name for path in mounts._beside_system()} >= {"opt", "tmp"} & set(os.listdir("/"))


@pytest.mark.parametrize(
    ("folder", "why"),
    [
        ("/usr/lib", "part of the system"),
        ("/usr/local", "part of the system"),
        ("/var/lib", "part of the system"),
        ("{home}/.local/bin", "programs"),
        ("{home}/.rustup/toolchains", "programs"),
        ("{home}/.ssh", "keys"),
        ("{home}/.password-store/mine", "keys"),
        ("{home}/.config", "run or obey"),
        ("{home}/.config/systemd/user", "run or obey"),
        ("{home}/project/.git/hooks", "run or obey"),
        ("{home}/.local", "run or obey"),
    ],
)
def test_a_workspace_that_is_itself_of_what_is_guarded_is_not_confined(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, why: str
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    root = Path(folder.format(home=home))
    if root.is_relative_to(home):
        root.mkdir(parents=True)
    elif not root.is_dir():
        pytest.skip(f"there is no {root} here")
    space = Workspace.at(root)
    assert why in sandbox.gap(space)
    call = Call("run_shell", {"command": "true"})
    assert decide(call, run_shell, "all", (), space, sandbox=sandbox).verdict == "ask"


@pytest.mark.parametrize("folder", ["src/project", ".config/other", ".claude/worktrees/x", ".local/share/x"])
def test_a_workspace_beside_what_is_guarded_is_confined(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    root = tmp_path / "home" / folder
    root.mkdir(parents=True)
    space = Workspace.at(root)
    assert sandbox.gap(space) == ""
    assert not space.locate("src/a.py").code


def test_a_file_becomes_code_wherever_the_workspace_begins(tmp_path: Path) -> None:
    for folder, name in ((".config", "git/config"), (".config/systemd", "user/x.service"), (".git", "a")):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        assert Workspace.at(tmp_path / folder).locate(name).code


@pytest.mark.parametrize("is_linked", [False, True])
def test_a_token_in_the_settings_of_the_repository_is_covered(
    sandbox: Sandbox, tmp_path: Path, is_linked: bool
) -> None:
    git, root = tmp_path / "main" / ".git", tmp_path / ("tree" if is_linked else "main")
    for name in ("objects", "refs", "worktrees/tree"):
        (git / name).mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "config").write_text('[remote "o"]\n\turl = https://me:hunter2@example.com/x\n')
    if is_linked:
        root.mkdir()
        link = git / "worktrees" / "tree"
        (root / ".git").write_text(f"gitdir: {link}\n")
        (link / "gitdir").write_text(f"{root / '.git'}\n")
        (link / "commondir").write_text("../..\n")
    ended = inside(sandbox, Workspace.at(root), f"cat {git}/HEAD; cat {git}/config; grep -r hunter {git}")
    assert "refs/heads/main" in ended.stdout
    assert "hunter" not in ended.stdout


def test_a_further_name_of_a_secret_is_one(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, root = tmp_path / "home", tmp_path / "ws"
    (home / ".ssh").mkdir(parents=True)
    (root / "deep").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    (home / ".ssh" / "mine").write_text("hunter1")
    (root / ".env").write_text("hunter2")
    (root / "settings").write_text("hunter3")
    (root / "other").write_text("plain")
    os.link(home / ".ssh" / "mine", root / "deep" / "key.txt")
    os.link(root / ".env", root / "deep" / "b.txt")
    os.link(root / "other", root / "deep" / "c.txt")
    (root / ".env.local").symlink_to("settings")
    space = Workspace.at(root)
    for name in ("deep/key.txt", "deep/b.txt", "settings"):
        assert space.locate(name).secret
        assert space.bar_below(root)(root / name)
    assert not space.locate("other").secret
    ended = inside(sandbox, space, "cat deep/* settings; grep -r hunter .")
    assert "hunter" not in ended.stdout
    assert "plain" in ended.stdout

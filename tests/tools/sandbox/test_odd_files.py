"""Nothing that a run leaves keeps the look at it from its end, and settings lead where git reads them to."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.limits import processor_time
from tests.tools.conftest import Use
from tools.builtin.files import write_file
from tools.builtin.search import search_text
from tools.builtin.shell import run_shell
from tools.context import ToolContext
from tools.permission.permissions import decide
from tools.sandbox.aside import Aside
from tools.sandbox.bubblewrap import Sandbox
from tools.sandbox.git_folder import named_paths
from tools.workspace import Workspace

pytestmark = pytest.mark.timeout(60)  # They start processes.


@pytest.fixture
def context(sandbox: Sandbox, tmp_path: Path) -> ToolContext:
    return ToolContext(sandbox=sandbox, aside=Aside(tmp_path / "aside"))


LONG = "$(printf 'a%.0s' {1..300})"
ODD = [
    "mkfifo .git",
    "mkdir -p s/.git; mkfifo s/.git/config",
    "mkdir -p s/.git; mkfifo p; ln -s ../../p s/.git/config",
    "mkdir -p s/.git; ln -s /proc/self/fd/0 s/.git/config",
    "mkdir -p .git; mkfifo .git/commondir .git/config.worktree",
    "mkdir -p .git/rebase-merge; mkfifo .git/rebase-merge/git-rebase-todo",
    "mkdir -p b/objects b/refs; mkfifo b/HEAD b/config",
    "mkfifo .npmrc .env x.pem token.json",
    "mkdir .npmrc x.pem token.json",
    "mkdir -p .git/config .git/commondir .git/HEAD s/.git; ln -s . s/.git/config",
    f"ln -s {LONG} .env; ln -s {LONG} .vimrc; ln -s {LONG} x.pem",
    f"mkdir -p b/objects b/refs; ln -s {LONG} b/HEAD; ln -s {LONG} b/config",
    f"mkdir -p s/.git; printf '[x]\\n a = %s\\n hookspath = %s\\n' {LONG} {LONG} > s/.git/config",
    "mkdir -p s/.git; printf '[x]\\n a = ./q\\0z\\n hookspath = a\\0b\\n' > s/.git/config",
    "mkdir -p s/.git; printf '[include]\\n path = config\\n path = ../.git/config\\n' > s/.git/config",
    f"printf 'gitdir: %s' {LONG} > .git",
    "printf 'gitdir: a\\0b' > .git",
    "ln -s .env .env; ln -s .vimrc .vimrc; ln -s .exrc/x .pdbrc",
]


@pytest.mark.parametrize("command", ODD)
async def test_no_odd_file_hides_what_a_run_leaves(
    use: Use, space: Workspace, context: ToolContext, command: str
) -> None:
    (space.root / "lib").mkdir()
    for _ in range(2):  # What the first one leaves is there before the second.
        async with asyncio.timeout(30):
            result = await use(run_shell, context, command=f"{command}; echo evil > lib/.e''nvrc")
        assert not (space.root / "lib" / ".envrc").exists()
        assert ".envrc" in result.text
        assert "could not be" not in result.text
    for one in context.aside.all():
        assert context.aside.text(one)


def test_long_settings_are_read_in_a_time_near_their_length(tmp_path: Path) -> None:
    lines = "".join(f'a{n} = ./{n} "c d" {n}/e\n path = {n % 20}\n' for n in range(9_000))
    for name in map(str, range(20)):
        (tmp_path / name).write_text(lines)
    with processor_time(4):
        assert len(list(named_paths(tmp_path / "0", tmp_path))) > 1_000


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
@pytest.mark.parametrize("name", ["settings.xml", "server.key", "auth.json", ".gitconfig"])
async def test_what_has_the_name_of_a_file_with_keys_and_is_none_ends_no_search(
    use: Use, space: Workspace, name: str, make: object
) -> None:
    assert callable(make)
    make(space.root / "src" / name)
    result = await use(search_text, text="x = 1")
    assert result.text == "src/a.py:1: x = 1"


LED = [  # The settings of a repository, what a run or a call writes, and what has to be there before.
    ("[include]\n path = ../dev.cfg\n", "hk/post-commit", {"dev.cfg": "[core]\n hooksPath = hk\n"}),
    (
        "[include]\n path = ../a.cfg\n",
        "c.cfg",
        {"a.cfg": "[include]\n path = b.cfg\n", "b.cfg": "[include]\n path=c.cfg"},
    ),
    ("[core]\n hooksPath = my hooks\n", "my hooks/post-commit", {}),
    ('[core]\n hooksPath = "my; hooks" # mine\n', "my; hooks/post-commit", {}),
    ("[core]\n hooksPath = \\\nhk\n", "hk/post-commit", {}),
    ("[core]\n hooksPath = my\\\\hooks\n", "my\\hooks/post-commit", {}),
    ("[include]\n path = ../in cfg\n", "in cfg", {"in cfg": ""}),
    ("[include]\n path = ../later.cfg\n", "later.cfg", {}),
    ('[filter "x"]\n clean = "\'./my tool\' %f"\n', "my tool", {"my tool": ""}),
    ("[core]\n fsmonitor = ./later.sh\n", "later.sh", {}),
    ("[init]\n templateDir = tpl\n", "tpl/hooks/post-commit", {}),
]


@pytest.mark.parametrize(("settings", "path", "there"), LED)
async def test_settings_lead_wherever_git_reads_them_to(
    use: Use, space: Workspace, context: ToolContext, settings: str, path: str, there: dict[str, str]
) -> None:
    root = space.root
    subprocess.run(["git", "init", "-q", root], check=True)
    with (root / ".git" / "config").open("a") as file:
        file.write(settings)
    for name, text in there.items():
        (root / name).write_text(text)
    wanted = SimpleNamespace(name="write_file", arguments={"path": path, "content": "evil"})
    assert decide(wanted, write_file, "all", (), space).verdict == "ask"
    assert decide(wanted, write_file, "all", (), space).always
    fine = SimpleNamespace(name="write_file", arguments={"path": "notes", "content": "fine"})
    assert decide(fine, write_file, "all", (), space).verdict == "allow"
    await use(run_shell, context, command=f'mkdir -p "$(dirname "{path}")"; echo evil > "{path}"')
    found = root / path
    assert not found.exists() or found.read_text() != "evil\n"


async def test_a_merge_that_was_begun_names_no_program(
    use: Use, space: Workspace, context: ToolContext
) -> None:
    subprocess.run(["git", "init", "-q", space.root], check=True)
    script = """
        cd .git; mkdir rebase-merge sequencer worktrees
        echo ort > rebase-merge/strategy
        printf '[options]\\n\\tstrategy = ours\\n\\tstrategy-option = x\\n' > sequencer/opts
        mkdir -p modules/strategy modules/opts; echo x > modules/strategy/x
    """
    await use(run_shell, context, command=script)
    assert context.aside.all() == []
    script = """
        mkdir -p s/.git/rebase-merge s/.git/sequencer; cd s/.git
        echo ../x > rebase-merge/strategy; printf '[options]strategy = ../x\\n' > sequencer/opts
    """
    await use(run_shell, context, command=script)
    found = {one.path for one in context.aside.all()}
    assert found == {"s/.git/rebase-merge/strategy", "s/.git/sequencer/opts"}

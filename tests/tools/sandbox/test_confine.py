"""What a run leaves that would become code is moved aside, told, and kept for a person."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.tools.conftest import Use
from tools.builtin.files import write_file
from tools.builtin.shell import run_python, run_shell
from tools.context import ToolContext
from tools.sandbox import confine, mounts, survey
from tools.sandbox.aside import Aside, AsideError
from tools.sandbox.bubblewrap import Sandbox, look_over
from tools.sandbox.confine import compare, tidy
from tools.workspace import Workspace

pytestmark = pytest.mark.timeout(60)  # They start processes.


@pytest.fixture
def context(sandbox: Sandbox, tmp_path: Path) -> ToolContext:
    return ToolContext(sandbox=sandbox, aside=Aside(tmp_path / "aside"))


def kept(context: ToolContext) -> set[str]:
    return {one.path for one in context.aside.all()}


def repository(folder: Path) -> Path:
    """A git repository with settings, hooks and one commit, as `git init` makes it."""
    git = folder / ".git"
    for name in ("hooks", "objects", "refs/heads", "info"):
        (git / name).mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = false\n")
    (git / "hooks" / "pre-commit.sample").write_text("exit 1\n")
    return git


MADE = [
    ("mkdir -p .vscode; echo {} > .vscode/tasks.json", ".vscode"),
    ("echo x > .envrc", ".envrc"),
    ("echo x > .ENVRC", ".ENVRC"),
    ("mkdir -p deep/er; echo x > deep/er/.envrc", "deep/er/.envrc"),
    ("mkdir -p .fireside/tools; echo x > .fireside/tools/x.py", ".fireside"),
    ("echo {} > .mcp.json", ".mcp.json"),
    ("echo x > AGENTS.md", "AGENTS.md"),
    ("mkdir -p .github/workflows; echo x > .github/workflows/x.yml", ".github"),
    ("mkdir -p .husky; echo x > .husky/pre-commit", ".husky"),
    ("mkdir -p .devcontainer; echo {} > .devcontainer/devcontainer.json", ".devcontainer"),
    ("mkdir -p .idea; echo x > .idea/workspace.xml", ".idea"),
    ("mkdir -p .cargo; echo x > .cargo/config.toml", ".cargo/config.toml"),
    ("echo x > .npmrc", ".npmrc"),
    ("echo x > .yarnrc.yml", ".yarnrc.yml"),
    ("echo x > .gitmodules", ".gitmodules"),
    ("echo x > .gitattributes", ".gitattributes"),
    ("echo x > .pre-commit-config.yaml", ".pre-commit-config.yaml"),
    ("echo x > .gdbinit", ".gdbinit"),
    ("echo x > .exrc", ".exrc"),
    ("echo x > mise.toml", "mise.toml"),
    ("echo x > .tool-versions", ".tool-versions"),
    ("mkdir -p .direnv; echo x > .direnv/x", ".direnv"),
    ("echo x > .bashrc", ".bashrc"),
    ("mkdir -p lib; echo x > lib/sitecustomize.py", "lib/sitecustomize.py"),
    ("mkdir -p lib; echo x > lib/evil.pth", "lib/evil.pth"),
    ("mkdir -p node_modules/x; echo x > node_modules/x/.envrc", "node_modules/x/.envrc"),
    ("mkdir -p sub/.git/hooks; echo x > sub/.git/hooks/post-checkout", "sub/.git/hooks"),
    ("mkdir -p sub/.git; printf '[core]\\n fsmonitor = x\\n' > sub/.git/config", "sub/.git/config"),
    ("mkdir -p sub/.git; echo /evil > sub/.git/commondir", "sub/.git/commondir"),
    *(
        (f"mkdir -p sub/.git; printf '{text}' > sub/.git/config", "sub/.git/config")
        for text in (
            '[remote "--upload-pack=touch x;"]\\n url = https://x\\n promisor = true\\n',
            '[remote "-u"]\\n url = https://x\\n',
            '[remote "o"]\\n promisor = true\\n',
            '[branch "main"]\\n remote = --upload-pack=x\\n',
            '[branch "main"]\\n remote = ext::sh\\n',
            '[submodule "-x"]\\n url = https://x\\n',
        )
    ),
    ("mkdir -p tree; echo 'gitdir: ../evil' > tree/.git", "tree/.git"),
    ("mkdir -p b/objects b/refs; echo x > b/HEAD; printf '[core]\\n fsmonitor = x\\n' > b/config", "b/HEAD"),
    ("mkdir -p tests; echo x > tests/conftest.py", "tests/conftest.py"),
    ("echo {} > .devcontainer.json", ".devcontainer.json"),
    ("mkdir -p .helix; echo x > .helix/languages.toml", ".helix"),
    ("mkdir -p lib/sitecustomize; echo x > lib/sitecustomize/__init__.py", "lib/sitecustomize"),
    ("echo x > sitecustomize.cpython-311.so", "sitecustomize.cpython-311.so"),
    ("mkdir -p node_modules/.hooks; echo x > node_modules/.hooks/install", "node_modules/.hooks"),
    ("echo x > rust-toolchain.toml", "rust-toolchain.toml"),
    ("echo x > .Renviron", ".Renviron"),
    ("echo x > lefthook-local.yml", "lefthook-local.yml"),
    ("echo x > .pnp.cjs", ".pnp.cjs"),
    ("mkdir b e; echo x > b/HEAD; echo ../e > b/commondir; echo x > e/config", "b/HEAD"),
    ("ln -s src .idea", ".idea"),
    ("ln -s /etc/passwd .envrc", ".envrc"),
    ("echo x > plain; ln plain .envrc", ".envrc"),
    ("mkfifo .envrc", ".envrc"),
    ("mkdir d; echo x > d/.envrc; chmod 311 d", "d"),
]


@pytest.mark.parametrize(("command", "path"), MADE)
async def test_what_would_become_code_is_moved_aside_and_told(
    use: Use, space: Workspace, context: ToolContext, command: str, path: str
) -> None:
    result = await use(run_shell, context, command=command)
    if path == "d" and os.getuid() == 0:  # Root looks into every folder.
        path = "d/.envrc"
    assert kept(context) == {path}
    assert not os.path.lexists(space.root / path)
    assert "moved aside" in result.text
    assert path in result.text


@pytest.mark.parametrize(
    ("link", "target"),
    [
        (".git/hooks/pre-commit", "scripts/pre-commit"),
        (".git/hooks/deep/x", "scripts/x"),
        (".vscode/tasks.json", "conf/tasks.json"),
        (".vscode/more", "conf"),
    ],
)
async def test_what_links_in_a_folder_of_code_lead_to_is_code(
    use: Use, space: Workspace, context: ToolContext, link: str, target: str
) -> None:
    """Hooks that are kept in a folder of the project are shared by such a link."""
    for path in (space.root / link, space.root / target):
        path.parent.mkdir(parents=True, exist_ok=True)
    (space.root / link).symlink_to(space.root / target)
    if target == "conf":
        (space.root / target).mkdir()
        target = "conf/inner"
    made = await use(run_shell, context, command=f"echo evil > {target}")
    assert not (space.root / target).exists(), "what a dangling link waits for is moved aside"
    (space.root / target).parent.mkdir(exist_ok=True)
    (space.root / target).write_text("good")
    result = await use(run_shell, context, command=f"echo evil > {target}")
    assert (space.root / target).read_text() == "good", (made.text, result.text)


GUARDED = [
    "mv .git g",
    "mv .git g; cp -r g .git",
    "rm -rf .git/hooks; mkdir .git/hooks",
    "mv .git/hooks h",
    "echo x > .git/hooks/pre-commit",
    "echo x >> .git/config",
    "mv .git/config c",
    "rm .envrc; echo evil > .envrc",
    "echo evil > other; mv -f other .envrc",
    "echo evil > other; ln -f other .envrc",
    "ln .envrc other && echo evil > other",
    "chmod 755 .envrc",
    "mv .vscode v",
    "echo evil > .vscode/tasks.json",
    "rm -rf .vscode; mkdir .vscode; echo evil > .vscode/tasks.json",
    "echo evil > deep/.envrc",
    "echo evil > hooks/pre-push",
    "ln -s hooks h2; echo evil > h2/pre-push",
    "echo evil > real/settings",
]


@pytest.mark.parametrize("command", GUARDED)
async def test_what_is_there_cannot_be_changed(
    use: Use, space: Workspace, context: ToolContext, command: str
) -> None:
    git = repository(space.root)
    (git / "config").write_text("[core]\n\thooksPath = hooks\n")
    for name in (".envrc", "deep/.envrc", ".vscode/tasks.json", "hooks/pre-push", "real/settings"):
        (space.root / name).parent.mkdir(exist_ok=True)
        (space.root / name).write_text("good")
    (space.root / "lefthook.yml").symlink_to("real/settings")
    await use(run_shell, context, command=command)
    for name in (".envrc", "deep/.envrc", ".vscode/tasks.json", "hooks/pre-push", "lefthook.yml"):
        assert (space.root / name).read_text() == "good"
    assert (git / "config").read_text() == "[core]\n\thooksPath = hooks\n"
    assert os.listdir(git / "hooks") == ["pre-commit.sample"]


async def test_the_folder_above_may_move_and_takes_what_it_holds_along(
    use: Use, space: Workspace, context: ToolContext
) -> None:
    repository(space.root / "sub")
    (space.root / "sub" / ".envrc").write_text("good")
    command = (
        "mv sub other; mkdir -p sub/.git/hooks; echo evil > sub/.git/hooks/pre-commit; echo evil > sub/.envrc"
    )
    await use(run_shell, context, command=command)
    assert kept(context) == {"sub/.git/hooks", "sub/.envrc"}
    assert (space.root / "other" / ".envrc").read_text() == "good"
    assert (space.root / "other" / ".git" / "config").exists()


async def test_a_further_name_of_a_file_does_not_help(
    use: Use, space: Workspace, context: ToolContext
) -> None:
    (space.root / ".envrc").write_text("good")
    os.link(space.root / ".envrc", space.root / "notes")
    result = await use(run_shell, context, command="echo evil > notes")
    assert kept(context) == {".envrc"}
    assert "moved aside" in result.text


async def test_git_itself_still_works(use: Use, space: Workspace, context: ToolContext) -> None:
    script = """
        git init -q fresh && cd fresh && git config --get core.bare
        export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
        echo x > x && git add x && git commit -qm x && git clone -q . ../cloned && git init -q --bare ../bare
    """
    result = await use(run_shell, context, command=script)
    assert result.text == "false\n"
    assert kept(context) == set()
    script = """
        cd fresh
        export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
        echo y > y && git add y && git commit -qm y && git checkout -qb config && git stash list && git gc -q
        git log --oneline | wc -l; git status --short
    """
    result = await use(run_shell, context, command=script)
    assert result.text == "2\n"
    assert kept(context) == set()


async def test_what_runs_on_does_not_outlive_the_run(
    use: Use, space: Workspace, context: ToolContext
) -> None:
    command = "(setsid sh -c 'while sleep 0.01; do echo x > .envrc; done' > /dev/null 2>&1 &); echo started"
    await use(run_shell, context, command=command)
    assert not (space.root / ".envrc").exists()
    # All had ended before the comparison began, so nothing makes it anew.
    assert look_over(space).code == []


async def test_a_run_that_is_cancelled_or_times_out_leaves_nothing(
    use: Use, space: Workspace, context: ToolContext
) -> None:
    result = await use(run_shell, context, command="echo x > .envrc; sleep 600", timeout_s=1)
    assert "timed out" in result.text
    assert kept(context) == {".envrc"}
    task = asyncio.create_task(use(run_shell, context, command="echo x > .exrc; touch on; sleep 600"))
    while not (space.root / "on").exists():
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert kept(context) == {".envrc", ".exrc"}


async def test_python_is_watched_as_a_shell_is(use: Use, space: Workspace, context: ToolContext) -> None:
    await use(run_python, context, code="open('.env' + 'rc', 'w').write('x')")
    assert kept(context) == {".envrc"}


async def test_outside_of_a_sandbox_it_is_told_and_left(use: Use, space: Workspace, tmp_path: Path) -> None:
    context = ToolContext(sandbox=Sandbox(None), aside=Aside(tmp_path / "aside"))
    result = await use(run_shell, context, command="echo x > .envrc")
    assert "made or changed, and other programs run or obey it: .envrc" in result.text
    assert (space.root / ".envrc").exists()
    assert kept(context) == set()


async def test_a_file_that_was_approved_meanwhile_stays(
    use: Use, space: Workspace, context: ToolContext
) -> None:
    running = asyncio.create_task(
        use(run_shell, context, command="touch on; until [ -e go ]; do sleep 0.01; done")
    )
    while not (space.root / "on").exists():
        await asyncio.sleep(0.01)
    for path in (".envrc", ".github/workflows/x.yml"):
        writing = ToolContext(sandbox=Sandbox(None), space=space)
        assert (await use(write_file, writing, path=path, content="good")).status == "done"
    (space.root / "go").touch()
    await running
    assert (space.root / ".envrc").read_text() == "good"
    assert (space.root / ".github/workflows/x.yml").read_text() == "good"
    assert kept(context) == set()


@pytest.mark.parametrize(
    "change", ["echo evil > $f", "rm $f; ln -s /etc/passwd $f", "echo evil > .github/more.yml"]
)
async def test_what_a_run_makes_of_an_approved_file_is_moved_aside(
    use: Use, space: Workspace, context: ToolContext, change: str
) -> None:
    command = f"touch on; f=.github/x.yml; until [ -e $f ]; do sleep 0.01; done; {change}"
    running = asyncio.create_task(use(run_shell, context, command=command))
    while not (space.root / "on").exists():
        await asyncio.sleep(0.01)
    writing = ToolContext(sandbox=Sandbox(None), space=space)
    await use(write_file, writing, path=".github/x.yml", content="good")
    await running
    assert kept(context) == {".github"}


async def test_of_a_workspace_that_is_not_seen_whole_nothing_is_moved(
    use: Use, space: Workspace, context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        (space.root / f"{number}").mkdir()
        (space.root / f"{number}" / ".envrc").write_text("mine")
    monkeypatch.setattr(survey, "MOST_ENTRIES", 10)
    assert context.sandbox is not None
    assert "too many to watch" in context.sandbox.describe(network=False, space=space)
    result = await use(run_shell, context, command="true")
    assert "could not be checked" in result.text
    assert len(list(space.root.glob("*/.envrc"))) == 20


def test_more_than_can_be_mounted_is_compared(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "_MOST_GUARDS", 1)
    for number in range(3):
        (space.root / f"{number}").mkdir()
        (space.root / f"{number}" / ".envrc").write_text("good")
    before = look_over(space)
    _, guarded = mounts.options(space, before, network=False)
    assert len(guarded) == 1
    for number in range(3):
        (space.root / f"{number}" / ".envrc").write_text("evil")
    left = compare(before, look_over(space), guarded, {})
    assert {reason for _, reason in left.spots} == {"changed"}
    assert len(left.spots) == 2


def test_a_workspace_too_large_is_said_to_be(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "MOST_ENTRIES", 2)
    for number in range(5):
        (space.root / f"{number}").touch()
    assert "more than 2 files" in look_over(space).trouble


async def test_a_workspace_that_grew_too_large_since_it_was_asked_about_asks_again(
    use: Use, space: Workspace, context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert context.sandbox is not None
    assert not context.sandbox.gap(space)
    monkeypatch.setattr(survey, "MOST_ENTRIES", 2)
    result = await use(run_shell, context, command="touch made")
    assert result.status == "failed"
    assert "too many to watch" in result.text
    assert not (space.root / "made").exists()
    assert (await use(run_shell, context, command="touch made")).status == "done"


def test_nothing_is_overwritten_on_the_way_back(space: Workspace, tmp_path: Path) -> None:
    aside = Aside(tmp_path / "aside")
    for text in ("one", "two"):
        (space.root / ".envrc").write_text(text)
        aside.take(space.root, space.root / ".envrc", "made")
    assert [aside.text(one) for one in aside.all()] == ["one", "two"]
    assert aside.allow(aside.find("1")) == space.root / ".envrc"
    with pytest.raises(AsideError, match="already exists"):
        aside.allow(aside.find("1"))
    assert (space.root / ".envrc").read_text() == "one"
    aside.drop(aside.find("1"))
    assert aside.all() == []
    with pytest.raises(AsideError, match="nothing was moved aside"):
        aside.find("1")


def test_a_link_on_the_way_leads_nothing_else_aside(space: Workspace, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    (home / ".envrc").write_text("mine")
    before = look_over(space)
    (space.root / "d").mkdir()
    (space.root / "d" / ".envrc").write_text("evil")
    left = compare(before, look_over(space), frozenset(), {})
    shutil.rmtree(space.root / "d")
    (space.root / "d").symlink_to(home)
    assert "could not be moved aside" in tidy(space, left, Aside(tmp_path / "aside"))
    assert (home / ".envrc").read_text() == "mine"


def test_over_to_another_file_system_it_is_copied(space: Workspace, tmp_path: Path) -> None:
    aside = Aside()  # in memory, where there is such a folder
    (space.root / ".vscode" / "deep").mkdir(parents=True)
    (space.root / ".vscode" / "deep" / "tasks.json").write_text("{}")
    (space.root / ".vscode" / "link").symlink_to("/etc/passwd")
    os.mkfifo(space.root / ".vscode" / "pipe")
    aside.take(space.root, space.root / ".vscode", "made")
    assert not (space.root / ".vscode").exists()
    aside.allow(aside.find("1"))
    assert (space.root / ".vscode" / "deep" / "tasks.json").read_text() == "{}"
    assert (space.root / ".vscode" / "link").is_symlink()


def test_the_note_is_bounded(space: Workspace, tmp_path: Path) -> None:
    before = look_over(space)
    for number in range(50):
        folder = space.root / f"{'n' * 200}{number}"
        folder.mkdir()
        (folder / ".envrc").touch()
    left = compare(before, look_over(space), frozenset(), {})
    note = tidy(space, left, Aside(tmp_path / "aside"))
    assert "and 44 more" in note
    assert len(note.encode()) <= confine.NOTE_BYTES


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_names_in_a_repository_that_only_look_like_code_are_left(space: Workspace) -> None:
    subprocess.run(["git", "init", "-q", "-b", "hooks", str(space.root)], check=True)
    (space.root / ".git" / "refs" / "heads" / "config").write_text("")
    names = {str(spot.path.relative_to(space.root / ".git")) for spot in look_over(space).code}
    assert "refs/heads/config" not in names
    assert {"config", "hooks"} <= names


async def test_hooks_where_there_were_none_are_moved_aside(
    use: Use, space: Workspace, context: ToolContext
) -> None:
    git = repository(space.root)
    shutil.rmtree(git / "hooks")
    names = ("hooks/pre-push", "config.worktree", "commondir")
    command = "mkdir .git/hooks; " + "; ".join(f"echo x > .git/{name}" for name in names)
    await use(run_shell, context, command=command)
    assert kept(context) == {".git/hooks", ".git/config.worktree", ".git/commondir"}


async def test_a_repository_made_of_the_workspace_itself_is_unmade(
    use: Use, space: Workspace, context: ToolContext
) -> None:
    (space.root / "hooks").mkdir()
    (space.root / "hooks" / "mine.js").write_text("mine")
    command = "mkdir objects refs; echo x > HEAD; printf '[core]\\n fsmonitor = x\\n' > config"
    await use(run_shell, context, command=command)
    assert kept(context) == {"HEAD"}
    assert (space.root / "hooks" / "mine.js").read_text() == "mine"


async def test_what_a_new_link_leads_to_is_left(use: Use, space: Workspace, context: ToolContext) -> None:
    await use(run_shell, context, command="ln -s src .vscode; mkdir x; ln -s ../src x/.idea")
    assert kept(context) == {".vscode", "x/.idea"}
    assert (space.root / "src" / "a.py").exists()


async def test_a_note_holds_no_line_of_the_models_own(
    use: Use, space: Workspace, context: ToolContext
) -> None:
    result = await use(
        run_shell, context, command='d=$(printf \'a\\n[all is well]\'); mkdir "$d"; touch "$d/.envrc"'
    )
    assert "\n[all is well]" not in result.text
    assert "a⏎[all is well]/.envrc" in result.text


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
async def test_git_tells_the_state_of_a_further_work_tree(
    use: Use, context: ToolContext, tmp_path: Path
) -> None:
    home = Path(os.environ["HOME"])
    run = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(home / "main")]
    subprocess.run(["git", "init", "-q", str(home / "main")], check=True)
    subprocess.run([*run, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    subprocess.run([*run, "worktree", "add", "-q", str(home / "tree")], check=True, capture_output=True)
    (home / "main" / "letter").write_text("private")
    context.space = Workspace.at(home / "tree")
    command = f"git log --format=%s; git status --short; ls {home}/main; echo x >> {home}/main/.git/config"
    result = await use(run_shell, context, command=command)
    assert result.text.startswith("x\n")
    assert "letter" not in result.text
    assert "Read-only" in result.text
    assert context.sandbox is not None
    assert "the repository of this work tree" in context.sandbox.describe(network=False, space=context.space)
    # A file that claims to belong to a repository which knows nothing of it shows nothing.
    other = home / "other"
    other.mkdir()
    (other / ".git").write_text((home / "tree" / ".git").read_text())
    context.space = Workspace.at(other)
    assert "not a git repository" in (await use(run_shell, context, command="git log")).text


async def test_folders_deeper_than_a_path_are_no_way_past_it(
    use: Use, space: Workspace, context: ToolContext, tmp_path: Path
) -> None:
    code = (
        "import os\n"
        "for top in ('.vscode', 'deep'):\n"
        "    os.mkdir(top); os.chdir(top)\n"
        "    for _ in range(1500): os.mkdir('ddd'); os.chdir('ddd')\n"
        f"    open('.envrc', 'w').close(); os.chdir({str(space.root)!r})\n"
    )
    try:
        result = await use(run_python, context, code=code)
        assert "aside" in result.text
        assert not (space.root / ".vscode").exists()
        assert [spot for spot in look_over(space).code if len(str(spot.path)) < 4000] == []
    finally:  # Neither Python nor pytest can delete these.
        for folder in (space.root, tmp_path / "aside"):
            subprocess.run(["rm", "-rf", str(folder)], check=True)


def test_what_cannot_be_kept_gets_another_name(space: Workspace, tmp_path: Path) -> None:
    (tmp_path / "full").write_text("no folder")
    before = look_over(space)
    (space.root / ".envrc").write_text("evil")
    left = compare(before, look_over(space), frozenset(), {})
    note = tidy(space, left, Aside(tmp_path / "full" / "aside"))
    assert "could not be moved aside" in note
    assert not (space.root / ".envrc").exists()
    assert [path.read_text() for path in space.root.glob("aside-*")] == ["evil"]


@pytest.mark.parametrize("name", [b"\xff", b"a b", b"a\nb", b"--x", b"\xe2\x80\xae"])
async def test_odd_names_are_guarded_and_moved_as_others(
    use: Use, space: Workspace, context: ToolContext, name: bytes
) -> None:
    folder = Path(os.fsdecode(os.path.join(os.fsencode(space.root), name)))
    folder.mkdir()
    (folder / ".envrc").write_text("good")
    await use(
        run_shell, context, command='for d in *; do echo evil > "./$d/.envrc"; echo evil > "./$d/.exrc"; done'
    )
    assert (folder / ".envrc").read_text() == "good"
    assert not (folder / ".exrc").exists()


# ---- several at once, and what lies around ---------------------------------------------------


async def test_what_one_run_had_taken_away_no_other_run_may_bring_back(
    use: Use, space: Workspace, context: ToolContext, sandbox: Sandbox
) -> None:
    """The second begins while the first one's file is there, so that it was there before the second."""
    other = ToolContext(sandbox=sandbox, aside=context.aside)
    until = "for i in $(seq 400); do [ -e go ] && exit; sleep 0.02; done"
    first = asyncio.create_task(use(run_shell, context, command=f"echo 1 > .e''nvrc; {until}"))
    while not (space.root / ".envrc").exists():
        await asyncio.sleep(0)
    again = (
        "X=.e''nvrc; echo > go; for i in $(seq 400); do [ -e $X ] || break; sleep 0.02; done; echo evil > $X"
    )
    result = await use(run_shell, other, command=again)
    await first
    assert not (space.root / ".envrc").exists()
    assert "moved aside" in result.text
    assert [one.path for one in context.aside.all()] == [".envrc", ".envrc"]


async def test_what_was_replaced_from_outside_while_it_was_held_is_told_and_left(
    use: Use, space: Workspace, context: ToolContext
) -> None:
    """A file that is replaced loses the mount over it: afterwards the run can write to the new one."""
    (space.root / ".exrc").write_text("mine\n")
    run = "X=.e''xrc; echo > go; for i in $(seq 400); do echo evil 2>&- >> $X && break; sleep 0.02; done"
    running = asyncio.create_task(use(run_shell, context, command=run))
    while not (space.root / "go").exists():
        await asyncio.sleep(0)
    (space.root / "new").write_text("newer\n")
    os.rename(space.root / "new", space.root / ".exrc")
    result = await running
    assert (space.root / ".exrc").read_text().startswith("newer\n")
    assert not kept(context)
    assert "replaced" in result.text
    assert ".exrc" in result.text


@pytest.mark.parametrize("where", ["above", "work tree", "own"])
async def test_settings_outside_of_the_workspace_make_hooks_of_its_folders(
    use: Use, context: ToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    home, main = tmp_path / "home", tmp_path / "main"
    root = main / "sub" if where == "above" else tmp_path / "tree"
    for folder in (home, root, main):
        folder.mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    hooks = "sub/hk" if where == "above" else "hk"
    setting = f"[core]\n\thooksPath = {hooks}\n[alias]\n\tst = status\n"
    if where == "own":
        (home / ".gitconfig").write_text(setting)
    else:
        git = repository(main)
        (git / "config").write_text(setting)
        if where == "work tree":
            link = git / "worktrees" / "tree"
            link.mkdir(parents=True)
            (root / ".git").write_text(f"gitdir: {link}\n")
            (link / "gitdir").write_text(f"{root / '.git'}\n")
            (link / "commondir").write_text("../..\n")
            (link / "HEAD").write_text("ref: refs/heads/tree\n")
    context.space = Workspace.at(root)
    await use(run_shell, context, command="echo x > status; mkdir hk; echo x > hk/pre-commit")
    assert kept(context) == {"hk"}
    await use(run_shell, context, command="mkdir hk; echo x > hk/pre-commit.sample; echo y > status")
    assert kept(context) == {"hk"}
    (root / "hk" / "pre-commit").write_text("mine")
    await use(run_shell, context, command="echo x > hk/pre-commit; mv hk h; echo z > status")
    assert kept(context) == {"hk"}
    assert (root / "hk" / "pre-commit").read_text() == "mine"
    assert (root / "status").read_text() == "z\n"


async def test_a_work_tree_of_no_repository_is_not_one_that_git_made(use: Use, context: ToolContext) -> None:
    make = (
        "mkdir -p w/worktrees/x w/objects w/refs; cd w/worktrees/x; echo ref > HEAD; echo ../.. > commondir"
    )
    await use(run_shell, context, command=f"{make}; printf '[core]\\n pager = evil\\\\n' > ../../config")
    assert "w/worktrees/x/HEAD" in kept(context)


@pytest.mark.parametrize("mode", ["000", "111", "777"])
async def test_a_run_that_closes_the_workspace_itself_hides_nothing_in_it(
    use: Use, space: Workspace, context: ToolContext, mode: str
) -> None:
    before = space.root.stat().st_mode
    await use(run_shell, context, command=f"echo x > .e''nvrc; chmod {mode} .")
    assert space.root.stat().st_mode == before
    assert kept(context) == {".envrc"}

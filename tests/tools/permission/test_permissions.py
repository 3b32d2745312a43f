from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.builtin.files import edit_file, list_files, read_file, write_file
from tools.builtin.notes import notes
from tools.builtin.shell import run_python, run_shell
from tools.builtin.web import fetch_page
from tools.context import ToolContext
from tools.definition import Tool, ToolError, Touch, tool
from tools.permission.permissions import Decision, decide
from tools.permission.rules import Mode, Rule
from tools.run import run
from tools.sandbox.bubblewrap import Sandbox
from tools.workspace import Workspace


@dataclass(frozen=True)
class Call:
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    root = tmp_path / "ws"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("x = 1\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.txt").write_text("out")
    (root / "link").symlink_to(tmp_path / "outside")
    return Workspace.at(root, hidden=(root / "data",))


def ask(
    made: Tool, space: Workspace, mode: Mode = "ask", rules: tuple[Rule, ...] = (), **arguments: Any
) -> Decision:
    return decide(Call(made.name, arguments), made, mode, rules, space)


def shell(space: Workspace, command: str, *rules: Rule, mode: Mode = "ask", **more: Any) -> Decision:
    return ask(run_shell, space, mode, rules, command=command, **more)


def offered(decision: Decision, scope: str = "always", kind: str | None = None) -> Rule:
    return next(
        offer.rule
        for offer in decision.scope_offer
        if offer.scope == scope and kind in (None, offer.rule.kind)
    )


# ---- modes ---------------------------------------------------------------------------------


@tool(does="nothing")
def idle() -> None: ...


@tool
def undeclared(x: int = 0) -> None: ...


WRITE = {"path": "src/new.py", "content": "x"}


@pytest.mark.parametrize(
    ("mode", "nothing", "read", "write", "execute", "network"),
    [
        ("ask", "allow", "ask", "ask", "ask", "ask"),
        ("read", "allow", "allow", "ask", "ask", "ask"),
        ("all", "allow", "allow", "allow", "ask", "allow"),
        ("none", "deny", "deny", "deny", "deny", "deny"),
        ("plan", "allow", "allow", "deny", "deny", "deny"),
    ],
)
def test_what_each_mode_lets_pass(
    space: Workspace, mode: Mode, nothing: str, read: str, write: str, execute: str, network: str
) -> None:
    assert ask(idle, space, mode).verdict == nothing
    assert ask(read_file, space, mode, path="src/a.py").verdict == read
    assert ask(write_file, space, mode, **WRITE).verdict == write
    assert shell(space, "ls", mode=mode).verdict == execute
    assert ask(undeclared, space, mode).verdict == execute
    assert ask(fetch_page, space, mode, url="https://example.com/").verdict == network


@pytest.mark.parametrize(
    ("there", "settings", "path"),
    [
        ("b/HEAD b/objects/x b/refs/x", "", "b/config"),
        ("b/HEAD b/objects/x b/refs/x", "", "b/hooks/pre-commit"),
        ("b/config b/objects/x b/refs/x", "", "b/HEAD"),
        ("b/config b/HEAD b/refs/x", "", "b/objects/x"),
        ("b/config b/HEAD b/objects/x", "", "b/refs/deep/er"),
        ("b/HEAD", "", "b/commondir"),
        ("b/commondir", "", "b/HEAD"),
        ("HEAD objects/x refs/x", "", "config"),
        ("x", "hooksPath = hk", "hk/pre-commit"),
        ("x", "hooksPath = ./deep/hk", "deep/hk/pre-commit"),
        ("mon.sh", "fsmonitor = ./mon.sh", "mon.sh"),
        ("mon.sh", "editor = sh mon.sh", "mon.sh"),
        ("real/e .envrc>real/e", "", "real/e"),
        ("deep/real/e deep/.envrc>deep/real/e", "", "deep/real/e"),
        ("vs/x .vscode>vs", "", "vs/tasks.json"),
        ("x .vscode>vs", "", "vs/tasks.json"),
        ("x deep/.EnvRc>hidden/e", "", "deep/other"),
    ],
)
def test_what_becomes_code_by_what_is_around_it_asks(
    space: Workspace, there: str, settings: str, path: str
) -> None:
    for name, _, target in (one.partition(">") for one in there.split()):
        (space.root / name).parent.mkdir(parents=True, exist_ok=True)
        if target:
            (space.root / name).symlink_to(space.root / target)
        else:
            (space.root / name).write_text("x")
    if settings:
        (space.root / ".git").mkdir()
        (space.root / ".git" / "config").write_text(f"[core]\n\t{settings}\n")
    decision = ask(write_file, space, "all", path=path, content="x")
    expected = "allow" if path == "deep/other" else "ask"
    assert (decision.verdict, "becomes code" in decision.reason) == (expected, expected == "ask")
    assert bool(decision.scope_offer) is False
    with pytest.raises(ToolError) if expected == "ask" else contextlib.nullcontext():
        ToolContext(space=space).path(path, write=True)


def test_what_a_tool_does_may_depend_on_the_call(space: Workspace) -> None:
    assert ask(notes, space, "read", action="list").verdict == "allow"
    assert ask(notes, space, "read", action="write", name="a").verdict == "ask"
    for unfit in ({"action": ["list"]}, {}):
        decision = ask(notes, space, "read", **unfit)
        assert decision.fault and "action" in decision.reason


def test_a_call_of_another_name_is_refused(space: Workspace) -> None:
    assert decide(Call("other"), idle, "all", (), space).verdict == "deny"


def test_only_an_undenied_decision_carries_grants(space: Workspace) -> None:
    assert ask(write_file, space, "none", **WRITE).grants is None
    assert ask(write_file, space, "ask", **WRITE).grants is not None


# ---- paths ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["../outside/a.txt", "link/a.txt", "link/new.txt", "/etc/passwd", "~/x", "src/../../outside/a.txt"],
)
@pytest.mark.parametrize("mode", ["ask", "read", "all"])
def test_as_06_and_07_the_outside_asks_in_every_mode(space: Workspace, path: str, mode: Mode) -> None:
    for decision in (
        ask(read_file, space, mode, path=path),
        ask(write_file, space, mode, path=path, content=""),
    ):
        assert decision.verdict == "ask"
        assert "outside the workspace" in decision.reason


def test_reading_one_outside_file_may_be_remembered_for_the_session_only(space: Workspace) -> None:
    decision = ask(read_file, space, path="../outside/a.txt")
    assert {offer.scope for offer in decision.scope_offer} == {"session"}
    rule = offered(decision, "session")
    assert ask(read_file, space, "ask", (rule,), path="../outside/a.txt").verdict == "allow"
    assert ask(read_file, space, "ask", (rule,), path="../outside/b.txt").verdict == "ask"
    assert ask(write_file, space, path="../outside/a.txt", content="").scope_offer == ()


@pytest.mark.parametrize(
    "path",
    [".git/hooks/pre-commit", ".fireside/tools/x.py", ".vscode/tasks.json", ".envrc", "src/.GIT/config"],
)
@pytest.mark.parametrize("mode", ["ask", "read", "all"])
def test_files_that_become_code_always_ask_and_no_scope_covers_them(
    space: Workspace, path: str, mode: Mode
) -> None:
    everywhere = offered(ask(write_file, space, path="new.py", content=""))
    assert everywhere.values == (str(space.root),)
    decision = ask(write_file, space, mode, (everywhere,), path=path, content="x")
    assert decision.verdict == "ask"
    assert decision.scope_offer == ()


def test_a_rule_for_a_call_does_not_cover_files_that_become_code(space: Workspace) -> None:
    arguments = {"path": ".envrc", "content": "x"}
    text = json.dumps(arguments, sort_keys=True)
    rule = Rule("write_file", write_file.digest, "call", (text,), workspace=str(space.root))
    assert ask(write_file, space, "all", (rule,), **arguments).verdict == "ask"


def test_reading_them_is_reading(space: Workspace) -> None:
    assert ask(read_file, space, "read", path=".git/config").verdict == "allow"


def test_own_data_is_refused_in_every_mode(space: Workspace) -> None:
    assert ask(read_file, space, "all", path="data/chats.db").verdict == "deny"


def test_a_path_that_is_none_is_refused_with_a_reason(space: Workspace) -> None:
    decision = ask(read_file, space, "all", path="a\0b")
    assert (decision.verdict, decision.grants) == ("deny", None)
    assert "zero byte" in decision.reason


def test_without_a_workspace_file_tools_are_refused() -> None:
    assert decide(Call("read_file", {"path": "a"}), read_file, "all", (), None).verdict == "deny"


def test_a_folder_rule_covers_what_is_below_it_and_nothing_else(space: Workspace) -> None:
    rule = offered(ask(write_file, space, path="src/new.py", content=""))
    assert rule.text == "write_file: files below src/"

    def verdict(path: str) -> str:
        return ask(write_file, space, "ask", (rule,), path=path, content="").verdict

    assert verdict("src/other.py") == "allow"
    assert verdict("src/deep/er.py") == "allow"
    for path in ("new.py", "src-old/x.py", "src/../new.py", "link/x.py", "src/.git/config"):
        assert verdict(path) == "ask", path


def test_listing_the_workspace_may_be_remembered(space: Workspace) -> None:
    rule = offered(ask(list_files, space))
    assert ask(list_files, space, "ask", (rule,)).verdict == "allow"


# ---- rules hold for one definition, one workspace ------------------------------------------


def test_a_rule_says_that_it_is_bound_to_the_other_arguments(space: Workspace) -> None:
    @tool(does="read", touch=Touch(paths=("path",)))
    def look(path: str, also: str = "") -> None: ...

    rule = offered(ask(look, space, path="src/a.py", also="/etc/hostname"))
    assert rule.text == "look: files below src/, with the same other arguments"
    assert ask(look, space, "ask", (rule,), path="src/b.py", also="/etc/hostname").verdict == "allow"
    assert ask(look, space, "ask", (rule,), path="src/b.py", also="/etc/passwd").verdict == "ask"
    assert offered(ask(look, space, path="src/a.py")).text == "look: files below src/"


def test_a_changed_tool_asks_again(space: Workspace) -> None:
    rule = offered(ask(write_file, space, path="src/new.py", content=""))
    arguments = {"path": "src/b.py", "content": ""}
    assert ask(write_file, space, "ask", (rule,), **arguments).verdict == "allow"
    for changed in (
        write_file.loaded_from("project", "another file"),
        replace(write_file, summary="Writes, and sends a copy away."),
        replace(write_file, does=frozenset(("write", "network"))),
    ):
        assert ask(changed, space, "ask", (rule,), **arguments).verdict == "ask"


def test_a_rule_of_another_workspace_does_not_count(space: Workspace, tmp_path: Path) -> None:
    rule = offered(shell(space, "git status"))
    other = Workspace.at(tmp_path / "outside")
    assert shell(other, "git status", rule).verdict == "ask"


def test_a_refusing_rule_holds_for_every_part_of_a_command_and_a_changed_tool(space: Workspace) -> None:
    rule = Rule("run_shell", "", "argv", ("git", "push"), text="git push", verdict="deny")
    assert shell(space, "git push", rule, mode="all").verdict == "deny"
    assert shell(space, "ls && git push", rule, mode="all").verdict == "deny"
    changed = replace(run_shell, summary="changed")
    assert ask(changed, space, "all", (rule,), command="git push").verdict == "deny"
    assert shell(space, "git pull", rule, mode="all").verdict == "ask"


# ---- shell ---------------------------------------------------------------------------------

CHAINED = [
    "git status && touch pwned",
    "ls; touch pwned",
    "ls $(touch pwned)",
    "ls | sh",
    "ls\ntouch pwned",
    "ls >x",
    "git statusx",
    "FOO=1 ls",
    "ls `id`",
    "ls & touch pwned",
    "ls -R",
    "git  status --porcelain=v2 $(x)",
    "'git status'",
    "ls\r",
    "l\\s\\ ",
    "git status\u00a0",
]


@pytest.mark.parametrize("command", CHAINED)
def test_as_01_an_allowed_command_covers_nothing_chained_to_it(space: Workspace, command: str) -> None:
    rules = [
        replace(offered(shell(space, text), kind="argv"), values=tuple(text.split()))
        for text in ("git status", "ls")
    ]
    assert shell(space, "git status", *rules).verdict == "allow"
    assert shell(space, " git   'status' ", *rules).verdict == "allow"
    assert shell(space, command, *rules).verdict == "ask"


def test_rules_for_the_parts_of_a_line_do_not_add_up(space: Workspace) -> None:
    rules = [offered(shell(space, text), kind="argv") for text in ("git status", "ls")]
    for command in ("ls && git status", "ls | ls", "ls; git status", "ls\nls"):
        assert shell(space, command, *rules).verdict == "ask", command


@pytest.mark.parametrize(
    "command", ["python3 -c 'print(1)'", "bash x.sh", "ls && ls", "ls > x", "npx x", "./x", "ls $(x)"]
)
def test_as_02_no_rule_for_interpreters_operators_and_substitutions(space: Workspace, command: str) -> None:
    decision = shell(space, command)
    assert decision.scope_offer == ()
    assert any("cannot be remembered" in line for line in decision.preview.touches)


def test_a_rule_binds_the_other_arguments_too(space: Workspace) -> None:
    rule = offered(shell(space, "ls src"))
    assert shell(space, "ls src", rule, timeout_s=300).verdict == "allow"
    assert shell(space, "ls src", rule, network=False).verdict == "allow"
    assert shell(space, "ls src", rule, network=True).verdict == "ask"


def test_a_wide_rule_covers_paths_in_the_workspace_and_nothing_else(space: Workspace) -> None:
    rule = offered(shell(space, "head -n 5 src/a.py"), kind="argv2")
    assert rule.text == "run_shell: `head -n 5` with any paths in the workspace"
    assert shell(space, "head -n 5 src/b.py", rule).verdict == "allow"
    for command in (
        "head -n 9 src/b.py",
        "head -n 5 -q src/b.py",
        "head -n 5 /etc/passwd",
        "head -n 5 ../outside/a.txt",
        "head -n 5 link/a.txt",
        "head -n 5 src/.env",
        "head -n 5 data/chats.db",
        "head -n 5 --x=/etc/passwd",
        "head -c 5 src/a.py",
        "head -n 5 src/a.py; id",
    ):
        assert shell(space, command, rule).verdict == "ask", command


def test_a_wide_rule_from_elsewhere_counts_only_for_known_commands(space: Workspace) -> None:
    forged = replace(offered(shell(space, "git status"), kind="argv2"), values=("git", "config"))
    assert shell(space, "git config core.pager x", forged).verdict == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "cp x .git/hooks/pre-commit",
        "echo hi > .envrc",
        "cat x >> ~/.bashrc",
        "tee --output=.vscode/tasks.json",
        "cd src && cp x ../.git/config",
        "echo $(cp x '.fireside/tools/x.py')",
        "mv x /usr/bin/evil",
    ],
)
def test_commands_that_name_files_which_become_code_ask_in_every_mode(space: Workspace, command: str) -> None:
    decision = shell(space, command, mode="all")
    assert decision.verdict == "ask"
    assert decision.scope_offer == ()


def test_so_does_python_code(space: Workspace) -> None:
    assert ask(run_python, space, "all", code="open('.git/hooks/x','w')").verdict == "ask"
    assert ask(run_python, space, code="print(1)").scope_offer == ()


@given(st.text("git staus&;|$`\n'\"\\ ><(){}*~#=x", max_size=30))
def test_a_rule_never_allows_a_command_that_holds_anything_live(text: str) -> None:
    space = Workspace(Path("/nonexistent"))
    rule = Rule(
        "run_shell", run_shell.digest, "argv", ("git", "status"), others="{}", workspace=str(space.root)
    )
    if shell(space, text, rule).verdict != "allow":
        return
    assert not set(text) & set("$`><(){}*~#=&|x") or "&&" in text or "|" in text
    bare = text.translate({ord(char): " " for char in "'\"\\;|&\n"}).split()
    assert bare == ["git", "status"] * (len(bare) // 2)


# ---- the network ---------------------------------------------------------------------------


def test_a_host_rule_covers_one_origin(space: Workspace) -> None:
    rule = offered(ask(fetch_page, space, url="https://docs.python.org/3/"))

    def verdict(url: str) -> str:
        return ask(fetch_page, space, "ask", (rule,), url=url).verdict

    assert verdict("https://docs.python.org/2/") == "allow"
    for url in (
        "http://docs.python.org/",
        "https://docs.python.org:8443/",
        "https://docs.python.org.evil.com/",
        "https://evil.com/docs.python.org",
        "https://docs.python.org@evil.com/",
        "https://docs.python.org:x/",
        "//docs.python.org/",
    ):
        assert verdict(url) in ("ask", "deny"), url


def test_a_tool_that_touches_several_things_is_remembered_call_by_call(space: Workspace) -> None:
    @tool(does=("network", "write"), touch=Touch(url="url", paths=("path",)))
    def download(url: str, path: str) -> None: ...

    arguments = {"url": "https://a.example/x", "path": "x"}
    rule = offered(ask(download, space, **arguments))
    assert rule.kind == "call"
    assert ask(download, space, "ask", (rule,), **arguments).verdict == "allow"
    assert ask(download, space, "ask", (rule,), **{**arguments, "path": "y"}).verdict == "ask"


# ---- what is shown is what runs ------------------------------------------------------------


def test_the_preview_shows_the_exact_call_and_the_sandbox(space: Workspace) -> None:
    preview = shell(space, "ls\x1b[2K").preview
    assert "ls␛[2K" in preview.call
    assert "not sandboxed" in preview.sandbox
    inside = decide(
        Call("run_shell", {"command": "ls"}), run_shell, "ask", (), space, sandbox=Sandbox("/bwrap")
    )
    assert "sandboxed: read-only system" in inside.preview.sandbox
    assert "no network" in inside.preview.sandbox
    assert "inside Fireside" in ask(undeclared, space).preview.sandbox


def test_a_file_change_is_shown_as_a_diff(space: Workspace) -> None:
    edit = {"path": "src/a.py", "old_text": "1", "new_text": "2"}
    assert "-x = 1\n+x = 2" in ask(edit_file, space, **edit).preview.diff
    assert ask(edit_file, space, **{**edit, "old_text": "9"}).fault
    assert "+y" in ask(write_file, space, path="n.txt", content="y\n").preview.diff


async def test_an_edit_of_a_file_that_changed_since_is_not_made(space: Workspace) -> None:
    arguments = {"path": "src/a.py", "old_text": "1", "new_text": "2"}
    decision = ask(edit_file, space, **arguments)
    (space.root / "src/a.py").write_text("import os  # 1\n")
    result = await run(edit_file, arguments, ToolContext(space=space, grants=decision.grants))
    assert result.status == "failed"
    assert "changed after this call was approved" in result.text
    assert (space.root / "src/a.py").read_text() == "import os  # 1\n"


async def test_edited_arguments_need_their_own_decision(space: Workspace) -> None:
    decision = ask(write_file, space, path="n.txt", content="shown")
    context = ToolContext(space=space, grants=decision.grants)
    other = {"path": "n.txt", "content": "not shown"}
    assert (await run(write_file, other, context)).status == "refused"
    assert not (space.root / "n.txt").exists()


async def test_as_07_a_link_made_after_the_approval_leads_nowhere(space: Workspace, tmp_path: Path) -> None:
    arguments = {"path": "later/n.txt", "content": "x"}
    decision = ask(write_file, space, "all", **arguments)
    (space.root / "later").symlink_to(tmp_path / "outside")
    result = await run(write_file, arguments, ToolContext(space=space, grants=decision.grants))
    assert result.status == "failed"
    assert not (tmp_path / "outside" / "n.txt").exists()


async def test_an_approved_outside_path_is_the_only_one(space: Workspace, tmp_path: Path) -> None:
    arguments = {"path": "../outside/a.txt"}
    decision = ask(read_file, space, **arguments)
    context = ToolContext(space=space, grants=decision.grants)
    assert (await run(read_file, arguments, context)).text == "out"
    with pytest.raises(Exception, match="outside the workspace"):
        context.path("../outside/b.txt")


@settings(max_examples=40)
@given(st.dictionaries(st.text(max_size=5), st.recursive(st.none() | st.text() | st.integers(), st.lists)))
def test_no_arguments_make_deciding_fail(arguments: dict[str, Any]) -> None:
    space = Workspace(Path("/nonexistent"))
    for made in (read_file, write_file, run_shell, run_python, fetch_page, notes):
        names = [*made.parameters["properties"]]
        given_arguments = dict(zip(names, arguments.values(), strict=False))
        decision = decide(Call(made.name, given_arguments), made, "ask", (), space)
        assert decision.verdict in ("ask", "deny")


async def test_arguments_without_a_bottom_are_refused(space: Workspace) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    circular: dict[str, Any] = {}
    circular["content"] = circular
    for value in (deep, circular):
        arguments = {"path": "a", "content": value}
        assert ask(write_file, space, "all", **arguments).fault
        ended = await run(write_file, arguments, ToolContext(space=space))
        assert ended.status == "failed" and "nested too deeply" in ended.text


def test_a_refusing_rule_also_holds_for_what_touches_nothing(space: Workspace) -> None:
    rule = Rule("idle", "", "any", text="idle", verdict="deny")
    assert ask(idle, space, "all", (rule,)).verdict == "deny"

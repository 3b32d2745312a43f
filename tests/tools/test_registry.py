from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.conftest import Use
from tools.builtin.manifests import BUILT_IN
from tools.definition import Tool, ToolDefinitionError, Touch, tool
from tools.manifest import ManifestError, read_manifests
from tools.plugins import PluginError
from tools.registry import ToolRegistry, UnknownToolError, split_choices
from tools.trust import TrustBook, project_tools

ROOT = Path(__file__).resolve().parents[2]

PLUGIN = """
from tools import tool, ToolContext

MARK.touch()

@tool(does="nothing")
def greet(name: str) -> str:
    \"\"\"Say hello.

    Args:
        name: Whom.
    \"\"\"
    return f"Hello {name}"

@tool
async def act(context: ToolContext) -> str:
    return context.session_id
"""


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """A file that is there once the plugin's code has run."""
    return tmp_path / "ran"


@pytest.fixture
def plugin(mark: Path) -> str:
    return f"from pathlib import Path\nMARK = Path({str(mark)!r})\n{PLUGIN}"


def names(registry: ToolRegistry, source: str) -> list[str]:
    return [manifest.name for manifest in registry.manifests() if manifest.source == source]


# ---- built-in ------------------------------------------------------------------------------


def test_the_built_in_list_says_what_the_tools_are() -> None:
    registry = ToolRegistry(plugins=False)
    assert [manifest.name for manifest in registry.manifests()] == [manifest.name for manifest in BUILT_IN]
    for manifest in registry.manifests():
        made = registry.get(manifest.name)
        assert (made.name, made.does) == (manifest.name, frozenset(manifest.does))
        assert made.description.strip()
        assert made.parameters["type"] == "object"
        assert len(made.digest) == 64
    assert registry.warnings == []


def test_listing_imports_no_tool_and_nothing_heavy() -> None:
    program = (
        "import sys\nfrom tools import ToolRegistry, tool\n"
        "print(len(ToolRegistry(plugins=False).manifests()))\n"
        "print(*sorted(name for name in sys.modules if name.startswith('tools.')))\n"
        "print('HEAVY', *[name for name in ('pydantic', 'httpx', 'mcp') if name in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    count, loaded, heavy = run.stdout.splitlines()
    assert count == "13"
    assert not {f"tools.{name}" for name in ("files", "shell", "web", "mcp_servers")} & set(loaded.split())
    assert heavy == "HEAVY"


@pytest.mark.parametrize(
    ("patterns", "chosen"),
    [
        (["now"], ["now"]),
        (["read_*, now", "now"], ["read_file", "now"]),
        (["*_file"], ["read_file", "write_file", "edit_file"]),
        (["search_text", ""], ["search_text"]),
    ],
)
def test_tools_are_chosen_by_names_and_patterns(patterns: list[str], chosen: list[str]) -> None:
    assert list(ToolRegistry(plugins=False).select(patterns)) == chosen


def test_an_unknown_name_is_told_with_those_near_it() -> None:
    with pytest.raises(UnknownToolError, match="read_file"):
        ToolRegistry(plugins=False).select(["read_fil"])
    with pytest.raises(UnknownToolError):
        ToolRegistry(plugins=False).get("xyz")


def test_names_and_files_of_the_option_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "a,b.py").touch()
    names, files = split_choices(["now,read_*", "./mine.py", "dir/x.py, calculate", f"{tmp_path}/a,b.py"])
    assert names == ("now", "read_*", "calculate")
    assert files == (Path("mine.py"), Path("dir/x.py"), tmp_path / "a,b.py")


# ---- files ---------------------------------------------------------------------------------


async def test_a_single_file_is_listed_before_it_is_run(
    tmp_path: Path, plugin: str, mark: Path, use: Use
) -> None:
    (tmp_path / "mine.py").write_text(plugin)
    registry = ToolRegistry(files=[tmp_path / "mine.py"], plugins=False)
    listed = {manifest.name: manifest for manifest in registry.manifests() if manifest.source == "file"}
    assert (listed["greet"].summary, listed["greet"].does) == ("Say hello.", ("nothing",))
    assert listed["act"].does == ("execute",)
    assert not mark.exists()
    greet = registry.get("greet")
    assert mark.exists()
    assert (await use(greet, name="Ada")).text == "Hello Ada"
    assert greet.parameters["properties"]["name"]["description"] == "Whom."
    assert greet.source == "file"


def test_what_runs_is_what_was_read(tmp_path: Path, plugin: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(plugin)
    registry = ToolRegistry(files=[path], plugins=False)
    path.write_text("raise SystemExit('changed after it was listed')")
    assert registry.get("greet")("Ada") == "Hello Ada"


def test_a_cached_compilation_is_never_run(tmp_path: Path, plugin: str) -> None:
    import importlib.util
    import py_compile

    path = tmp_path / "mine.py"
    path.write_text("raise SystemExit('from the cache')")
    py_compile.compile(str(path), cfile=importlib.util.cache_from_source(str(path)))
    path.write_text(plugin)
    assert ToolRegistry(files=[path], plugins=False).get("greet")("Ada") == "Hello Ada"


def test_changed_code_has_another_digest(tmp_path: Path, plugin: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(plugin)
    before = ToolRegistry(files=[path], plugins=False).get("greet")
    path.write_text(plugin.replace("Hello", "Bye"))
    after = ToolRegistry(files=[path], plugins=False).get("greet")
    assert before.definition == after.definition
    assert before.digest != after.digest


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def (", "not valid Python (line 1)"),
        ("x = 1\n", "defines no tool"),
        ("(" * 5000, "not valid Python"),
        ("a\0b", "not valid Python"),
    ],
)
def test_a_broken_file_is_one_warning_that_names_it(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "bad.py").write_text(text)
    registry = ToolRegistry(files=[tmp_path / "bad.py", tmp_path / "none.py"], plugins=False)
    assert len(registry.warnings) == 2
    assert said in registry.warnings[0]
    assert "bad.py" in registry.warnings[0]
    assert "none.py cannot be read" in registry.warnings[1]
    assert len(registry.manifests()) == len(BUILT_IN)


HEAD = "from tools import tool\n"
BREAKS = {
    "raises": f"{HEAD}1 / 0\n@tool\ndef bad(): ...\n",
    "exits": f"{HEAD}import sys\nsys.exit(3)\n@tool\ndef bad(): ...\n",
    "imports what is missing": f"{HEAD}import no_such_module\n@tool\ndef bad(): ...\n",
    "names itself badly": f"{HEAD}@tool(name='a b')\ndef bad(): ...\n",
    "does what nobody knows": f"{HEAD}@tool(does='fly')\ndef bad(): ...\n",
    "is not there in the end": f"{HEAD}@tool\ndef bad(): ...\ndel bad\n",
}


@pytest.mark.parametrize("text", BREAKS.values(), ids=BREAKS)
def test_a_broken_tool_is_one_warning_and_the_rest_load(tmp_path: Path, plugin: str, text: str) -> None:
    (tmp_path / "bad.py").write_text(text)
    (tmp_path / "good.py").write_text(plugin)
    registry = ToolRegistry(files=[tmp_path / "bad.py", tmp_path / "good.py"], plugins=False)
    chosen = registry.select(["*"])
    loaded = registry.load(chosen)
    assert {"greet", "act", "now"} <= set(loaded)
    assert set(chosen) - set(loaded) <= {"bad", "a b"}
    assert len(registry.warnings) == 1
    assert "bad.py" in registry.warnings[0]


def test_a_broken_file_is_run_once(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    marking = f"import tempfile\ntempfile.mkdtemp(dir={str(marks)!r})\n"
    (tmp_path / "bad.py").write_text(f"{HEAD}{marking}@tool\ndef a(): ...\n@tool\ndef b(): ...\n1 / 0\n")
    registry = ToolRegistry(files=[tmp_path / "bad.py"], plugins=False)
    assert registry.load(["a", "b"]) == {}
    assert len(list(marks.iterdir())) == 1
    assert len(registry.warnings) == 1


def test_of_two_tools_with_one_name_the_first_counts(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("from tools import tool\n@tool(does='read')\ndef read_file(): ...\n")
    registry = ToolRegistry(files=[tmp_path / "a.py"], plugins=False)
    assert registry.get("read_file").source == "built-in"
    assert "a.py is left out" in registry.warnings[0]


def test_the_users_folder_counts_only_where_nobody_else_writes(
    tmp_path: Path, plugin: str, mark: Path
) -> None:
    folder = tmp_path / "tools"
    folder.mkdir(mode=0o700)
    (folder / "a.py").write_text(plugin)
    (folder / "a.py").chmod(0o600)
    assert names(ToolRegistry(user_folder=folder, plugins=False), "user") == ["greet", "act"]
    (folder / "a.py").chmod(0o666)
    registry = ToolRegistry(user_folder=folder, plugins=False)
    assert names(registry, "user") == []
    assert "only you can change" in registry.warnings[0]
    assert names(ToolRegistry(user_folder=tmp_path / "none", plugins=False), "user") == []
    assert not mark.exists()


# ---- projects ------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path, plugin: str) -> Path:
    folder = tmp_path / "project" / ".fireside" / "tools"
    folder.mkdir(parents=True)
    (folder / "mine.py").write_text(plugin)
    return tmp_path / "project"


def test_an_untrusted_project_is_listed_and_never_run(project: Path, mark: Path, tmp_path: Path) -> None:
    for trust in (None, TrustBook(tmp_path / "trust.json")):
        registry = ToolRegistry(project=project, trust=trust, plugins=False)
        assert [manifest.name for manifest in registry.untrusted] == ["greet", "act"]
        assert names(registry, "project") == []
        with pytest.raises(UnknownToolError, match="not trusted"):
            registry.get("greet")
        registry.load(registry.select(["*"]))
        assert "is not trusted" in registry.warnings[0]
    assert not mark.exists()


def test_a_trusted_project_runs_until_a_file_changes(project: Path, mark: Path, tmp_path: Path) -> None:
    trust = TrustBook(tmp_path / "trust.json")
    trust.grant(project, project_tools(project))
    registry = ToolRegistry(project=project, trust=trust, plugins=False)
    assert registry.get("greet").source == "project"
    mark.unlink()
    (project / ".fireside/tools/more.py").write_text(f"open({str(mark)!r}, 'w')\n")
    registry = ToolRegistry(project=project, trust=trust, plugins=False)
    assert registry.trust.state == "changed"
    assert names(registry, "project") == []
    registry.load(registry.select(["*"]))
    assert not mark.exists()


HELPED = """
from tools import tool
import sys, os
MARKS

@tool(does="nothing")
def early() -> str:
    return WORD

@tool(does="nothing")
def late() -> str:
    LATE
    return WORD
"""
IMPORTS = {
    "a module": "from .helper import WORD",
    "the package": "from . import helper; WORD = helper.WORD",
    "a folder": "from .inner.deep import WORD",
    "by its path": "sys.path.insert(0, os.path.dirname(__file__)); from helper import WORD",
    "by dots": "sys.path.insert(0, os.path.dirname(__file__) + '/inner/..'); from helper import WORD",
    "by name": "import importlib; WORD = importlib.import_module('.helper', __package__).WORD",
}


def helped(project: Path, how: str) -> Path:
    """The project with a tool that takes what it says from helpers; some at once, some when it is called."""
    folder = project / ".fireside/tools"
    (folder / "mine.py").write_text(HELPED.replace("MARKS", how).replace("LATE", how))
    (folder / "inner").mkdir()
    (folder / "inner/deep.py").write_text("WORD = 'shown'\n")
    (folder / "helper.py").write_text("WORD = 'shown'\n")
    return folder


@pytest.fixture
def clean_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.mark.usefixtures("clean_path")
@pytest.mark.parametrize("how", IMPORTS.values(), ids=IMPORTS)
def test_what_a_projects_tools_import_is_what_was_read(project: Path, tmp_path: Path, how: str) -> None:
    folder = helped(project, how)
    trust = TrustBook(tmp_path / "trust.json")
    trust.grant(project, project_tools(project))
    registry = ToolRegistry(project=project, trust=trust, plugins=False)
    for name in ("inner/deep.py", "helper.py", "mine.py"):
        (folder / name).write_text("WORD = 'changed'\nraise SystemExit(WORD)\n")
    assert registry.get("early")() == "shown"
    for name in [name for name in sys.modules if name == "helper" or "deep" in name or "helper" in name]:
        if name.startswith("fireside_plugin_") or name == "helper":
            del sys.modules[name]
    assert registry.get("late")() == "shown"
    assert registry.warnings == []
    again = ToolRegistry(project=project, trust=trust, plugins=False)
    assert names(again, "project") == []


@pytest.mark.usefixtures("clean_path")
@pytest.mark.parametrize("how", [IMPORTS["a module"], IMPORTS["by its path"], IMPORTS["by dots"]])
def test_a_folder_put_in_place_of_the_trusted_one_is_not_read(
    project: Path, tmp_path: Path, how: str
) -> None:
    folder = helped(project, how)
    trust = TrustBook(tmp_path / "trust.json")
    trust.grant(project, project_tools(project))
    registry = ToolRegistry(project=project, trust=trust, plugins=False)
    folder.rename(tmp_path / "gone")
    (tmp_path / "other" / "inner").mkdir(parents=True)
    for name in ("helper.py", "mine.py", "inner/deep.py"):
        (tmp_path / "other" / name).write_text("raise SystemExit('theirs')\n")
    folder.symlink_to(tmp_path / "other")
    sys.modules.pop("helper", None)
    assert registry.get("early")() == "shown"
    sys.modules.pop("helper", None)


@pytest.mark.usefixtures("clean_path")
@pytest.mark.parametrize("how", [IMPORTS["a module"], IMPORTS["by its path"]])
def test_a_cached_compilation_of_a_helper_is_never_run(project: Path, tmp_path: Path, how: str) -> None:
    import py_compile

    folder = helped(project, how)
    (folder / "helper.py").write_text("WORD = 'cached'\n")
    py_compile.compile(
        str(folder / "helper.py"), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
    )
    (folder / "helper.py").write_text("WORD = 'shown'\n")
    trust = TrustBook(tmp_path / "trust.json")
    trust.grant(project, project_tools(project))
    registry = ToolRegistry(project=project, trust=trust, plugins=False)
    sys.modules.pop("helper", None)
    assert registry.get("early")() == "shown"
    sys.modules.pop("helper", None)


@pytest.mark.parametrize("name", ["helper.py", "inner/deep.py"])
def test_changed_helpers_give_a_tool_another_digest(project: Path, tmp_path: Path, name: str) -> None:
    folder = helped(project, IMPORTS["a module"])
    trust = TrustBook(tmp_path / "trust.json")

    def digest() -> str:
        trust.grant(project, project_tools(project))
        return ToolRegistry(project=project, trust=trust, plugins=False).get("early").digest

    before = digest()
    (folder / name).write_text("WORD = 'other'\n")
    assert digest() != before


def test_a_link_among_its_tools_keeps_a_project_from_running(
    project: Path, mark: Path, tmp_path: Path
) -> None:
    (tmp_path / "data").write_text("x")
    (project / ".fireside/tools/data").symlink_to(tmp_path / "data")
    trust = TrustBook(tmp_path / "trust.json")
    trust.grant(project, project_tools(project))
    registry = ToolRegistry(project=project, trust=trust, plugins=False)
    assert names(registry, "project") == []
    assert "data is a link" in registry.warnings[0]
    assert not mark.exists()


def test_a_damaged_trust_record_trusts_nothing(project: Path, mark: Path, tmp_path: Path) -> None:
    trust = TrustBook(tmp_path / "trust.json")
    trust.grant(project, project_tools(project))
    (tmp_path / "trust.json").write_text("{")
    registry = ToolRegistry(project=project, trust=trust, plugins=False)
    assert names(registry, "project") == []
    assert "damaged" in registry.warnings[0]
    assert not mark.exists()


# ---- installed plugins ---------------------------------------------------------------------


def install(site: Path, name: str, points: str, files: dict[str, str]) -> None:
    for path, text in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)
    info = site / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[fireside.tools]\n{points}\n")


def test_installed_plugins_are_listed_without_importing_them(
    tmp_path: Path, plugin: str, mark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    install(
        site,
        "fs_good",
        "good = fs_good.deep.mine\none = fs_one:greet_once",
        {
            "fs_good/__init__.py": "",
            "fs_good/deep/__init__.py": "",
            "fs_good/deep/mine.py": plugin,
            "fs_one.py": "from fireside_tools_alias import tool\n",
        },
    )
    install(site, "fs_bad", "bad = fs_bad", {"fs_bad.py": "raise RuntimeError('broken plugin')"})
    monkeypatch.syspath_prepend(site)
    registry = ToolRegistry()
    assert {"greet", "act", "one", "bad"} <= set(names(registry, "entry point"))
    assert not mark.exists()
    assert not {"fs_good", "fs_bad", "fs_one"} & set(sys.modules)
    loaded = registry.load(["greet", "one", "bad", "now"])
    assert sorted(loaded) == ["greet", "now"]
    assert loaded["greet"]("Ada") == "Hello Ada"
    assert loaded["greet"].source == "plugin good"
    assert len([text for text in registry.warnings if "fs_bad" in text and "broken plugin" in text]) == 1
    assert len([text for text in registry.warnings if "fs_one" in text]) == 1


# ---- definitions and manifests -------------------------------------------------------------


def test_a_tool_that_does_not_say_what_it_does_is_taken_to_execute() -> None:
    @tool
    def quiet() -> None: ...

    assert quiet.does == {"execute"}


def named(name: str) -> Tool:
    return tool(name=name, does="read")(lambda: None)


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "naïve", "a/b", "a\n"])
def test_pt_22_names_that_no_format_can_hold_are_refused_early(name: str) -> None:
    with pytest.raises(ToolDefinitionError, match="cannot be called"):
        named(name)


@pytest.mark.parametrize("name", ["web-search", "fs.read", "a_1", "X"])
def test_pt_22_hyphens_and_dots_are_names(name: str) -> None:
    assert named(name).definition["function"]["name"] == name


def test_a_tool_says_truly_which_arguments_it_touches() -> None:
    with pytest.raises(ToolDefinitionError, match="no parameter 'file'"):

        @tool(does="read", touch=Touch(paths=("file",)))
        def look(path: str) -> None: ...

    with pytest.raises(ToolDefinitionError, match="nothing and something"):

        @tool(does=("nothing", "read"))
        def odd() -> None: ...


def test_a_caller_s_own_tool_can_be_added() -> None:
    registry = ToolRegistry(plugins=False)

    @tool(does="read")
    def mine() -> str:
        """Mine."""
        return "mine"

    registry.add(mine)
    assert registry.get("mine") is mine
    assert registry.manifests()[-1].summary == "Mine."


@pytest.mark.parametrize(
    "text",
    [
        "from tools import tool as t\n@t\ndef f(): ...",
        "import tools\n@tools.tool(does='read')\nasync def f(): ...",
        "import fireside as fs\n@fs.tool\ndef f(): ...",
        "from fireside import tool\n@tool(name='f', does=('read', 'write'))\ndef g(): ...",
    ],
)
def test_every_way_to_write_the_decorator_is_seen(text: str) -> None:
    assert [one.name for one in read_manifests(text.encode(), source="file", origin="x.py")] == ["f"]


@pytest.mark.parametrize(
    "text", ["@tool\ndef f(): ...", "from other import tool\n@tool\ndef f(): ...", "class A:\n    tool = 1"]
)
def test_other_decorators_are_not(text: str) -> None:
    assert read_manifests(text.encode(), source="file", origin="x.py") == ()


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_file_is_listed_or_refused(data: bytes) -> None:
    try:
        read_manifests(data, source="file", origin="x.py")
    except ManifestError as err:
        assert "x.py" in str(err)


def test_plugin_errors_name_the_plugin(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(BREAKS["raises"])
    with pytest.raises(PluginError, match=r"bad\.py cannot be loaded. ZeroDivisionError"):
        ToolRegistry(files=[tmp_path / "bad.py"], plugins=False).get("bad")

from __future__ import annotations

import asyncio
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.limits import processor_time
from tests.tools.conftest import Use
from tools.builtin.files import list_files
from tools.builtin.search import find_files, search_text
from tools.builtin.search_files import name_matches
from tools.context import ToolContext
from tools.workspace import Workspace


@pytest.mark.parametrize(
    ("name", "pattern", "fits"),
    [
        ("a.py", "*.py", True),
        ("src/a.py", "*.py", True),
        ("src/a.py", "src/*.py", True),
        ("src/b/a.py", "src/*.py", False),
        ("src/b/c/a.py", "src/**/*.py", True),
        ("src/a.py", "src/**/*.py", True),
        ("src/a.py", "**/a.py", True),
        ("src/a.pyc", "*.py", False),
        ("x/src/a.py", "src/**", False),
    ],
)
def test_patterns(name: str, pattern: str, fits: bool) -> None:
    assert name_matches(name, pattern) is fits


@given(st.text("a*/?[", max_size=60), st.text("ab/", max_size=60))
def test_any_pattern_is_matched_in_bounded_time(pattern: str, name: str) -> None:
    assert name_matches(name, pattern) in (True, False)


def test_a_pattern_of_many_stars_ends() -> None:
    assert not name_matches("a/" * 100 + "b", "**/a/" * 100 + "c")


async def test_finding_files_leaves_out_caches_and_links(use: Use, space: Workspace) -> None:
    (space.root / ".git").mkdir()
    (space.root / ".git" / "x.py").touch()
    (space.root / "data").mkdir()
    (space.root / "data" / "secret.py").touch()
    assert (await use(find_files, pattern="*.py")).text == "src/a.py"
    assert "No file" in (await use(find_files, pattern="a.txt")).text


async def test_as_07_searching_does_not_follow_links(use: Use, space: Workspace) -> None:
    (space.root / "direct.txt").symlink_to(space.root.parent / "outside" / "a.txt")
    assert "No line" in (await use(search_text, text="out")).text


async def test_hits_name_file_and_line(use: Use, space: Workspace) -> None:
    (space.root / "b.txt").write_text("one\nX = 1 two\n")
    assert (await use(search_text, text="x = 1")).text == "src/a.py:1: x = 1"
    both = await use(search_text, text="x = 1", ignore_case=True)
    assert both.text == "b.txt:2: X = 1 two\nsrc/a.py:1: x = 1"
    assert (await use(search_text, text=r"^t?X\b", regex=True)).text == "b.txt:2: X = 1 two"
    assert (await use(search_text, text="1", files="*.txt")).text == "b.txt:2: X = 1 two"
    assert (await use(search_text, text="1", path="src/a.py")).text == "a.py:1: x = 1"


async def test_text_is_not_a_pattern_unless_asked(use: Use) -> None:
    assert "No line" in (await use(search_text, text="x .* 1")).text


async def test_a_bad_pattern_is_explained(use: Use) -> None:
    result = await use(search_text, text="(", regex=True)
    assert (result.status, "not a regular expression" in result.text) == ("failed", True)


async def test_a_pattern_that_never_ends_holds_nobody(
    use: Use, space: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.builtin.search._TIME_S", 0.5)
    (space.root / "a.txt").write_text("a" * 60 + "!")
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.01)

    ticking = asyncio.create_task(tick())
    result = await use(search_text, text="(a+)+$", regex=True)
    ticking.cancel()
    assert "took longer than 0.5 s" in result.text
    assert ticks > 10


async def test_many_hits_are_cut(use: Use, space: Workspace) -> None:
    (space.root / "many.txt").write_text("hit\n" * 1000)
    result = await use(search_text, text="hit")
    assert result.text.count("many.txt") == 200
    assert "more than 200 lines" in result.text


async def test_bad_bytes_and_binaries_are_no_obstacle(use: Use, space: Workspace) -> None:
    (space.root / "latin.txt").write_bytes(b"caf\xe9 hit\n")
    (space.root / "bin").write_bytes(b"\0hit")
    assert (await use(search_text, ToolContext(), text="hit")).text == "latin.txt:1: caf\ufffd hit"


SECRETS = (".ssh/id_ed25519", "sub/.aws/credentials", "sub/.env", ".netrc", "deep/.config/gcloud/x.json")


@pytest.fixture
def secrets(space: Workspace) -> Workspace:
    for name in SECRETS:
        (space.root / name).parent.mkdir(parents=True, exist_ok=True)
        (space.root / name).write_text("hit of a secret")
    (space.root / "sub" / "plain.txt").write_text("hit of a plain file")
    return space


async def test_secrets_are_left_out_of_a_search_and_named(use: Use, secrets: Workspace) -> None:
    found = (await use(search_text, text="hit")).text
    assert found.splitlines()[0] == "sub/plain.txt:1: hit of a plain file"
    assert "hit of a secret" not in found
    for name in (".ssh", "sub/.aws", "sub/.env", ".netrc", "deep/.config/gcloud"):
        assert f"{name}: it contains keys, passwords or tokens" in found
    names = (await use(find_files, pattern="*")).text
    assert "id_ed25519\n" not in names and "credentials\n" not in names
    assert "[left out: " in names and "sub/.aws: it contains" in names


async def test_a_secret_folder_that_was_approved_is_searched(use: Use, secrets: Workspace) -> None:
    assert (await use(search_text, text="hit", path=".ssh")).text == "id_ed25519:1: hit of a secret"
    assert (await use(search_text, text="hit", path=".netrc")).text == ".netrc:1: hit of a secret"


async def test_listing_does_not_go_into_secrets(use: Use, secrets: Workspace) -> None:
    listed = (await use(list_files, depth=5)).text
    assert "id_ed25519" not in listed and "credentials\n" not in listed
    assert ".ssh: it contains keys" in listed
    assert "id_ed25519" in (await use(list_files, path=".ssh")).text


async def test_a_home_folder_is_searched_without_its_dot_names(
    use: Use, secrets: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(secrets.root))
    (secrets.root / ".cache").mkdir()
    (secrets.root / ".cache" / "x").write_text("hit of a cache")
    context = ToolContext(space=Workspace.at(secrets.root))
    found = (await use(search_text, context, text="hit")).text
    assert "hit of a cache" not in found
    assert ".cache: a hidden name in your home folder" in found


async def test_pipes_and_deep_folders_hold_no_search(use: Use, space: Workspace) -> None:
    os.mkfifo(space.root / "pipe.txt")
    deep = space.root.joinpath(*["d"] * 120)
    deep.mkdir(parents=True)
    (deep / "x.txt").write_text("hit")
    (space.root / "near.txt").write_text("hit")
    found = (await use(search_text, text="hit")).text
    assert found.startswith("near.txt:1: hit\n")
    assert "too deeply" in found


async def test_what_cannot_be_searched_is_said(use: Use) -> None:
    for made, more in ((search_text, {"text": "x"}), (find_files, {"pattern": "x"})):
        result = await use(made, path="nowhere", **more)
        assert (result.status, "cannot be searched" in result.text) == ("failed", True)


async def test_a_pattern_of_names_that_takes_long_to_read_is_refused(use: Use, space: Workspace) -> None:
    (space.root / "a.py").write_text("x")
    for made, more in (
        (find_files, {"pattern": "[" * 20_000}),
        (search_text, {"text": "x", "files": "[!" * 600}),
    ):
        result = await use(made, **more)
        assert (result.status, "longer than" in result.text) == ("failed", True)
    with processor_time(2.0):
        assert not name_matches("a.py", "[" * 1_000)
        assert not name_matches("a.py", "[!" * 500)

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tools.trust import TrustBook, TrustError, project_files, project_tools, read_tools

TOOL = b"from tools import tool\n\n@tool(does='read')\ndef look() -> str:\n    return 'seen'\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project" / ".fireside" / "tools"
    folder.mkdir(parents=True)
    (folder / "look.py").write_bytes(TOOL)
    return tmp_path / "project"


@pytest.fixture
def book(tmp_path: Path) -> TrustBook:
    return TrustBook(tmp_path / "config" / "trust.json")


def test_a_project_is_unknown_until_it_is_trusted(project: Path, book: TrustBook) -> None:
    files = project_tools(project)
    unknown = book.check(project, files)
    assert unknown.state == "unknown"
    assert "+def look() -> str:" in unknown.difference
    book.grant(project, files)
    assert book.check(project, project_tools(project)).state == "trusted"
    book.revoke(project)
    assert book.check(project, files).state == "unknown"


def test_a_changed_file_shows_its_difference_and_is_not_trusted(project: Path, book: TrustBook) -> None:
    book.grant(project, project_tools(project))
    (project / ".fireside/tools/look.py").write_bytes(TOOL.replace(b"seen", b"stolen"))
    found = book.check(project, project_tools(project))
    assert found.state == "changed"
    assert "-    return 'seen'\n+    return 'stolen'" in found.difference


def test_a_new_file_is_not_trusted(project: Path, book: TrustBook) -> None:
    book.grant(project, project_tools(project))
    (project / ".fireside/tools/more.py").write_text("x = 1\n")
    found = book.check(project, project_tools(project))
    assert found.state == "changed"
    assert "more.py" in found.difference
    assert "look.py" not in found.difference


def test_every_file_below_the_tools_is_shown_and_asked_about(project: Path, book: TrustBook) -> None:
    folder = project / ".fireside/tools"
    for name in (
        "helper.py",
        "package/__init__.py",
        "package/deep/more.py",
        "data.json",
        ".hidden",
        "fast.so",
        "__pycache__/look.cpython-311.pyc",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"one\0" if name.endswith(("c", "so")) else b"one")
        files = project_tools(project)
        assert f".fireside/tools/{name}" in files
        assert name in book.check(project, files).difference
        book.grant(project, files)
        assert book.check(project, project_tools(project)).state == "trusted"
        (folder / name).write_bytes(b"two\0" if name.endswith(("c", "so")) else b"two")
        found = book.check(project, project_tools(project))
        assert found.state == "changed"
        assert name in found.difference
        book.grant(project, project_tools(project))


def test_a_file_that_is_gone_is_a_change(project: Path, book: TrustBook) -> None:
    (project / ".fireside/tools/helper.py").write_text("x = 1\n")
    (project / ".fireside/config.toml").write_text('hidden_tools = ["run_shell"]\n')
    (project / "AGENTS.md").write_text("Use tabs.")
    book.grant(project, project_files(project))
    assert book.check(project, project_tools(project)).state == "trusted"
    (project / ".fireside/tools/helper.py").unlink()
    found = book.check(project, project_tools(project))
    assert found.state == "changed"
    assert "helper.py is gone" in found.difference
    book.grant(project, project_files(project))
    (project / ".fireside/config.toml").unlink()
    assert book.check(project, project_tools(project)).state == "trusted"
    assert book.check_project(project, project_files(project)).state == "changed"


def test_a_change_that_is_no_text_is_told(project: Path, book: TrustBook) -> None:
    (project / ".fireside/tools/data").write_bytes(b"\xff")
    book.grant(project, project_tools(project))
    (project / ".fireside/tools/data").write_bytes(b"\xfe")
    assert "data" in book.check(project, project_tools(project)).difference


@pytest.mark.parametrize("name", ["link.py", "package/link", "folder"])
def test_a_link_among_the_tools_is_a_fault(project: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "evil.py").write_bytes(TOOL)
    link = project / ".fireside/tools" / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(tmp_path / "outside" / ("" if name == "folder" else "evil.py"))
    found = read_tools(project)
    assert list(found.files) == [".fireside/tools/look.py"]
    assert name in found.fault


def test_a_folder_too_large_to_be_shown_is_a_fault(project: Path) -> None:
    (project / ".fireside/tools/large.bin").write_bytes(b"x" * (1 << 20) + b"x")
    assert "large.bin" in read_tools(project).fault
    (project / ".fireside/tools/large.bin").unlink()
    assert read_tools(project).fault == ""
    for index in range(300):
        (project / f".fireside/tools/{index}.txt").touch()
    assert "more than 200 files" in read_tools(project).fault
    for index in range(300):
        (project / f".fireside/tools/{index}.txt").unlink()
    for index in range(6):
        (project / f".fireside/tools/{index}.bin").write_bytes(bytes(1 << 20))
    assert "more than 4 MB" in read_tools(project).fault
    assert len(project_tools(project)) <= 6
    for index in range(6):
        (project / f".fireside/tools/{index}.bin").unlink()
    for index in range(120):
        (project / f".fireside/tools/{index}").mkdir()
    assert "100 folders" in read_tools(project).fault


def test_trust_is_per_real_path(project: Path, book: TrustBook, tmp_path: Path) -> None:
    book.grant(project, project_tools(project))
    (tmp_path / "alias").symlink_to(project)
    assert book.check(tmp_path / "alias", project_tools(tmp_path / "alias")).state == "trusted"
    project.rename(tmp_path / "moved")
    assert book.check(tmp_path / "moved", project_tools(tmp_path / "moved")).state == "unknown"


def test_links_are_never_among_the_files(project: Path, tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_bytes(TOOL)
    (project / ".fireside/tools/link.py").symlink_to(tmp_path / "evil.py")
    os.mkfifo(project / ".fireside/tools/pipe.py")
    assert list(project_tools(project)) == [".fireside/tools/look.py"]
    (project / ".fireside").rename(tmp_path / "elsewhere")
    (project / ".fireside").symlink_to(tmp_path / "elsewhere")
    assert project_tools(project) == {}


def test_the_record_is_private_and_a_foreign_one_trusts_nothing(
    project: Path, book: TrustBook, tmp_path: Path
) -> None:
    book.grant(project, project_tools(project))
    path = tmp_path / "config" / "trust.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    path.chmod(0o666)
    with pytest.raises(TrustError, match="chmod 600"):
        book.check(project, project_tools(project))


@pytest.mark.parametrize("text", ["", "[]", '{"projects": 1}', '{"projects": {"/": {"a": 1}}}'])
def test_a_damaged_record_trusts_nothing(project: Path, book: TrustBook, tmp_path: Path, text: str) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "trust.json").write_text(text)
    (tmp_path / "config" / "trust.json").chmod(0o600)
    with pytest.raises(TrustError, match="damaged"):
        book.check(project, project_tools(project))


def test_other_projects_keep_their_trust(project: Path, book: TrustBook, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    book.grant(other, {"AGENTS.md": b"be kind"})
    book.grant(project, project_tools(project))
    book.revoke(project)
    assert book.check(other, {"AGENTS.md": b"be kind"}).state == "trusted"
    assert json.loads((tmp_path / "config" / "trust.json").read_text())["version"] == 1

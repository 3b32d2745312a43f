"""A byte order mark is no part of what a person wrote, wherever the text comes from."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from app import paths
from app.cli import main
from app.commands.prompts import read_prompts
from app.demo.script import read_demo
from app.sessions.bundles import agent_from_bundle
from app.sessions.importing import read_export
from app.settings.text_or_file import grammar_text, schema_text, template_text
from app.terminal.theming import read as read_theme
from tests.app.double import Double

MARK = b"\xef\xbb\xbf"


def put(name: str, data: bytes) -> Path:
    file = paths.config_file().parent / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(MARK + data)
    return file


def test_a_prompt_and_a_system_prompt_may_come_from_files(double: Double) -> None:
    assert main.main(["-p", "\ufeffhello", "--system", "\ufeffRhyme."]) == 0
    assert [turn["content"] for turn in double.asked[0]] == ["Rhyme.", "hello"]


def test_what_flags_read_has_none(tmp_path: Path) -> None:
    for read, text in (
        (schema_text, '{"type": "object"}'),
        (grammar_text, 'root ::= "a"'),
        (template_text, "{{ messages }}"),
    ):
        file = tmp_path / "file"
        file.write_bytes(MARK + text.encode())
        assert read(str(file)) == read("\ufeff" + text) == text


def test_prompts_and_themes_have_none() -> None:
    put("prompts/tidy.md", b"---\ndescription: Tidy up\n---\nTidy this.")
    assert [(one.name, one.description, one.text) for one in read_prompts()] == [
        ("tidy", "Tidy up", "Tidy this.")
    ]
    shipped = (Path(__file__).parents[3] / "themes" / "hearth.toml").read_bytes()
    put("themes/mine.toml", shipped.replace(b'"hearth"', b'"mine"', 1))
    read_theme("mine")


def test_a_demo_has_none(tmp_path: Path) -> None:
    file = tmp_path / "demo.toml"
    file.write_bytes(MARK + b'title = "t"\nreplies = ["hi"]\n[[steps]]\ntype = "hello"\n')
    assert read_demo(file).title == "t"


@pytest.mark.parametrize(("name", "text"), [("config.yaml", "name: a\n"), ("config.json", '{"name": "a"}')])
def test_a_bundle_has_none(name: str, text: str) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo(name)
        data = MARK + text.encode()
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    assert agent_from_bundle(packed.getvalue()).name == "a"


def test_exports_that_were_put_together_have_none(tmp_path: Path) -> None:
    lines = (
        {"type": "fireside.session", "format": 1, "title": "t"},
        {"type": "fireside.item", "item": {"id": "a", "type": "message", "role": "user"}},
    )
    one = MARK + b"".join(json.dumps(line).encode() + b"\n" for line in lines[:1])
    file = tmp_path / "two.jsonl"
    file.write_bytes(one * 2)
    assert [chat.title for chat in read_export(file)] == ["t", "t"]

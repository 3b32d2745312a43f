from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sessions.errors import FiresideError, InvalidInputError
from app.sessions.events import ElicitationRequestEvent
from app.sessions.importing import read_export
from app.sessions.items import FunctionCall, FunctionCallOutput, Item, Message
from app.sessions.store.rows import Change
from backend.types import ReasoningPiece
from tests.app.sessions.conftest import EchoTool, MakeRoom, Room, call, listening


def shape(items: list[Item]) -> list[tuple[str, str]]:
    return [(item.type, item.searchable) for item in items]


async def a_talk(room: MakeRoom) -> Room:
    chat = await room([ReasoningPiece("hm"), call()], ["one"], ["two"], tools=[EchoTool()])
    first = await chat.say("hello")
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.manager.edit(first[0].id, "hello again")
        await heard.status("idle")
    return chat


async def test_a_whole_tree_goes_out_and_comes_back(room: MakeRoom, tmp_path: Path) -> None:
    chat = await a_talk(room)
    manager = chat.manager
    (tmp_path / "note.txt").write_text("attached words")
    file = await manager.files.upload(chat.session_id, tmp_path / "note.txt")
    leaf = (await manager.record(chat.session_id)).leaf_id
    attached = Message(role="user", content=({"type": "input_file", "file_id": file.id},))
    live = await manager.live(chat.session_id)
    await live.update(Change(items=[attached], parent=leaf))
    path = tmp_path / "out.jsonl"
    path.write_text(await manager.export(chat.session_id))
    [copy] = await manager.import_(path)
    before, after = [await manager.store.tree(one) for one in (chat.session_id, copy)]
    assert shape([node.item for node in after]) == shape([node.item for node in before])
    assert not {node.item.id for node in after} & {node.item.id for node in before}
    live, record = await manager.live(copy), await manager.record(copy)
    items = await manager.store.branch(record.leaf_id)
    assert shape(items)[0] == ("message", "hello again")
    assert isinstance(items[-1], Message) and items[-1].content[0]["file_id"] != file.id
    [kept] = await manager.files.list(copy)
    assert await manager.files.get_content(copy, kept.id) == b"attached words"
    assert live.record.title == "hello" and not live.queue


async def test_a_torn_last_line_is_set_aside(room: MakeRoom, tmp_path: Path) -> None:
    chat = await a_talk(room)
    text = await chat.manager.export(chat.session_id)
    lines = text.splitlines(keepends=True)
    path = tmp_path / "torn.jsonl"
    path.write_text("".join(lines[:-1]) + lines[-1][:30])
    [copy] = await chat.manager.import_(path)
    tree = await chat.manager.store.tree(copy)
    assert len(tree) == len(lines) - 2
    chat.session_id = copy
    chat.engine.scripts = [*chat.engine.scripts, ["goes on"]]
    assert (await chat.say("more"))[-1].searchable == "goes on"


@pytest.mark.parametrize("last", ["hello world\n", "[[[[\n", '{"id": \n'])
async def test_a_wrong_last_line_that_is_whole_is_refused(room: MakeRoom, tmp_path: Path, last: str) -> None:
    chat = await a_talk(room)
    path = tmp_path / "wrong.jsonl"
    path.write_text(await chat.manager.export(chat.session_id) + last)
    with pytest.raises(InvalidInputError, match=r"Line .* of the export is wrong"):
        await chat.manager.import_(path)


async def test_an_import_brings_no_open_calls_and_no_orphans(room: MakeRoom, tmp_path: Path) -> None:
    chat = await room(["fine"])
    header = {"type": "fireside.session", "version": 1, "leaf_id": "b"}
    user = {"id": "a", "type": "message", "role": "user", "content": [], "is_meta": True}
    open_call = {
        "id": "b",
        "type": "function_call",
        "name": "f",
        "call_id": "c1",
        "status": "action_required",
    }
    orphan = {"id": "o", "type": "function_call_output", "call_id": "zz", "output": "x"}
    entries: list[tuple[str | None, dict[str, Any]]] = [(None, user), ("a", open_call), ("a", orphan)]
    lines = [json.dumps(header)]
    lines += [
        json.dumps({"type": "fireside.item", "parent_id": parent, "item": item}) for parent, item in entries
    ]
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(lines))
    [copy] = await chat.manager.import_(path)
    items = await chat.manager.list_items(copy)
    assert [item.type for item in items] == ["message", "function_call", "function_call_output"]
    assert isinstance(items[0], Message) and items[0].is_meta is None
    assert isinstance(items[1], FunctionCall) and items[1].status == "completed"
    assert isinstance(items[2], FunctionCallOutput) and items[2].call_id == "c1"
    assert len(await chat.manager.store.tree(copy)) == 3
    assert await chat.manager.rules(copy) == []


async def test_an_import_gets_nothing_run_that_nobody_approved(room: MakeRoom, tmp_path: Path) -> None:
    tool = EchoTool(effect="execute")
    chat = await room([call()], ["done"], tools=[tool])
    rights = {"approve": "all", "workspace": "/", "rules": [{"tool": "echo"}], "tools": ["*"]}
    agent = {"name": "theirs", "model": "/their/model.gguf", "tools": [{"name": "echo", "runtime": "server"}]}
    header = {"type": "fireside.session", "version": 1, "agent": {**agent, **rights}, "settings": rights}
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({**header, **rights}))
    [copy] = await chat.manager.import_(path)
    settings = await chat.manager.settings(copy)
    assert [settings[name]["value"] for name in ("approve", "workspace", "model")] == ["ask", None, None]
    data = {"role": "user", "content": "go"}
    async with listening(chat.manager, copy) as heard:
        await chat.manager.post_event(copy, {"type": "message", "data": data})
        asked = await heard.kind(ElicitationRequestEvent)
        assert tool.calls == []
        await chat.manager.resolve_elicitation(copy, asked.elicitation_id, {"action": "decline"})
        await heard.status("idle")
    assert tool.calls == []


CHATGPT = {
    "title": "Old talk",
    "create_time": 1700000000.5,
    "update_time": 1700000001,
    "current_node": "n4",
    "mapping": {
        "n0": {"id": "n0", "message": None, "parent": None, "children": ["n1"]},
        "n1": {
            "id": "n1",
            "parent": "n0",
            "children": ["n2", "n3"],
            "message": {
                "author": {"role": "user"},
                "content": {"content_type": "text", "parts": ["hi", {"asset": 1}]},
            },
        },
        "n2": {
            "id": "n2",
            "parent": "n1",
            "children": [],
            "message": {"author": {"role": "assistant"}, "content": {"parts": ["first try"]}},
        },
        "n3": {
            "id": "n3",
            "parent": "n1",
            "children": ["n4"],
            "message": {"author": {"role": "assistant"}, "content": {"parts": ["second try"]}},
        },
        "n4": {
            "id": "n4",
            "parent": "n3",
            "children": ["n1"],
            "message": {"author": {"role": "user"}, "content": {"parts": ["thanks"]}},
        },
    },
}
LLAMA = {
    "conv": {"id": "c", "name": "Web talk", "lastModified": 1700000000000, "currNode": "3"},
    "messages": [
        {"id": "0", "type": "root", "role": "system", "content": "", "parent": "-1", "children": ["1"]},
        {"id": "1", "type": "text", "role": "user", "content": "hi", "parent": "0", "timestamp": 1},
        {"id": "2", "type": "text", "role": "assistant", "content": "left", "parent": "1"},
        {"id": "3", "type": "text", "role": "assistant", "content": "right", "parent": "1"},
    ],
}


@pytest.mark.parametrize("zipped", [False, True])
async def test_a_chatgpt_export_is_read(room: MakeRoom, tmp_path: Path, zipped: bool) -> None:
    chat = await room()
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([CHATGPT, {"no": "chat"}]))
    if zipped:
        with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
            archive.write(path, "conversations.json")
        path = tmp_path / "export.zip"
    [copy] = await chat.manager.import_(path)
    snapshot = await chat.manager.get(copy)
    assert (snapshot.title, snapshot.created_at, snapshot.updated_at) == ("Old talk", 1700000000, 1700000001)
    assert [item.searchable for item in snapshot.items] == ["hi", "second try", "thanks"]
    assert len(await chat.manager.store.tree(copy)) == 4


async def test_a_llama_web_ui_export_is_read(room: MakeRoom, tmp_path: Path) -> None:
    chat = await room()
    path = tmp_path / "web.json"
    path.write_text(json.dumps(LLAMA))
    [copy] = await chat.manager.import_(path)
    snapshot = await chat.manager.get(copy)
    assert [item.searchable for item in snapshot.items] == ["hi", "right"]
    siblings = await chat.manager.siblings(snapshot.items[1].id)
    assert len(siblings) == 2 and snapshot.title == "Web talk"


@pytest.mark.parametrize("content", [b"", b"not json", b"[]", b"PK\x03\x04broken", b"[" * 100_000, b"{}"])
async def test_a_file_that_is_no_export_says_so(room: MakeRoom, tmp_path: Path, content: bytes) -> None:
    chat = await room()
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(InvalidInputError):
        await chat.manager.import_(path)
    assert len(await chat.manager.list()) == 1


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=6), below, max_size=3),
    max_leaves=12,
)
_KEYS = st.sampled_from("mapping messages conv author content parts role parent children type id".split())


@given(
    data=st.dictionaries(_KEYS, _JSON | st.dictionaries(_KEYS, _JSON), max_size=6),
    shape=st.sampled_from(["mapping", "messages"]),
    nodes=st.lists(st.dictionaries(_KEYS, _JSON | st.dictionaries(_KEYS, _JSON), max_size=5), max_size=4),
)
def test_hostile_exports_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: dict[str, Any], shape: str, nodes: list[dict[str, Any]]
) -> None:
    data = {**data, "conv": data.get("conv", {})}
    data[shape] = nodes if shape == "messages" else {str(index): node for index, node in enumerate(nodes)}
    path = tmp_path_factory.getbasetemp() / "hostile.json"
    path.write_text(json.dumps(data))
    try:
        for session in read_export(path):
            session.nodes({})
    except FiresideError:
        pass


async def test_html_escapes_everything_and_forbids_scripts(room: MakeRoom) -> None:
    chat = await room(["<img src=x onerror=alert(1)> & \u2028"])
    await chat.say("</pre><script>alert('x')</script>")
    page = await chat.manager.export(chat.session_id, "html")
    assert "<script" not in page and "<img" not in page and "&lt;script&gt;" in page
    assert "default-src &#x27;none&#x27;" in page


async def test_markdown_fences_are_longer_than_those_inside(room: MakeRoom) -> None:
    async def fenced(arguments: Any, context: Any) -> str:
        return "````\ncode\n````"

    chat = await room([call()], ["done"], tools=[EchoTool(action=fenced)])
    await chat.say("go")
    text = await chat.manager.export(chat.session_id, "markdown")
    assert "\n`````\n````\ncode\n````\n`````" in text
    with pytest.raises(InvalidInputError):
        await chat.manager.export(chat.session_id, "docx")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["device", "pipe", "folder"])
async def test_only_regular_files_are_taken(room: MakeRoom, tmp_path: Path, kind: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    path = {"device": Path("/dev/zero"), "pipe": tmp_path / "pipe", "folder": tmp_path}[kind]
    chat = await room(["one"])
    with pytest.raises(InvalidInputError, match="cannot be read"):
        await chat.manager.files.upload(chat.session_id, path)

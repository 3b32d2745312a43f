"""Exports and bundles that somebody else made: each is taken whole or refused, soon, with what is wrong."""

from __future__ import annotations

import base64
import io
import json
import tarfile
import time
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import clock
from app.sessions.bundles import agent_from_bundle
from app.sessions.errors import FiresideError, InvalidInputError
from app.sessions.importing import read_export
from app.sessions.items import FunctionCallOutput
from app.sessions.records import Json
from app.sessions.store.store import Store
from tests.app.sessions.conftest import MakeRoom

SOON_S = 20
MOST_MEMORY = 300_000_000


def item(item_id: str, parent: str | None = None, /, **fields: Any) -> Json:
    body = {"id": item_id, "type": "message", "role": "user", "content": [], **fields}
    return {"type": "fireside.item", "parent_id": parent, "item": body}


def call(name: str, parent: str | None) -> Json:
    return item(name, parent, type="function_call", name="f", call_id=name)


HEADER: Json = {"type": "fireside.session", "version": 1, "title": "t"}


def write(path: Path, *lines: Json | str) -> Path:
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n")
    return path


def read(path: Path) -> list[int]:
    """How many items each chat has that is read from the file, as the store would get them."""
    return [len(session.nodes({})) for session in read_export(path)]


@contextmanager
def bounded() -> Generator[None]:
    """Within, little memory is taken. How long it takes is for the limit of the test."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MOST_MEMORY
    finally:
        tracemalloc.stop()


# ---- times ---------------------------------------------------------------------------------

TIMES = [
    10**11,
    10**13,
    253402300800,
    10**18,
    10**300,
    -1,
    -(10**18),
    0,
    1e300,
    4102444800,
    "2024",
    None,
    True,
    [1],
]


@pytest.mark.parametrize("at", TIMES, ids=repr)
async def test_no_time_keeps_chats_from_being_listed(room: MakeRoom, tmp_path: Path, at: Any) -> None:
    chat = await room()
    entry = {**HEADER, "created_at": at, "updated_at": at}
    before = int(clock.now())
    if not isinstance(at, int) or abs(at) < 2**63:
        [copy] = await chat.manager.import_(write(tmp_path / "x.jsonl", entry, item("a")))
        found = await chat.manager.get(copy)
        assert before <= found.updated_at <= clock.now() + 1
        assert before <= found.created_at <= clock.now() + 1
    for text in (
        {"mapping": {"a": {"message": {**SAID, "create_time": at}}}, "create_time": at, "update_time": at},
        {
            "conv": {"lastModified": at},
            "messages": [{"id": 1, "role": "user", "content": "x", "timestamp": at}],
        },
    ):
        [copy] = await chat.manager.import_(write(tmp_path / "x.json", json.dumps(text)))
        assert (await chat.manager.get(copy)).updated_at <= clock.now() + 1
    for one in await chat.manager.list():
        assert clock.moment(one.updated_at)
        assert await chat.manager.export(one.id, "markdown")


SAID: Json = {"author": {"role": "user"}, "content": {"parts": ["x"]}}


@pytest.mark.parametrize("at", [10**11, 10**18, -(10**18), -1, 2**63 - 1, 1.5e300, float("nan"), "soon"])
async def test_times_that_are_in_the_store_already_are_shown(room: MakeRoom, tmp_path: Path, at: Any) -> None:
    from app.cli import session_commands
    from app.commands import shared
    from app.tui.chat import story

    chat = await room()
    [copy] = await chat.manager.import_(write(tmp_path / "x.jsonl", HEADER, item("a")))

    def spoil(connection: Any) -> None:
        connection.execute("UPDATE sessions SET updated_at = ?, created_at = ? WHERE id = ?", (at, at, copy))

    if at == at:
        await chat.manager.store.database.write(spoil)
        [one] = [one for one in await chat.manager.list() if one.id == copy]
        assert session_commands.changed_at(one)
        for format in ("markdown", "html", "jsonl"):
            assert await chat.manager.export(copy, format)  # type: ignore[arg-type]
    assert shared.date(at)
    assert story.clock(at)


# ---- too much ------------------------------------------------------------------------------


@pytest.mark.timeout(60)
def test_many_open_calls_are_refused_soon(tmp_path: Path) -> None:
    lines = [HEADER, call("c0", None), *(call(f"c{at}", f"c{at - 1}") for at in range(1, 20_000))]
    path = write(tmp_path / "x.jsonl", *lines)
    with bounded(), pytest.raises(InvalidInputError, match=r"Line 66 .*open at once"):
        read(path)


@pytest.mark.timeout(60)
def test_open_calls_below_many_ends_are_refused_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.sessions.imported.MAX_ITEMS", 30_000)
    calls = [call("c0", None), *(call(f"c{at}", f"c{at - 1}") for at in range(1, 60))]
    ends = [call(f"e{at}", "c59") for at in range(5_000)]
    path = write(tmp_path / "x.jsonl", HEADER, *calls, *ends)
    with bounded(), pytest.raises(InvalidInputError, match="30,000 items"):
        read(path)


async def test_a_few_open_calls_get_their_results(room: MakeRoom, tmp_path: Path) -> None:
    chat = await room()
    calls = [call("c0", None), *(call(f"c{at}", f"c{at - 1}") for at in range(1, 40))]
    done = item("r", "c39", type="function_call_output", call_id="c7", output="x")
    [copy] = await chat.manager.import_(write(tmp_path / "x.jsonl", HEADER, *calls, done, item("end", "r")))
    found = await chat.manager.list_items(copy, limit=200)
    assert sum(isinstance(one, FunctionCallOutput) for one in found) == 40
    assert len(found) == 81


def file(file_id: str, content: bytes = b"x", /, **fields: Any) -> Json:
    data = base64.b64encode(content).decode()
    return {"type": "fireside.file", "id": file_id, "name": f"{file_id}.txt", "data": data, **fields}


@pytest.mark.timeout(60)
def test_many_files_are_refused_soon_by_their_line(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", HEADER, *(file(str(at)) for at in range(40_000)))
    with bounded(), pytest.raises(InvalidInputError, match=r"Line 1,002 .*1,000 files"):
        read(path)


@pytest.mark.timeout(60)
async def test_the_files_that_may_be_there_are_kept_soon(room: MakeRoom, tmp_path: Path) -> None:
    chat = await room()
    began = time.monotonic()
    pdfs = [file(f"p{at}", b"%PDF-1.4 broken", name=f"{at}.pdf") for at in range(100)]
    lines = [*(file(str(at)) for at in range(900)), *pdfs]
    [copy] = await chat.manager.import_(write(tmp_path / "x.jsonl", HEADER, *lines, item("a")))
    assert time.monotonic() - began < SOON_S
    assert len(await chat.manager.files.list(copy)) == 1000


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" + "[]," * 3_100_000 + "[]]", "lists and objects"),
        ("[" + "{}," * 3_100_000 + "{}]", "lists and objects"),
        ("[" + "0," * 12_100_000 + "0]", "values"),
        ("[" * 200_000 + "]" * 200_000, "nested too deeply"),
        ("[" * 990, "cannot be read"),
        ("[" + "9" * 5_000 + "]", "cannot be read"),
    ],
    ids=["lists", "objects", "numbers", "deep", "open", "long"],
)
def test_a_text_that_would_take_all_memory_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    del text
    with bounded(), pytest.raises(InvalidInputError, match=said):
        read_export(path)


def test_many_chats_and_many_items_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.sessions.importing.MAX_SESSIONS", 10)
    monkeypatch.setattr("app.sessions.importing.MAX_ALL_ITEMS", 20)
    with pytest.raises(InvalidInputError, match=r"Line 11 .*10 chats"):
        read(write(tmp_path / "x.jsonl", *[HEADER] * 11))
    with pytest.raises(InvalidInputError, match=r"Line 22 .*20 items"):
        read(write(tmp_path / "x.jsonl", HEADER, *(item(str(at)) for at in range(21))))
    one = {"mapping": {"a": {"message": SAID}}}
    with pytest.raises(InvalidInputError, match="chat 11 is over the limit"):
        read(write(tmp_path / "x.json", json.dumps([one] * 11)))


@pytest.mark.timeout(60)
def test_a_million_tiny_items_are_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps(HEADER) + "\n" + (json.dumps(item("a")) + "\n") * 1_000_000)
    with bounded(), pytest.raises(InvalidInputError, match="1,000,001 lines"):
        read_export(path)


@pytest.mark.timeout(60)
def test_nodes_that_all_claim_each_other_are_read_soon(tmp_path: Path) -> None:
    names = [str(at) for at in range(1_200)]
    nodes = {
        name: {"message": SAID, "children": names, "parent": names[at - 1]} for at, name in enumerate(names)
    }
    assert read(write(tmp_path / "x.json", json.dumps({"mapping": nodes}))) == [1_200]


@pytest.mark.parametrize("turned", [False, True])
def test_a_circle_of_parents_is_cut_and_nothing_is_lost(tmp_path: Path, turned: bool) -> None:
    names = ["a", "b", "c"]
    circle = {name: {"message": SAID, "parent": names[at - 1]} for at, name in enumerate(names)}
    for at, name in enumerate(names):
        circle[name]["children"] = [names[(at + 1) % 3]]
    if turned:
        circle = dict(reversed(circle.items()))
    assert read(write(tmp_path / "x.json", json.dumps({"mapping": circle}))) == [3]
    web = [
        {"id": name, "parent": names[at - 1], "role": "user", "content": "x"} for at, name in enumerate(names)
    ]
    assert read(write(tmp_path / "x.json", json.dumps({"conv": {}, "messages": web}))) == [3]
    own = [item("a", "c"), item("b", "a"), item("c", "b"), item("d", "d")]
    assert read(write(tmp_path / "x.jsonl", HEADER, *own)) == [4]


# ---- what is wrong with a line -------------------------------------------------------------

DEEP: Any = "x"
for _ in range(200):
    DEEP = [DEEP]
WRONG: dict[str, Json | str] = {
    "no JSON": "{",
    "not an object": "[1]",
    "not a number": '{"type": "fireside.item", "item": {"id": "b", "created_at": NaN}}',
    "infinite": '{"type": "fireside.item", "item": {"id": "b", "usage": {"a": 1e999}}}',
    "a huge number": item("b", usage={"a": 10**30}),
    "a number without end": '{"a": ' + "9" * 5_000 + "}",
    "deep": item("b", usage={"a": DEEP}),
    "deeper": '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "an id that was": item("a"),
    "a file that was": file("f"),
    "a role that is none": item("b", role="admin"),
    "content that is none": item("b", content="words"),
    "a block that is none": item("b", content=[{"type": "input_text"}]),
    "many blocks": item("b", content=[{"type": "input_text", "text": ""}] * 300),
    "no item": {"type": "fireside.item", "item": 3},
    "an id that is none": item("b", id=3),
    "a type that is none": item("b", type="function_call", name=3, call_id="c"),
    "what is missing": item("b", type="function_call"),
    "not base64": {**file("g"), "data": "%%%"},
    "a file without id": {**file("g"), "id": 3},
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
async def test_a_wrong_line_is_named_and_nothing_is_taken_in(
    room: MakeRoom, tmp_path: Path, wrong: Json | str
) -> None:
    chat = await room()
    before = await everything(chat.manager.store)
    path = write(
        tmp_path / "x.jsonl", HEADER, file("f"), item("a"), HEADER, file("f"), item("a"), wrong, item("z")
    )
    with pytest.raises(InvalidInputError, match=r"^Line 7 of the export is wrong: "):
        await chat.manager.import_(path)
    assert await everything(chat.manager.store) == before


@pytest.mark.parametrize("name", ["x.bin", "x.txt"])
async def test_a_file_that_no_chat_takes_leaves_nothing_behind(
    room: MakeRoom, tmp_path: Path, name: str
) -> None:
    chat = await room()
    before = await everything(chat.manager.store)
    content = b"\0" * 10 if name == "x.bin" else b"x" * 11_000_000
    lines = [HEADER, item("a"), HEADER, file("f", content, name=name), item("a")]
    with pytest.raises(FiresideError, match=name):
        await chat.manager.import_(write(tmp_path / "x.jsonl", *lines))
    assert await everything(chat.manager.store) == before


async def test_a_store_that_fails_keeps_nothing_of_an_import(
    room: MakeRoom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = await room()
    before = await everything(chat.manager.store)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("app.sessions.store.store.add_file", full)
    lines = [HEADER, item("a"), HEADER, file("f"), item("a")]
    with pytest.raises(OSError, match="No space"):
        await chat.manager.import_(write(tmp_path / "x.jsonl", *lines))
    assert await everything(chat.manager.store) == before


async def everything(store: Store) -> list[Any]:
    def work(connection: Any) -> list[Any]:
        return [
            connection.execute(f"SELECT * FROM {table}").fetchall()
            for table in ("sessions", "items", "files", "queue")
        ]

    return await store.database.read(work)


NAMES = ["\ud800", "a\0b", "x" * 5_000, "../../etc/passwd", "\x1b[2J", "a\nb", "..", "", " "]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
async def test_odd_names_and_texts_are_kept_as_they_can_be(room: MakeRoom, tmp_path: Path, name: str) -> None:
    chat = await room()
    words = [{"type": "input_text", "text": f"{name} word"}]
    lines = [
        {**HEADER, "title": name * 100, "system": name},
        file("f", name=f"{name}.txt"),
        item("a", content=words),
    ]
    [copy] = await chat.manager.import_(write(tmp_path / "x.jsonl", *lines))
    [kept] = await chat.manager.files.list(copy)
    assert len(kept.name) <= 255
    assert "/" not in kept.name
    [one] = [one for one in await chat.manager.list() if one.id == copy]
    assert one.title is None or (len(one.title) <= 200 and "\n" not in one.title)
    assert json.dumps(one.to_wire())
    for format in ("markdown", "html", "jsonl"):
        assert await chat.manager.export(copy, format)  # type: ignore[arg-type]
    assert await chat.manager.search("word")


@pytest.mark.parametrize("start", [b"\xef\xbb\xbf", b"\n\n", b""])
def test_marks_before_an_export_and_bytes_that_are_no_text_are_read(tmp_path: Path, start: bytes) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(start + json.dumps(HEADER).encode() + b"\n" + json.dumps(item("a")).encode() + b"\n\n")
    assert read(path) == [1]
    (tmp_path / "x.json").write_bytes(
        start + b'{"mapping": {"a": {"message": {"author": {"role": "user"}, '
        b'"content": {"parts": ["\xff\xfe"]}}}}}'
    )
    assert read(tmp_path / "x.json") == [1]


@given(
    st.lists(
        st.builds(
            item,
            st.sampled_from("abcde"),
            st.sampled_from([None, *"abcde"]),
            type=st.sampled_from(
                ["message", "function_call", "function_call_output", "reasoning", "compaction"]
            ),
            call_id=st.sampled_from("xy"),
            name=st.just("f"),
            output=st.just(""),
            summary=st.sampled_from(["", []]),
            last_item_id=st.just("a"),
        ),
        max_size=12,
    )
)
def test_any_items_become_a_tree_with_every_call_closed(
    tmp_path_factory: pytest.TempPathFactory, lines: list[Json]
) -> None:
    path = write(tmp_path_factory.getbasetemp() / "any.jsonl", HEADER, *lines)
    try:
        [session] = read_export(path)
    except InvalidInputError:
        return
    seen: set[str | None] = {None}
    for parent, node in session.nodes({}):
        assert parent in seen
        seen.add(node.id)
    assert session.leaf in seen


# ---- archives ------------------------------------------------------------------------------


def test_devices_and_pipes_without_end_are_no_exports(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="neither a file nor a pipe"):
        read_export(Path("/dev/zero"))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["bomb", "liar", "lzma", "many", "damaged", "encrypted"])
def test_archives_are_read_within_bounds(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.sessions.import_text.MAX_BYTES", 1_000_000)
    path = tmp_path / "x.zip"
    packing = zipfile.ZIP_LZMA if kind == "lzma" else zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(path, "w", packing) as archive:
        if kind == "many":
            for at in range(180_000 // 3):
                archive.writestr(zipfile.ZipInfo(f"{at:0100}"), b"")
        archive.writestr("conversations.json", b" " * (20_000_000 if kind in ("bomb", "liar") else 100))
    data = bytearray(path.read_bytes())
    directory = data.rfind(b"PK\1\2")
    if kind == "liar":
        data[directory + 24 : directory + 28] = (1000).to_bytes(4, "little")
    if kind == "damaged":
        data[60:70] = b"\xff" * 10
    if kind == "encrypted":
        data[6], data[directory + 8] = 1, 1
    path.write_bytes(data)
    with bounded(), pytest.raises(InvalidInputError):
        read_export(path)


Members = list[tuple[tarfile.TarInfo | str, bytes]]
CONFIG = b'{"name": "helper"}'


def bundle(*members: tuple[tarfile.TarInfo | str, bytes], format: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=format) as archive:
        for about, content in members:
            info = tarfile.TarInfo(about) if isinstance(about, str) else about
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def special(name: str, kind: bytes, **fields: Any) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    for field, value in fields.items():
        setattr(info, field, value)
    return info


def raw(*blocks: bytes) -> bytes:
    return zlib.compress(b"".join(blocks), wbits=31)


def head(name: bytes, kind: bytes, size: bytes) -> bytes:
    block = bytearray(512)
    block[: len(name)] = name
    block[124:136] = size.ljust(12, b"\0")
    block[156:157] = kind
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


REFUSED: dict[str, tuple[Callable[[], bytes], str]] = {
    "a bomb": (lambda: zlib.compress(bytes(300_000_000), wbits=31), "too large"),
    "a bomb in a file": (lambda: bundle(("big", bytes(30_000_000)), ("config.json", CONFIG)), "too large"),
    "many members": (lambda: bundle(*[("x", b"")] * 300), "too large"),
    "many empty archives in a row": (lambda: zlib.compress(b"", wbits=31) * 400_000, "too large"),
    "many bombs in a row": (lambda: zlib.compress(bytes(4_000_000), wbits=31) * 500, "too large"),
    "a link": (lambda: bundle((special("in.txt", tarfile.SYMTYPE, linkname="/etc"), b"")), "'in.txt'"),
    "a hard link": (lambda: bundle((special("in.txt", tarfile.LNKTYPE, linkname="x"), b"")), "'in.txt'"),
    "a device": (lambda: bundle((special("tty", tarfile.CHRTYPE), b"")), "'tty'"),
    "a pipe": (lambda: bundle((special("pipe", tarfile.FIFOTYPE), b"")), "'pipe'"),
    "sparse": (lambda: raw(head(b"hole", b"S", b"0")), "'hole'"),
    "a whole path": (lambda: bundle(("/config.json", CONFIG)), "'/config.json'"),
    "leads outside": (lambda: bundle(("a/../../config.json", CONFIG)), "leads outside"),
    "a long name": (lambda: raw(head(b"long", b"L", b"77777777777"), b"x" * 512), "ends within 'long'"),
    "a negative size": (lambda: raw(head(b"neg", b"0", b"\xff" * 12), b"x" * 512), "size of 'neg'"),
    "a huge size": (lambda: raw(head(b"huge", b"0", b"\x80" + b"\x7f" * 11)), "size of 'huge'"),
    "a size below nothing": (lambda: raw(head(b"neg", b"0", b"-0000000512")), "size of 'neg'"),
    "notes without end": (lambda: raw(head(b"x", b"x", b"0") * 5_000), "too large"),
    "long names without end": (lambda: raw(head(b"x", b"L", b"0") * 5_000), "too large"),
    "slow notes": (lambda: raw(head(b"x", b"x", b"%o" % 2_000_000), b"1" * 2_000_384), "no config"),
    "half an archive": (lambda: bundle(("config.json", CONFIG))[:60], r"too early|not a .tar.gz"),
    "no archive": (lambda: b"PK\3\4", "not a .tar.gz"),
    "nothing": (lambda: b"", "not a .tar.gz"),
    "no tar": (lambda: raw(b"x" * 5_000), "damaged"),
    "a large configuration": (lambda: bundle(("config.yaml", b"a: b\n" * 100_000)), "config.yaml"),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("made", "said"), REFUSED.values(), ids=REFUSED)
def test_a_hostile_bundle_is_refused_soon_by_its_member(made: Callable[[], bytes], said: str) -> None:
    data = made()
    with bounded(), pytest.raises(InvalidInputError, match=said):
        agent_from_bundle(data)


def laughs(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    for at in range(1, levels):
        lines.append(f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 9)}]")
    return "\n".join(["name: helper", *lines, f"tools: [{{name: x, more: *a{levels - 1}}}]"])


YAML: dict[str, tuple[str, str]] = {
    "a billion laughs": (laughs(12), "line 3 is an alias of another part"),
    "a circle": ("name: x\ntools: &a\n  - {b: *a}\n", "line 3 is an alias of another part"),
    "deep": ("name: x\na: " + "[" * 20_000, "line 2 is nested"),
    "deep by lines": ("\n".join(f"{' ' * at}a:" for at in range(300)), "nested"),
    "many parts": ("name: x\na: [" + "1," * 60_000 + "]", "line 2 is beyond"),
    "a number by sixties": ("name: x\na: 1" + ":1" * 50_000, "line 2 contains a number"),
    "a long number": ("name: x\na: " + "9" * 100_000, "line 2 contains a number"),
    "a date": ("name: x\ntools: [{name: 2001-01-01}]", "contains a date"),
    "bytes": ("name: x\ntools: [{name: !!binary aGk=}]", "contains a bytes"),
    "a set": ("name: x\ntools: [{name: !!set {a}}]", "contains a set"),
    "a name that is no text": ("name: x\ntools: [{1: 2}]", "not text"),
    "not a number": ("name: x\ntools: [{a: .nan}]", "too large"),
    "infinite": ("name: x\ntools: [{a: .inf}]", "too large"),
    "an object of Python": ("name: !!python/object/apply:os.getcwd []", "cannot be read"),
    "a list": ("- name", "should be an object"),
    "broken": ("name: [", "cannot be read"),
    "no name": ("a: b", "needs a name"),
    "a server": ("name: x\nmodel: http://evil/v1#m", "not one of a server"),
    "a server by name": ("name: x\nmodel: Server:lab/m", "not one of a server"),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("text", "said"), YAML.values(), ids=YAML)
def test_a_hostile_configuration_is_refused_soon_by_its_line(text: str, said: str) -> None:
    data = bundle(("agent/config.yaml", text.encode()))
    with bounded(), pytest.raises(InvalidInputError, match=said):
        agent_from_bundle(data)


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("name", ["config.yaml", "agent/config.json", "./config.yml"])
def test_ordinary_bundles_are_read(format: int, name: str) -> None:
    notes = special("x" * (90 if format == tarfile.USTAR_FORMAT else 150), tarfile.REGTYPE)
    if format == tarfile.PAX_FORMAT:
        notes.mtime = 1.5
    text = (
        CONFIG
        if name.endswith("json")
        else b"name: helper\ntools:\n  - name: now\n    parameters: {a: [1, 2.5]}\n"
    )
    data = bundle((special("agent", tarfile.DIRTYPE), b""), (notes, b"readme"), (name, text), format=format)
    assert agent_from_bundle(data).name == "helper"
    assert json.dumps(agent_from_bundle(data).to_wire())


def test_a_bundle_that_a_tar_program_made_is_read(tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "config.yaml").write_text("name: helper\n")
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "agent", "agent")
    assert agent_from_bundle((tmp_path / "x.tar.gz").read_bytes()).name == "helper"

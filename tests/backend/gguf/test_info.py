from __future__ import annotations

import os
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backend.gguf.checks import check_model
from backend.gguf.file import shown
from backend.gguf.info import GGUFInfo, first_part, part_number, read_gguf, require_model
from backend.gguf.oddities import oddities
from backend.types import LIBRARY_DEFAULTS, ModelLoadError
from tests import tiny_gguf

pytestmark = pytest.mark.timeout(60)  # Hostile files: bounded work, but no small one.

MB = 1 << 20
U32, U64, STRING, ARRAY = 4, 10, 8, 9


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def entry(key: bytes, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def tensor(name: bytes, dimensions: tuple[int, ...], kind: int = 0, offset: int = 0) -> bytes:
    n = len(dimensions)
    return text(name) + struct.pack(f"<I{n}QIQ", n, *dimensions, kind, offset)


def header(*entries: bytes, tensors: tuple[bytes, ...] = (), version: int = 3) -> bytes:
    fixed = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(entries))
    return fixed + b"".join(entries) + b"".join(tensors)


def alignment(value: int, kind: int = U32) -> bytes:
    form = {U32: "<I", U64: "<Q"}[kind]
    return header(entry(b"general.alignment", kind, struct.pack(form, value)), tensors=(tensor(b"w", (4,)),))


ARCHITECTURE = entry(b"general.architecture", STRING, text(b"llama"))

HOSTILE: dict[str, tuple[bytes, str, str]] = {
    # From the field: a zero dimension, a zero alignment, a string of 1 GiB in 45 bytes, 8 bytes only.
    "zero dimension": (
        bytes.fromhex("47475546030000000100000000000000000000000000000001000000000000007702000000040000")
        + bytes.fromhex("00000000000000000000000000000000000000000000000000"),
        "bad_metadata",
        "dimension of zero",
    ),
    "zero alignment": (
        bytes.fromhex("474755460300000000000000000000000100000000000000110000000000000067656e6572616c2e")
        + bytes.fromhex("616c69676e6d656e740400000000000000"),
        "bad_metadata",
        "alignment is 0",
    ),
    "huge string": (
        bytes.fromhex(
            "47475546030000000000000000000000010000000000000001000000000000006b08000000ffffff3f00000000"
        ),
        "bad_metadata",
        "claims 1,073,741,823 bytes",
    ),
    "eight bytes": (bytes.fromhex("4747554603000000"), "truncated", "ends after 8 bytes"),
    "empty": (b"", "not_gguf", "is empty"),
    "html": (b"<html><body>Sign in</body></html>", "not_gguf", "looks like an HTML page"),
    "doctype": (b"\n<!DOCTYPE html>", "not_gguf", "looks like an HTML page"),
    "lfs pointer": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0",
        "not_gguf",
        "Git LFS pointer",
    ),
    "safetensors": (struct.pack("<Q", 8) + b'{"a":{}}', "not_gguf", "safetensors"),
    "zip": (b"PK\x03\x04" + bytes(60), "not_gguf", "zip archive"),
    "pickle": (b"\x80\x02}q\x00", "not_gguf", "pickle"),
    "gzip": (b"\x1f\x8b\x08" + bytes(60), "not_gguf", "gzip"),
    "ggml": (b"lmgg" + bytes(60), "not_gguf", "before GGUF"),
    "ggjt": (b"tjgg" + bytes(60), "not_gguf", "before GGUF"),
    "json": (b'{"model_type": "llama"}', "not_gguf", "JSON"),
    "zeros": (bytes(4096), "truncated", "has not finished"),
    "two letters": (b"GG", "truncated", "cut off in its first word"),
    "noise": (b"\x13\x37" * 40, "not_gguf", "does not start with the letters GGUF"),
    "version 1": (header(version=1), "bad_metadata", "version 1"),
    "version 99": (header(version=99), "bad_metadata", "version 99"),
    "big-endian": (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "bad_metadata", "big-endian"),
    "alignment 3": (alignment(3), "bad_metadata", "not a power of two"),
    "alignment u64": (alignment(32, U64), "bad_metadata", "as uint64"),
    "many tensors": (b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 0), "bad_metadata", "tensors"),
    "many keys": (b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 63), "bad_metadata", "keys"),
    "long array": (
        header(entry(b"a", ARRAY, struct.pack("<IQ", U32, 1 << 61))),
        "bad_metadata",
        "value of 'a'",
    ),
    "long text array": (
        header(entry(b"a", ARRAY, struct.pack("<IQ", STRING, 1 << 62))),
        "bad_metadata",
        "value of 'a'",
    ),
    "huge text in array": (
        header(entry(b"a", ARRAY, struct.pack("<IQ", STRING, 100) + struct.pack("<Q", 2**64 - 1) * 100)),
        "bad_metadata",
        "value of 'a'",
    ),
    "nested arrays": (
        header(entry(b"a", ARRAY, struct.pack("<IQ", ARRAY, 1) + bytes(64))),
        "bad_metadata",
        "nests arrays",
    ),
    "value type": (header(entry(b"a", 77, bytes(64))), "bad_metadata", "unknown value type 77"),
    "element type": (
        header(entry(b"a", ARRAY, struct.pack("<IQ", 77, 1) + bytes(64))),
        "bad_metadata",
        "unknown element type 77",
    ),
    "key twice": (header(ARCHITECTURE, ARCHITECTURE), "bad_metadata", "'general.architecture' twice"),
    "five dimensions": (
        header(ARCHITECTURE, tensors=(tensor(b"w", (1,) * 5),)),
        "bad_metadata",
        "5 dimensions",
    ),
    "overflow": (
        header(ARCHITECTURE, tensors=(tensor(b"w", (1 << 40, 1 << 40)),)),
        "bad_metadata",
        "overflow",
    ),
    "tensor type": (
        header(ARCHITECTURE, tensors=(tensor(b"w", (32,), kind=999),)),
        "bad_metadata",
        "unknown type 999",
    ),
    "removed tensor type": (
        header(ARCHITECTURE, tensors=(tensor(b"w", (32,), kind=31),)),
        "bad_metadata",
        "unknown type 31",
    ),
    "odd row": (
        header(ARCHITECTURE, tensors=(tensor(b"w", (33,), kind=3),)),
        "bad_metadata",
        "which Q4_1 cannot store",
    ),
    "offset": (
        header(ARCHITECTURE, tensors=(tensor(b"w", (4,), offset=64),)),
        "bad_metadata",
        "at byte 64 instead of 0",
    ),
    "tensor twice": (
        header(ARCHITECTURE, tensors=(tensor(b"w", (8,)), tensor(b"w", (8,), offset=32))),
        "bad_metadata",
        "tensor 'w' twice",
    ),
    "no data": (header(ARCHITECTURE, tensors=(tensor(b"w", (1024,)),)), "truncated", "% of its bytes"),
    "no architecture": (header(), "bad_metadata", "does not name the architecture"),
    "split in 5,000": (
        header(ARCHITECTURE, entry(b"split.count", U32, struct.pack("<I", 5000))),
        "bad_metadata",
        "split into 5000 parts",
    ),
}


def refused(path: Path) -> ModelLoadError:
    with pytest.raises(ModelLoadError) as caught:
        check_model(read_gguf(path, tokens=True))
    assert "\n" not in str(caught.value)
    assert caught.value.remedy.endswith(".")
    return caught.value


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_with_its_own_sentence(tmp_path: Path, name: str) -> None:
    content, cause, sentence = HOSTILE[name]
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    tracemalloc.start()
    try:
        error = refused(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert error.cause == cause
    assert sentence in str(error)
    assert str(path) in str(error)
    assert peak < 4 * MB


def test_no_two_hostile_files_share_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    sentences: list[str] = []
    for content, _, _ in HOSTILE.values():
        path.write_bytes(content)
        sentences.append(str(refused(path)))
    twins = {"html": "doctype"}
    assert len(set(sentences)) == len(sentences) - len(twins)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda path: path.mkdir(), "is a directory"),
        (lambda path: os.mkfifo(path), "is a device or a pipe"),
        (lambda path: None, "does not exist"),
        (lambda path: path.symlink_to(path), "cannot be opened"),
    ],
    ids=["directory", "pipe", "missing", "loop"],
)
def test_what_is_no_file_is_refused(tmp_path: Path, make: Any, sentence: str) -> None:
    path = tmp_path / "model.gguf"
    make(path)
    assert sentence in str(refused(path))


def test_a_vast_sparse_file_of_empty_texts_is_given_up_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.gguf"
    count = 1 << 30
    path.write_bytes(header(entry(b"tokenizer.ggml.tokens", ARRAY, struct.pack("<IQ", STRING, count))))
    os.truncate(path, 9 * count)
    with pytest.raises(ModelLoadError, match="text lists of over 32 MB"):
        read_gguf(path)
    # Counted on an eighth: tracing each of 800,000 texts would take seconds.
    monkeypatch.setattr("backend.gguf.file._WALK_BYTES", 4 * MB)
    tracemalloc.start()
    try:
        assert "text lists of over 4 MB" in str(refused(path))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 50 * MB / 8


def test_metadata_beyond_reason_costs_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    numbers = struct.pack("<IQ", 0, 1024) + bytes(1024)
    emoji = text("🙂".encode() + b"a" * 100_000)
    many = [entry(b"array %d" % index, ARRAY, numbers) for index in range(8_000)]
    many += [entry(b"text %d" % index, STRING, emoji) for index in range(60)]
    path.write_bytes(header(ARCHITECTURE, *many))
    tracemalloc.start()
    try:
        refused(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 50 * MB


def test_a_truncated_file_tells_how_much_of_it_is_there(tmp_path: Path, tiny_llama: Path) -> None:
    path = tmp_path / "part.gguf"
    whole = tiny_llama.read_bytes()
    path.write_bytes(whole[: len(whole) * 41 // 100])
    error = refused(path)
    assert error.cause == "truncated"
    assert "has 41 % of its bytes" in str(error)


def test_every_truncation_is_a_load_error(tmp_path: Path, tiny_llama: Path) -> None:
    path = tmp_path / "part.gguf"
    whole = tiny_llama.read_bytes()
    causes: set[str] = set()
    for size in [*range(0, 600), *range(600, len(whole), len(whole) // 150)]:
        path.write_bytes(whole[:size])
        causes.add(refused(path).cause)
    assert causes <= {"truncated", "not_gguf", "bad_metadata"}


def test_control_characters_of_a_file_never_reach_a_message(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    key = b"\x1b[31mred\nline"
    path.write_bytes(header(entry(key, 77, bytes(64))))
    assert "\\x1b[31mred\\nline" in str(refused(path))
    assert "\x1b" not in str(refused(path))


@given(st.text())
def test_shown_text_is_one_printable_line(value: str) -> None:
    assert shown(value, 40).isprintable()
    assert len(shown(value, 40)) <= 40


@pytest.fixture(scope="session")
def headers(tiny_models: Path) -> dict[str, bytes]:
    names: tuple[tiny_gguf.Architecture, ...] = ("llama", "gemma3", "mamba", "lfm2", "bert")
    made = {name: tiny_gguf.make_model(tiny_models / f"fuzz-{name}.gguf", name) for name in names}
    return {name: path.read_bytes() for name, path in made.items()}


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_mutated_header_is_read_or_refused(
    data: st.DataObject, headers: dict[str, bytes], tiny_models: Path
) -> None:
    content = bytearray(headers[data.draw(st.sampled_from(sorted(headers)))])
    extreme = st.sampled_from(
        [b"\0" * 8, b"\xff" * 8, b"\xff" * 4, struct.pack("<Q", 1 << 40), b"\x08\0\0\0", b"\0"]
    )
    for _ in range(data.draw(st.integers(1, 4))):
        # Half of the mutations hit the metadata that decides, which comes first.
        at = data.draw(st.integers(0, 900) | st.integers(0, 16_000))
        piece = data.draw(extreme | st.binary(min_size=1, max_size=12))
        content[at : at + len(piece)] = piece
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content))) :]
    path = tiny_models / "mutated.gguf"
    path.write_bytes(content)
    try:
        info = read_gguf(path, tokens=True)
        check_model(info)
    except ModelLoadError as err:
        assert str(err).isprintable()
        return
    assert isinstance(oddities(info), tuple)
    assert 1 <= info.n_layer <= 512


# ---- meaning -------------------------------------------------------------------------------


def test_the_tiny_llama_is_described(tiny_llama: Path) -> None:
    info = read_gguf(tiny_llama)
    layer = info.layers[0]
    assert (info.architecture, info.kind, info.quantization, info.version) == ("llama", "model", "F32", 3)
    assert (info.n_layer, info.n_embd, info.n_ctx_train, info.n_ff) == (2, 64, 2048, 96)
    assert (layer.n_head, layer.n_head_kv, layer.key_length, layer.value_length) == (4, 2, 16, 16)
    assert info.n_vocab == len(tiny_gguf.bpe_vocab().tokens)
    assert info.chat_template == tiny_gguf.CHATML
    assert info.size_bytes == tiny_llama.stat().st_size > info.weights_bytes == 4 * info.n_params
    assert info.tokens == ()


def test_tokens_are_kept_when_asked_for(tiny_llama: Path) -> None:
    tokens = read_gguf(tiny_llama, tokens=True).tokens
    assert [token.decode() for token in tokens] == list(tiny_gguf.bpe_vocab().tokens)


def test_memories_are_told_apart(
    tiny_llama: Path, tiny_gemma3: Path, tiny_recurrent: Path, tiny_hybrid: Path, tiny_embedding: Path
) -> None:
    llama, gemma3, mamba, lfm2, bert = map(
        read_gguf, (tiny_llama, tiny_gemma3, tiny_recurrent, tiny_hybrid, tiny_embedding)
    )
    assert [info.is_recurrent for info in (llama, gemma3, mamba, lfm2, bert)] == [
        False,
        False,
        True,
        False,
        False,
    ]
    assert [info.is_hybrid for info in (llama, gemma3, mamba, lfm2, bert)] == [
        False,
        False,
        False,
        True,
        False,
    ]
    assert [info.is_embedding for info in (llama, gemma3, mamba, lfm2, bert)] == [False] * 4 + [True]
    assert gemma3.sliding_window == 32
    assert [layer.windowed for layer in gemma3.layers] == [True] * 5 + [False]
    assert [layer.n_head_kv for layer in lfm2.layers] == [0, 2, 0]
    assert [bool(layer.state_bytes) for layer in lfm2.layers] == [True, False, True]


@pytest.mark.parametrize(
    "name",
    [
        "tiny_llama",
        "tiny_llama_spm",
        "tiny_base",
        "tiny_gemma3",
        "tiny_recurrent",
        "tiny_hybrid",
        "tiny_embedding",
    ],
)
def test_good_models_pass_every_check(name: str, request: pytest.FixtureRequest) -> None:
    info = read_gguf(request.getfixturevalue(name), tokens=True)
    check_model(info)
    assert oddities(info) == ()


def test_the_starter_is_described(starter_model: Path) -> None:
    info = read_gguf(starter_model, tokens=True)
    check_model(info)
    assert oddities(info) == ()
    assert (info.architecture, info.quantization, info.n_ctx_train) == ("llama", "Q4_1", 8192)
    assert (info.n_layer, info.n_embd, info.n_head, info.n_vocab) == (30, 576, 9, 49_152)
    assert info.n_params == 134_515_008
    assert info.chat_template


@pytest.mark.parametrize(
    ("fixture", "sentence", "flag"),
    [("tiny_projector", "projector", "--mmproj"), ("tiny_adapter", "adapter", "--lora")],
)
def test_companions_are_no_models(
    fixture: str, sentence: str, flag: str, request: pytest.FixtureRequest
) -> None:
    error = refused(request.getfixturevalue(fixture))
    assert error.cause == "not_a_chat_model"
    assert sentence in str(error)
    assert flag in error.remedy


def test_a_vocabulary_and_an_imatrix_are_no_models(tmp_path: Path) -> None:
    vocabulary = tiny_gguf.write(tmp_path / "vocab.gguf", "llama", {"tokenizer.ggml.model": "gpt2"}, {})
    assert "only a vocabulary" in str(refused(vocabulary))
    encoder = tiny_gguf.write(tmp_path / "bert.gguf", "bert", {"tokenizer.ggml.model": "bert"}, {})
    assert "only the metadata of an embedding model" in str(refused(encoder))
    pooled = tiny_gguf.write(tmp_path / "pooled.gguf", "llama", {"llama.pooling_type": 1}, {})
    assert "only the metadata of an embedding model" in str(refused(pooled))
    bare = tiny_gguf.write(tmp_path / "bare.gguf", "llama", {"general.name": "bare"}, {})
    assert "contains only metadata" in str(refused(bare))
    imatrix = tiny_gguf.write(tmp_path / "im.gguf", "llama", {"imatrix.chunk_count": 3}, {})
    assert "importance matrix" in str(refused(imatrix))


def changed(folder: Path, architecture: tiny_gguf.Architecture = "llama", **metadata: Any) -> Path:
    path = folder / "changed.gguf"
    return tiny_gguf.make_model(
        path, architecture, metadata={key.replace("__", "."): value for key, value in metadata.items()}
    )


def duplicated() -> list[str]:
    tokens = list(tiny_gguf.bpe_vocab().tokens)
    return [tokens[6], *tokens[1:]]


@pytest.mark.parametrize(
    ("metadata", "sentence"),
    [
        ({"llama__block_count": 600}, "must be from 1 to 512"),
        ({"llama__block_count": 0}, "must be from 1 to 512"),
        ({"llama__block_count": "2"}, "'llama.block_count' is '2'"),
        ({"llama__context_length": 0}, "'llama.context_length' is 0"),
        ({"llama__expert_count": 4, "llama__expert_used_count": 8}, "uses 8 of 4 experts"),
        ({"llama__expert_count": 4, "llama__expert_used_count": 0}, "uses 0 of 4 experts"),
        ({"llama__expert_count": 1000, "llama__expert_used_count": 8}, "1,000 experts"),
        ({"llama__rope__scaling__type": "weird"}, "unknown position scaling 'weird'"),
        ({"llama__pooling_type": 9}, "unknown pooling 9"),
        ({"tokenizer__ggml__tokens": duplicated()}, "contains 1 tokens twice"),
        ({"tokenizer__ggml__tokens": [1, 2, 3]}, "contains no tokens"),
        ({"tokenizer__ggml__model": "llama"}, "lacks 256 of the 256 byte tokens"),
        ({"tokenizer__chat_template": "x" * 1_100_000}, "chat template of 1,100,000 bytes"),
    ],
)
def test_metadata_that_would_end_the_process_is_refused(
    tmp_path: Path, metadata: dict[str, Any], sentence: str
) -> None:
    error = refused(changed(tmp_path, **metadata))
    assert error.cause == "bad_metadata"
    assert sentence in str(error)


def test_a_diffusion_model_is_refused_by_name(tmp_path: Path) -> None:
    values = {"dream.block_count": 1, "dream.embedding_length": 64, "dream.context_length": 64}
    path = tiny_gguf.write(
        tmp_path / "d.gguf", "dream", values, {"output_norm.weight": tiny_gguf.np.ones(64, "f4")}
    )
    assert refused(path).cause == "unsupported_arch"


def test_sampling_defaults_come_from_the_file_and_bad_ones_are_dropped(tmp_path: Path) -> None:
    path = changed(
        tmp_path,
        general__sampling__temp=0.5,
        general__sampling__top_k=17,
        general__sampling__top_p=7.5,
        general__sampling__penalty_repeat="often",
    )
    info = read_gguf(path)
    assert info.defaults.as_dict() == {"temperature": 0.5, "top_k": 17}
    assert info.sampling["top_p"] == 7.5


@pytest.mark.parametrize("stored", [0, -1, -40])
def test_a_top_k_below_one_is_off(tmp_path: Path, stored: int) -> None:
    info = read_gguf(changed(tmp_path, general__sampling__top_k=stored))
    assert info.defaults.as_dict() == {"top_k": 0}
    assert info.defaults.over(LIBRARY_DEFAULTS).top_k == 0


# ---- split models --------------------------------------------------------------------------


def test_a_split_model_is_read_as_one(tmp_path: Path) -> None:
    parts = tiny_gguf.make_split(tmp_path)
    info: GGUFInfo = read_gguf(parts[0], tokens=True)
    check_model(info)
    assert info.parts == tuple(parts)
    assert info.n_params == 99_648
    assert info.size_bytes == sum(part.stat().st_size for part in parts)
    assert first_part(parts[2]) == parts[0]
    assert part_number(parts[2]) == (3, 3)


def test_missing_and_renamed_parts_are_named(tmp_path: Path) -> None:
    parts = tiny_gguf.make_split(tmp_path)
    later = refused(parts[1])
    assert later.cause == "missing_shard"
    assert parts[0].name in later.remedy
    parts[2].unlink()
    missing = refused(parts[0])
    assert missing.cause == "missing_shard"
    assert parts[2].name in str(missing)
    renamed = parts[0].rename(tmp_path / "model.gguf")
    assert refused(renamed).cause == "missing_shard"


def test_a_truncated_part_is_named(tmp_path: Path) -> None:
    parts = tiny_gguf.make_split(tmp_path)
    os.truncate(parts[1], parts[1].stat().st_size // 2)
    error = refused(parts[0])
    assert error.cause == "truncated"
    assert parts[1].name in str(error)


def test_a_file_without_split_is_its_own_first_part() -> None:
    assert first_part(Path("/m/model.gguf")) == Path("/m/model.gguf")
    assert part_number(Path("/m/model.gguf")) is None


def test_require_model_passes_models_on(tiny_llama: Path) -> None:
    info = read_gguf(tiny_llama)
    assert require_model(info) is info

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend import models
from backend.models import ModelFile, find_files, list_models, resolve, starter_model
from backend.types import ModelLoadError
from tests import tiny_gguf


@pytest.fixture(autouse=True)
def no_starter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "STARTER_PACKAGE", "no_such_package_here")


def put(path: Path, source: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(source.read_bytes())
    return path


def put_ollama(store: Path, name: str, source: Path) -> Path:
    """`source` as the blob of an Ollama model; `name` is HOST/NAMESPACE/MODEL/TAG."""
    digest = "ab" * 32
    blob = put(store / f"blobs/sha256-{digest}", source)
    layers = [
        {"mediaType": "application/vnd.ollama.image.template", "digest": f"sha256:{'00' * 32}"},
        {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{digest}"},
    ]
    manifest = store / "manifests" / name
    manifest.parent.mkdir(parents=True, exist_ok=True)
    manifest.write_text(json.dumps({"layers": layers}))
    return blob


def test_an_empty_machine_lists_nothing() -> None:
    assert list_models() == []


def test_every_store_is_looked_at(
    isolated_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_llama: Path
) -> None:
    revision = isolated_home / ".cache/huggingface/hub/models--org--repo/snapshots/abc"
    monkeypatch.setenv("FIRESIDE_MODEL", str(put(tmp_path / "env.gguf", tiny_llama)))
    put(models.own_folder() / "mine.gguf", tiny_llama)
    put(revision / "Q4/hub-Q4.gguf", tiny_llama)
    put(isolated_home / ".lmstudio/models/publisher/repo/studio.gguf", tiny_llama)
    put(isolated_home / ".cache/lm-studio/models/publisher/repo/old-studio.gguf", tiny_llama)
    put_ollama(isolated_home / ".ollama/models", "registry.ollama.ai/library/smol/135m", tiny_llama)
    put(isolated_home / ".cache/llama.cpp/org_repo_model.gguf", tiny_llama)
    assert [(entry.source, entry.name) for entry in list_models()] == [
        ("environment", "env"),
        ("own", "mine"),
        ("huggingface", "org/repo/hub-Q4"),
        ("lmstudio", "studio"),
        ("lmstudio", "old-studio"),
        ("ollama", "smol:135m"),
        ("llama.cpp", "org_repo_model"),
    ]
    assert all(entry.problem is None for entry in list_models())


def test_the_starter_package_is_listed(monkeypatch: pytest.MonkeyPatch, starter_model: Path) -> None:
    monkeypatch.undo()
    entries = [entry for entry in list_models() if entry.source == "starter"]
    assert [(entry.path, entry.quantization, entry.n_ctx_train) for entry in entries] == [
        (starter_model, "Q4_1", 8192)
    ]


def test_a_starter_that_is_no_package_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert starter_model() is None
    monkeypatch.setattr(models, "STARTER_PACKAGE", "json")
    assert starter_model() is None


def test_entries_describe_their_models(tiny_llama: Path, tiny_embedding: Path, tiny_base: Path) -> None:
    put(models.own_folder() / "a-chat.gguf", tiny_llama)
    put(models.own_folder() / "b-base.gguf", tiny_base)
    put(models.own_folder() / "c-embedding.gguf", tiny_embedding)
    chat, base, embedding = list_models()
    assert (chat.kind, base.kind, embedding.kind) == ("chat", "base", "embedding")
    assert (chat.architecture, chat.quantization, chat.n_ctx_train) == ("llama", "F32", 2048)
    assert chat.size_bytes == tiny_llama.stat().st_size
    assert chat.n_params == 99_648


def test_companions_and_later_parts_are_no_entries(tiny_projector: Path, tiny_adapter: Path) -> None:
    folder = models.own_folder()
    put(folder / "mmproj-model-f16.gguf", tiny_projector)
    put(folder / "projector.gguf", tiny_projector)
    put(folder / "lora.gguf", tiny_adapter)
    parts = tiny_gguf.make_split(folder)
    (entry,) = list_models()
    assert entry.name == "split"
    assert entry.size_bytes == sum(part.stat().st_size for part in parts)


def test_broken_files_are_listed_with_their_problem(tmp_path: Path, tiny_llama: Path) -> None:
    folder = models.own_folder()
    whole = put(folder / "cut.gguf", tiny_llama)
    os.truncate(whole, whole.stat().st_size // 2)
    (folder / "page.gguf").write_text("<html></html>")
    (folder / "empty.gguf").touch()
    (folder / "lost.gguf").symlink_to(tmp_path / "gone")
    first, *rest = tiny_gguf.make_split(folder)
    for part in rest:
        part.unlink()
    found = {entry.name: entry for entry in list_models()}
    assert {entry.kind for entry in found.values()} == {"broken"}
    assert found["cut"].problem == "is cut short: it has 50 % of its bytes (202,784 of 405,568)."
    assert found["cut"].size_bytes == whole.stat().st_size
    assert "HTML" in (found["page"].problem or "")
    assert "empty" in (found["empty"].problem or "")
    assert "does not exist" in (found["lost"].problem or "")
    assert "2 parts are missing" in (found["split"].problem or "")
    assert first.name.startswith("split")


def test_a_later_part_without_the_first_is_listed_as_broken() -> None:
    parts = tiny_gguf.make_split(models.own_folder())
    parts[0].unlink()
    assert {entry.kind for entry in list_models()} == {"broken"}


def test_one_file_behind_several_names_is_listed_once(isolated_home: Path, tiny_llama: Path) -> None:
    mine = put(models.own_folder() / "model.gguf", tiny_llama)
    link = isolated_home / ".lmstudio/models/p/r/model.gguf"
    link.parent.mkdir(parents=True)
    link.symlink_to(mine)
    assert [file.source for file in find_files()] == ["own"]


def test_the_newest_revision_of_a_hub_file_counts(isolated_home: Path, tiny_llama: Path) -> None:
    snapshots = isolated_home / ".cache/huggingface/hub/models--org--repo/snapshots"
    old, new = (put(snapshots / name / "m.gguf", tiny_llama) for name in ("zz", "aa"))
    os.utime(old.parent, (1, 1))
    os.utime(new.parent, (2, 2))
    assert [file.path for file in find_files()] == [new]


def test_stores_move_with_the_variables_of_their_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_llama: Path
) -> None:
    put(tmp_path / "hub/models--a--b/snapshots/1/hub.gguf", tiny_llama)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    put_ollama(tmp_path / "ollama", "host/someone/m/latest", tiny_llama)
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "ollama"))
    put(tmp_path / "cache/c.gguf", tiny_llama)
    monkeypatch.setenv("LLAMA_CACHE", str(tmp_path / "cache"))
    assert {file.name for file in find_files()} == {"a/b/hub", "someone/m:latest", "c"}


@given(
    content=st.binary(max_size=200)
    | st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.sampled_from(["layers", "digest", "mediaType"]), inner)
        ),
    ).map(lambda value: json.dumps(value).encode())
)
def test_a_broken_manifest_is_passed_over(tiny_models: Path, content: bytes) -> None:
    manifest = tiny_models / "manifest"
    manifest.write_bytes(content)
    assert models._model_blob(manifest, tiny_models) is None


def test_a_digest_never_leaves_the_blobs(tmp_path: Path) -> None:
    manifest = tmp_path / "manifest"
    layer = {"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:../../../etc/passwd"}
    manifest.write_text(json.dumps({"layers": [layer]}))
    assert models._model_blob(manifest, tmp_path) is None


def test_a_folder_loop_and_a_deep_tree_end(tiny_llama: Path) -> None:
    folder = models.own_folder()
    put(folder / "near/model.gguf", tiny_llama)
    put(folder.joinpath(*"abcdefghij") / "far.gguf", tiny_llama)
    (folder / "near/again").symlink_to(folder)
    assert [file.name for file in find_files()] == ["model"]


# ---- names ---------------------------------------------------------------------------------


def files(*names: str) -> list[ModelFile]:
    return [ModelFile(name, "own", Path(f"/models/{name.replace('/', '_')}.gguf")) for name in names]


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("gemma", "gemma"),
        ("gemma.gguf", "gemma"),
        ("Qwen3-4B", "qwen3-4b"),
        ("qwen3-4", "qwen3-4b"),
        ("llama3.2:3b", "llama3.2:3b"),
        ("phi", None),
    ],
)
def test_names_resolve_exactly_then_by_case_then_by_beginning(asked: str, meant: str | None) -> None:
    found = resolve(asked, files("gemma", "gemma-2", "qwen3-4b", "llama3.2:3b"))
    assert (found and found.name) == meant


def test_an_ambiguous_beginning_lists_the_candidates() -> None:
    with pytest.raises(ModelLoadError, match="fits 2 models: qwen3-4b, qwen3-8b") as caught:
        resolve("qwen", files("qwen3-4b", "qwen3-8b", "gemma"))
    assert caught.value.cause == "not_found"
    assert caught.value.remedy


def test_copies_of_one_file_are_one_model(tmp_path: Path, tiny_llama: Path, tiny_gemma3: Path) -> None:
    first = ModelFile("m", "own", put(tmp_path / "a/m.gguf", tiny_llama))
    copy = ModelFile("m", "lmstudio", put(tmp_path / "b/m.gguf", tiny_llama))
    other = ModelFile("m", "lmstudio", put(tmp_path / "c/m.gguf", tiny_gemma3))
    assert resolve("m", [first, copy]) is first
    with pytest.raises(ModelLoadError, match="fits 2 models") as caught:
        resolve("m", [first, other])
    assert str(other.path) in str(caught.value)


def test_models_of_a_folder_that_others_may_write_are_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_llama: Path
) -> None:
    monkeypatch.setenv("FIRESIDE_DATA", str(tmp_path / "data"))
    put(models.own_folder() / "theirs.gguf", tiny_llama)
    assert [file.name for file in models.find_files() if file.source == "own"] == ["theirs"]
    (tmp_path / "data").chmod(0o777)
    assert [file.name for file in models.find_files() if file.source == "own"] == []
    (tmp_path / "data").chmod(0o755)
    models.own_folder().rename(tmp_path / "shared")
    (tmp_path / "shared").chmod(0o777)
    models.own_folder().symlink_to(tmp_path / "shared")  # The person's own choice.
    assert [file.name for file in models.find_files() if file.source == "own"] == ["theirs"]

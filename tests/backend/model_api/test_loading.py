from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backend import GenerativeModel, ModelLoadError, handle, load
from tests import tiny_gguf

Opener = Callable[..., GenerativeModel]


def engine_threads() -> int:
    return sum(thread.name == "fireside-engine" for thread in threading.enumerate())


# ---- properties ----------------------------------------------------------------------------


def test_1_wrapping_a_handle_builds_no_pipeline(fresh: Opener) -> None:
    first = fresh()
    before = engine_threads()
    second = GenerativeModel(first.handle)
    assert engine_threads() == before
    assert second.residency["pipeline"]["kv_cache_bytes"] == 0
    first.close()
    assert second.generate("hello", max_new_tokens=2, temperature=0)
    second.close()


def test_2_local_dir_is_the_resolved_folder(tmp_path: Path, tiny_llama: Path, fresh: Opener) -> None:
    link = tmp_path / "link.gguf"
    link.symlink_to(tiny_llama)
    folder = fresh(link).local_dir
    assert folder == tiny_llama.resolve().parent
    assert folder.is_dir()


def test_3_sizes_are_positive_ints(tiny: GenerativeModel) -> None:
    assert tiny.vocab_size == len(tiny_gguf.bpe_vocab().tokens)
    assert tiny.max_seq == 2048
    assert type(tiny.vocab_size) is type(tiny.max_seq) is int


def test_3_max_seq_is_the_window_that_was_asked_for(small: GenerativeModel) -> None:
    assert small.max_seq == 128
    small.generate("hello", max_new_tokens=1000, temperature=0, ignore_eos=True)
    assert small.report is not None
    assert small.report.prompt_tokens + small.report.new_tokens == 128


def test_4_every_id_that_ends_a_sequence_is_listed(tiny: GenerativeModel) -> None:
    vocab = tiny_gguf.bpe_vocab()
    assert set(tiny.eos_token_ids) == {vocab.id(token) for token in tiny_gguf.EOG_TOKENS}
    for token in tiny.eos_token_ids:
        assert tiny.generate("hello", logit_bias={token: 1000.0}, temperature=0) == ""
        assert tiny.report is not None
        assert tiny.report.finish == "stop"


def test_5_defaults_are_the_checkpoints_own(tmp_path: Path, tiny: GenerativeModel, fresh: Opener) -> None:
    assert tiny.defaults.as_dict() == {}
    metadata = {"general.sampling.temp": 0.25, "general.sampling.top_k": 7}
    model = fresh(tiny_gguf.make_model(tmp_path / "m.gguf", metadata=metadata))
    assert model.defaults.as_dict() == {"temperature": 0.25, "top_k": 7}


def test_5_explain_names_the_origin_of_each_value(tmp_path: Path, fresh: Opener) -> None:
    model = fresh(tiny_gguf.make_model(tmp_path / "m.gguf", metadata={"general.sampling.top_k": 7}))
    found = model.explain({"top_p": 0.5, "min_p": 0.1}, min_p=0.2)
    assert found["top_k"] == (7, "model")
    assert found["top_p"] == (0.5, "config")
    assert found["min_p"] == (0.2, "config")
    assert found["temperature"] == (0.8, "library")
    assert "repeat_penalty" not in found


def test_5_the_checkpoints_defaults_rule_a_generation(tmp_path: Path, fresh: Opener) -> None:
    greedy = fresh(tiny_gguf.make_model(tmp_path / "m.gguf", metadata={"general.sampling.temp": 0.0}))
    texts = {greedy.generate("hello", max_new_tokens=12, seed=seed) for seed in range(4)}
    assert len(texts) == 1


def test_6_compute_dtype_is_undefined_unless_named(tiny: GenerativeModel, fresh: Opener) -> None:
    assert tiny.compute_dtype == "undefined"
    assert fresh(compute_dtype="f32").compute_dtype == "f32"
    with pytest.raises(ValueError, match="compute_dtype"):
        load("anything", compute_dtype="f64")


@pytest.mark.parametrize("mode", ["paged", "continuous", None])
def test_7_kv_cache_mode_is_what_the_load_named(mode: Any, fresh: Opener) -> None:
    model = fresh(kv_cache_mode=mode, max_seq=256)
    assert model.kv_cache_mode == mode
    assert len(model.generate_batch(["a", "b", "c"], max_new_tokens=3, temperature=0)) == 3


def test_7_another_kv_cache_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="kv_cache_mode"):
        load("anything", kv_cache_mode="sliced")


def test_8_without_a_cache_mode_one_slot_serves_everything(fresh: Opener) -> None:
    model = fresh()
    text = model.generate("hello", max_new_tokens=8, temperature=0)
    assert "".join(model.stream_generate("hello", max_new_tokens=8, temperature=0)) == text
    assert model.residency["pipeline"]["slots"] == 1


def test_9_a_chat_template_is_reported_only_where_there_is_one(
    tiny: GenerativeModel, base: GenerativeModel, tiny_base: Path, fresh: Opener
) -> None:
    assert tiny.has_chat_template
    assert not base.has_chat_template
    assert fresh(tiny_base, chat_template=tiny_gguf.CHATML).has_chat_template


def test_10_the_tokenizer_is_the_models_own(tiny: GenerativeModel) -> None:
    prompt = tiny.render([{"role": "user", "content": "hello you"}])
    tiny.generate("hello you", max_new_tokens=2)
    assert tiny.report is not None
    assert len(tiny.tokenizer.encode(prompt, special=True)) == tiny.report.prompt_tokens
    assert tiny.tokenizer.vocab_size == tiny.vocab_size


def test_11_the_assistant_is_none_until_one_is_attached(fresh: Opener) -> None:
    model, draft = fresh(), fresh()
    assert model.assistant_model is None
    model.set_assistant(draft)
    assert model.assistant_model is draft
    model.set_assistant(None)
    assert model.assistant_model is None


def test_12_there_is_no_report_before_the_first_generation(fresh: Opener) -> None:
    model = fresh()
    assert model.report is None
    assert model.reports == []


def test_13_residency_is_one_document_that_grows_with_the_first_request(fresh: Opener) -> None:
    import json

    model = fresh()
    before = model.residency
    assert before["pipeline"]["kv_cache_bytes"] == 0
    assert sum(device["weights_bytes"] for device in before["devices"]) > 300_000
    model.generate("hello", max_new_tokens=2)
    after = json.loads(json.dumps(model.residency))
    # 2 layers, K and V, 2 heads of 16 elements of 2 bytes.
    assert after["pipeline"]["kv_cache_bytes"] == 2048 * 2 * 2 * 2 * 16 * 2
    assert after["devices"][0]["kv_cache_bytes"] == after["pipeline"]["kv_cache_bytes"]


def test_13_a_sessions_first_request_counts_too(fresh: Opener) -> None:
    model = fresh()
    with model.chat_session() as chat:
        chat.send("hello", max_new_tokens=2)
        assert model.residency["pipeline"]["kv_cache_bytes"] > 0


def test_14_a_text_model_supports_no_media(tiny: GenerativeModel) -> None:
    assert tiny.supports_vision is tiny.supports_audio is tiny.supports_video is False


# ---- loading -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_ctx", 5),
        ("max_seq", 0),
        ("max_seq", "many"),
        ("slots", -1),
        ("slots", 0),
        ("slots", 1.5),
        ("threads", 0),
        ("threads", "2"),
        ("threads", 100_000),
        ("main_gpu", -1),
        ("n_gpu_layers", "some"),
        ("n_gpu_layers", -2),
        ("kv_cache_type", "q9"),
        ("flash_attn", "maybe"),
        ("mmap", "yes"),
        ("chat_template", 5),
        ("tensor_split", [0.001] * 200),
    ],
)
def test_an_unknown_or_impossible_option_is_named(tiny_llama: Path, name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        load(tiny_llama, **{name: value})


def test_progress_runs_to_one(tiny_llama: Path) -> None:
    seen: list[float] = []
    load(tiny_llama, threads=1, progress=lambda fraction: seen.append(fraction) is None).close()
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


def test_progress_cancels_the_load_and_another_load_works(tiny_llama: Path, fresh: Opener) -> None:
    with pytest.raises(ModelLoadError) as caught:
        load(tiny_llama, threads=1, progress=lambda _: False)
    assert caught.value.cause == "cancelled"
    assert fresh().generate("hello", max_new_tokens=2)


def test_an_error_in_progress_reaches_the_caller(tiny_llama: Path) -> None:
    def progress(_fraction: float) -> bool:
        raise ZeroDivisionError("the screen is gone")

    with pytest.raises(ZeroDivisionError, match="the screen is gone"):
        load(tiny_llama, threads=1, progress=progress)


def broken_files(folder: Path, model: Path, projector: Path) -> dict[str, Path]:
    whole = model.read_bytes()
    files = {"truncated": whole[:-1000], "not_gguf": b"<html>not found</html>", "bad_metadata": whole[:8]}
    paths = {cause: folder / f"{cause}.gguf" for cause in files}
    for cause, content in files.items():
        paths[cause].write_bytes(content)
    return {**paths, "not_found": folder / "gone.gguf", "not_a_chat_model": projector}


def test_each_failed_load_says_its_cause_and_a_second_load_works(
    tmp_path: Path, tiny_llama: Path, tiny_projector: Path, fresh: Opener
) -> None:
    causes: dict[str, str] = {}
    for cause, path in broken_files(tmp_path, tiny_llama, tiny_projector).items():
        with pytest.raises(ModelLoadError) as caught:
            load(path)
        causes[cause] = caught.value.cause
        assert path.name in str(caught.value)
        assert caught.value.remedy
    assert fresh().generate("hello", max_new_tokens=2)
    assert causes == {
        "truncated": "truncated",
        "not_gguf": "not_gguf",
        "bad_metadata": "truncated",
        "not_found": "not_found",
        "not_a_chat_model": "not_a_chat_model",
    }


def test_a_failed_load_on_another_thread_leaves_the_process_able(
    tmp_path: Path, tiny_llama: Path, fresh: Opener, capfd: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "half.gguf"
    bad.write_bytes(tiny_llama.read_bytes()[:-4096])
    caught: list[Exception] = []

    def work() -> None:
        try:
            load(bad)
        except ModelLoadError as err:
            caught.append(err)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert "half.gguf" in str(caught[0])
    assert fresh().generate("hello", max_new_tokens=2)
    assert capfd.readouterr() == ("", "")


def test_the_process_waits_for_what_a_failed_load_imports(
    tiny_llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An import that is cut off by the end of the process takes the process down."""
    threads, ran = list[threading.Thread](), threading.Event()
    monkeypatch.setattr(
        handle, "_import_ahead", lambda: (threads.append(threading.current_thread()), ran.set())
    )
    with pytest.raises(ModelLoadError) as caught:
        load(tiny_llama, max_seq=10**12)
    assert caught.value.cause == "out_of_memory"
    assert ran.wait(10)
    assert not threads[0].daemon


def test_what_is_imported_beside_a_load_is_whole_before_the_model_is_handed_out(
    tiny_llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, done = threading.Event(), list[bool]()

    def slow() -> None:
        begun.wait(10)
        done.append(True)

    monkeypatch.setattr(handle, "_import_ahead", slow)
    join = threading.Thread.join
    monkeypatch.setattr(threading.Thread, "join", lambda *given: (begun.set(), join(*given))[1])
    with load(tiny_llama, threads=1, max_seq=64):
        assert done


def test_loading_and_generating_leave_stdout_and_stderr_alone(
    fresh: Opener, capfd: pytest.CaptureFixture[str]
) -> None:
    fresh().generate("hello", max_new_tokens=4)
    assert capfd.readouterr() == ("", "")


def test_a_projector_option_is_refused_before_anything_is_read() -> None:
    with pytest.raises(ValueError, match="mmproj"):
        load("anything", mmproj="eyes.gguf")


# ---- closing -------------------------------------------------------------------------------


def test_a_closed_model_refuses_every_question(fresh: Opener) -> None:
    model = fresh()
    tokenizer = model.tokenizer
    model.close()
    model.close()
    turns = [{"role": "user", "content": "hello"}]
    for ask in (
        lambda: model.generate("hello"),
        lambda: model.generate_batch(["hello"]),
        lambda: model.stream_generate("hello"),
        lambda: model.chat(turns),
        lambda: model.chat_session(),
        lambda: model.render(turns),
        lambda: model.conversation_text(turns),
        lambda: tokenizer.encode("hello"),
        lambda: tokenizer.decode([1, 2]),
        lambda: tokenizer.piece(1),
    ):
        with pytest.raises(ValueError, match="closed"):
            ask()


def test_a_context_manager_closes_the_model(tiny_llama: Path) -> None:
    with load(tiny_llama, threads=1) as model:
        assert model.generate("hello", max_new_tokens=2)
    with pytest.raises(ValueError, match="closed"):
        model.generate("hello")


def test_closing_while_another_thread_generates_ends_its_reply(fresh: Opener) -> None:
    model = fresh()
    stream = model.stream_generate("hello", max_new_tokens=2000, ignore_eos=True, stream="events")
    next(stream)
    model.close()
    *_, outcome = stream
    assert outcome.finish == "cancelled"
    assert outcome.new_tokens < 2000


def test_the_threads_of_a_model_end_with_it(tiny_llama: Path) -> None:
    before = threading.active_count()
    with load(tiny_llama, threads=1) as model:
        model.generate("hello", max_new_tokens=2)
        assert threading.active_count() > before
    assert threading.active_count() == before


# ---- embedding models ----------------------------------------------------------------------


def test_an_embedding_model_embeds_and_does_not_generate(tiny_embedding: Path, fresh: Opener) -> None:
    model = fresh(tiny_embedding)
    assert model.card.kind == "embedding"
    first, again, other = model.embed(["hello world", "hello world", "the cat"])
    assert first == again != other
    assert sum(value * value for value in first) == pytest.approx(1.0)
    for ask in (lambda: model.generate("hello"), lambda: model.generate_batch(["hello"])):
        with pytest.raises(ValueError, match="embedding model"):
            ask()
    model.close()
    with pytest.raises(ValueError, match="closed"):
        model.embed(["hello"])


def test_a_text_model_makes_no_embeddings(tiny: GenerativeModel) -> None:
    with pytest.raises(ValueError, match="makes no embeddings"):
        tiny.embed(["hello"])


def test_the_card_says_what_kind_of_model_it_is(
    tiny: GenerativeModel, base: GenerativeModel, tiny_llama: Path
) -> None:
    assert tiny.card.kind == "chat"
    assert base.card.kind == "base"
    assert tiny.card.model_id == tiny_llama.stem
    assert tiny.card.architecture == "llama"
    assert tiny.card.parameters > 0
    assert os.fspath(tiny.local_dir)

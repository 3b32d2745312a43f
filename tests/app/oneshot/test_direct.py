from __future__ import annotations

import errno
import io
import json
import os
import queue
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.cli import main
from app.oneshot import direct, stdin
from backend.types import (
    ChatOutcome,
    ContextOverflowError,
    EngineError,
    GenerationConfig,
    ModelLoadError,
    Piece,
    PrefillProgress,
    ReasoningPiece,
    TemplateError,
    TextPiece,
    ToolCall,
)
from tests.app.double import Double, says


@pytest.fixture(autouse=True)
def no_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull, "rb") as hole:
        number = os.dup(hole.fileno())
    monkeypatch.setattr(stdin, "_STDIN", number)


def pipe_in(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    reader, writer = os.pipe()
    os.write(writer, data)
    os.close(writer)
    monkeypatch.setattr(stdin, "_STDIN", reader)


def test_the_answer_is_all_that_stdout_gets(double: Double, capfd: pytest.CaptureFixture[str]) -> None:
    assert main.main(["-p", "hi"]) == 0
    assert capfd.readouterr() == ("Hello there.\n", "")
    assert double.closed
    assert double.asked == [[{"role": "user", "content": "hi"}]]


def test_flags_reach_the_load_and_the_generation(double: Double) -> None:
    flags = "-p hi -m a.gguf --ctx 2048 --gpu-layers all --kv-type q8_0 --flash-attn on --threads 3 --slots 2"
    sampling = (
        "--temperature 0 --top-k 7 --seed 11 --stop A --stop B --no-think --max-tokens 5 --set min_p=0.2"
    )
    assert main.main([*flags.split(), *sampling.split()]) == 0
    assert double.options == {
        "source": "a.gguf",
        "max_seq": 2048,
        "n_gpu_layers": -1,
        "kv_cache_type": "q8_0",
        "flash_attn": True,
        "threads": 3,
        "slots": 2,
        "most_cells": len("hi") + 5 + direct.TEMPLATE_TOKENS,
    }
    assert double.configs[0].as_dict() == {
        "temperature": 0.0,
        "top_k": 7,
        "seed": 11,
        "stop": ("A", "B"),
        "enable_thinking": False,
        "max_new_tokens": 5,
        "min_p": 0.2,
        "reply_reserve": 64,  # an eighth of the context
    }


@pytest.mark.parametrize("temperature", [None, 0.0, 0.9])
@pytest.mark.parametrize("seed", [None, 11])
def test_seed_and_temperature_do_not_touch_each_other(
    double: Double, temperature: float | None, seed: int | None
) -> None:
    flags = [f"--temperature={temperature}"] * (temperature is not None) + [f"--seed={seed}"] * (
        seed is not None
    )
    assert main.main(["-p", "hi", *flags]) == 0
    assert (double.configs[0].temperature, double.configs[0].seed) == (temperature, seed)


def test_no_limit_but_the_context_holds(double: Double) -> None:
    main.main(["-p", "hi"])
    assert double.configs[0].max_new_tokens == double.max_seq


def test_a_system_prompt_comes_first(double: Double) -> None:
    main.main(["-p", "hi", "-s", "Be brief."])
    assert [turn["role"] for turn in double.asked[0]] == ["system", "user"]


def test_piped_text_is_fenced_behind_the_prompt(double: Double, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe_in(monkeypatch, b"a ``` b\n")
    main.main(["-p", "Explain."])
    assert double.asked[0][0]["content"] == "Explain.\n\n````\na ``` b\n````"


@pytest.mark.parametrize("arguments", [[], ["-p", "-"]])
def test_piped_text_alone_is_the_prompt(
    double: Double, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    pipe_in(monkeypatch, "caf\xe9 \U0001f525\n".encode())
    assert main.main(arguments) == 0
    assert double.asked[0][0]["content"] == "caf\xe9 \U0001f525\n"


def test_bad_bytes_are_replaced(double: Double, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe_in(monkeypatch, b"caf\xe9 \xff")
    assert main.main(["-p", "-"]) == 0
    assert double.asked[0][0]["content"] == "caf\ufffd \ufffd"


def test_files_join_the_prompt(double: Double, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("one\n")
    main.main(["-p", "Sum up.", "-f", str(file)])
    assert double.asked[0][0]["content"] == f"Sum up.\n\n{file}:\n```\none\n```"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["-p", ""],
        ["-p", "  \n"],
        ["-p", "-"],
        ["-p", "hi", "-f", "/no/such/file"],
        ["-p", "hi", "--replies", "0"],
        ["-p", "hi", "--format", "xml"],
        ["-p", "hi", "--set", "seed"],
        ["-p", "hi", "--set", "sed=1"],
        ["-p", "hi", "--temperature", "-1"],
        ["-p", "hi", "--schema", "{"],
        ["-p", "hi", "--grammar", "/no/such/file"],
        ["-p", "hi", "--gpu-layers", "some"],
        ["--nonsense"],
        ["nonsense"],
    ],
)
def test_usage_errors_exit_2_and_say_why(
    double: Double, capfd: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert main.main(arguments) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("fireside: ")
    assert "Traceback" not in err
    assert not double.asked
    assert main.main(["--format=json", *arguments]) == 2
    assert "xml" in arguments or json.loads(capfd.readouterr().out)["exit"] == 2


OVERFLOW = ContextOverflowError(1400, 256)


@pytest.mark.parametrize(
    ("error", "code", "exit_code"),
    [
        (OVERFLOW, "context_overflow", 4),
        (EngineError("It broke.", remedy="Try less."), "engine", 1),
        (TemplateError("line 3"), "template", 1),
        (ValueError("top_k is odd"), "usage", 2),
        (RuntimeError("a \udcff byte"), "internal", 1),
    ],
)
@pytest.mark.parametrize("form", ["text", "json", "jsonl"])
def test_failures_have_a_code_in_every_format(
    double: Double, capfd: pytest.CaptureFixture[str], error: Exception, code: str, exit_code: int, form: str
) -> None:
    double.play = lambda config: [TextPiece("part"), error]
    assert main.main(["-p", "hi", "--format", form]) == exit_code
    out, err = capfd.readouterr()
    if form == "text":
        assert out == "part\n"
        assert err.startswith("fireside: ")
        return
    last = json.loads(out.splitlines()[-1])
    assert last["error"]["code"] == code
    assert last["exit"] == exit_code
    assert form == "jsonl" or last["text"] == "part"


def test_an_overflow_names_both_counts(double: Double, capfd: pytest.CaptureFixture[str]) -> None:
    double.play = lambda config: [OVERFLOW]
    assert main.main(["-p", "hi"]) == 4
    out, err = capfd.readouterr()
    assert out == ""
    assert "1400" in err
    assert "256" in err


def test_a_model_that_cannot_be_loaded_exits_3_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch, double: Double, capfd: pytest.CaptureFixture[str]
) -> None:
    def load(*source: Any, **options: Any) -> Double:
        raise ModelLoadError("There is no model.", cause="not_found", remedy="Get one.")

    monkeypatch.setattr("backend.load", load)
    assert main.main(["-p", "hi", "--format", "json"]) == 3
    error = {"code": "not_found", "message": "There is no model.", "remedy": "Get one."}
    assert json.loads(capfd.readouterr().out) == {"error": error, "exit": 3}


def test_json_is_one_object_with_everything(double: Double, capfd: pytest.CaptureFixture[str]) -> None:
    call = ToolCall("c1", "clock", {"zone": "UTC"})
    outcome = ChatOutcome(
        finish="tool_calls", prompt_tokens=5, new_tokens=3, text="é", tool_calls=(call,), seed=4
    )
    double.play = lambda config: [
        PrefillProgress(5, 5, 0),
        ReasoningPiece("hm"),
        TextPiece("é"),
        call,
        outcome,
    ]
    assert main.main(["-p", "hi", "--format", "json"]) == 0
    value = json.loads(capfd.readouterr().out)
    assert (value["text"], value["reasoning"], value["finish"]) == ("é", "hm", "tool_calls")
    assert value["tool_calls"][0]["function"]["name"] == "clock"
    assert value["usage"]["new_tokens"] == 3
    assert {"files", "timings", "session_id", "model", "truncated", "seed"} <= set(value)


def test_jsonl_prints_events_in_order(double: Double, capfd: pytest.CaptureFixture[str]) -> None:
    double.play = lambda config: [
        PrefillProgress(5, 5, 0),
        ReasoningPiece("hm"),
        TextPiece("a"),
        ChatOutcome(finish="stop", prompt_tokens=5, text="a"),
    ]
    assert main.main(["-p", "hi", "--format", "jsonl"]) == 0
    events = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [event["type"] for event in events] == ["prefill", "reasoning", "text", "done"]
    assert events[-1]["text"] == "a"


def test_thoughts_go_to_stderr_when_asked_for(double: Double, capfd: pytest.CaptureFixture[str]) -> None:
    double.play = lambda config: [ReasoningPiece("let me\x1b see"), *says("Yes.")(config)]
    assert main.main(["-p", "hi"]) == 0
    assert capfd.readouterr() == ("Yes.\n", "")
    assert main.main(["-p", "hi", "--show-thinking"]) == 0
    assert capfd.readouterr() == ("Yes.\n", "let me see\n")


def test_several_replies_are_whole_and_differ_in_seed(
    double: Double, capfd: pytest.CaptureFixture[str]
) -> None:
    double.play = lambda config: says(f"reply {config.seed}", " end")(config)
    assert main.main(["-p", "hi", "--replies", "3", "--seed", "5"]) == 0
    assert capfd.readouterr().out == "reply 5 end\n---\nreply 6 end\n---\nreply 7 end\n"
    assert double.options["slots"] == 3
    assert main.main(["-p", "hi", "--replies", "2", "--seed", "5", "--format", "json"]) == 0
    value = json.loads(capfd.readouterr().out)
    assert [reply["text"] for reply in value["replies"]] == ["reply 5 end", "reply 6 end"]


def test_an_error_in_one_of_several_replies_is_told(
    double: Double, capfd: pytest.CaptureFixture[str]
) -> None:
    double.play = lambda config: [EngineError("It broke.")] if config.seed == 6 else says("ok")(config)
    assert main.main(["-p", "hi", "--replies", "2", "--seed", "5", "--format", "json"]) == 1
    assert json.loads(capfd.readouterr().out)["error"]["code"] == "engine"


def test_extract_prints_the_first_block_only(double: Double, capfd: pytest.CaptureFixture[str]) -> None:
    double.play = says("Sure:\n``", "`py\nx = 1\n```\nand\n```\ny\n```\n")
    assert main.main(["-p", "hi", "-x"]) == 0
    assert capfd.readouterr().out == "x = 1\n"


def test_extract_without_a_block_prints_all_and_says_so(
    double: Double, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["-p", "hi", "-x"]) == 0
    out, err = capfd.readouterr()
    assert out == "Hello there.\n"
    assert "no fenced block" in err


@pytest.mark.parametrize("flag", ["--schema={}", "--set=json_schema={}"])
def test_a_reply_cut_before_it_satisfies_its_schema_exits_6(
    double: Double, capfd: pytest.CaptureFixture[str], flag: str
) -> None:
    double.play = says('{"a', finish="length")
    assert main.main(["-p", "hi", flag, "--max-tokens", "2"]) == 6
    assert capfd.readouterr().out == '{"a\n'
    assert main.main(["-p", "hi", "--max-tokens", "2"]) == 0


def test_what_an_answer_breaks_of_its_schema_is_told(
    double: Double, capfd: pytest.CaptureFixture[str]
) -> None:
    reasons = ("the number must be a multiple of 3, not 7",)
    outcome = ChatOutcome(finish="stop", prompt_tokens=3, text="7", schema_errors=reasons)
    double.play = lambda config: [TextPiece("7"), outcome]
    assert main.main(["-p", "hi", "--schema", '{"multipleOf": 3}']) == 7
    assert capfd.readouterr() == ("7\n", f"fireside: the answer does not satisfy the schema: {reasons[0]}\n")
    assert main.main(["-p", "hi", "--schema", '{"multipleOf": 3}', "--format", "json"]) == 7
    printed = json.loads(capfd.readouterr().out)
    assert (printed["schema_errors"], printed["text"], printed["exit"]) == (list(reasons), "7", 7)
    assert printed["error"]["code"] == "schema_broken"


@pytest.mark.parametrize("pattern", [r"^(a)\\1$", r"^\\p{L}+$"])
def test_a_schema_with_a_pattern_that_cannot_be_checked_is_a_mistake_of_the_caller(
    tiny_llama: Path, capfd: pytest.CaptureFixture[str], pattern: str
) -> None:
    schema = f'{{"type": "string", "pattern": "{pattern}"}}'
    assert main.main(["-p", "hi", "--model", str(tiny_llama), "--schema", schema, "--max-tokens", "2"]) == 2
    assert "cannot be checked" in capfd.readouterr().err


def test_a_grammar_and_a_schema_may_be_files(double: Double, tmp_path: Path) -> None:
    (tmp_path / "g.gbnf").write_text('root ::= "a"')
    (tmp_path / "s.json").write_text('{"type": "object"}')
    main.main(["-p", "hi", "--grammar", str(tmp_path / "g.gbnf")])
    main.main(["-p", "hi", "--schema", str(tmp_path / "s.json")])
    assert double.configs[0].grammar == 'root ::= "a"'
    assert double.configs[1].json_schema == {"type": "object"}


def test_a_dry_run_shows_the_prompt_and_counts_it(double: Double, capfd: pytest.CaptureFixture[str]) -> None:
    assert main.main(["-p", "hi", "--dry-run"]) == 0
    out, err = capfd.readouterr()
    assert out == "<user>hi\n"
    assert "8 tokens of a context of 512" in err
    assert not double.asked
    main.main(["-p", "hi", "--dry-run", "--format", "json"])
    assert json.loads(capfd.readouterr().out)["tokens"] == 8


def test_the_models_text_is_unchanged_in_a_pipe(double: Double, capfdbinary: Any) -> None:
    double.play = says("a\x1b[1m\r\n\tb\u202e\n")
    assert main.main(["-p", "hi"]) == 0
    assert capfdbinary.readouterr().out == "a\x1b[1m\r\n\tb\u202e\n".encode()


def test_each_piece_is_flushed_at_once(double: Double, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    class Out(io.StringIO):
        def flush(self) -> None:
            seen.append(self.getvalue())

    monkeypatch.setattr(sys, "stdout", Out())
    assert main.main(["-p", "hi"]) == 0
    assert seen[:2] == ["Hello", "Hello there."]


def test_a_closed_pipe_ends_quietly(double: Double, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    class Out(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Out())
    monkeypatch.setattr(os, "dup2", lambda *numbers: 0)
    assert main.main(["-p", "hi"]) == 0
    assert capfd.readouterr().err == ""
    assert double.closed


def test_a_full_disk_is_told(double: Double, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    class Out(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(sys, "stdout", Out())
    monkeypatch.setattr(os, "dup2", lambda *numbers: 0)
    assert main.main(["-p", "hi"]) == 1
    assert "no space is left" in capfd.readouterr().err


def test_an_interrupted_reply_keeps_its_text(double: Double, capfd: pytest.CaptureFixture[str]) -> None:
    double.play = lambda config: [TextPiece("half"), KeyboardInterrupt()]
    assert main.main(["-p", "hi"]) == 130
    assert capfd.readouterr().out == "half\n"
    assert main.main(["-p", "hi", "--format", "json"]) == 130
    value = json.loads(capfd.readouterr().out)
    assert (value["text"], value["error"]["code"], value["exit"]) == ("half", "interrupted", 130)


def test_the_time_limit_ends_a_reply_that_hangs(double: Double, capfd: pytest.CaptureFixture[str]) -> None:
    def play(config: GenerationConfig) -> Iterator[Piece]:
        yield TextPiece("half")
        queue.SimpleQueue[None]().get()

    double.play = play
    assert main.main(["-p", "hi", "--timeout", "0.2", "--format", "json"]) == 1
    value = json.loads(capfd.readouterr().out)
    assert (value["text"], value["error"]["code"]) == ("half", "timeout")
    assert double.closed


def test_a_signal_while_loading_cancels_the_load(
    monkeypatch: pytest.MonkeyPatch, double: Double, capfd: pytest.CaptureFixture[str]
) -> None:
    def load(source: Any = None, *, progress: Any, **options: Any) -> Double:
        signal.raise_signal(signal.SIGINT)
        assert not progress(0.5)
        raise ModelLoadError("Loading was cancelled.", cause="cancelled", remedy="")

    monkeypatch.setattr("backend.load", load)
    assert main.main(["-p", "hi"]) == 130
    assert capfd.readouterr().err == "fireside: Interrupted.\n"


def test_a_cut_answer_to_a_schema_is_a_failure_in_json_too(
    double: Double, capfd: pytest.CaptureFixture[str]
) -> None:
    double.play = says('{"a', finish="length")
    assert (
        main.main(["-p", "hi", "--schema", '{"type":"object"}', "--max-tokens", "2", "--format", "json"]) == 6
    )
    shown = json.loads(capfd.readouterr().out)
    assert (shown["text"], shown["exit"], shown["error"]["code"]) == ('{"a', 6, "schema_cut")


def test_a_thought_cut_by_the_limit_is_told(double: Double, capfd: pytest.CaptureFixture[str]) -> None:
    outcome = ChatOutcome(finish="length", prompt_tokens=3, reasoning="let me")
    double.play = lambda config: [ReasoningPiece("let me"), outcome]
    assert main.main(["-p", "hi", "--max-tokens", "2"]) == 0
    assert "still thinking" in capfd.readouterr().err


def test_flags_of_a_one_shot_do_not_go_with_a_command(capfd: pytest.CaptureFixture[str]) -> None:
    assert main.main(["-p", "hi", "repl"]) == 2
    assert "cannot be used with the command repl" in capfd.readouterr().err


@pytest.mark.parametrize(("form", "kind"), [("json", None), ("jsonl", "error")])
def test_a_usage_error_has_the_form_that_was_asked_for(
    form: str, kind: str | None, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["--bogus", "--format", form]) == 2
    shown = json.loads(capfd.readouterr().out)
    assert shown.get("type") == kind
    assert shown["exit"] == 2


def test_a_repository_that_is_not_here_comes_with_the_line_that_fetches_it(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert main.main(["-m", "ann/m-GGUF:Q4_0", "-p", "hi"]) == 3
    assert "fireside models pull ann/m-GGUF:Q4_0" in capfd.readouterr().err


def test_a_reply_without_a_word_is_told_beside_the_output(
    double: Double, capfd: pytest.CaptureFixture[str]
) -> None:
    double.play = says("")
    assert main.main(["-p", "hi"]) == 0
    assert "ended its reply without an answer" in capfd.readouterr().err
    double.play = says("x")
    assert main.main(["-p", "hi"]) == 0
    assert capfd.readouterr().err == ""

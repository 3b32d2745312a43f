from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from app import cli, paths
from app.config import Settings, Value
from app.repl.commands import COMMANDS
from app.repl.line_reader import styled_reader
from app.repl.repl import Repl
from backend.types import ChatOutcome, ContextOverflowError, EngineError, ReasoningPiece, TextPiece
from tests.app.double import Double, says

Step = str | type[BaseException]


class Lines:
    """Gives the scripted lines."""

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)

    def __call__(self) -> str:
        step = self.steps.pop(0) if self.steps else EOFError
        if isinstance(step, str):
            return step
        raise step


@pytest.fixture
def chat(double: Double) -> Callable[..., tuple[str, Lines]]:
    def run(*steps: Step, settings: Settings | None = None) -> tuple[str, Lines]:
        out, lines = io.StringIO(), Lines(*steps)
        assert Repl(double, settings or Settings({}), lines, out, styled=False).run() == 0  # type: ignore[arg-type]
        return out.getvalue(), lines

    return run


def test_each_line_is_answered(double: Double, chat: Callable[..., tuple[str, Lines]]) -> None:
    out, _ = chat("hi", "  ", "again")
    assert out.count("model: Hello there.\n") == 2
    assert [turns[0]["content"] for turns in double.asked] == ["hi", "again"]


def test_no_limit_but_the_context_holds(double: Double, chat: Callable[..., tuple[str, Lines]]) -> None:
    chat("hi")
    assert double.configs[0].max_new_tokens == double.max_seq


@pytest.mark.parametrize(
    "error", [ContextOverflowError(1400, 256), EngineError("It broke."), RuntimeError("odd")]
)
def test_an_error_keeps_the_text_for_retry_and_the_loop(
    double: Double, chat: Callable[..., tuple[str, Lines]], error: Exception
) -> None:
    double.play = lambda config: [error] if len(double.asked) == 1 else says("fine")(config)
    out, _ = chat("a long text", "/retry", "bye")
    assert str(error).split(".")[0] in out
    assert "/retry sends it again" in out
    assert out.count("model: fine\n") == 2
    assert [turns[0]["content"] for turns in double.asked] == ["a long text", "a long text", "bye"]


def test_a_command_after_a_failure_is_a_command(
    double: Double, chat: Callable[..., tuple[str, Lines]]
) -> None:
    double.play = lambda config: [EngineError("It broke.")]
    out, _ = chat("first", "/usage", "/retry")
    assert "There is no reply yet." in out
    assert [turns[0]["content"] for turns in double.asked] == ["first", "first"]


@pytest.mark.parametrize("is_begun", [True, False])
def test_a_full_chat_says_how_to_go_on(
    double: Double, chat: Callable[..., tuple[str, Lines]], is_begun: bool
) -> None:
    double.messages = [{"role": "system", "content": "Be brief."}]
    if is_begun:
        double.messages.append({"role": "user", "content": "hi"})
    double.play = lambda config: [ContextOverflowError(1400, 512)]
    assert ("This chat is full: /new begins a new one." in chat("hi")[0]) == is_begun


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (ChatOutcome(finish="length", prompt_tokens=500, new_tokens=12), "This chat is full: /new"),
        (ChatOutcome(finish="length", prompt_tokens=9, new_tokens=4), "cut at 4 tokens; /set max_new_tokens"),
        (ChatOutcome(finish="stop", prompt_tokens=9, new_tokens=4), ""),
    ],
)
def test_a_reply_that_was_cut_says_so(
    double: Double, chat: Callable[..., tuple[str, Lines]], outcome: ChatOutcome, told: str
) -> None:
    double.play = lambda config: [TextPiece("once upon"), outcome]
    out, _ = chat("hi", settings=Settings({"generation.max_new_tokens": Value(4, "--max-tokens")}))
    assert told in out
    assert ("The reply was cut" in out) == bool(told)


def test_words_are_not_broken_at_the_edge(double: Double, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.repl.repl.is_terminal", lambda stream: True)
    monkeypatch.setenv("COLUMNS", "40")
    double.play = lambda config: [ContextOverflowError(1400, 256)]
    out = io.StringIO()
    Repl(double, Settings({}), Lines("hi", "/help"), out, styled=False).run()  # type: ignore[arg-type]
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) < 40
    assert str(ContextOverflowError(1400, 256)) in " ".join(lines)


def test_a_failed_message_is_sent_again_by_retry(
    double: Double, chat: Callable[..., tuple[str, Lines]]
) -> None:
    double.play = lambda config: (
        [EngineError("It broke.")] if len(double.asked) == 1 else says("fine")(config)
    )
    out, _ = chat("first", "/retry", "/retry")
    assert [turns[0]["content"] for turns in double.asked] == ["first", "first"]
    assert "There is no message that failed." in out


def test_ctrl_c_stops_the_reply_and_keeps_its_text(
    double: Double, chat: Callable[..., tuple[str, Lines]]
) -> None:
    double.play = lambda config: [TextPiece("half a rep"), KeyboardInterrupt()]
    out, _ = chat("hi", "again")
    assert out.count("model: half a rep\nStopped.\n") == 2


def test_ctrl_c_on_an_empty_line_hints_then_leaves(chat: Callable[..., tuple[str, Lines]]) -> None:
    out, lines = chat(KeyboardInterrupt, KeyboardInterrupt, "never read")
    assert "Ctrl-C once more leaves" in out
    assert lines.steps == ["never read"]


def test_a_line_between_forgets_the_first_ctrl_c(chat: Callable[..., tuple[str, Lines]]) -> None:
    out, _ = chat(KeyboardInterrupt, "hi", KeyboardInterrupt, "hi")
    assert out.count("Hello there.") == 2


def test_a_setting_holds_from_the_next_message(
    double: Double, chat: Callable[..., tuple[str, Lines]]
) -> None:
    start = Settings({"generation.temperature": Value(0.0, "--temperature")})
    out, _ = chat("hi", "/set temperature 1.5", "hi", "/set temperature", "/params", settings=start)
    assert [config.temperature for config in double.configs] == [0.0, 1.5]
    assert "generation.temperature = 1.5    (/set)" in out


def test_a_setting_can_be_taken_back(
    double: Double, chat: Callable[..., tuple[str, Lines]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRESIDE_TOP_K", "7")
    lines = (
        '/set json_schema {"type": "object"}',
        "/set top_k 5",
        "hi",
        "/unset json_schema",
        "/unset top-k",
    )
    out, _ = chat(*lines, "hi")
    assert [config.json_schema for config in double.configs] == [{"type": "object"}, None]
    assert [config.top_k for config in double.configs] == [5, 7]
    assert "generation.top_k = 7, which FIRESIDE_TOP_K says." in out


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("/set temprature 1", "did you mean"),
        ("/set temperature hot", "must be a number"),
        ("/set temperature -1", "must be at least 0"),
        ("/set max_seq 10", "--set max_seq=10"),
        ("/set", "Give a setting"),
        ("/unset", "Give a setting"),
        ("/unset temprature", "did you mean"),
        ("/unset max_seq", "fireside config unset load.max_seq"),
        ("/unset temperature", "is not set; its default holds"),
        ("/hlep", "Did you mean /help?"),
        ("/zzz", "/help lists them"),
        ("/usage", "There is no reply yet."),
        ("/model", "double: none"),
        ("/system", "There is no system prompt."),
        ("/params", "generation.top_k = 40    (default of the library)"),
    ],
)
def test_commands_answer_and_the_loop_goes_on(
    double: Double, chat: Callable[..., tuple[str, Lines]], line: str, answer: str
) -> None:
    out, _ = chat(line, "hi")
    assert answer in out
    assert out.count("Hello there.") == 1


def test_help_names_every_command(chat: Callable[..., tuple[str, Lines]]) -> None:
    out, _ = chat("/help")
    assert all(command.usage in out for command in COMMANDS.values())


def test_quit_leaves(chat: Callable[..., tuple[str, Lines]]) -> None:
    assert chat("/quit", "never read")[1].steps == ["never read"]


def test_new_begins_a_new_chat(double: Double, chat: Callable[..., tuple[str, Lines]]) -> None:
    chat("hi", "/new")
    assert double.resets == 1


def test_a_system_prompt_begins_a_chat_with_it(
    double: Double, chat: Callable[..., tuple[str, Lines]]
) -> None:
    chat("/system Be brief.")
    assert double.options["system"] == "Be brief."


def test_two_slashes_send_one(double: Double, chat: Callable[..., tuple[str, Lines]]) -> None:
    chat("//etc/passwd")
    assert double.asked[0][0]["content"] == "/etc/passwd"


def test_nothing_the_model_says_controls_the_terminal(
    double: Double, chat: Callable[..., tuple[str, Lines]]
) -> None:
    double.play = says("a\x1b]0;owned\x07", "b")
    out, _ = chat("hi")
    assert "a]0;ownedb" in out
    assert "\x1b" not in out


def test_thoughts_stay_out_of_the_reply(double: Double, chat: Callable[..., tuple[str, Lines]]) -> None:
    double.play = lambda config: [ReasoningPiece("secret"), *says("yes")(config)]
    assert "secret" not in chat("hi")[0]


def test_lines_from_a_pipe_are_answered_one_by_one(
    double: Double, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9\nhi")))
    assert cli.main(["repl"]) == 0
    assert "\x1b" not in capfd.readouterr().out
    assert [turns[0]["content"] for turns in double.asked] == ["caf\ufffd", "hi"]
    assert double.closed


@pytest.mark.parametrize(
    ("error", "code"), [(ContextOverflowError(1400, 256), 4), (EngineError("It broke."), 1)]
)
def test_a_failure_of_a_piped_line_is_the_exit_code(
    double: Double,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    error: Exception,
    code: int,
) -> None:
    double.play = lambda config: [error] if len(double.asked) == 1 else says("fine")(config)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"one\ntwo\n")))
    assert cli.main(["repl"]) == code
    out, err = capfd.readouterr()
    assert "model: fine" in out
    assert str(error) in err
    assert str(error) not in out


def test_the_line_editor_keeps_a_private_history() -> None:
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        read = styled_reader()
        keys.send_text("typed\x03hello\r")
        assert read() == "hello"
        keys.send_text("\x03")
        with pytest.raises(KeyboardInterrupt):
            read()
        keys.send_text("\x04")
        with pytest.raises(EOFError):
            read()
        keys.send_text("\x1b[A\r")
        assert read() == "hello"
    history = paths.state_dir() / "history"
    assert "hello" in history.read_text(encoding="utf-8")
    assert history.stat().st_mode & 0o077 == 0


def test_a_paste_of_several_lines_is_one_message() -> None:
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text("\x1b[200~one\ntwo\n\x1b[201~!\r")
        assert styled_reader()() == "one\ntwo\n!"


def test_a_read_only_home_costs_only_the_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    monkeypatch.setenv("FIRESIDE_STATE", str(blocker / "state"))
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text("hello\r")
        assert styled_reader()() == "hello"

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
from backend.types import ContextOverflowError, EngineError, ReasoningPiece, TextPiece
from tests.app.double import Double, says

Step = str | type[BaseException]


class Lines:
    """Gives the scripted lines, and remembers the drafts it was offered."""

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.drafts: list[str] = []

    def __call__(self, draft: str = "") -> str:
        self.drafts.append(draft)
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
def test_an_error_keeps_the_text_and_the_loop(
    double: Double, chat: Callable[..., tuple[str, Lines]], error: Exception
) -> None:
    double.play = lambda config: [error] if len(double.asked) == 1 else says("fine")(config)
    out, lines = chat("a long text", "short", "bye")
    assert str(error).split(".")[0] in out
    assert out.count("model: fine\n") == 2
    assert lines.drafts == ["", "a long text", "", ""]


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


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("/set temprature 1", "did you mean"),
        ("/set temperature hot", "must be a number"),
        ("/set temperature -1", "must be at least 0"),
        ("/set max_seq 10", "--set max_seq=10"),
        ("/set", "Give a setting"),
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
        keys.send_text("\r")
        assert read("a draft") == "a draft"
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

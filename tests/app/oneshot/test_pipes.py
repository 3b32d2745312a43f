from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

from tests.app.files.pdfs import pdf
from tests.app.process import COMMAND, fireside, shell, start

pytestmark = pytest.mark.timeout(60)
SHORT = ("--max-tokens", "4", "--set", "ignore_eos=true")
UNUSED = {
    # libraries of other faces and commands
    *("rich", "numpy", "pydantic", "prompt_toolkit", "textual", "textual_image", "PIL", "pygments"),
    *(
        "markdown_it",
        "pypdf",
        "httpx",
        "huggingface_hub",
        "tomlkit",
        "tomllib",
        "yaml",
        "mcp",
        "cryptography",
    ),
    # our own rooms
    *(
        "app.files.attachments",
        "app.commands",
        "app.demo",
        "app.doctor",
        "app.help.topics",
        "app.cli.man_page",
        "app.files.pdf",
    ),
    *(
        "app.settings.profiles",
        "app.repl",
        "app.sessions.manager",
        "app.terminal.theming",
        "app.tui",
        "tools",
        "themes",
    ),
    *("backend.downloads", "backend.engines.host", "backend.bench"),
}
GGUF = "4747554603000000"
TWO_BY_NONE = "0200000004" + "00" * 27
LONG = ("--set", "ignore_eos=true", "--temperature", "0")


def ok(result: subprocess.CompletedProcess[bytes]) -> bytes:
    assert result.returncode == 0, result.stderr
    assert b"Traceback" not in result.stderr
    return result.stdout


def test_a_prompt_on_stdin_needs_no_terminal(tiny_llama: Path) -> None:
    out = ok(fireside("-m", tiny_llama, "-p", "-", *SHORT, input=b"Say ok", start_new_session=True))
    assert out.strip()


def test_piped_text_without_a_prompt_is_answered_once(tiny_llama: Path) -> None:
    result = fireside("-m", tiny_llama, *SHORT, "--format", "json", input=b"hello")
    assert json.loads(ok(result))["finish"] == "length"
    assert b"Aborted" not in result.stderr


@pytest.mark.parametrize("face", ["", "repl"])
def test_a_piped_message_at_a_terminal_is_answered_and_that_is_all(tiny_llama: Path, face: str) -> None:
    program = " ".join([*COMMAND, face, "-m", str(tiny_llama), *SHORT])
    environ = {**os.environ, "TERM": "dumb"}
    with pexpect.spawn("/bin/sh", ["-c", f"echo hello | {program}"], env=environ, timeout=50) as child:  # type: ignore[arg-type]
        output = child.read()
        child.wait()
        assert child.exitstatus == 0, output
    assert b"Aborted" not in output and b"Traceback" not in output


@pytest.mark.parametrize("locale", ["C", "C.UTF-8", "en_US.ISO-8859-1"])
def test_undecodable_input_is_accepted_in_every_locale(tiny_llama: Path, locale: str) -> None:
    environ = {**os.environ, "LANG": locale, "LC_ALL": locale}
    result = fireside("-m", tiny_llama, "-p", "repeat", *SHORT, input=b"caf\xe9 \xff", env=environ)
    ok(result).decode("utf-8")


@pytest.mark.parametrize(
    "arguments", [("sessions", "show", "x\udce9"), ("config", "set", "model", "x\udce9"), ("b\udce9",)]
)
def test_an_argument_of_bad_bytes_is_a_readable_error(arguments: tuple[str, ...]) -> None:
    result = fireside(*arguments)
    assert result.returncode == 2
    assert "codec" not in result.stderr.decode("utf-8")
    assert result.stderr.count(b"\n") == 1


def test_no_escape_bytes_in_a_pipe(tiny_llama: Path) -> None:
    result = fireside("-m", tiny_llama, "-p", "use **bold**", *SHORT)
    assert b"\x1b[" not in ok(result)
    assert result.stderr == b""


@pytest.mark.parametrize("extra", [{"NO_COLOR": "1", "TERM": "xterm"}, {"TERM": "dumb"}])
def test_no_escape_bytes_on_a_terminal_that_wants_none(tiny_llama: Path, extra: dict[str, str]) -> None:
    arguments = [*COMMAND[1:], "-m", str(tiny_llama), "-p", "use **bold**", *SHORT]
    environ = {**os.environ, **extra}
    with pexpect.spawn(COMMAND[0], arguments, env=environ, timeout=50) as child:  # type: ignore[arg-type]
        output = child.read()
        child.wait()
        assert child.exitstatus == 0
    assert b"\x1b" not in output


@pytest.mark.parametrize(
    "line", ["$FIRESIDE -p hi {} <&-", "$FIRESIDE {} -p hi 2>&- </dev/null", "$FIRESIDE -p hi {} >&-"]
)
def test_closed_streams_do_no_harm(tiny_llama: Path, line: str) -> None:
    result = shell(line.format(f"-m {tiny_llama} {' '.join(SHORT)}"))
    assert result.returncode == 0, result.stderr
    assert b"Traceback" not in result.stderr


def test_no_prompt_at_all_is_a_usage_error(tiny_llama: Path) -> None:
    for line in (
        "$FIRESIDE <&-",
        "$FIRESIDE </dev/null",
        "printf '' | $FIRESIDE",
        "$FIRESIDE -p - </dev/null",
    ):
        result = shell(line)
        assert result.returncode == 2, line
        assert b"There is no prompt" in result.stderr


def test_an_early_closed_pipe_ends_quietly(tiny_llama: Path) -> None:
    flags = f"-m {tiny_llama} {' '.join(LONG)} --max-tokens 400 --format jsonl"
    result = shell(f"set -o pipefail; $FIRESIDE -p hi {flags} | head -1")
    assert result.returncode == 0, result.stderr
    assert result.stderr == b""
    assert result.stdout.count(b"\n") == 1


def test_it_runs_from_cron_without_a_home(tiny_llama: Path, tmp_path: Path) -> None:
    environ = {"PATH": "/usr/bin:/bin", "SHELL": "/bin/sh", "TMPDIR": str(tmp_path)}
    assert ok(fireside("-m", tiny_llama, "-p", "hi", *SHORT, env=environ, start_new_session=True, cwd="/"))


def test_cron_at_its_worst(tiny_llama: Path, tmp_path: Path) -> None:
    """No environment but PATH, no terminal, standard input closed, nobody reads on, no folder to be in."""
    gone = tmp_path / "gone"
    gone.mkdir()
    flags = f"-m {tiny_llama} {' '.join(LONG)} --max-tokens 200 --format jsonl"
    line = f"set -o pipefail; cd {gone}; rmdir {gone}; $FIRESIDE -p hi {flags} <&- | head -1"
    result = shell(line, env={"PATH": "/usr/bin:/bin"}, start_new_session=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count(b"\n") == 1
    assert b"Traceback" not in result.stderr


@pytest.mark.parametrize("flags", ["-c", "--tools now --tool-format generic", "--profile x", "--attach y"])
def test_a_folder_that_is_gone_is_no_traceback(tiny_llama: Path, tmp_path: Path, flags: str) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    line = f"cd {gone}; rmdir {gone}; $FIRESIDE -m {tiny_llama} -p hi {' '.join(SHORT)} {flags}"
    result = shell(line)
    assert result.returncode in (0, 2)
    assert b"Traceback" not in result.stderr
    assert b"internal" not in result.stderr


def test_an_unreadable_home_does_no_harm(tiny_llama: Path) -> None:
    environ = {**os.environ, "HOME": "/proc/nowhere"}
    for name in [name for name in environ if name.startswith("XDG_")]:
        del environ[name]
    assert ok(fireside("-m", tiny_llama, "-p", "hi", *SHORT, env=environ))


def test_a_prompt_that_does_not_fit_names_both_counts(tiny_llama: Path) -> None:
    result = fireside("-m", tiny_llama, "--ctx", "256", "-p", "word " * 1400)
    assert result.returncode == 4
    assert result.stdout == b""
    assert b"256" in result.stderr
    counts = [int(word) for word in result.stderr.replace(b",", b" ").split() if word.isdigit()]
    assert max(counts) > 1000


def test_a_reply_is_clamped_to_the_context(tiny_llama: Path) -> None:
    result = fireside(
        "-m", tiny_llama, "--ctx", "256", "-p", "hi", *LONG, "--max-tokens", "9999", "--format", "json"
    )
    value = json.loads(ok(result))
    assert value["finish"] == "length"
    assert value["usage"]["prompt_tokens"] + value["usage"]["new_tokens"] <= 256


def test_runs_without_a_seed_differ_and_tell_it(tiny_llama: Path) -> None:
    def reply(*flags: str) -> dict[str, object]:
        ask = ("-m", tiny_llama, "-p", "hi", "--temperature", "1", "--max-tokens", "24", "--format", "json")
        return json.loads(ok(fireside(*ask, "--set", "ignore_eos=true", *flags)))

    first, second = reply(), reply()
    assert first["text"] != second["text"]
    assert first["seed"] != second["seed"]
    assert reply("--seed", "7")["text"] == reply("--seed", "7")["text"]
    assert reply("--seed", str(first["seed"]))["text"] == first["text"]


def test_no_model_says_what_was_looked_for(tmp_path: Path) -> None:
    result = fireside("-m", tmp_path / "missing.gguf", "-p", "hi", "--format", "json")
    assert result.returncode == 3
    value = json.loads(result.stdout)
    assert value["error"]["code"] == "not_found"
    assert value["error"]["remedy"]


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.gguf"
    file.write_bytes(b"hello" * 100)
    result = fireside("-m", file, "-p", "hi")
    assert result.returncode == 3
    assert b"Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (
            bytes.fromhex(f"{GGUF}0100000000000000{'00' * 8}010000000000000077{TWO_BY_NONE}"),
            b"dimension of zero",
        ),
        (b"", b"is empty"),
        (b"<html>", b"looks like an HTML page"),
        (b"version https://git-lfs.github.com/spec/v1\n", b"Git LFS pointer"),
        (bytes.fromhex("4747554603000000"), b"ends after 8 bytes"),
    ],
)
def test_a_broken_model_is_one_line(tmp_path: Path, data: bytes, reason: bytes) -> None:
    file = tmp_path / "x.gguf"
    file.write_bytes(data)
    result = fireside("-m", file, "-p", "hi")
    assert result.returncode == 3
    assert result.stderr.count(b"\n") == 1
    assert re.search(reason, result.stderr), result.stderr


def test_tools_stand_in_the_prompt_in_the_same_order_in_every_run(tiny_llama: Path) -> None:
    folder = Path(os.environ["XDG_CONFIG_HOME"]) / "fireside" / "tools"
    folder.mkdir(parents=True, mode=0o700)
    for name in ("b", "a", "c"):
        source = (
            f"from fireside import tool\n\n@tool\ndef {name}_tool(x: int) -> int:\n    'Do.'\n    return x\n"
        )
        (folder / f"{name}.py").write_text(source)
    ask = ("-m", tiny_llama, "-p", "hi", "--tools", "*_tool", "--tool-format", "generic", "--dry-run")
    prompts = {
        ok(fireside(*ask, "--ctx", "2048", env={**os.environ, "PYTHONHASHSEED": seed}))
        for seed in ("0", "1", "2")
    }
    assert len(prompts) == 1
    prompt = prompts.pop()
    assert 0 < prompt.index(b"a_tool") < prompt.index(b"b_tool") < prompt.index(b"c_tool")


def test_a_template_without_thoughts_is_no_reason_to_crash(tiny_llama: Path) -> None:
    assert fireside("-m", tiny_llama, "-p", "hi", *SHORT, "--think").returncode in (0, 2)


def test_an_embedding_model_is_no_chat_model(tiny_embedding: Path) -> None:
    result = fireside("-m", tiny_embedding, "-p", "hi", "--format", "json")
    assert result.returncode == 3
    assert json.loads(result.stdout)["error"]["code"] == "not_a_chat_model"


def test_raw_gives_the_prompt_as_it_is(tiny_base: Path, tiny_llama: Path) -> None:
    assert ok(fireside("-m", tiny_base, "-p", "Once upon", "--raw", *SHORT))
    assert ok(fireside("-m", tiny_llama, "-p", "Once upon", "--raw", "--dry-run")) == b"Once upon\n"


def test_a_dry_run_prints_the_prompt_and_counts(tiny_llama: Path) -> None:
    result = fireside("-m", tiny_llama, "-p", "hi there", "--dry-run")
    assert b"hi there" in ok(result)
    assert b"tokens of a context" in result.stderr


def test_several_replies_are_separated(tiny_llama: Path) -> None:
    result = fireside("-m", tiny_llama, "-p", "hi", "--replies", "3", *SHORT, "--format", "json")
    assert len(json.loads(ok(result))["replies"]) == 3


def test_config_is_set_shown_and_obeyed(tiny_llama: Path) -> None:
    assert ok(fireside("config", "set", "model", str(tiny_llama)))
    assert ok(fireside("config", "set", "max_new_tokens", "3"))
    assert str(tiny_llama).encode() in ok(fireside("config", "show"))
    shown = json.loads(ok(fireside("config", "show", "--json")))
    assert shown["generation.max_new_tokens"]["value"] == 3
    assert shown["model"]["origin"] == ok(fireside("config", "path")).decode().strip()
    result = fireside("-p", "hi", "--format", "json", "--set", "ignore_eos=true")
    assert json.loads(ok(result))["usage"]["new_tokens"] == 3


def test_a_broken_settings_file_is_one_readable_error(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("model = \n")
    result = fireside("-p", "hi", env={**os.environ, "FIRESIDE_CONFIG": str(tmp_path)})
    assert result.returncode == 2
    assert str(file).encode() in result.stderr
    assert b"line 1" in result.stderr


@pytest.mark.model
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "terminate"]
)
def test_a_signal_ends_the_reply_and_keeps_its_text(starter_model: Path, number: int, code: int) -> None:
    with start("-m", starter_model, "-p", "Tell a long story.", *LONG) as process:
        assert process.stdout is not None
        first = os.read(process.stdout.fileno(), 100)
        assert first  # arrives long before the reply ends
        process.send_signal(number)
        rest, error = process.communicate(timeout=30)
        assert process.returncode == code
        assert (first + rest).endswith(b"\n")
        assert b"Traceback" not in error


@pytest.mark.model
@pytest.mark.timeout(120)
def test_markdown_is_rendered_on_a_terminal(starter_model: Path) -> None:
    arguments = [*COMMAND[1:], "-m", str(starter_model), "-p", "Say hello.", "--max-tokens", "12"]
    environ = {**os.environ, "TERM": "xterm-256color"}
    with pexpect.spawn(COMMAND[0], arguments, env=environ, timeout=100) as child:  # type: ignore[arg-type]
        output = child.read().decode()
        child.wait()
        assert child.exitstatus == 0
    assert output.strip()


@pytest.mark.model
@pytest.mark.timeout(120)
def test_a_one_shot_imports_only_what_it_uses(starter_model: Path) -> None:
    program = (
        "import sys, fireside; sys.argv = ['fireside', '-p', 'Say hello.', '--max-tokens', '2'];"
        f"fireside.main(); print(*sorted({UNUSED!r} & set(sys.modules)), file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(COMMAND[1]).parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**os.environ, "FIRESIDE_MODEL": str(starter_model)},
        timeout=100,
    )
    assert ok(result)
    assert result.stderr.split() == []


@pytest.mark.parametrize("target", ["| true", "> /dev/full"])
def test_a_usage_error_that_nobody_can_read_makes_no_traceback(target: str) -> None:
    result = shell(f"$FIRESIDE --bogus --format json {target}")
    assert b"Traceback" not in result.stderr


def test_attached_files_join_the_prompt_fenced(tiny_llama: Path, tmp_path: Path) -> None:
    (tmp_path / "paper.pdf").write_bytes(pdf("A page of words."))
    (tmp_path / "old.txt").write_bytes("für".encode("utf-16"))
    flags = ("--attach", "paper.pdf", "--attach", "old.txt", "--dry-run", "--ctx", "1024")
    result = fireside("-m", tiny_llama, "-p", "Sum up.", *flags, cwd=tmp_path)
    prompt = ok(result).decode()
    assert "Sum up.\n\npaper.pdf (1 page, " in prompt
    assert ":\n```\nA page of words.\n```\n\nold.txt (utf-16, 8 bytes):\n```\nfür\n```" in prompt


def test_a_picture_is_refused_by_a_model_that_cannot_see(tiny_llama: Path, tmp_path: Path) -> None:
    (tmp_path / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 40)
    flags = ("-p", "What is this?", "--attach", "photo.png", "--format", "json")
    result = fireside("-m", tiny_llama, *flags, cwd=tmp_path)
    assert result.returncode == 2
    error = json.loads(result.stdout)["error"]
    assert "cannot see, so photo.png cannot be attached" in error["message"]
    assert json.loads(ok(fireside("sessions", "list", "--json")))["sessions"] == []


def test_a_file_that_cannot_be_attached_is_refused_before_the_model_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "scan.pdf").write_bytes(pdf("", picture=True))
    result = fireside("-m", "missing", "-p", "hi", "--attach", "scan.pdf", cwd=tmp_path)
    assert result.returncode == 2
    assert b"scan.pdf cannot be attached: its pages are pictures without text" in result.stderr


@pytest.mark.parametrize("tools", [(), ("--tools", "now", "--tool-format", "generic")])
def test_a_prompt_that_leaves_no_room_for_a_reply_does_not_fit(
    tiny_llama: Path, tools: tuple[str, ...]
) -> None:
    begin = ("-m", tiny_llama, *tools, "--ctx", "1024", "-p", "word " * 60)
    asked = fireside(*begin, "--dry-run", "--format", "json")
    tokens = json.loads(asked.stdout)["tokens"]
    over = fireside(*begin, "--set", f"reply_reserve={1024 - tokens + 1}")
    assert over.returncode == 4
    assert b"of the reply fit" in over.stderr
    told = fireside(*begin, "--set", f"reply_reserve={1024 - tokens + 1}", "--dry-run")
    assert b"it does not fit" in told.stderr
    fits = fireside(*begin, "--set", f"reply_reserve={1024 - tokens}", *SHORT)
    assert fits.returncode in (0, 5)


LISTINGS = (
    *("sessions list", "sessions list --json", "sessions search a --json", "models list", "models ps --json"),
    *("tools list", "tools show read_file --json", "themes list", "themes preview --json"),
    *("config show --all", "config profiles --json", "config path", "help keys", "help json --schema"),
    *("completion fish", "--help", "sessions --help", "--version"),
)


@pytest.mark.parametrize("with_messages", [False, True])
def test_a_listing_that_nobody_reads_any_more_ends_well(with_messages: bool) -> None:
    unread, end = os.pipe()
    os.close(unread)
    lines = LISTINGS[:: 6 if with_messages else 1]
    running = [
        start(*line.split(), stdout=end, stderr=end if with_messages else subprocess.PIPE) for line in lines
    ]
    os.close(end)
    told = [process.communicate()[1] or b"" for process in running]
    assert [process.returncode for process in running] == [0] * len(lines), told
    assert told == [b""] * len(lines)


def test_an_error_that_nobody_can_read_keeps_its_exit_code() -> None:
    assert shell("$FIRESIDE bogus 2>&1 | exec <&-; exit ${PIPESTATUS[0]}").returncode == 2
    assert shell("$FIRESIDE bogus 2>/dev/full").returncode == 2

from __future__ import annotations

import dataclasses
import errno
import inspect
import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

import backend
from app import paths
from app.cli import main
from app.settings import config
from app.settings.config import (
    SettingError,
    Value,
    environment_name,
    forget,
    full_name,
    parse,
    resolve,
    store,
)
from app.settings.kinds import CHOICES
from app.settings.table import KINDS
from app.terminal.graphics import Way
from app.terminal.output import COLOR_CHOICES
from app.tui.bell import When
from backend.load_options import LoadOptions
from backend.plan import KV_BYTES
from backend.types import (
    EFFORT_LEVELS,
    ComputeDtype,
    GenerationConfig,
    KvCacheMode,
    Overflow,
    ReasoningFormat,
)
from tests.app.double import Double
from tests.app.process import COMMAND
from tools.permission.rules import Mode


def write(folder: Path, text: str) -> Path:
    file = folder / "config.toml"
    file.write_text(text, encoding="utf-8")
    return file


def put(text: str) -> None:
    """The person's own settings."""
    paths.config_file().parent.mkdir(parents=True, exist_ok=True)
    write(paths.config_file().parent, text)


def test_every_generation_field_is_a_setting() -> None:
    fields = {field.name for field in dataclasses.fields(GenerationConfig)}
    assert {key.removeprefix("generation.") for key in KINDS if key.startswith("generation.")} == fields


def test_every_load_parameter_is_a_setting() -> None:
    no_settings = {"source", "progress", "options", "most_cells", "for_text"}
    parameters = set(inspect.signature(backend.load).parameters) - no_settings
    parameters |= {field.name for field in dataclasses.fields(LoadOptions)}
    assert {key.removeprefix("load.") for key in KINDS if key.startswith("load.")} == parameters


def test_layers_win_in_order_and_name_their_origin(tmp_path: Path) -> None:
    file = write(tmp_path, 'model = "a.gguf"\n[generation]\ntemperature = 0.1\ntop_k = 5\nseed = 3\n')
    environ = {"FIRESIDE_TEMPERATURE": "0.2", "FIRESIDE_TOP_K": "6"}
    flags = {"generation.temperature": Value(0.3, "--temperature")}
    settings = resolve(flags, environ=environ, file=file)
    assert settings.values["generation.temperature"] == Value(0.3, "--temperature")
    assert settings.values["generation.top_k"] == Value(6, "FIRESIDE_TOP_K")
    assert settings.values["generation.seed"] == Value(3, str(file))
    assert settings.get("model") == "a.gguf"
    assert settings.generation() == GenerationConfig(temperature=0.3, top_k=6, seed=3)


def test_zero_is_a_value_and_not_a_missing_one(tmp_path: Path) -> None:
    settings = resolve(
        {"generation.temperature": Value(0.0, "--temperature")}, environ={}, file=tmp_path / "no"
    )
    assert settings.generation().temperature == 0.0


def test_nothing_set_leaves_every_default_to_the_backend(tmp_path: Path) -> None:
    settings = resolve({}, environ={}, file=tmp_path / "missing.toml")
    assert settings.load_options() == {}
    assert settings.generation() == GenerationConfig()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[generation]\ntemperature = 'hot'\n", r"config.toml: generation.temperature must be a number"),
        ("[generation]\ntemperature = -1\n", r"config.toml: temperature must be at least 0, not -1"),
        ("[generation]\nseed = true\n", r"must be a whole number from 0 to 4294967294, not True"),
        ("a = 1\nmodel = \n", r"config.toml is not valid TOML: .*line 2"),
        ("load = 3\n", r"'load' is a table"),
        ("model = ' '\n", r"config.toml: model must be a name or a file path"),
        ("timeout = 0\n", r"config.toml: timeout must be a number of seconds above 0"),
        ("[load]\nslots = 0\n", r"load.slots must be a whole number of at least 1, not 0"),
        ("[load]\nflash_attn = 'maybe'\n", r"load.flash_attn must be on, off or auto, not 'maybe'"),
        ("[generation]\ngrammar = 'root ::= \"a\"'\njson_schema = {}\n", r"cannot be combined"),
    ],
)
def test_a_bad_file_is_one_readable_error(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        resolve({}, environ={}, file=write(tmp_path, text))


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(b"model = '\xff'\n")
    with pytest.raises(SettingError, match="not UTF-8"):
        resolve({}, environ={}, file=file)


@pytest.mark.parametrize("file", ["/dev/zero", "/"])
def test_only_a_file_of_bounded_size_is_read(file: str) -> None:
    with pytest.raises(SettingError, match="cannot be read"):
        resolve({}, environ={}, file=Path(file))


def test_a_file_without_end_is_not_read_whole(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="larger than 1 MiB"):
        resolve({}, environ={}, file=write(tmp_path, "#" * (config.FILE_LIMIT_BYTES + 1)))


@pytest.mark.parametrize(
    ("flag", "key", "value", "message"),
    [
        ("--ctx", "load.max_seq", 0, "--ctx must be a whole number of at least 1, not 0."),
        ("--seed", "generation.seed", -1, "--seed must be a whole number from 0 to 4294967294, not -1."),
        ("--top-p", "generation.top_p", 2.0, "--top-p must be between 0 and 1, not 2.0."),
        ("--timeout", "timeout", -1.0, "--timeout must be a number of seconds above 0"),
        ("--timeout", "timeout", float("nan"), "--timeout must be a number of seconds above 0"),
        ("--timeout", "timeout", 1e300, "--timeout must be a number of seconds above 0"),
        ("--effort", "generation.reasoning_effort", "x", "--effort must be one of none, minimal, low,"),
        ("--kv-type", "load.kv_cache_type", "q1", "--kv-type must be one of f32, f16, bf16, q8_0,"),
        ("--model", "model", "", "--model must be a name or a file path"),
    ],
)
def test_an_error_names_the_flag_that_was_given(flag: str, key: str, value: object, message: str) -> None:
    with pytest.raises(SettingError) as caught:
        resolve({key: Value(value, flag)}, environ={}, file=Path("/nonexistent/config.toml"))
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("load.flash_attn", "maybe", "--flash-attn (load.flash_attn) must be on, off or auto, not 'maybe'."),
        ("load.n_gpu_layers", "foo", "--gpu-layers (load.n_gpu_layers) must be a whole number, all or auto"),
        (
            "generation.json_schema",
            "[1]",
            "--schema (generation.json_schema) must be a JSON schema: an object",
        ),
        (
            "generation.json_schema",
            '{"a": 1,\n b}',
            "Expecting property name enclosed in double quotes at line 2",
        ),
        ("generation.json_schema", '{"const": 1e999}', "1e999 is not a finite number"),
        ("generation.json_schema", '{"const": "\\ud800"}', "half of a surrogate pair"),
        ("generation.json_schema", "[" * 100_000, "nested too deeply"),
        ("load.mlock", "perhaps", "load.mlock must be true or false"),
    ],
)
def test_text_that_is_no_value_is_explained(key: str, text: str, message: str) -> None:
    with pytest.raises(SettingError) as caught:
        parse(key, text)
    assert message in str(caught.value)


def test_a_byte_order_mark_before_json_is_no_part_of_it() -> None:
    assert parse("generation.json_schema", '\ufeff{"type": "object"}') == {"type": "object"}


def test_a_number_may_be_infinite_where_that_means_never() -> None:
    assert parse("generation.logit_bias", '{"5": -Infinity}') == {"5": float("-inf")}


def test_the_choices_are_those_of_the_backend() -> None:
    assert {
        "effort": EFFORT_LEVELS,
        "cache_mode": get_args(KvCacheMode),
        "cache_type": tuple(KV_BYTES),
        "dtype": get_args(ComputeDtype),
        "approval": get_args(Mode),
        "color": COLOR_CHOICES,
        "pictures": ("auto", *get_args(Way)),
        "bell": get_args(When),
        "reasoning": get_args(ReasoningFormat),
        "overflow": get_args(Overflow),
        "call_format": ("generic",),
    } == CHOICES


@given(st.sampled_from(sorted(KINDS)), st.integers(400, 5000))
def test_a_long_value_is_never_echoed_whole(key: str, length: int) -> None:
    text = "\x00x" * length
    try:
        resolve({key: Value(parse(key, text), "here")}, environ={}, file=Path("/nonexistent/config.toml"))
    except SettingError as err:
        assert len(str(err)) < 500


def test_a_misspelt_variable_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environ = {"FIRESIDE_TEMPRATURE": "1", "FIRESIDE_PEER_OF_ANOTHER_KIND": "x", "FIRESIDE_DATA": "d"}
    for _ in range(2):
        resolve({}, environ=environ, file=tmp_path / "none.toml")
    told = capsys.readouterr().err
    assert (
        told == "fireside: the variable FIRESIDE_TEMPRATURE is not read; did you mean FIRESIDE_TEMPERATURE?\n"
    )


def test_a_bad_variable_is_named() -> None:
    with pytest.raises(
        SettingError, match=r"FIRESIDE_TOP_K: generation.top_k must be a whole number, not 'x'"
    ):
        resolve({}, environ={"FIRESIDE_TOP_K": "x"})


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("temperature", "generation.temperature"),
        ("generation.temperature", "generation.temperature"),
        ("top-k", "generation.top_k"),
        ("lora", "load.lora"),
        ("generation.lora", "generation.lora"),
        ("model", "model"),
    ],
)
def test_names_may_leave_the_table_out(name: str, key: str) -> None:
    assert full_name(name) == key


def test_variables_are_unique() -> None:
    assert len({environment_name(key) for key in KINDS}) == len(KINDS)
    assert environment_name("generation.temperature") == "FIRESIDE_TEMPERATURE"
    assert not {"FIRESIDE_CONFIG", "FIRESIDE_DATA", "FIRESIDE_STATE"} & {
        environment_name(key) for key in KINDS
    }


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("load.n_gpu_layers", "all", -1),
        ("load.n_gpu_layers", "auto", "auto"),
        ("load.n_gpu_layers", "12", 12),
        ("load.flash_attn", "on", True),
        ("load.tensor_split", "1,2.5", (1.0, 2.5)),
        ("load.lora", "a.gguf:0.5", (("a.gguf", 0.5),)),
        ("load.lora", '["a.gguf", "c:d.gguf"]', (("a.gguf", 1.0), ("c:d.gguf", 1.0))),
        ("generation.stop", "###", ("###",)),
        ("generation.stop", '["a", "b"]', ("a", "b")),
        ("generation.logit_bias", '{"5": -1}', {"5": -1}),
        ("generation.parallel_tool_calls", "no", False),
        ("generation.tool_choice", "auto", "auto"),
    ],
)
def test_text_is_read_by_kind(key: str, text: str, value: object) -> None:
    assert parse(key, text) == value


@given(st.sampled_from(sorted(KINDS)), st.text(max_size=30))
def test_any_text_is_a_value_or_a_setting_error(key: str, text: str) -> None:
    try:
        value = parse(key, text)
        resolve({key: Value(value, "here")}, environ={}, file=Path("/nonexistent/config.toml"))
    except SettingError as err:
        assert str(err)


def test_store_keeps_comments_and_order(tmp_path: Path) -> None:
    file = write(tmp_path, "# mine\nmodel = 'a.gguf'  # small\n\n[generation]\n# cold\ntop_k = 5\n")
    assert store("temperature", "0.5", file)[0] == "generation.temperature"
    store("model", "b.gguf", file)
    store("ctx" if "ctx" in KINDS else "max_seq", "4096", file)
    text = file.read_text(encoding="utf-8")
    assert text.index("# mine") < text.index("b.gguf") < text.index("# small") < text.index("# cold")
    settings = resolve({}, environ={}, file=file)
    assert settings.get("generation.temperature") == 0.5
    assert settings.get("load.max_seq") == 4096
    assert settings.get("generation.top_k") == 5


def test_store_makes_private_files(tmp_path: Path) -> None:
    file = tmp_path / "new" / "config.toml"
    store("model", "a.gguf", file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize(("name", "value"), [("temperature", "-1"), ("temperature", "warm"), ("tmp", "1")])
def test_store_refuses_what_would_not_load(tmp_path: Path, name: str, value: str) -> None:
    file = write(tmp_path, "model = 'a'\n")
    with pytest.raises(SettingError):
        store(name, value, file)
    assert file.read_text(encoding="utf-8") == "model = 'a'\n"


def test_store_needs_a_table_where_one_belongs(tmp_path: Path) -> None:
    file = write(tmp_path, "generation = 3\n")
    with pytest.raises(SettingError, match="'generation' is a table"):
        store("top_k", "5", file)
    with pytest.raises(SettingError, match="'generation' is a table"):
        forget("top_k", file)
    assert file.read_text(encoding="utf-8") == "generation = 3\n"


def test_forget_takes_one_setting_out_and_keeps_the_rest(tmp_path: Path) -> None:
    file = write(tmp_path, "# mine\nmodel = ''\n[generation]\n# cold\ntop_k = 5\nseed = 1\n")
    assert forget("top-k", file) == ("generation.top_k", file)
    forget("model", file)
    settings = resolve({}, environ={}, file=file)
    assert set(settings.values) == {"generation.seed"}
    assert "# mine" in file.read_text(encoding="utf-8")
    with pytest.raises(SettingError, match=r"does not set generation\.top_k"):
        forget("top_k", file)


def test_forget_finds_nothing_where_there_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="does not set model"):
        forget("model", tmp_path / "config.toml")
    assert not list(tmp_path.iterdir())


def test_store_never_overwrites_a_broken_file(tmp_path: Path) -> None:
    file = write(tmp_path, "model = \n")
    with pytest.raises(SettingError, match="line 1"):
        store("model", "a", file)
    assert file.read_text(encoding="utf-8") == "model = \n"


@given(st.text(max_size=40))
def test_stored_text_comes_back(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.mktemp("config") / "config.toml"
    store("system", text, file)
    assert config.resolve({}, environ={}, file=file).get("system") == text.removeprefix("\ufeff")


@pytest.mark.parametrize(
    ("number", "words"),
    [(errno.ENOSPC, "no space is left"), (errno.EDQUOT, "your disk quota"), (errno.EROFS, "read-only")],
)
def test_a_disk_that_takes_nothing_is_told_with_the_file(
    number: int, words: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main.main(["config", "set", "ascii", "true"]) == 0
    before = paths.config_file().read_text()

    def fail(handle: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    for command in (["set", "ascii", "false"], ["unset", "ascii"]):
        assert main.main(["config", *command]) == 1
        assert f"{paths.config_file()} could not be written: " in (told := capfd.readouterr().err)
        assert words in told
        assert "answer" not in told
    assert paths.config_file().read_text() == before
    assert os.listdir(paths.config_file().parent) == ["config.toml"]


def test_a_file_that_may_not_grow_is_told(tmp_path: Path) -> None:
    limit = "import resource, os, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (3, 3))"
    start = f"{limit}; os.execv(sys.argv[1], sys.argv[1:])"
    command = [sys.executable, "-B", "-c", start, *COMMAND, "config", "set", "system", "Be brief."]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 1
    assert b"config.toml could not be written: it would be larger" in done.stderr
    assert not paths.config_file().exists()


def test_the_settings_behind_a_link_are_changed(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("# mine\n")
    paths.config_file().parent.mkdir(parents=True)
    paths.config_file().symlink_to(tmp_path / "mine.toml")
    assert main.main(["config", "set", "ascii", "true"]) == 0
    assert paths.config_file().is_symlink()
    assert (tmp_path / "mine.toml").read_text() == "# mine\nascii = true\n"


@pytest.mark.parametrize(
    ("line", "name", "message"),
    [
        ("modle = 'x'", "modle", "there is no setting 'modle'; did you mean 'model'?"),
        ("[generation]\ntemprature = 1", "generation.temprature", "did you mean 'generation.temperature'?"),
        ("temperature = 1", "temperature", "write it as 'generation.temperature'"),
        ("[load]\nnew.deep = 1", "load.new", "there is no setting 'load.new'"),
        ("[colours]\na = 1", "colours", "there is no setting 'colours'"),
        ("'a b' = 1", "a b", "there is no setting 'a b'"),
        ("'a.b' = 1", "a.b", "there is no setting 'a.b'"),
    ],
)
def test_an_unknown_key_is_told_with_what_removes_it_and_stops_nothing(
    double: Double, capfd: pytest.CaptureFixture[str], line: str, name: str, message: str
) -> None:
    config.tell_once.cache_clear()
    put(f"ascii = true\n{line}\n")
    assert main.main(["-p", "hi"]) == 0
    told = capfd.readouterr().err
    assert told.count(message) == told.count("\n") == 1
    assert "?." not in told
    assert f"`fireside config unset {shlex.quote(name)}` removes it" in told
    assert main.main(["config", "unset", name]) == 0
    config.tell_once.cache_clear()
    capfd.readouterr()
    assert main.main(["-p", "hi"]) == 0
    assert capfd.readouterr().err == ""
    assert config.resolve({}, environ={}).get("ascii") is True


def test_a_key_that_is_misplaced_goes_before_the_setting_of_its_name(tmp_path: Path) -> None:
    file = write(tmp_path, "top_k = 1\n[generation]\ntop_k = 2\n")
    assert forget("top_k", file)[0] == "top_k"
    assert forget("top_k", file)[0] == "generation.top_k"


def test_the_name_of_an_unknown_key_forges_no_line(capfd: pytest.CaptureFixture[str]) -> None:
    config.tell_once.cache_clear()
    put('"a\\u001b[2J\\nfireside: b" = 1\n')
    config.resolve({}, environ={})
    assert capfd.readouterr().err.count("\n") == 1


def test_a_byte_order_mark_is_no_part_of_the_settings(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(b"\xef\xbb\xbfascii = true\n")
    assert resolve({}, environ={}, file=file).get("ascii") is True
    store("model", "a.gguf", file)
    assert file.read_bytes() == b'ascii = true\nmodel = "a.gguf"\n'
    file.write_bytes(b"\xef\xbb\xbfascii = true\n")
    forget("ascii", file)
    assert resolve({}, environ={"FIRESIDE_SYSTEM": "\ufeffRhyme."}, file=file).get("system") == "Rhyme."


DEEP = "[" * 20_000 + "]" * 20_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"model = {DEEP}\n", "config.toml is not valid TOML: it is nested too deeply"),
        (f"x{'.x' * 20_000} = 1\n", "config.toml is not valid TOML: it is nested too deeply"),
        ("[generation]\njson_schema = " + "{a=" * 200 + "1" + "}" * 200, "nested too deeply"),
        ("[load]\nthreads = " + "9" * 5_000 + "\n", "config.toml is not valid TOML"),
        ("[load]\nthreads = 0x" + "f" * 90_000 + "\n", "a number that is too large"),
        (
            "[generation]\njson_schema = {a = 2020-01-01}\n",
            "config.toml: generation.json_schema must be a JSON",
        ),
        ("[generation]\njson_schema = {a = nan}\n", "config.toml: generation.json_schema must be a JSON"),
        ("[generation]\ntool_choice = {a = 10:00:00}\n", "config.toml: generation.tool_choice must be"),
    ],
    ids=range(8),
)
def test_a_hostile_file_is_one_readable_error(tmp_path: Path, text: str, message: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(SettingError, match=message) as caught:
        resolve({}, environ={}, file=file)
    assert len(str(caught.value)) < 1_000
    if "must be" not in message:
        with pytest.raises(SettingError, match=message):
            store("ascii", "true", file)


def test_only_the_first_of_many_unknown_keys_are_looked_for(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    config.tell_once.cache_clear()
    resolve({}, environ={}, file=write(tmp_path, "".join(f"modell{number} = 1\n" for number in range(9_000))))
    told = capfd.readouterr().err.splitlines()
    assert len(told) == config.MOST_TOLD + 1
    assert "8,995 more keys are not settings" in told[-1]

from __future__ import annotations

import dataclasses
import inspect
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import backend
from app import config
from app.config import KINDS, SettingError, Value, environment_name, full_name, parse, resolve, store
from backend.handle import LoadOptions
from backend.types import GenerationConfig


def write(folder: Path, text: str) -> Path:
    file = folder / "config.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_every_generation_field_is_a_setting() -> None:
    fields = {field.name for field in dataclasses.fields(GenerationConfig)}
    assert {key.removeprefix("generation.") for key in KINDS if key.startswith("generation.")} == fields


def test_every_load_parameter_is_a_setting() -> None:
    parameters = set(inspect.signature(backend.load).parameters) - {"source", "progress", "options"}
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
        (
            "[generation]\ntemprature = 1\n",
            r"config.toml: .*'generation.temprature'.*'generation.temperature'",
        ),
        ("temperature = 1\n", r"belongs in a table: write it as 'generation.temperature'"),
        ("modle = 'x'\n", r"did you mean 'model'"),
        ("[generation]\ntemperature = 'hot'\n", r"config.toml: generation.temperature must be a number"),
        ("[generation]\ntemperature = -1\n", r"config.toml: temperature must be at least 0, not -1"),
        ("[generation]\nseed = true\n", r"must be a whole number, not True"),
        ("a = 1\nmodel = \n", r"config.toml is not valid TOML: .*line 2"),
        ("load = 3\n", r"'load' is a table"),
        ("[generation]\ngrammar = 'root ::= \"a\"'\njson_schema = {}\n", r"exclude each other"),
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


def test_store_never_overwrites_a_broken_file(tmp_path: Path) -> None:
    file = write(tmp_path, "model = \n")
    with pytest.raises(SettingError, match="line 1"):
        store("model", "a", file)
    assert file.read_text(encoding="utf-8") == "model = \n"


@given(st.text(max_size=40))
def test_stored_text_comes_back(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.mktemp("config") / "config.toml"
    store("system", text, file)
    assert config.resolve({}, environ={}, file=file).get("system") == text

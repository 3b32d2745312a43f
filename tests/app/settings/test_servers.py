"""The servers of the settings: what a table may say, whose model is meant, and where a key may lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app import paths
from app.settings.config import Settings, Value, resolve
from app.settings.kinds import SettingError
from app.settings.servers import servers, source_of
from backend.engines.servers import AddressError, Key, Server, Servers, address, is_open, split_source
from backend.types import EngineError, ModelLoadError


def written(text: str) -> Settings:
    paths.write_private(paths.config_file(), text)
    return resolve({})


@pytest.mark.parametrize(
    ("text", "base"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/v1"),
        ("http://127.0.0.1:8080/", "http://127.0.0.1:8080/v1"),
        ("http://LOCALHOST/v1/", "http://localhost/v1"),
        ("https://x.org/api/v1/chat/completions", "https://x.org/api/v1"),
        (" http://[::1]:8080 ", "http://[::1]:8080/v1"),
        ("HTTPS://x.org/openai", "https://x.org/openai"),
        ("unix:/run/a.sock", "unix:/run/a.sock"),
    ],
)
def test_an_address_is_taken_as_people_write_it(text: str, base: str) -> None:
    assert address(text) == base
    assert address(base) == base


@pytest.mark.parametrize(
    "text",
    "x 127.0.0.1:80 ftp://x http:// http://x:port http://u:p@x http://u@x http://x/?k=1 http://x/#a".split()
    + "unix:a.sock http://[::1 file:///x".split()
    + ["", "http://x y/", "http://x\n/"],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(AddressError):
        address(text)


def test_a_table_names_a_server(tmp_path: Path) -> None:
    settings = written(
        'server = "lab"\n[servers.lab]\nurls = ["http://10.0.0.5:8000", "http://10.0.0.6:8000/v1"]\n'
        'key_env = "LAB_KEY"\nmodel = "qwen3"\ncontext = 32768\nvision = true\ntools = false\ntimeout = 30\n'
    )
    chosen = servers(settings).chosen
    assert chosen == Server(
        ("http://10.0.0.5:8000/v1", "http://10.0.0.6:8000/v1"),
        "lab",
        Key(variable="LAB_KEY"),
        "qwen3",
        32768,
        True,
        False,
        30.0,
    )
    assert source_of(settings) == "server:lab/qwen3"


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ("", "needs either url"),
        ('url = "http://x"\nurls = []', "needs either url"),
        ("urls = []", "a list of 1 to 32"),
        ("url = 7", "begins with http"),
        ('url = "http://x"\nnobody = 1', "not 'nobody'"),
        ('url = "http://x"\nkey = 7', "key must be text"),
        ('url = "http://x"\nkey_env = "sk-not-a-name"', "name of a variable"),
        ('url = "http://x"\nkey_env = "A"\nkeyring = "a/b"', "cannot be combined"),
        ('url = "http://x"\nkeyring = "a"', "SERVICE/USER"),
        ('url = "http://x"\ncontext = "big"', "whole number of tokens"),
        ('url = "http://x"\ncontext = true', "whole number of tokens"),
        ('url = "http://x"\ncontext = 0', "at least 1"),
        ('url = "http://x"\nvision = 1', "true or false"),
        ('url = "http://x"\ntimeout = 0', "above 0"),
        ('url = "http://me:secret@x"', "does not belong in an address"),
    ],
)
def test_a_mistake_in_a_table_is_told_with_its_place(table: str, why: str) -> None:
    settings = written(f"[servers.lab]\n{table}\n")
    with pytest.raises(SettingError, match=r"\[servers\.lab\]") as caught:
        servers(settings)
    assert (
        why in str(caught.value) and "secret" not in str(caught.value) and "sk-not" not in str(caught.value)
    )


def test_a_key_in_the_file_counts_only_where_nobody_else_reads_it() -> None:
    settings = written('[servers.lab]\nurl = "https://x"\nkey = "s3cret"\n')
    assert servers(settings).known["lab"].key == Key(text="s3cret")
    paths.config_file().chmod(0o644)
    with pytest.raises(SettingError, match="chmod 600") as caught:
        servers(settings)
    assert "s3cret" not in str(caught.value)


def test_a_key_is_never_shown() -> None:
    assert "s3cret" not in repr(Server(("https://x/v1",), key=Key(text="s3cret")))


def test_a_key_comes_from_its_variable_or_the_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_KEY", " abc\n")
    assert Key(variable="LAB_KEY").read() == "abc"
    monkeypatch.setenv("LAB_KEY", "a b")
    with pytest.raises(EngineError, match="no key has"):
        Key(variable="LAB_KEY").read()
    monkeypatch.delenv("LAB_KEY")
    with pytest.raises(EngineError, match="the variable LAB_KEY is empty"):
        Key(variable="LAB_KEY").read()

    class Ring:
        @staticmethod
        def get_password(service: str, user: str) -> str | None:
            return {"fireside": {"lab": "ring-key"}}.get(service, {}).get(user)

    monkeypatch.setitem(__import__("sys").modules, "keyring", Ring)
    assert Key(keyring="fireside/lab").read() == "ring-key"
    with pytest.raises(EngineError, match="keyring"):
        Key(keyring="fireside/nobody").read()
    monkeypatch.setitem(__import__("sys").modules, "keyring", None)
    with pytest.raises(EngineError, match="not installed"):
        Key(keyring="fireside/lab").read()


def flags(**values: str) -> dict[str, Value]:
    return {name: Value(value, f"--{name}") for name, value in values.items()}


@pytest.mark.parametrize(
    ("file", "given", "source"),
    [
        ("", {"server": "http://h"}, "http://h/v1"),
        ("", {"server": "http://h", "model": "m"}, "http://h/v1#m"),
        ("", {"server": "http://h#m"}, "http://h/v1#m"),
        ("", {"model": "http://h/v1#m"}, "http://h/v1#m"),
        ("", {"model": "server:lab/m"}, "server:lab/m"),
        ("", {"model": "user/repo:Q4_0"}, None),
        ("", {}, None),
        ('model = "mine"', {"server": "lab"}, "server:lab"),
        ('model = "mine"\nserver = "lab"', {}, "server:lab/mine"),
        ('server = "lab"', {"server": "none"}, None),
        ('server = "lab"', {"model": "m"}, "server:lab/m"),
        ('server = "lab"', {"server": "http://lab:1/v1"}, "server:lab"),
    ],
)
def test_which_model_of_which_server_is_meant(file: str, given: dict[str, str], source: str | None) -> None:
    written(f'{file}\n[servers.lab]\nurl = "http://lab:1"\n')
    assert source_of(resolve(flags(**given))) == source


def test_a_file_named_over_a_server_of_the_settings_is_a_model_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").touch()
    written('server = "lab"\n[servers.lab]\nurl = "http://lab:1"\n')
    assert source_of(resolve(flags(model=str(tmp_path / "a.gguf")))) is None


def test_a_server_that_is_not_named_is_told_with_those_that_are() -> None:
    written('[servers.lab]\nurl = "http://lab:1"\n')
    with pytest.raises(SettingError, match=r"--server: 'labb' is neither .* there is lab\."):
        servers(resolve(flags(server="labb")))
    with pytest.raises(ModelLoadError, match="name no server 'nobody'"):
        servers(resolve({})).find("server:nobody/m")


def test_the_key_of_the_variable_goes_to_the_named_address_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRESIDE_SERVER_KEY", "abc")
    known = servers(resolve(flags(server="https://h")))
    assert known.chosen is not None and known.chosen.key == Key(variable="FIRESIDE_SERVER_KEY")
    assert known.find("https://h/v1#m")[0].key is not None
    assert known.find("https://other/v1#m")[0].key is None


@pytest.mark.parametrize(
    ("url", "bare"),
    [
        ("http://127.0.0.1/v1", False),
        ("http://localhost:8/v1", False),
        ("http://[::1]/v1", False),
        ("https://x/v1", False),
        ("unix:/a", False),
        ("http://10.0.0.5/v1", True),
        ("http://localhost.evil.org/v1", True),
        ("http://127.0.0.1.evil.org/v1", True),
    ],
)
def test_a_key_that_others_could_read_on_the_way_is_warned_of(url: str, bare: bool) -> None:
    assert is_open(url) is bare
    assert bool(Server((url,), key=Key(text="k")).warnings) is bare
    assert Server((url,)).warnings == []


def test_a_project_names_no_server(tmp_path: Path) -> None:
    from app.settings.project import _allowed  # pyright: ignore[reportPrivateUsage]

    kept, notices = _allowed(b'server = "http://evil"\n[servers.lab]\nurl = "http://evil"\n', "here")
    assert kept == {} and "server" in notices[0] and "servers" in notices[0]
    for model in ("http://evil/v1#m", "server:lab/m", "unix:/tmp/s"):
        with pytest.raises(SettingError, match="cannot name a file or a server"):
            _allowed(f'model = "{model}"'.encode(), "here")


def test_sources_are_taken_apart() -> None:
    parts: list[Any] = [split_source(one) for one in ("server:lab", "server:lab/a/b:c", "http://x/v1#a/b#c")]
    assert parts == [("server:lab", ""), ("server:lab", "a/b:c"), ("http://x/v1", "a/b#c")]
    assert Servers().at("http://x/v1") == Server(("http://x/v1",))

"""The servers of the settings file: one table `[servers.NAME]` for each. Contacts none of them.

A project never names a server: only the person's own file counts.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from app import paths
from app.characters import quote
from app.settings import config
from app.settings.kinds import SettingError
from backend.engines.servers import AddressError, Key, Server, Servers, address, is_server, split_source

if TYPE_CHECKING:
    from app.settings.config import Settings

NONE = "none"
"""In place of a server: models run on this machine."""
KEY_VARIABLE = "FIRESIDE_SERVER_KEY"
"""The variable with the key of a server that is named by its address."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_FIELDS = frozenset(
    ("url", "urls", "key", "key_env", "keyring", "model", "context", "vision", "tools", "timeout")
)
MOST_URLS = 32


def servers(settings: Settings | None = None, file: Path | None = None) -> Servers:
    """The servers of the settings file, with the one chosen that `settings` name.

    SettingError names what cannot be used, and where it stands.
    """
    file = file or paths.config_file()
    given = config.table("servers", file)
    known = {name: _server(name, fields, f"{file}: [servers.{name}]", file) for name, fields in given.items()}
    found = Servers(known)
    named = None if settings is None else settings.values.get("server")
    if named is None or named.value == NONE:
        return found
    key = Key(variable=KEY_VARIABLE) if os.environ.get(KEY_VARIABLE) else None
    try:
        return found.with_chosen(str(named.value), key)
    except AddressError as err:
        raise SettingError(f"{named.origin}: {err}") from err


def source_of(settings: Settings) -> str | None:
    """The source of the model to use where the settings name a server; None where they name none."""
    model, named = settings.values.get("model"), settings.values.get("server")
    if model is not None and is_server(str(model.value)):
        return str(model.value)
    if named is None or named.value == NONE:
        return None
    if model is not None and not named.origin.startswith("-") and os.path.isfile(str(model.value)):
        return None  # a file of this machine, named over a server that always holds
    chosen = servers(settings).chosen
    assert chosen is not None
    wanted = split_source(str(named.value))[1]
    # A model that only the file names is one of this machine; a flag or a variable goes with its server.
    if model is not None and (not model.origin.endswith(".toml") or model.origin == named.origin):
        wanted = str(model.value)
    return chosen.source_of(wanted or chosen.model)


def _server(name: str, fields: Any, where: str, file: Path) -> Server:
    if not _NAME.fullmatch(name):
        raise SettingError(f"{where}: a server's name has 1 to 32 letters, digits, - and _.")
    if not isinstance(fields, dict):
        raise SettingError(f"{where} is a table: write [servers.{name}] on a line of its own.")
    values = cast("dict[str, Any]", fields)
    if unknown := sorted(values.keys() - _FIELDS):
        raise SettingError(
            f"{where} expects {', '.join(sorted(_FIELDS))}, not {', '.join(map(quote, unknown[:3]))}."
        )
    server = Server(
        _urls(values, where),
        name,
        _key(values, where, file),
        _of_kind(values, "model", str, "the name of a model", where) or "",
        _of_kind(values, "context", int, "a whole number of tokens", where),
        _of_kind(values, "vision", bool, "true or false", where),
        _of_kind(values, "tools", bool, "true or false", where),
    )
    if server.context is not None and server.context < 1:
        raise SettingError(f"{where}: context must be a whole number of tokens of at least 1.")
    seconds = _of_kind(values, "timeout", int | float, "a number of seconds", where)
    if seconds is None:
        return server
    if not 0 < seconds <= 86_400:
        raise SettingError(f"{where}: timeout must be a number of seconds above 0 and up to 86400.")
    return replace(server, silence_s=float(seconds))


def _urls(values: dict[str, Any], where: str) -> tuple[str, ...]:
    one, several = values.get("url"), values.get("urls")
    if (one is None) == (several is None):
        raise SettingError(f"{where} needs either url, or urls for several that answer alike.")
    texts: list[Any] = [one] if several is None else cast("list[Any]", several)
    if not isinstance(texts, list) or not 0 < len(texts) <= MOST_URLS:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise SettingError(f"{where}: urls must be a list of 1 to {MOST_URLS} addresses.")
    found: list[str] = []
    for text in texts:
        try:
            found.append(address(text if isinstance(text, str) else ""))
        except AddressError as err:
            raise SettingError(f"{where}: {err}") from err
    return tuple(dict.fromkeys(found))


def _key(values: dict[str, Any], where: str, file: Path) -> Key | None:
    given = [name for name in ("key", "key_env", "keyring") if name in values]
    if len(given) > 1:
        raise SettingError(f"{where}: {' and '.join(given)} cannot be combined; one of them has the key.")
    if not given:
        return None
    text = values[given[0]]
    if not isinstance(text, str) or not text.strip():
        raise SettingError(f"{where}: {given[0]} must be text.")  # its value is never shown
    match given[0]:
        case "key_env":
            if not _VARIABLE.fullmatch(text):
                raise SettingError(
                    f"{where}: key_env must be the name of a variable, and not the key itself."
                )
            return Key(variable=text)
        case "keyring":
            if not all(text.partition("/")[::2]):
                raise SettingError(f"{where}: keyring must be SERVICE/USER, as the keyring has it.")
            return Key(keyring=text)
        case _:
            if stat.S_IMODE(file.stat().st_mode) & 0o077:
                raise SettingError(
                    f"{where}: others may read {file}, so the key in it is not used. "
                    f"Make it yours alone (chmod 600), or name a variable with key_env."
                )
            return Key(text=text)


def _of_kind(values: dict[str, Any], name: str, kind: Any, words: str, where: str) -> Any:
    value = values.get(name)
    if value is not None and (not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)):
        raise SettingError(f"{where}: {name} must be {words}, not {quote(value)}.")
    return value

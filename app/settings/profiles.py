"""Profiles: named sets of settings, one TOML file each in `profiles/` beside the settings file."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from app import paths
from app.bounded import read_bounded
from app.characters import quote
from app.settings.config import FILE_LIMIT_BYTES, LONGEST_NAME, TABLES, Value, check, values_of
from app.settings.kinds import SettingError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def profiles_folder() -> Path:
    return paths.config_file().parent / "profiles"


def profile_names() -> list[str]:
    """The names of all profiles, sorted."""
    try:
        files = list(profiles_folder().glob("*.toml"))
    except OSError:
        return []
    return sorted(file.stem for file in files if _NAME.fullmatch(file.stem))


def read_profile(name: str) -> dict[str, Value]:
    """The settings of a profile. SettingError where there is none, or one of its settings is wrong."""
    file = _file(name)
    try:
        paths.require_own(file)
    except OSError as err:
        raise SettingError(str(err)) from err
    try:
        data = read_bounded(file, FILE_LIMIT_BYTES)
    except FileNotFoundError:
        raise SettingError(_missing(name)) from None
    except OSError as err:
        raise SettingError(f"{file} cannot be read: {err.strerror}.") from err
    values = values_of(data, str(file))
    for key, item in values.items():
        check(key, item)
    return values


def write_profile(name: str, values: Mapping[str, Any]) -> Path:
    """Keep `values` (by full name) as the profile `name`, in place of one of that name; returns its file."""
    import tomlkit

    file = _file(name)
    document = tomlkit.document()
    for key, value in sorted(values.items(), key=lambda item: ("." in item[0], item[0])):
        check(key, Value(value, str(file)))
        table, _, leaf = key.rpartition(".")
        if table and table not in document:
            document[table] = tomlkit.table()
        place = cast("dict[str, Any]", document[table] if table in TABLES else document)
        place[leaf] = _plain(value)
    paths.write_private(file, tomlkit.dumps(document))  # pyright: ignore[reportUnknownMemberType]
    return file


def _plain(value: Any) -> Any:
    """A value as TOML has it; an adapter is its file and scale in one text."""
    match value:
        case (str(file), float(scale)):
            return f"{file}:{scale:g}"
        case tuple():
            return [_plain(item) for item in cast("tuple[Any, ...]", value)]
        case dict():
            return {str(key): _plain(item) for key, item in cast("dict[Any, Any]", value).items()}
        case _:
            return value


def _file(name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise SettingError(f"a profile's name may have letters, digits, dots and dashes, not {quote(name)}.")
    return profiles_folder() / f"{name}.toml"


def _missing(name: str) -> str:
    names = profile_names()
    near = difflib.get_close_matches(name[:LONGEST_NAME], names, n=1, cutoff=0.5)
    if near:
        return f"there is no profile {quote(name)}; did you mean {near[0]!r}?"
    listed = f"there are {', '.join(names[:8])}" if names else f"put {name}.toml into {profiles_folder()}"
    return f"there is no profile {quote(name)}; {listed}."

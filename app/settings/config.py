"""Settings in layers, each with its origin. One file, because one value is found through all layers.

Default, file, project, environment, profile, flag.
Reads them where they stand; refuses unknown names and unfit values.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from app import paths
from app.bounded import read_bounded
from app.characters import clip, quote
from app.settings.kinds import SettingError, read, require_fit
from app.settings.table import KINDS, SETTINGS
from app.settings.text_or_file import template_origin, template_text, template_value
from app.terminal.output import notify

if TYPE_CHECKING:
    from backend.types import GenerationConfig

TEMPLATE = "load.chat_template"
TABLES = ("load", "generation")
OTHER_TABLES = ("mcp", "keys", "servers")
"""Tables of the file that hold no settings; `table` gives them to who knows them."""
FILE_LIMIT_BYTES = 1 << 20
MOST_TOLD = 5
"""Keys of one file that are told: to look for what each could mean takes a while."""
LONGEST_NAME = 100
"""Characters of a misspelt name that are compared: the search takes time by their square."""
_OTHER_VARIABLES = (
    "FIRESIDE_SERVER_KEY",
    "FIRESIDE_API_KEY",
    "FIRESIDE_CONFIG",
    "FIRESIDE_DATA",
    "FIRESIDE_STATE",
    "FIRESIDE_DEBUG",
)


class Value(NamedTuple):
    """One setting's value, and where it came from: `default`, a file, a variable or a flag."""

    value: Any
    origin: str


class Settings(NamedTuple):
    """The settings that hold, by full name. Those nobody set are missing: the backend decides."""

    values: Mapping[str, Value]
    instructions: str = ""
    """Those of the project, where it is trusted."""

    @property
    def system(self) -> str | None:
        """What a new chat's model is told first: the system prompt, then the project's instructions."""
        parts = [part for part in (self.get("system"), self.instructions) if part]
        return "\n\n".join(parts) or None

    def get(self, key: str, default: Any = None) -> Any:
        """The value of `key`, or `default`."""
        return self.values[key].value if key in self.values else default

    def load_options(self) -> dict[str, Any]:
        """The keyword arguments for `backend.load`. SettingError for a file that cannot be read."""
        options = self._table("load")
        if (template := options.get("chat_template")) is not None:
            options["chat_template"] = template_text(template, "chat_template")
        return options

    @property
    def template_notice(self) -> str:
        """Whether a chat template that the command line names was taken as a file or as text; else ""."""
        named = self.values.get(TEMPLATE)
        if named is None or not named.origin.startswith("-"):
            return ""
        return f"The chat template is {template_origin(named.value)}."

    def generation(self) -> GenerationConfig:
        """What a chat asks of each reply."""
        from backend.types import GenerationConfig

        return GenerationConfig(**self._table("generation"))

    def _table(self, table: str) -> dict[str, Any]:
        start = f"{table}."
        return {
            key.removeprefix(start): item.value for key, item in self.values.items() if key.startswith(start)
        }


def full_name(name: str) -> str:
    """The full name of the setting that a person calls `name`; SettingError names the nearest one.

    The table may be left out: of two settings of the same name, the one of `load` is meant.
    """
    wanted = name.strip().replace("-", "_")
    for candidate in (wanted, *(f"{table}.{wanted}" for table in TABLES)):
        if candidate in KINDS:
            return candidate
    short = {key.rpartition(".")[2]: key for key in reversed(KINDS)}
    near = difflib.get_close_matches(wanted[:LONGEST_NAME], [*KINDS, *short], n=1, cutoff=0.5)
    hint = (
        f"did you mean {short.get(near[0], near[0])!r}?"
        if near
        else "`fireside config show --all` lists them."
    )
    raise SettingError(f"there is no setting {quote(name)}; {hint}")


def parse(key: str, text: str) -> Any:
    """The value that `text` gives to the setting `key`; SettingError says what is expected."""
    flag = SETTINGS[key].flag_name
    return _read_value(f"{flag} ({key})" if flag else key, key, text)


def _read_value(name: str, key: str, text: str) -> Any:
    return template_value(name, text) if key == TEMPLATE else read(name, KINDS[key], text)


def resolve(
    flags: Mapping[str, Value],
    *,
    environ: Mapping[str, str] = os.environ,
    file: Path | None = None,
    project: Mapping[str, Value] | None = None,
    profile: Mapping[str, Value] | None = None,
) -> Settings:
    """The settings that hold: `flags` over `profile` over the environment over `project` over `file`.

    The file is the person's own by default. SettingError for an unknown name or an unfit value,
    with its origin.
    """
    values = {
        **_from_file(file or paths.config_file()),
        **(project or {}),
        **_from_environment(environ),
        **(profile or {}),
        **flags,
    }
    _tell_misspelt(environ)
    for key, item in values.items():
        check(key, item)
    generation = {key for key in values if key.startswith("generation.")}
    settings = Settings(values)
    if len(generation) > 1:
        try:
            settings.generation()
        except ValueError as err:
            raise SettingError(str(err)) from err
    return settings


def store(name: str, text: str, file: Path | None = None) -> tuple[str, Path]:
    """Write one setting into the file, keeping its comments and order; returns full name and file."""
    import tomlkit

    key = full_name(name)
    value = _read_value(key, key, text)
    file = file or paths.config_file()
    check(key, Value(value, ""))
    _read(file)  # a broken file is reported, never overwritten
    document = tomlkit.parse(file.read_text(encoding="utf-8-sig") if file.exists() else "")
    table, _, leaf = key.rpartition(".")
    if table and table not in document:
        document[table] = tomlkit.table()
    _require_table(file, document, table)
    place = cast("dict[str, Any]", document[table] if table else document)
    place[leaf] = value
    _write(file, tomlkit.dumps(document))  # pyright: ignore[reportUnknownMemberType]
    return key, file


def forget(name: str, file: Path | None = None) -> tuple[str, Path]:
    """Take one setting out of the file, keeping all else; returns full name and file.

    What is no setting, or stands in the wrong place, is taken out by the name it has there.
    SettingError where the file does not set it, or cannot be read.
    """
    import tomlkit

    file = file or paths.config_file()
    held = _read(file)
    table, leaf = _misplaced(held, name) or full_name(name).rpartition(".")[::2]
    key = f"{table}.{leaf}" if table else leaf
    if table and table in held:
        _require_table(file, held, table)
    if leaf not in (held.get(table, {}) if table else held):
        raise SettingError(f"{file} does not set {key}; `fireside config show` shows what does.")
    document = tomlkit.parse(file.read_text(encoding="utf-8-sig"))
    del cast("dict[str, Any]", document[table] if table else document)[leaf]
    _write(file, tomlkit.dumps(document))  # pyright: ignore[reportUnknownMemberType]
    return key, file


def _misplaced(held: Mapping[str, Any], name: str) -> tuple[str, str] | None:
    """The table, if any, and the key that is `name` as it stands in the file, where that is no setting."""
    if name in held and name not in (*KINDS, *TABLES, *OTHER_TABLES):
        return "", name
    table, _, leaf = name.partition(".")
    inner = held.get(table) if table in TABLES else None
    return (table, leaf) if isinstance(inner, dict) and leaf in inner and name not in KINDS else None


def _write(file: Path, text: str) -> None:
    try:
        paths.write_private(file, text)
    except PermissionError as err:
        raise SettingError(
            f"{file} cannot be written: {err.strerror}." if err.filename else str(err.strerror)
        ) from err


def table(name: str, file: Path) -> dict[str, Any]:
    """One of OTHER_TABLES as the file has it, unchecked; empty where it has none."""
    held = _read(file)
    if name not in held:
        return {}
    _require_table(file, held, name)
    return cast("dict[str, Any]", held[name])


def values_of(data: bytes, origin: str, other_tables: Sequence[str] = ()) -> dict[str, Value]:
    """The settings in the TOML text `data`, unchecked; SettingError names `origin`.

    A key that is no setting is told and left out. Of `other_tables` nothing is looked at.
    """
    values: dict[str, Value] = {}
    unknown: list[str] = []
    for name, value in _parsed(data, origin).items():
        if name in other_tables:
            continue
        if name in TABLES:
            _require_table(origin, {name: value}, name)
            leaves = {f"{name}.{leaf}": item for leaf, item in cast("dict[str, Any]", value).items()}
        else:
            leaves = {name: value}
        for key, item in leaves.items():
            if key in KINDS:
                values[key] = Value(_of_toml(key, item), origin)
            else:
                unknown.append(key)
    for key in unknown[:MOST_TOLD]:
        _tell_unknown(key, origin)
    if len(unknown) > MOST_TOLD:
        _tell_mistake(f"{origin}: {len(unknown) - MOST_TOLD:,} more keys are not settings and are ignored.")
    return values


def _tell_unknown(key: str, origin: str) -> None:
    """What a key that is no setting should be, and how it goes away; nothing else is wrong with the rest."""
    try:
        exact = full_name(key)
        reason = f"{quote(key)} belongs in a table: write it as {exact!r}"
    except SettingError as err:
        reason = str(err).rstrip(".")
    if origin == str(paths.config_file()):
        import shlex

        way = f"`fireside config unset {shlex.quote(clip(key))}` removes it"
    else:
        way = "remove it from that file"
    end = "" if reason.endswith("?") else "."
    _tell_mistake(f"{origin}: {reason}{end} It is ignored; {way}.")


def tables_in(data: bytes, origin: str) -> set[str]:
    """Those of OTHER_TABLES that the TOML text `data` has. SettingError names `origin`."""
    return _parsed(data, origin).keys() & set(OTHER_TABLES)


def _from_file(file: Path) -> dict[str, Value]:
    return values_of(_content(file), str(file), OTHER_TABLES)


def _read(file: Path) -> dict[str, Any]:
    return _parsed(_content(file), str(file))


def _content(file: Path) -> bytes:
    try:
        paths.require_own(file)
    except OSError as err:
        raise SettingError(str(err)) from err
    try:
        return read_bounded(file, FILE_LIMIT_BYTES)
    except FileNotFoundError:
        return b""
    except OSError as err:
        raise SettingError(f"{file} cannot be read: {err.strerror}.") from err


def _parsed(data: bytes, origin: str) -> dict[str, Any]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as err:
        raise SettingError(f"{origin} is not UTF-8 text (byte {err.start}).") from err
    if not text:
        return {}
    from app.bounded import parsed_toml

    try:
        return parsed_toml(text)
    except ValueError as err:
        raise SettingError(f"{origin} is not valid TOML: {clip(str(err))}.") from err


def _from_environment(environ: Mapping[str, str]) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for key in KINDS:
        variable = environment_name(key)
        if text := environ.get(variable):
            try:
                values[key] = Value(read(key, KINDS[key], text), variable)
            except SettingError as err:
                raise SettingError(f"{variable}: {err}") from None
    return values


def environment_name(key: str) -> str:
    """The environment variable of a setting; two of the same name keep their table in it."""
    leaf = key.rpartition(".")[2]
    return f"FIRESIDE_{(leaf if key == _leaves()[leaf] else key.replace('.', '_')).upper()}"


@cache
def _leaves() -> Mapping[str, str]:
    """The first setting of each name, by its name without the table."""
    found: dict[str, str] = {}
    for key in KINDS:
        found.setdefault(key.rpartition(".")[2], key)
    return found


def _of_toml(key: str, value: Any) -> Any:
    """A TOML value as the setting wants it: arrays are tuples, adapters are read from their text."""
    kind = KINDS[key]
    if kind == "adapters":
        return read(key, kind, json.dumps(value) if isinstance(value, list) else str(value))
    if kind == "texts" and isinstance(value, str):
        return (value,)
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value


def _tell_misspelt(environ: Mapping[str, str]) -> None:
    """A notice for each variable that is nearly the name of one that is read."""
    known = [*_OTHER_VARIABLES, *map(environment_name, KINDS)]
    for name in environ:
        if not name.startswith("FIRESIDE_") or name in known:
            continue
        if near := difflib.get_close_matches(name[:LONGEST_NAME], known, n=1, cutoff=0.8):
            _tell_mistake(f"the variable {clip(name)} is not read; did you mean {near[0]}?")


mistakes: list[str] = []
"""What of the settings was told to be ignored, for a face that hides standard error."""


def _tell_mistake(text: str) -> None:
    tell_once(text)
    if text not in mistakes:
        mistakes.append(text)


@cache
def tell_once(text: str) -> None:
    """A notice for the person, the first time only."""
    notify(text)


def _require_table(file: Path | str, document: Mapping[str, Any], table: str) -> None:
    if table and not isinstance(document[table], dict):
        raise SettingError(f"{file}: {table!r} is a table: write [{table}] on a line of its own.")


def _named(item: Value) -> str:
    """What an error about the value begins with."""
    return f"{item.origin}: " if item.origin else ""


def _require_lasting(tools: Value) -> None:
    """What holds in every folder must not mean a file of whichever folder that is."""
    parts = (part.strip() for text in tools.value for part in str(text).split(","))
    files = (part for part in parts if part.endswith(".py") or os.sep in part)
    for file in files:
        if not file.startswith((os.sep, "~")):
            raise SettingError(
                f"{_named(tools)}in settings, a tool file is named by its full path, not {quote(file)}."
            )


def check(key: str, item: Value) -> None:
    """SettingError, with the origin if it has one, where the value does not fit the setting."""
    # A flag is named as it was given; of other origins the setting is named too.
    is_flag = item.origin.startswith("--") and item.origin != "--set"
    require_fit(item.origin if is_flag else f"{_named(item)}{key}", KINDS[key], item.value)
    if key == TEMPLATE:
        template_text(item.value, item.origin if is_flag else f"{_named(item)}{key}")
    if key == "tools" and not item.origin.startswith("--"):
        _require_lasting(item)
    table, _, leaf = key.rpartition(".")
    if table == "generation":
        from backend.types import GenerationConfig

        try:
            GenerationConfig.of({leaf: item.value})
        except ValueError as err:
            reason = clip(str(err))
            if is_flag and reason.startswith(f"{leaf} "):
                raise SettingError(f"{item.origin}{reason.removeprefix(leaf)}.") from err
            raise SettingError(f"{_named(item)}{reason}") from err

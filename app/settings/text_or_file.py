"""Flags whose value is the text itself or a file that holds it: schemas, grammars, chat templates."""

from __future__ import annotations

import json
import os

from app.bounded import read_bounded
from app.characters import quote
from app.settings.kinds import BOM, SettingError

LIMIT_BYTES = 1 << 20


def schema_text(value: str) -> str:
    """The JSON that `--schema` means. SettingError for a file that cannot be read."""
    value = value.removeprefix(BOM)
    if value.lstrip().startswith(("{", "[")) or (_is_json(value) and not os.path.exists(value)):
        return value
    return _file("--schema", value)


def grammar_text(value: str) -> str:
    """The GBNF that `--grammar` means. SettingError for a file that cannot be read."""
    return value.removeprefix(BOM) if "::=" in value else _file("--grammar", value)


def template_text(value: str, name: str = "--chat-template") -> str:
    """The template that a value of the setting `name` means. SettingError for a file that cannot be read."""
    return value.removeprefix(BOM) if "{" in value else _file(name, value)


def template_value(name: str, value: str) -> str:
    """What the setting `name` is to keep: the template itself, or the whole path of its file.

    SettingError for a file that cannot be read.
    """
    value = value.removeprefix(BOM)
    template_text(value, name)
    return value if "{" in value else os.path.abspath(os.path.expanduser(value))


def template_origin(value: str) -> str:
    """Which of the two a value is, for a person."""
    return "the text given" if "{" in value else f"the file {value}"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _file(flag: str, name: str) -> str:
    if not name.strip():
        raise SettingError(f"{flag} is empty: give a file, or the text itself.")
    try:
        data = read_bounded(os.path.expanduser(name), LIMIT_BYTES)
    except (OSError, ValueError) as err:
        reason = err.strerror if isinstance(err, OSError) else err
        raise SettingError(f"{flag}: {quote(name)} cannot be read: {reason}.") from err
    return data.decode("utf-8-sig", errors="replace")

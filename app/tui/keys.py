"""The keys of the full-screen face in one table: what each does, and how the config rebinds it.

`[keys]` in the settings file maps a name of this table to keys: `retry = "ctrl+r, f9"`; an empty text
takes the key away.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from textual.binding import Binding

Group = Literal["write", "reply", "read", "move", "more"]
GROUPS: tuple[Group, ...] = ("write", "read", "reply", "move", "more")


@dataclass(frozen=True)
class Key:
    """One thing a key does. `priority` reaches it from the composer too; `free` only from an empty one."""

    name: str
    group: Group
    keys: str
    help: str
    action: str = ""
    """Of the app; empty where a widget takes the key by itself."""
    priority: bool = False
    free: bool = False
    beside: str = ""
    """The name of a key in whose row of help this one is told."""


KEYS: tuple[Key, ...] = (
    Key("send", "write", "enter", "send"),
    Key("newline", "write", "ctrl+j,alt+enter,shift+enter", "new line"),
    Key("editor", "write", "ctrl+g", "open in the editor", "editor", priority=True),
    Key("history", "write", "up", "earlier message"),
    Key("pickers", "write", "@ / !", "file, command, shell"),
    Key("block_up", "read", "alt+up", "block cursor", "block(-1)", priority=True),
    Key("block_copy", "read", "c", "copy block, C its code"),
    Key("block_edit", "read", "e", "edit, as a branch"),
    Key("block_fork", "read", "f", "fork from here"),
    Key("newest", "read", "end,ctrl+end", "to the newest line", "newest", free=True),
    Key("stop", "reply", "escape", "stop, keep the text", "stop"),
    Key("retry", "reply", "ctrl+r", "another variant", "retry", priority=True),
    Key("variant_before", "reply", "left_square_bracket", "walk the variants", "variant(-1)", free=True),
    Key(
        "variant_after",
        "reply",
        "right_square_bracket",
        "walk the variants",
        "variant(1)",
        free=True,
        beside="variant_before",
    ),
    Key("fold", "reply", "ctrl+t", "fold all thoughts", "fold_thoughts", priority=True),
    Key("chats", "move", "ctrl+b,f2", "chats", "chats", priority=True),
    Key("new_chat", "move", "ctrl+n", "new chat", "new_chat", priority=True),
    Key("search", "move", "ctrl+f,f3", "search all chats", "search", priority=True),
    Key("models", "move", "ctrl+l,f4", "models", "models", priority=True),
    Key("find", "move", "alt+f,f7", "find in this chat", "find", priority=True),
    Key("palette", "more", "ctrl+p", "any command, by name", "palette", priority=True),
    Key("rebind", "more", "/keys", "change any of these"),
    Key("help_always", "more", "f1", "this page", "help", priority=True),
    Key("help", "more", "question_mark", "this page", "help", free=True, beside="help_always"),
    Key("approvals", "more", "shift+tab", "what runs unasked", "cycle_approval", priority=True),
    Key("next", "more", "tab", "to what waits, to chats", "next", priority=True),
    Key("params", "more", "f5", "parameters", "params", priority=True),
    Key("themes", "more", "f6", "themes", "themes", priority=True),
    Key("block_down", "read", "alt+down", "block cursor", "block(1)", priority=True, beside="block_up"),
    Key("block_more", "more", "r o p t", "redo link pager tokens"),
    Key("page_up", "more", "pageup", "a page up or down", "page(-1)", priority=True),
    Key("page_down", "more", "pagedown", "a page up or down", "page(1)", priority=True, beside="page_up"),
    Key("oldest", "more", "home,ctrl+home", "to the beginning", "oldest", free=True),
    Key("copy", "more", "ctrl+c", "copy, stop, clear, quit", "copy_or_stop", priority=True),
    Key("mouse", "more", "ctrl+o", "mouse on or off", "mouse", priority=True),
    Key("suspend", "more", "ctrl+z", "to the shell, until fg", "suspend_process", priority=True),
    Key("quit", "more", "ctrl+q", "quit", "leave", priority=True),
)
OF_DRAFT = ("send", "newline")
"""Keys that the composer takes by itself, and that can be others all the same."""
_WORDS = {
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "question_mark": "?",
    "escape": "esc",
}


def bindings() -> list[Binding]:
    """The bindings of the app, by the names that a keymap changes."""
    return [
        Binding(key.keys, key.action, key.help, show=False, priority=key.priority, id=key.name)
        for key in KEYS
        if key.action
    ]


def free_keys(keymap: Mapping[str, str]) -> frozenset[str]:
    """The keys that act while the draft is empty, as they are bound now."""
    found = (keymap.get(key.name, key.keys) for key in KEYS if key.free)
    return frozenset(name.strip() for keys in found for name in keys.split(",") if name.strip())


def can_be_other(key: Key) -> bool:
    """Whether the settings file may bind other keys to it."""
    return bool(key.action) or key.name in OF_DRAFT


def keys_of(name: str, keymap: Mapping[str, str]) -> list[str]:
    """The keys of one thing, as they are bound now."""
    keys = next(key.keys for key in KEYS if key.name == name)
    return [part.strip() for part in keymap.get(name, keys).split(",") if part.strip()]


def read_keymap(table: Mapping[str, object]) -> tuple[dict[str, str], list[str]]:
    """The `[keys]` table as a keymap, and what is wrong with it in sentences."""
    names = [key.name for key in KEYS if can_be_other(key)]
    keymap: dict[str, str] = {}
    wrong: list[str] = []
    for name, value in table.items():
        if name not in names:
            near = difflib.get_close_matches(name[:40], names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}."
            wrong.append(f"[keys] has no {name[:40]!r}; {hint}")
        elif not isinstance(value, str):
            wrong.append(f'keys.{name} takes a text such as "ctrl+r".')
        else:
            keymap[name] = ",".join(part.strip() for part in value.split(","))
    return keymap, wrong


def key_rows(keymap: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Every key as (group, keys, what it does), grouped."""
    rows: list[tuple[str, str, str]] = []
    for group in GROUPS:
        for key in KEYS:
            if key.group != group or key.beside:
                continue
            told = [key, *(other for other in KEYS if other.beside == key.name)]
            keys = " ".join(filter(None, (shown(keymap.get(one.name, one.keys)) for one in told)))
            rows.append((group, keys, key.help))
    return rows


def shown(keys: str) -> str:
    """Keys as a person reads them."""
    return " ".join(_WORDS.get(key.strip(), key.strip()) for key in keys.split(",") if key.strip())

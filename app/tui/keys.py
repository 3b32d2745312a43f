"""The keys of the full-screen face in one table: what each does, where, and how the config rebinds it.

`[keys]` in the settings file maps a name of this table to keys: `retry = "ctrl+r, f9"`; an empty text
takes the key away. What cannot be bound is told in a sentence, and the key stays what it was.
"""

from __future__ import annotations

import difflib
import string
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from textual.binding import Binding
from textual.keys import Keys, _character_to_key  # pyright: ignore[reportPrivateUsage] # no public way

from app.terminal.glyphs import Glyphs

Group = Literal["write", "reply", "read", "move", "more", "find", "card", "queue", "news"]
GROUPS: tuple[Group, ...] = ("write", "read", "reply", "move", "more")
"""Those on the page of help; the others are shown where they work."""
Where = Literal["app", "draft", "block", "card", "queue", "news", "words"]
"""Where a key counts: everywhere, while writing, at the block cursor, at a card, at a message that waits,
while the seam offers it; `words` are only told."""


class Key(NamedTuple):
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
    where: Where = "app"
    alone: str = ""
    """What it does where its row is told without those beside it; empty where `help` says that."""

    @property
    def own_help(self) -> str:
        """What this key does, without those that share its row."""
        return self.alone or self.help


KEYS: tuple[Key, ...] = (
    Key("send", "write", "enter", "send", where="draft"),
    Key("newline", "write", "ctrl+j,alt+enter,shift+enter", "new line", where="draft"),
    Key("editor", "write", "ctrl+g", "open in the editor", "editor", priority=True),
    Key("history", "write", "up", "earlier message", where="words"),
    Key("pickers", "write", "@ / !", "file, command, shell", where="words"),
    Key("block_up", "read", "alt+up", "block cursor", "block(-1)", priority=True, alone="to the block above"),
    Key("block_copy", "read", "c", "copy block, its code", where="block", alone="copy the block"),
    Key("block_code", "read", "C", "copy its code", beside="block_copy", where="block"),
    Key("block_edit", "read", "e", "edit; split thinking", where="block", alone="edit the message"),
    Key("block_divide", "read", "d", "split thinking from answer", beside="block_edit", where="block"),
    Key("block_fork", "read", "f", "fork from here", where="block"),
    Key("newest", "read", "end,ctrl+end", "to the newest line", "newest", free=True),
    Key("stop", "reply", "escape", "stop, keep the text", "stop"),
    Key("retry", "reply", "ctrl+r", "another variant", "retry", priority=True),
    Key(
        "variant_before",
        "reply",
        "left_square_bracket",
        "walk the variants",
        "variant(-1)",
        free=True,
        alone="the variant before",
    ),
    Key(
        "variant_after",
        "reply",
        "right_square_bracket",
        "walk the variants",
        "variant(1)",
        free=True,
        beside="variant_before",
        alone="the next variant",
    ),
    Key("fold", "reply", "ctrl+t", "fold all thinking", "fold_thoughts", priority=True),
    Key("copy", "reply", "ctrl+c", "copy, stop, clear, quit", "copy_or_stop", priority=True),
    Key("chats", "move", "ctrl+b,f2", "chats", "chats", priority=True),
    Key("new_chat", "move", "ctrl+n", "new chat", "new_chat", priority=True),
    Key("search", "move", "ctrl+f,f3", "search all chats", "search", priority=True),
    Key("models", "move", "ctrl+l,f4", "models", "models", priority=True),
    Key("find", "move", "alt+f,f7", "find in this chat", "find", priority=True),
    Key("palette", "more", "ctrl+p", "any command, by name", "palette", priority=True),
    Key("rebind", "more", "/keys", "change any of these", where="words"),
    Key("help_always", "more", "f1", "this page", "help", priority=True),
    Key("help", "more", "question_mark", "this page", "help", free=True, beside="help_always"),
    Key("approvals", "more", "shift+tab", "what runs unasked", "cycle_approval", priority=True),
    Key("next", "more", "tab", "to cards, queue, chats", "next", priority=True),
    Key("params", "more", "f5", "parameters", "params", priority=True),
    Key("themes", "more", "f6", "themes", "themes", priority=True),
    Key(
        "block_down",
        "read",
        "alt+down",
        "block cursor",
        "block(1)",
        priority=True,
        beside="block_up",
        alone="to the block below",
    ),
    Key("block_retry", "more", "r", "redo link pager tokens", where="block", alone="regenerate the reply"),
    Key("block_link", "more", "o", "open its link", beside="block_retry", where="block"),
    Key("block_pager", "more", "p", "open in the pager", beside="block_retry", where="block"),
    Key("block_tokens", "more", "t", "see its tokens", beside="block_retry", where="block"),
    Key("page_up", "more", "pageup", "a page up or down", "page(-1)", priority=True, alone="a page up"),
    Key(
        "page_down",
        "more",
        "pagedown",
        "a page up or down",
        "page(1)",
        priority=True,
        beside="page_up",
        alone="a page down",
    ),
    Key("oldest", "more", "home,ctrl+home", "to the first line", "oldest", free=True),
    Key("mouse", "more", "ctrl+o", "mouse on or off", "mouse", priority=True),
    Key("suspend", "more", "ctrl+z", "to the shell, until fg", "suspend_process", priority=True),
    Key("quit", "more", "ctrl+q", "quit", "leave", priority=True),
    Key("block_fold", "find", "enter,space", "fold or open a block", where="block"),
    Key("find_again", "find", "slash", "find in this chat", where="block"),
    Key("find_next", "find", "n", "the next match", where="block"),
    Key("find_before", "find", "N", "the match before", where="block"),
    Key("allow_once", "card", "y", "allow a call once", where="card"),
    Key("allow_chat", "card", "s", "allow it in this chat", where="card"),
    Key("allow_always", "card", "a", "allow it always", where="card"),
    Key("allow_edited", "card", "e", "edit its arguments", where="card"),
    Key("refuse", "card", "n", "refuse it, go on", where="card"),
    Key("refuse_stop", "card", "x", "refuse it, stop", where="card"),
    Key("allow_wider", "card", "w", "a wider rule", where="card"),
    Key("allow_unread", "card", "u", "answer with rows unread", where="card"),
    Key("queue_edit", "queue", "enter,e", "edit a waiting message", where="queue"),
    Key("queue_remove", "queue", "x,delete,backspace", "remove it", where="queue"),
    Key("save_copy", "news", "s,alt+s", "save what was copied", where="news"),
    Key("undo_delete", "news", "u,alt+u", "restore a deleted chat", where="news"),
)
_NAMES = frozenset(key.name for key in KEYS)
_MODIFIERS = ("alt", "ctrl", "hyper", "meta", "shift", "super")
_OF_TEXT = frozenset({"home", "end", "left", "right", "up", "down", "enter", "backspace", "delete"})
"""Keys that a text takes itself."""
_SIGNS = {_character_to_key(sign): sign for sign in string.punctuation}
_WORDS = {**_SIGNS, "escape": "esc"}
_ALIASES = {"esc": "escape", "return": "enter", "del": "delete", "pgup": "pageup", "pgdn": "pagedown"}
_NAMED = frozenset(
    {key.value.rpartition("+")[2] for key in Keys if not key.value.startswith("<")} | _SIGNS.keys()
)


def bindings(keymap: Mapping[str, str] | None = None) -> list[Binding]:
    """The bindings of the app, one for each key; Textual's own keymap takes no key away."""
    return [
        Binding(part, key.action, key.help, show=False, priority=key.priority, id=key.name)
        for key in KEYS
        if key.action
        for part in keys_of(key.name, keymap or {})
    ]


def free_keys(keymap: Mapping[str, str]) -> frozenset[str]:
    """The keys that act while the draft is empty, as they are bound now."""
    return frozenset(part for key in KEYS if key.free for part in keys_of(key.name, keymap))


def can_be_other(key: Key) -> bool:
    """Whether the settings file may bind other keys to it."""
    return key.where != "words"


def keys_of(name: str, keymap: Mapping[str, str]) -> list[str]:
    """The keys of one thing, as they are bound now."""
    keys = next(key.keys for key in KEYS if key.name == name)
    return _split(keymap.get(name, keys))


def word(name: str, keymap: Mapping[str, str], *, writing: bool = False) -> str:
    """The first key of one thing as a person reads it; empty where it has none.

    `writing`: one that a text does not take itself, as letters are.
    """
    keys = keys_of(name, keymap)
    found = [key for key in keys if not (writing and (_is_letter(key) or key in _OF_TEXT))]
    return shown(found[0]) if found else ""


class Labels:
    """How hints write the keys of a keymap: by the names of the table; any other text is a key itself."""

    def __init__(self, keymap: Mapping[str, str], glyphs: Glyphs) -> None:
        self.keymap, self._glyphs = keymap, glyphs

    def __call__(self, name: str, *, writing: bool = False) -> str:
        """The key of a name; `writing`: one that works in the middle of a message."""
        found = word(name, self.keymap, writing=writing) if name in _NAMES else name
        return self._glyphs.key(found) if found else ""


def keys_at(where: Where, keymap: Mapping[str, str]) -> dict[str, str]:
    """What each key does at one place, by name, as they are bound now."""
    return {part: key.name for key in KEYS if key.where == where for part in keys_of(key.name, keymap)}


def key_name(pressed: str) -> str:
    """A pressed key as this table writes it: some terminals tell `C` as `upper_c`."""
    return pressed[-1].upper() if pressed.startswith("upper_") else pressed


def read_keymap(table: Mapping[str, object]) -> tuple[dict[str, str], list[str]]:
    """The `[keys]` table as a keymap, and what is wrong with it in sentences."""
    known = {key.name: key for key in KEYS if can_be_other(key)}
    keymap: dict[str, str] = {}
    wrong: list[str] = []
    for name, value in table.items():
        if name not in known:
            near = difflib.get_close_matches(name[:40], known, n=1)
            hint = f"did you mean {near[0]}?" if near else "`fireside help keys` lists the names."
            wrong.append(f"[keys] has no {name[:40]!r}; {hint}")
        elif not isinstance(value, str):
            wrong.append(f'keys.{name} must be text such as "ctrl+r".')
        else:
            try:
                parts = ["comma"] if value.strip() == "," else _split(value)
                keymap[name] = ",".join(_read(part, known[name]) for part in parts)
            except ValueError as err:
                wrong.append(f"keys.{name}: {err}")
    while clash := next(iter(_clashes(keymap)), None):
        # One at a time: what is taken back has its own keys again.
        name, other, part = clash
        del keymap[name]
        wrong.append(
            f"keys.{name} asks for {shown(part)}, which {other} uses ({known[other].help}); "
            f"give {other} another key too."
        )
    return keymap, wrong


def _read(text: str, key: Key) -> str:
    """A key as a press of it is told. ValueError where there is none, or where it would eat letters."""
    wanted = text.strip()
    *modifiers, base = [part.strip() for part in wanted.split("+")] if len(wanted) > 1 else [wanted]
    base = _ALIASES.get(base.lower(), base)
    held = sorted({name.lower() for name in modifiers})
    if len(base) == 1:
        base = _character_to_key(base)
        if held == ["shift"] and base.isalpha():
            held, base = [], base.upper()
        elif held and base.isalpha() and base.isascii():
            base = base.lower()
    elif base.lower() in _NAMED:
        base = base.lower()
    else:
        raise ValueError(f"there is no key {wanted[:40]!r}; keys are such as ctrl+r, alt+s, f9, pageup or ?.")
    if unknown := [name for name in held if name not in _MODIFIERS]:
        raise ValueError(f"there is no modifier {unknown[0][:40]!r}; there are {', '.join(_MODIFIERS)}.")
    found = "+".join([*held, base])
    if _is_letter(found) and not key.free and key.where in ("app", "draft"):
        raise ValueError(f"{shown(found)} would be lost to every message; take one such as ctrl+r or f9.")
    return found


def _is_letter(key: str) -> bool:
    """Whether a key writes a character."""
    return len(key) == 1 or key == "space" or key in _SIGNS


def _clashes(keymap: Mapping[str, str]) -> Iterable[tuple[str, str, str]]:
    """Who of the keymap wants a key that somebody else has where it counts, who that is, and the key."""
    taken: dict[str, list[Key]] = {}
    # What nobody rebound comes first: it keeps its keys, so it is never the one that is named.
    for key in sorted((key for key in KEYS if can_be_other(key)), key=lambda key: key.name in keymap):
        for part in keys_of(key.name, keymap):
            for other in taken.setdefault(part, []):
                if _meet(key, other):
                    yield (key.name, other.name, part)
            taken[part].append(key)


def _meet(one: Key, other: Key) -> bool:
    """Whether two keys count at the same time. The free ones of the app give way to what has the keys."""
    if one.where == other.where:
        return True
    app = one if one.where == "app" else other
    beside = other if app is one else one
    return app.where == "app" and (not app.free or beside.where == "draft")


def _split(keys: str) -> list[str]:
    return [part.strip() for part in keys.split(",") if part.strip()]


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

"""What becomes of a draft: a message with its pastes and files, a command, or a shell line."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from app.frontend.paste import Folds
from app.terminal.output import one_line

Kind = Literal["nothing", "message", "command", "shell"]
Block = dict[str, Any]
TEXT_TYPES = ("input_text", "text", "output_text")
PASTED = "Sent as text: what is pasted does not run."
_MOST_PATH_CHARS = 4000
_MOST_WORD_CHARS = 60
_MENTION = re.compile(r'(?<!\S)@(?:"([^"\n]+)"|(\S+))')
_DOUBLED = re.compile(r"\s*(?:/(?=/+(?![/\s]))|!(?=!))")
"""Two marks before a word: the first of them is not sent. `// like this` is sent as it stands."""
_MARKED = re.compile(
    r"\s*(?:!\s*\S"  # a shell line, or two marks
    r"|/{2,}(?![/\s])"
    r"|/(?:[A-Za-z0-9?][\w-]*\s|[^\s/]*\s*\Z))"  # what may be a command's name, and any word by itself
)
"""What would be a command or a shell line, or lose a mark, if keys had written it."""


@dataclass
class Beginning:
    """Whether the first character of a draft was typed.

    One that came to be the first because others went counts as typed while nothing was pasted.
    """

    typed: bool = True
    _mixed: bool = False
    """Whether something of the draft was pasted."""

    def reset(self, *, typed: bool = True) -> None:
        """Another draft stands there."""
        self.typed, self._mixed = typed, not typed

    def pasted(self, *, first: bool) -> None:
        """Something was pasted; `first` with nothing but blanks before it."""
        self._mixed = True
        if first:
            self.typed = False

    def written(self, text: str) -> None:
        """Something was written with nothing but blanks before it: a key's character, or more at once."""
        if text.strip():
            self.typed = len(text.strip()) == 1 or not self._mixed

    def uncovered(self) -> None:
        """Another character is the first one now, and nobody knows whose it was."""
        self.typed = not self._mixed


def without_double(text: str) -> str:
    """The message that keys have written: of two marks before a word only one is sent."""
    found = _DOUBLED.match(text)
    return text[: found.end() - 1] + text[found.end() :] if found else text


def with_double(text: str) -> str:
    """What keys have to write so that `text` is the message: the way back from `without_double`."""
    if not _MARKED.match(text):
        return text
    blanks = len(text) - len(text.lstrip())
    return text[:blanks] + text[blanks] + text[blanks:]


class Wish(NamedTuple):
    """What a draft asks for: `text` is a message as it is sent, a command's line, or a shell's.

    `hint` says why something that looks like a command is sent as a message.
    """

    kind: Kind
    text: str = ""
    hint: str = ""


def wish_of(draft: str, *, typed: bool = True, meant: Callable[[str], bool] = lambda name: True) -> Wish:
    """What a draft asks for. Without `typed` its first character was pasted, and it is a message.

    Two slashes or exclamation marks send text that begins with one. A word after a slash by which no
    command is `meant` is text too where more follows it: a path, or a comment of some language.
    """
    text = draft.strip()
    if not text:
        return Wish("nothing")
    if not typed:
        return Wish("message", text, PASTED if with_double(text) != text else "")
    if (plain := without_double(text)) != text:
        return Wish("message", plain)
    if text.startswith("!") and text[1:].strip():
        return Wish("shell", text[1:].strip())
    if text.startswith("/"):
        word = text.split(maxsplit=1)[0]
        if "/" not in word[1:] and (word == text or meant(word[1:])):
            return Wish("command", text)
        return Wish("message", text, f"Sent as text: {one_line(word)[:_MOST_WORD_CHARS]} is not a command.")
    return Wish("message", text)


def blocks_of(draft: str, folds: Folds, *, typed: bool = True) -> list[Block]:
    """The text blocks of a message: what was written, and each paste with the word that stands for it."""
    text = draft.strip("\n").rstrip()
    if typed:
        text = without_double(text)
    blocks: list[Block] = []
    for piece, word in folds.split(text):
        block: Block = {"type": "input_text", "text": piece}
        if word is not None:
            block["label"] = word
        blocks.append(block)
    return blocks


def draft_of(content: Sequence[Mapping[str, Any]]) -> tuple[str, Folds]:
    """The draft that a message was sent from, as if it was pasted, and its folded parts."""
    folds = Folds()
    parts: list[str] = []
    for block in content:
        if block.get("type") not in TEXT_TYPES:
            continue
        text, label = str(block.get("text") or ""), str(block.get("label") or "")
        word = label.strip("\n")
        parts.append(label.replace(word, folds.hold(word, text)) if word else text)
    return "".join(parts), folds


def as_keys(draft: str, folds: Folds, *, typed: bool) -> str:
    """The whole draft as keys would have to write it, to be kept: read again it means the same."""
    whole = folds.unfold(draft)
    return whole if typed and not folds.begins(draft) else with_double(whole)


def mentions(text: str, folder: Path) -> list[Path]:
    """The files that `@path` names in a text, each once; what is no file stays words."""
    found: dict[Path, None] = {}
    for match in _MENTION.finditer(text):
        path = _file(match[1] or match[2], folder)
        if path is not None:
            found[path] = None
    return list(found)


def _file(name: str, folder: Path) -> Path | None:
    for candidate in (name, name.rstrip(".,;:!?)")):
        try:
            path = folder / Path(candidate).expanduser()
            if path.is_file():
                return path
        except (OSError, RuntimeError, ValueError):
            continue
    return None


def mention(path: str) -> str:
    return f'@"{path}"' if re.search(r"\s", path) else f"@{path}"


def mention_of(name: str, folder: Path) -> str | None:
    """What names a file in a draft of a chat that works in `folder`; None where there is none of that name,
    or it cannot be written so."""
    for candidate in (name, os.path.abspath(os.path.expanduser(name))):
        text = mention(candidate)
        if [path.name for path in mentions(text, folder)] == [os.path.basename(candidate)]:
            return text
    return None


def pasted_pictures(text: str, folder: Path) -> str | None:
    """What names the pictures whose paths were pasted, as a file manager or a shell writes them.

    None for a paste that is anything else.
    """
    import shlex
    from urllib.parse import unquote

    if len(text) > _MOST_PATH_CHARS:
        return None
    try:
        names = shlex.split(text)
    except ValueError:
        return None
    names = [unquote(name.removeprefix("file://")) if name.startswith("file:///") else name for name in names]
    if not names or not all(name.startswith(("/", "~/")) and is_picture(name) for name in names):
        return None
    named = [one for name in names if (one := mention_of(name, folder)) is not None]
    return f"{' '.join(named)} " if len(named) == len(names) else None


def is_picture(name: str) -> bool:
    """Whether a file's name says that it is a picture."""
    from mimetypes import guess_type

    return (guess_type(name)[0] or "").startswith("image/")


def file_block(file_id: str, name: str, size: int, content_type: str) -> Block:
    kind = "input_file"
    if content_type.startswith("image/"):
        kind = "input_image"
    elif content_type.startswith("audio/"):
        kind = "input_audio"
    return {"type": kind, "file_id": file_id, "filename": name, "bytes": size}


def shell_block(command: str, output: str, line_count: int | None = None) -> Block:
    """What a shell line printed, as the next message carries it; it may have printed more lines than that."""
    lines = line_count if line_count is not None else output.rstrip("\n").count("\n") + bool(output)
    label = f"[$ {command.splitlines()[0][:60]}, {lines:,} line{'s' * (lines != 1)}]\n"
    return {"type": "input_text", "text": f"$ {command}\n{output.rstrip()}\n\n", "label": label}


def edited_blocks(before: Sequence[Mapping[str, Any]], blocks: Iterable[Block]) -> list[Block]:
    """The blocks of a message that was edited: its files, then its new words."""
    kept = [dict(block) for block in before if block.get("type") not in TEXT_TYPES]
    return [*kept, *blocks]

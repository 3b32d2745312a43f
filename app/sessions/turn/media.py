"""Pictures and sound in a conversation: which of them a model takes, and the words that stand for the rest.

A model that cannot see refuses only what is new; what earlier turns hold it gets by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from app.characters import clip
from app.files.attachments import plain_name
from app.sessions.errors import FiresideError
from app.sessions.items import Compaction, Item, Message, SlashCommand, TerminalCommand
from app.sessions.records import Json
from app.terminal.figures import byte_size

if TYPE_CHECKING:
    from app.sessions.file_records import SessionFile
    from backend.types import ChatCard


class Medium(NamedTuple):
    """One kind of medium: its word, what a model does with it, and the code of its refusal."""

    word: str
    sense: str
    senses: str
    withheld: str
    code: str


MEDIA = {
    "image": Medium("picture", "see", "sees", "not shown to this model", "no_vision"),
    "audio": Medium("recording", "hear", "hears", "not played to this model", "no_audio"),
}
ALL = frozenset(MEDIA)
_BLOCK_WORDS = {"input_image": "picture", "input_audio": "recording"}
_NOT_SAID = (Compaction, SlashCommand, TerminalCommand)


def senses(card: ChatCard) -> frozenset[str]:
    """The media that a model takes: `image`, `audio`."""
    taken = {"image": card.supports_vision, "audio": card.supports_audio}
    return frozenset(medium for medium, takes in taken.items() if takes)


def medium_of(file: SessionFile) -> str | None:
    """`image` or `audio`; None for a file whose text a model gets."""
    main = file.content_type.partition("/")[0]
    return main if main in MEDIA else None


def file_ids(blocks: Iterable[Mapping[str, Any]]) -> list[str]:
    """The files that content blocks mention, each once."""
    found = (block.get("file_id") for block in blocks)
    return list(dict.fromkeys(file_id for file_id in found if isinstance(file_id, str)))


def blocks_of(items: Iterable[Item]) -> list[Json]:
    """The content blocks of all messages."""
    return [block for item in items if isinstance(item, Message) for block in item.content]


def described(blocks: Sequence[Json], files: Mapping[str, SessionFile]) -> tuple[Json, ...]:
    """The blocks with the name and the size of each file, so that a page need not ask for them."""
    return tuple(
        block if file is None else {"filename": file.name, "bytes": file.bytes, **block}
        for block in blocks
        for file in (files.get(str(block.get("file_id"))),)
    )


def new_messages(items: Sequence[Item]) -> list[Message]:
    """The messages of the person that the next reply answers: nothing was said since."""
    new: list[Message] = []
    for item in reversed(items):
        if isinstance(item, Message) and item.role == "user":
            new.append(item)
        elif not isinstance(item, _NOT_SAID):
            break
    return new[::-1]


def require_senses(card: ChatCard, files: Iterable[SessionFile]) -> None:
    """FiresideError (400) where the model of `card` cannot take one of the files."""
    given = [(medium, plain_name(file.name)) for file in files if (medium := medium_of(file)) is not None]
    for medium, about in MEDIA.items():
        names = [name for kind, name in given if kind == medium]
        if names and medium not in senses(card):
            err = FiresideError(
                f"{card.model_id} cannot {about.sense}, but {clip(' and '.join(names))} is in the message.",
                400,
                about.code,
            )
            err.remedy = f"Choose a model that {about.senses}, or send the words without the {about.word}."
            raise err


def withheld_notice(card: ChatCard, files: Iterable[SessionFile]) -> str:
    """That the model of `card` cannot take these files of earlier turns; "" where it can take them all.

    It fits a row: the pages show the model's name beside it.
    """
    kinds = [medium_of(file) for file in files]
    told: list[str] = []
    for medium, about in MEDIA.items():
        count = 0 if medium in senses(card) else kinds.count(medium)
        if count == 1:
            told.append(f"cannot {about.sense} the {about.word} of an earlier turn")
        elif count:
            told.append(f"cannot {about.sense} {count:,} {about.word}s of earlier turns")
    return f"this model {', '.join(told)}" if told else ""


def withheld_part(file: SessionFile, pixels: tuple[int, int] | None) -> Json:
    """What a model gets for a file that it cannot take; `pixels` are a picture's width and height."""
    about = MEDIA[medium_of(file) or "image"]
    measure = "x".join(map(str, pixels)) if pixels else byte_size(file.bytes)
    return _text(f"[{about.word} {_inside(file.name)}, {measure}: {about.withheld}]")


def missing_part(block: Mapping[str, Any]) -> Json:
    """What a model gets for a file that is no longer there."""
    return _text(f"[{label_of(block)}: it is no longer there]")


def label_of(block: Mapping[str, Any]) -> str:
    """What a block of a file is, in words for a model: `picture chart.png`."""
    word = _BLOCK_WORDS.get(str(block.get("type")), "attached file")
    name = block.get("filename")
    return f"{word} {_inside(name)}" if isinstance(name, str) else word


def file_labels(blocks: Iterable[Mapping[str, Any]]) -> list[str]:
    """Name and size of each file in content blocks, for a person: `chart.png, 38.0 kB`."""
    labels: list[str] = []
    for block in blocks:
        if "file_id" in block:
            name, count = block.get("filename"), block.get("bytes")
            named = (
                plain_name(name) if isinstance(name, str) else _BLOCK_WORDS.get(str(block["type"]), "file")
            )
            labels.append(f"{named}, {byte_size(count)}" if isinstance(count, int) else named)
    return labels


def _inside(name: str) -> str:
    """A name between the brackets of a mark, which it cannot close."""
    return clip(plain_name(name)).translate({ord("["): "(", ord("]"): ")"})


def _text(text: str) -> Json:
    return {"type": "text", "text": text}

"""Whether the model that will answer can take the pictures and recordings of a message: asked before
anything of it is uploaded or sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from mimetypes import guess_type
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.characters import clip
from app.frontend.model_name import short_name
from app.sessions.errors import FiresideError
from app.sessions.turn.media import MEDIA, Medium, senses
from app.terminal.output import sanitize

if TYPE_CHECKING:
    from backend.types import ChatCard

Block = dict[str, Any]


def has_media(attached: Iterable[Mapping[str, Any]], named: Iterable[Path]) -> bool:
    """Whether a picture or a recording goes with a message that has these blocks and names these files."""
    return any(_medium_of(block) for block in attached) or any(_medium_named(path) for path in named)


def require_senses(
    attached: list[Block],
    named: Iterable[Path],
    card: ChatCard | None,
    chosen: str | None,
    *,
    loading: bool,
) -> None:
    """FiresideError where something is to go with a message that the model which will answer cannot take,
    or that is not known yet. What is only `attached`, so that no word stands for it, is then let go.

    `chosen` is the chat's own model, which may not be the one that `card` tells of.
    """
    named = list(named)
    if not has_media(attached, named):
        return
    if loading:
        raise FiresideError(
            "The model is still being loaded, and what it can take is not known. Send it when it is ready.",
            409,
            "model_loading",
        )
    if card is None or (chosen and short_name(chosen) != short_name(card.model_id)):
        return
    for medium in (medium for medium in MEDIA if medium not in senses(card)):
        held = [str(block.get("filename")) for block in attached if _medium_of(block) == medium]
        if names := held or [path.name for path in named if _medium_named(path) == medium]:
            attached[:] = [block for block in attached if _medium_of(block) != medium]
            raise _refusal(card, MEDIA[medium], names, held=bool(held))


def _refusal(card: ChatCard, about: Medium, names: list[str], *, held: bool) -> FiresideError:
    which = sanitize(clip(" and ".join(names)))
    are = "are" if len(names) > 1 else "is"
    other = f"send it without {which}, which {are} no longer attached" if held else f"remove {which}"
    return FiresideError(
        f"{short_name(card.model_id)} cannot {about.sense}, so nothing was sent. "
        f"Choose a model that {about.senses} (/model), or {other}.",
        400,
        about.code,
    )


def _medium_of(block: Mapping[str, Any]) -> str | None:
    medium = str(block.get("type")).removeprefix("input_")
    return medium if medium in MEDIA else None


def _medium_named(path: Path) -> str | None:
    medium = (guess_type(path.name)[0] or "").partition("/")[0]
    return medium if medium in MEDIA else None

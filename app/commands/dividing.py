"""A reply divided anew into thought and answer, by hand: some models mislabel their tags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.commands.face import Choice, Command, Completion, Face
from app.commands.shared import choose, path
from app.sessions.items import Item, Message, Reasoning
from app.terminal.output import squeezed

MOST_LINES = 1_000
AS_IT_IS = "as it is"


@dataclass(frozen=True)
class PastReply:
    """A reply of the active path: its message, and the thought before it."""

    item_id: str
    thought: str
    answer: str

    @property
    def whole(self) -> str:
        return self.thought + self.answer

    def starts(self) -> list[int]:
        """Where a line begins, in characters of the whole; the answer's beginning is one too."""
        whole, held = self.whole, len(self.thought)
        found = {0, held, *(place + 1 for place, char in enumerate(whole) if char == "\n")}
        return sorted(place for place in found if place < len(whole))

    def line(self, start: int) -> str:
        """The text of the line that begins there."""
        end = len(self.thought) if start < len(self.thought) else len(self.whole)
        return self.whole[start:end].partition("\n")[0]


def reply_around(items: Sequence[Item], item: Item | None = None) -> PastReply | None:
    """The reply that `item` is a part of, else the last one; None where there is none."""
    place = len(items) - 1 if item is None else next((at for at, one in enumerate(items) if one == item), -1)
    if isinstance(item, Reasoning):
        place += 1
    elif item is None:
        while place >= 0 and not _is_reply(items[place]):
            place -= 1
    message = items[place] if 0 <= place < len(items) else None
    if not isinstance(message, Message) or not _is_reply(message):
        return None
    before = items[place - 1] if place else None
    return PastReply(message.id, before.text if isinstance(before, Reasoning) else "", message.text)


def _is_reply(item: Item) -> bool:
    return isinstance(item, Message) and item.role == "assistant"


async def divide(face: Face, reply: PastReply, wanted: str = "") -> None:
    """Let the person say what of a reply is thought, or take `wanted`: answer, thought, or a line number."""
    starts = [start for start in reply.starts() if reply.line(start).strip()][:MOST_LINES]
    if not starts:
        face.say("There is nothing to split: the reply is empty.")
        return
    held, end = len(reply.thought), len(reply.whole)
    if not wanted:
        wanted = await choose(face, "Where does the answer start?", _choices(reply, starts)) or ""
        if not wanted:
            return
    if wanted == "answer":
        chosen = 0
    elif wanted == "thought":
        chosen = end
    elif wanted.isdecimal() and 1 <= int(wanted[:6]) <= len(starts):
        chosen = starts[int(wanted[:6]) - 1]
    else:
        face.say(f"/resplit expects answer, thought, or a line from 1 to {len(starts)}.", error=True)
        return
    if chosen == held:
        face.say("The reply is unchanged.")
        return
    await face.manager.resplit(reply.item_id, chosen)
    face.say("Split again. The reply as it was is kept as another variant.")


def _choices(reply: PastReply, starts: Sequence[int]) -> list[Choice]:
    held, end = len(reply.thought), len(reply.whole)
    choices = [
        Choice("answer", "all of it is the answer", AS_IT_IS if held == 0 else ""),
        Choice("thought", "all of it is thinking", AS_IT_IS if held == end else ""),
    ]
    for number, start in enumerate(starts, 1):
        if start:
            detail = AS_IT_IS if start == held else ""
            choices.append(Choice(str(number), f"{number}  {squeezed(reply.line(start))}", detail))
    return choices


async def _resplit(face: Face, rest: str) -> None:
    reply = reply_around(await path(face))
    if reply is None:
        face.say("There are no replies yet.")
        return
    await divide(face, reply, rest)


async def _complete(face: Face, rest: str) -> Sequence[Completion]:
    offers = (("answer", "all of it is the answer"), ("thought", "all of it is thinking"))
    return [Completion(word, does) for word, does in offers if word.startswith(rest)]


COMMANDS = (
    Command(
        "resplit",
        "/resplit [answer|thought|LINE]",
        "mark which part of the last reply is thinking",
        _resplit,
        ("divide",),
        complete=_complete,
    ),
)

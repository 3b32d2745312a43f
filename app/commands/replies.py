"""Commands about messages and replies: again, on, back, shorter, and what they cost."""

from __future__ import annotations

import shlex
from typing import Any

from app.commands.face import Choice, Command, Face, words
from app.commands.shared import (
    choose,
    cut,
    is_answer,
    is_question,
    path,
    settings,
    show,
    whole_text,
    write_file,
)
from app.sessions.items import Item, Message, input_text
from app.sessions.turn.media import file_labels
from app.settings.config import full_name, parse
from app.settings.kinds import SettingError
from app.terminal.output import squeezed

NOTHING = "There are no messages yet."


async def _retry(face: Face, rest: str) -> None:
    """Answer the last message anew, with the settings given for this once."""
    items = await path(face)
    question = _last(items, "user")
    if question is None:
        face.say(NOTHING)
        return
    count, values = _wanted(rest)
    session_id = await face.session()
    held = await settings(face)
    if values:
        config: dict[str, Any] = held["config"]["value"]
        await face.manager.configure(session_id, config={**config, **values})
    try:
        response_id = items[-1].response_id
        if response_id is None or is_question(items[-1]):
            await face.manager.edit(question.id, question.content)
        else:
            await face.manager.retry(response_id, count)
    finally:
        # A turn keeps the settings that it began with.
        if values and held["config"]["origin"] == "session":
            await face.manager.configure(session_id, config=held["config"]["value"])
        elif values:
            await face.manager.configure(session_id, reset=["config"])


def _wanted(rest: str) -> tuple[int, dict[str, Any]]:
    """How many replies, and the settings for them: `3 --temperature 0.2`. SettingError."""
    try:
        parts = shlex.split(rest)
    except ValueError as err:
        raise SettingError(f"/retry: {err}.") from err
    count, values = 1, dict[str, Any]()
    if parts and parts[0].isdecimal():
        count = int(parts.pop(0)[:4])
    while parts:
        name, equals, text = parts.pop(0).removeprefix("--").partition("=")
        if not equals:
            if not parts:
                raise SettingError(f"/retry: {name} needs a value: /retry --temperature 0.2")
            text = parts.pop(0)
        key = full_name(name)
        if not key.startswith("generation."):
            raise SettingError(f"{key} is not a setting of a reply; change it with /set.")
        values[key.removeprefix("generation.")] = parse(key, text)
    return count, values


async def _continue(face: Face, rest: str) -> None:
    answer = _last(await path(face), "assistant")
    if answer is None or answer.response_id is None:
        face.say("There is no reply to continue.")
        return
    await face.manager.continue_reply(answer.response_id)


async def _edit(face: Face, rest: str) -> None:
    """Put another message in place of the last one; its reply is written anew on a new branch."""
    question = _last(await path(face), "user")
    if question is None:
        face.say(NOTHING)
        return
    text = rest or await face.edit_text(question.text)
    if text is None or not text.strip() or text.rstrip("\n") == question.text:
        face.say("The message is unchanged.")
        return
    files = [block for block in question.content if block.get("type") not in ("input_text", "text")]
    await face.manager.edit(question.id, [*files, input_text(text.rstrip("\n"))])


async def _undo(face: Face, rest: str) -> None:
    """Take the last message back, with all that came after it; its text is the draft again."""
    items = await path(face)
    question = _last(items, "user")
    if question is None:
        face.say("There is nothing to undo.")
        return
    await _back_to(face, items, question)


async def _rewind(face: Face, rest: str) -> None:
    """Go back to an earlier message of one's own."""
    items = await path(face)
    questions = [item for item in items if isinstance(item, Message) and is_question(item)]
    if not questions:
        face.say("There is nothing to go back to.")
        return
    if rest.isdecimal():
        number = int(rest[:6])
        chosen = questions[-number].id if 1 <= number <= len(questions) else None
        if chosen is None:
            face.say(f"You have sent {len(questions)} messages in this chat.", error=True)
            return
    else:
        choices = [Choice(item.id, whole_text(item)) for item in reversed(questions)]
        chosen = await choose(face, "Go back to just before which message?", choices)
    question = next((item for item in questions if item.id == chosen), None)
    if question is not None:
        await _back_to(face, items, question)


async def _back_to(face: Face, items: list[Item], question: Message) -> None:
    place = next(index for index, item in enumerate(items) if item.id == question.id)
    before = items[place - 1].id if place else None
    await face.manager.rewind(await face.session(), before)
    face.insert(question.text)
    face.say("Your message is back in the draft. What came after it is kept as a branch.")


async def _compact(face: Face, rest: str) -> None:
    if face.session_id is None:
        face.say(NOTHING)
        return
    await face.manager.compact(face.session_id)


def _last_code(text: str) -> str:
    """The last block of code of a reply, as the screen shows it; empty where it has none."""
    from app.markdown.markdown import MarkdownText  # 60 ms that only this needs

    blocks = MarkdownText(text, finished=True).code_blocks()
    return blocks[-1].code if blocks else ""


async def _copy(face: Face, rest: str) -> None:
    """Copy the last reply, its last code block, the last message, or the whole chat; or save it."""
    which, _, name = f" {rest}".partition(" to ")
    match which.strip() or "reply":
        case "reply" | "last":
            found = _last(await path(face), "assistant")
            text, what = found.text if found else "", "the last reply"
        case "code":
            found = _last(await path(face), "assistant")
            text, what = _last_code(found.text) if found else "", "the last code block"
        case "message":
            found = _last(await path(face), "user")
            text, what = whole_text(found) if found else "", "your last message"
        case "chat" | "all":
            session_id = face.session_id
            text = await face.manager.export(session_id, "markdown") if session_id else ""
            what = "the chat"
        case _:
            face.say("/copy expects reply, code, message or chat.", error=True)
            return
    if not text:
        face.say(f"Nothing to copy: {what} is missing.")
        return
    if name.strip():
        if (target := await write_file(face, name, text)) is not None:
            face.say(f"Saved {what} to {squeezed(str(target))}.")
        return
    await face.copy(text, what)


async def _context(face: Face, rest: str) -> None:
    """Where the tokens of the next prompt come from."""
    found = await face.manager.context(await face.session(), rest)
    mark, window = "" if found["exact"] else "~", int(found["window"] or 0)
    rows = [(name, f"{mark}{tokens:,}") for name, tokens in found["parts"].items()]
    total = int(found["total"])
    share = f"{100 * total / window:.0f} %" if window else ""
    await show(
        face,
        "Context",
        [*rows, ("total", f"{mark}{total:,} of {f'{window:,}' if window else 'an unknown number'}", share)],
    )


async def _usage(face: Face, rest: str) -> None:
    """Tokens of the last reply and of the chat."""
    used = [item.usage for item in await path(face) if isinstance(item, Message) and item.usage]
    if not used:
        face.say("There are no replies yet.")
        return
    last = used[-1]
    rows = [
        ("last reply", f"{last['input_tokens']:,} tokens read", f"{last['output_tokens']:,} written"),
        (
            "this chat",
            f"{sum(int(one['input_tokens']) for one in used):,} tokens read",
            f"{sum(int(one['output_tokens']) for one in used):,} written",
        ),
    ]
    await show(face, "Usage", rows)


async def _queue(face: Face, rest: str) -> None:
    """Show the messages that wait; edit or remove one."""
    waiting = await face.manager.queue(face.session_id) if face.session_id else []
    if not waiting:
        face.say("No messages are waiting.")
        return
    texts = [_text(item) for item in waiting]
    verb, _, number = rest.partition(" ")
    if not verb:
        rows = [
            (str(place), cut(text), ", ".join(file_labels(item["content"])))
            for place, (item, text) in enumerate(zip(waiting, texts, strict=True), 1)
        ]
        await show(face, "Waiting messages", rows)
        return
    if verb not in ("edit", "remove") or not number.isdecimal() or not 1 <= int(number[:6]) <= len(waiting):
        face.say("Say which one: /queue edit 1, or /queue remove 1.", error=True)
        return
    item, text = waiting[int(number) - 1], texts[int(number) - 1]
    if verb == "remove":
        await face.manager.queue_remove(str(item["id"]))
        face.say(f"Removed: {cut(text)}")
        return
    changed = await face.edit_text(text)
    if changed is None or not changed.strip():
        face.say("The message is unchanged.")
        return
    files = [block for block in item["content"] if block.get("type") not in ("input_text", "text")]
    await face.manager.queue_edit(str(item["id"]), [*files, input_text(changed.rstrip("\n"))])
    face.say("The waiting message was changed.")


def _text(item: dict[str, Any]) -> str:
    return "".join(str(block["text"]) for block in item["content"] if "text" in block)


def _last(items: list[Item], role: str) -> Message | None:
    wanted = is_question if role == "user" else is_answer
    found = next((item for item in reversed(items) if wanted(item)), None)
    return found if isinstance(found, Message) else None


async def _show_prompt(face: Face, rest: str) -> None:
    """The exact text that the model would read."""
    made = await face.manager.preview(await face.session(), rest)
    tokens = "" if made["tokens"] is None else f"{made['tokens']:,} tokens"
    await show(face, squeezed(f"Prompt  {tokens}"), str(made["text"]))


COMMANDS = (
    Command("retry", "/retry [N] [--KEY VALUE]", "regenerate the reply", _retry, key="ctrl+r"),
    Command("continue", "/continue", "continue a reply that was cut off or stopped", _continue),
    Command("edit", "/edit [TEXT]", "edit your last message and resend it", _edit),
    Command("undo", "/undo", "take your last message back into the draft", _undo),
    Command("rewind", "/rewind [N]", "go back to an earlier message", _rewind),
    Command("queue", "/queue [edit|remove N]", "show, edit or remove waiting messages", _queue),
    Command("compact", "/compact", "summarise older turns", _compact),
    Command(
        "copy",
        "/copy [reply|code|message|chat] [to FILE]",
        "copy to the clipboard, or save to a file",
        _copy,
        complete=words("reply", "code", "message", "chat"),
    ),
    Command("context", "/context", "show where the tokens of the next prompt come from", _context),
    Command("usage", "/usage", "show the tokens of the last reply and of this chat", _usage, ("stats",)),
    Command("prompt", "/prompt [DRAFT]", "show the exact text the model would read", _show_prompt),
)

"""Commands about what the model may do and is given: tools, rules, approvals, files, the clipboard."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from app import paths
from app.commands.face import Command, Completion, Face, words
from app.commands.shared import settings, show, tell_unmet
from app.frontend.abilities import without_tools
from app.terminal.output import sanitize, squeezed

MODES = ("ask", "read", "all", "none", "plan")
_MEANING = {
    "ask": "Every call that touches something asks first.",
    "read": "Read-only calls in the workspace run; everything else asks first.",
    "all": "Calls on workspace files, web pages and sandboxed commands run; everything else asks first.",
    "none": "Every call that touches something is refused.",
    "plan": "The model can only read and plan.",
}
MOST_FILES = 200


async def _tools(face: Face, rest: str) -> None:
    """Show the tools and the saved rules; choose tools; take a rule back."""
    verb, _, name = rest.partition(" ")
    session_id = await face.session()
    match verb:
        case "":
            if not await face.screen("tools"):
                await _show_tools(face, session_id)
        case "revoke":
            await _revoke(face, session_id, name.strip())
        case "aside":
            await _aside(face, name.strip())
        case "all":
            await face.manager.configure(session_id, reset=["tools"])
            tell_unmet(face, _mute(face), "All tools are offered.")
        case "none":
            await face.manager.configure(session_id, tools=[])
            face.say("No tool is offered.")
        case _:
            names = [part for part in rest.replace(",", " ").split() if part]
            await face.manager.configure(session_id, tools=names)
            tell_unmet(face, _mute(face), f"Offered from now on: {squeezed(', '.join(names))}.")


async def _show_tools(face: Face, session_id: str) -> None:
    found = await face.manager.tools(session_id)
    if not found:
        face.say("This chat has no tools. Offer some with: fireside repl --tools NAMES")
        return
    card = face.manager.card
    is_mute = card is not None and not card.supports_tools
    rows: list[tuple[str, ...]] = [
        (
            one["name"],
            "not offered" if is_mute else "offered" if one["offered"] else "off",
            str(one["description"]).partition("\n")[0],
        )
        for one in found
    ]
    for number, rule in enumerate(await face.manager.rules(session_id), 1):
        scope = "always" if rule["scope"] == "always" else "this chat"
        fault = f"no longer used, because {rule['fault']}: " if rule.get("fault") else ""
        rows.append((f"rule {number}", f"{rule['tool']}, {scope}", fault + str(rule["rule"].get("text", ""))))
    await show(face, "Tools", rows)
    if is_mute:
        face.say(_mute(face))


def _mute(face: Face) -> str:
    """That the loaded model cannot call tools; "" where it can, or is not known yet."""
    card = face.manager.card
    return "" if card is None or card.supports_tools else squeezed(str(without_tools(card)))


async def _aside(face: Face, rest: str) -> None:
    """Show what runs left that would become code; allow or drop one."""
    verb, _, which = rest.partition(" ")
    shelf, which = face.manager.shelf, which.strip()
    match verb:
        case "":
            kept = await shelf.all()
            if not kept:
                face.say("Nothing was moved aside.")
                return
            rows = [
                (str(number), f"{squeezed(one['path'])}, {one['reason']}", squeezed(one["workspace"]))
                for number, one in enumerate(kept, 1)
            ]
            await show(face, "Moved aside, because it would become code", rows)
            face.say("/tools aside show N, allow N or drop N")
        case "show":
            await face.show("Moved aside", sanitize(await shelf.text(which)))
        case "allow":
            face.say(f"{squeezed(str(await shelf.allow(which)))} is back.")
        case "drop":
            await shelf.drop(which)
            face.say("It was deleted.")
        case _:
            face.say("/tools aside, or /tools aside show N, allow N or drop N", error=True)


async def _revoke(face: Face, session_id: str, which: str) -> None:
    rules = await face.manager.rules(session_id)
    if not which.isdecimal() or not 1 <= int(which[:6]) <= len(rules):
        face.say("Say which rule: /tools revoke 1. /tools shows their numbers.", error=True)
        return
    await face.manager.revoke(str(rules[int(which) - 1]["id"]))
    face.say("The rule was removed: such calls ask again.")


async def _complete_tools(face: Face, rest: str) -> Sequence[Completion]:
    if face.session_id is None:
        return []
    names = [(str(one["name"]), str(one["description"])) for one in await face.manager.tools(face.session_id)]
    verbs = [
        ("all", "offer all"),
        ("none", "offer none"),
        ("revoke", "remove a saved rule"),
        ("aside", "files that were moved aside"),
    ]
    return [
        Completion(name, squeezed(detail)[:60]) for name, detail in [*verbs, *names] if name.startswith(rest)
    ]


async def _approve(face: Face, rest: str) -> None:
    if not rest:
        mode = str((await settings(face))["approve"]["value"])
        face.say(f"Approvals: {mode}. {_MEANING[mode]}")
    else:
        await face.manager.configure(await face.session(), approve=rest)
        face.say(_MEANING[rest])
    if paths.holds_home((await settings(face))["workspace"]["value"]):
        face.say("The workspace contains your whole home folder: names that begin with a dot ask there.")


async def _attach(face: Face, rest: str) -> None:
    """Add a file to the next message."""
    if not rest and await face.screen("files"):
        return
    name = (rest or await face.ask("File") or "").strip()
    if not name:
        return
    if face.name_file(name):
        return
    from app.frontend.draft import file_block

    session_id = await face.session()
    file = await face.manager.files.upload(session_id, Path(name).expanduser())
    face.attach(file_block(file.id, file.name, file.bytes, file.content_type), squeezed(file.name))
    face.say(f"{squeezed(file.name)} will be sent with the next message, {file.bytes:,} bytes.")


async def complete_files(face: Face, rest: str) -> Sequence[Completion]:
    """Files and folders that begin with what was typed."""
    typed = Path(os.path.expanduser(rest))
    folder, start = (typed, "") if rest.endswith("/") or not rest else (typed.parent, typed.name)
    found: list[Completion] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                hidden = entry.name.startswith(".") and not start.startswith(".")
                if not hidden and entry.name.startswith(start):
                    head = rest[: len(rest) - len(start)]
                    found.append(Completion(f"{head}{entry.name}{'/' if entry.is_dir() else ''}"))
                if len(found) >= MOST_FILES:
                    break
    except OSError:
        return []
    return sorted(found, key=lambda one: one.text)


async def _paste(face: Face, rest: str) -> None:
    if text := await face.clipboard():
        face.insert(text)


COMMANDS = (
    Command(
        "tools",
        "/tools [NAMES|all|none|revoke N|aside]",
        "choose tools, and see or remove saved rules",
        _tools,
        complete=_complete_tools,
    ),
    Command(
        "approve",
        "/approve [ask|read|all|none|plan]",
        "choose what runs without asking",
        _approve,
        key="shift+tab",
        complete=words(*MODES),
    ),
    Command("attach", "/attach FILE", "attach a file to the next message", _attach, complete=complete_files),
    Command("paste", "/paste", "paste the clipboard into the draft", _paste),
)

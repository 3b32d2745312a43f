"""Commands about the model and its settings: choose, instruct, think, sample, keep as a profile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app.commands.face import Choice, Command, Completion, Face, words
from app.commands.shared import change_generation, choose, settings, show, tell_unmet
from app.frontend.engines import models_on_servers, on_the_same_server
from app.settings.config import TEMPLATE, full_name, parse
from app.settings.kinds import CHOICES, SettingError
from app.settings.table import KINDS, words_of
from app.settings.text_or_file import template_origin, template_text
from app.terminal.output import squeezed
from backend.types import GenerationConfig

_SESSION = ("overflow", "max_rounds", "workspace")


async def _model(face: Face, rest: str) -> None:
    if not rest:
        if await face.screen("model"):
            return
        found = [entry for entry in await face.manager.models() if entry.kind != "broken"]
        away = await models_on_servers(face.settings, face.manager.model_source)
        if not found and not away:
            face.say("No model was found. Fetch one with: fireside models pull USER/REPO", error=True)
            return
        choices = [
            Choice(
                str(entry.path), entry.name, f"{entry.quantization}  {entry.n_params / 1e6:,.0f} M parameters"
            )
            for entry in found
        ]
        choices += [Choice(one.source, one.name, one.fault or f"on {one.source}") for one in away]
        chosen = await choose(face, "Which model?", choices)
        if chosen is None:
            return
        rest = chosen
    else:
        rest = await _source(face, rest)
    if not rest:
        return

    async def loaded() -> None:
        if face.session_id is not None and (await settings(face))["model"]["origin"] == "session":
            await face.manager.set_model_override(face.session_id, rest)

    await face.load_model(rest, {}, loaded)


async def _source(face: Face, name: str) -> str:
    """What loads the model that a person names: one of this machine, else of the server in use, else of the
    hub; "" where it is not fetched."""
    if "://" in name or name.startswith("server:"):
        return name
    here = {entry.name.casefold() for entry in await face.manager.models()}
    if name.casefold() in here or Path(name).exists():
        return name
    if (beside := on_the_same_server(name, face.manager.model_source)) is not None:
        return beside
    fetched = await _of_hub(face, name)
    return name if fetched is None else fetched


async def _of_hub(face: Face, name: str) -> str | None:
    """The file of a model that is named by its repository, fetched if the person wants it; "" if not.

    None for any other name. Raises Failure.
    """
    from app.models.download import is_repository

    if not is_repository(name):
        return None
    return await fetch_model(face, name) or ""


async def fetch_model(face: Face, name: str) -> str | None:
    """Fetch a model of the hub, if the person wants it; the file to load. Raises Failure."""
    from app.models.download import download

    async def agree(model: str, takes: str) -> bool:
        choices = [Choice("yes", "fetch it", takes), Choice("no", "cancel")]
        if await choose(face, model, choices) != "yes":
            return False
        face.show_download(0.0)
        return True

    def show(done: int, total: int) -> None:
        face.show_download(done / total if total else 0.0)

    try:
        path = await download(name, agree, show, lambda: face.gave_up)
        if path is None and face.gave_up:
            face.say("The download was stopped. Fetch the model again to resume it.")
        return None if path is None else str(path)
    finally:
        face.show_download(None)


async def _complete_models(face: Face, rest: str) -> Sequence[Completion]:
    from app.settings.servers import servers

    wanted = rest.lower()
    here = [
        Completion(entry.name, squeezed(entry.quantization))
        for entry in await face.manager.models()
        if entry.kind != "broken" and wanted in entry.name.lower()
    ]
    away = [
        Completion(server.source, squeezed(server.urls[0]))
        for server in (await asyncio.to_thread(servers, face.settings)).all
        if wanted in server.source.lower()
    ]
    return [*here, *away]


async def _system(face: Face, rest: str) -> None:
    session_id = await face.session()
    held: str | None = (await settings(face))["system"]["value"]
    match rest:
        case "":
            await show(face, "System prompt", held or "No system prompt is set. Set one with /system TEXT.")
            return
        case "edit":
            text = await face.edit_text(held or "")
            if text is None:
                return
        case _:
            text = rest
    if rest == "none" or not text.strip():
        await face.manager.configure(session_id, reset=["system"])
        face.say("The system prompt was removed.")
        return
    await face.manager.configure(session_id, system=text.rstrip("\n"))
    face.say("The system prompt applies from the next message on.")


async def _think(face: Face, rest: str) -> None:
    match rest:
        case "on" | "off":
            await change_generation(face, enable_thinking=rest == "on")
            said = "The model thinks first." if rest == "on" else "The model answers without thinking."
            tell_unmet(face, _unmet(face, enable_thinking=rest == "on"), said)
        case "auto":
            await change_generation(face, enable_thinking=None)
            face.say("The model decides whether to think.")
        case "":
            value = (await settings(face))["config"]["value"].get("enable_thinking")
            state = {True: "on", False: "off", None: "auto"}[value]
            face.say(f"Thinking is {state}. Change it with /think on, off or auto.")
        case _:
            face.say("/think expects on, off or auto.", error=True)


def _unmet(face: Face, **asked: Any) -> str:
    """What the loaded model cannot do of what is asked about thinking, as a sentence."""
    card = face.manager.card
    return "" if card is None else card.unmet_thinking(GenerationConfig(**asked))


async def _effort(face: Face, rest: str) -> None:
    session_id = await face.session()
    if not rest:
        level = (await settings(face))["reasoning_effort"]["value"]
        face.say(
            f"The effort is {level or 'not set'}. Change it with /effort LEVEL: "
            f"{', '.join(CHOICES['effort'])} or auto."
        )
        return
    await face.manager.set_reasoning_effort(session_id, None if rest == "auto" else rest)
    if rest == "auto":
        face.say("The effort was reset.")
    else:
        tell_unmet(face, _unmet(face, reasoning_effort=rest), f"The effort is now {squeezed(rest)}.")


async def _set(face: Face, rest: str) -> None:
    """Set one setting of this chat, or of the model's load."""
    name, _, text = rest.replace("=", " ", 1).partition(" ")
    if not name:
        await _params(face, "")
        return
    if name in _SESSION:
        await _set_session(face, name, text.strip())
        return
    key = full_name(name)
    table, _, leaf = key.rpartition(".")
    if not text.strip():
        await _tell(face, key)
        return
    value = parse(key, text.strip())
    match table:
        case "generation":
            await change_generation(face, **{leaf: value})
            card, said = face.manager.card, f"{leaf} = {squeezed(_written(value))}"
            asks_calls = leaf == "tool_choice" and value not in (None, "auto", "none")
            if asks_calls and card is not None and not card.supports_tools:
                face.say(
                    f"This model cannot call tools; allow it with /set load.tool_call_format generic; {said} "
                    "applies then."
                )
                return
            face.say(f"{said}, from the next message on.")
        case "load":
            if key == TEMPLATE:
                face.say(f"The chat template is {template_origin(value)}.")
                value = template_text(value)
            # That of the settings may be another one than was chosen since.
            await face.load_model(face.manager.model_source or face.settings.get("model"), {leaf: value})
        case _:
            face.say(f"{key} has its own command or flag; see /help.", error=True)


async def _tell(face: Face, key: str) -> None:
    leaf = key.rpartition(".")[2]
    if key.startswith("generation."):
        value = (await settings(face))["config"]["value"].get(leaf)
    else:
        value = face.settings.get(key)
    face.say(f"{leaf} is not set." if value is None else f"{leaf} = {squeezed(_written(value))}")


async def _set_session(face: Face, name: str, text: str) -> None:
    session_id = await face.session()
    if not text:
        face.say(f"{name} = {squeezed(str((await settings(face))[name]['value']))}")
        return
    value: Any = text
    if name == "max_rounds":
        if not text.isdecimal():
            raise SettingError(f"max_rounds must be a whole number of at least 1, not {text[:40]!r}.")
        value = int(text[:9])
    await face.manager.configure(session_id, **{name: value})
    face.say(f"{name} = {squeezed(text)}, from the next message on.")


async def _unset(face: Face, rest: str) -> None:
    if not rest:
        face.say("Name a setting, such as: /unset temperature", error=True)
        return
    if rest in (*_SESSION, "approve", "tools", "system", "model", "reasoning_effort"):
        await face.manager.configure(await face.session(), reset=[rest])
    else:
        key = full_name(rest)
        if not key.startswith("generation."):
            raise SettingError(f"{key} applies to all chats. Unset it with: fireside config unset {key}")
        await change_generation(face, **{key.rpartition(".")[2]: None})
    face.say(f"{squeezed(rest)} is no longer set in this chat.")


async def _params(face: Face, rest: str) -> None:
    """Every setting that holds, with its origin."""
    if await face.screen("params"):
        return
    held, rows = await settings(face), list[tuple[str, ...]]()
    for name, value in sorted(held["config"]["value"].items()):
        given = face.settings.values.get(f"generation.{name}")
        origin = given.origin if given is not None and given.value == value else "this chat"
        rows.append((name, _written(value), origin))
    for name, entry in held.items():
        if name != "config" and entry["value"] is not None:
            rows.append((name, _written(entry["value"]), str(entry["origin"])))
    for key, value in face.settings.values.items():
        if key.startswith("load."):
            rows.append((key, _written(value.value), value.origin))
    await show(face, "Settings", rows)


async def _complete_settings(face: Face, rest: str) -> Sequence[Completion]:
    name, space, value = rest.partition(" ")
    if not space:
        keys = [key for key in KINDS if "." in key]
        does = {key if "." in name else key.rpartition(".")[2]: words_of(key)[0] for key in reversed(keys)}
        if "." not in name:
            does |= {leaf: words_of(leaf)[0] for leaf in _SESSION if leaf not in does}
        return [Completion(shown, does[shown]) for shown in sorted(does) if shown.startswith(name)]
    try:
        kind = KINDS[full_name(name)]
    except SettingError:
        return []
    choices = ("true", "false") if kind == "bool" else CHOICES.get(kind, ())
    return [Completion(f"{name} {choice}") for choice in choices if choice.startswith(value)]


async def _save(face: Face, rest: str) -> None:
    """Keep model, system prompt, sampling, tools and approvals of this chat as a profile."""
    name = (rest or await face.ask("Profile name") or "").strip()
    if not name:
        return
    from app.settings.profiles import write_profile

    held = await settings(face)
    values: dict[str, Any] = {key: held[key]["value"] for key in ("model", "system", "approve", "tools")}
    values["model"] = values["model"] or face.settings.get("model")
    values["tools"] = None if values["tools"] is None else tuple(values["tools"])
    values |= {f"generation.{leaf}": value for leaf, value in held["config"]["value"].items()}
    file = write_profile(name, {key: value for key, value in values.items() if value is not None})
    face.say(f"Saved as {squeezed(str(file))}. Start a chat like this one with: fireside --profile {name}")


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


COMMANDS = (
    Command(
        "model",
        "/model [NAME]",
        "choose a model",
        _model,
        ("models",),
        key="ctrl+l",
        complete=_complete_models,
    ),
    Command(
        "system",
        "/system [TEXT|edit|none]",
        "show or change the system prompt of this chat",
        _system,
        complete=words("edit", "none"),
    ),
    Command(
        "think",
        "/think [on|off|auto]",
        "let the model think first, or not",
        _think,
        complete=words("on", "off", "auto"),
    ),
    Command(
        "effort",
        "/effort [LEVEL]",
        "set how hard the model thinks",
        _effort,
        complete=words(*CHOICES["effort"], "auto"),
    ),
    Command("set", "/set KEY [VALUE]", "change a setting of this chat", _set, complete=_complete_settings),
    Command(
        "unset",
        "/unset KEY",
        "reset a setting of this chat",
        _unset,
        complete=_complete_settings,
        palette=False,
    ),
    Command(
        "params", "/params", "show the settings in effect and where they come from", _params, ("settings",)
    ),
    Command("save", "/save NAME", "save this chat's settings as a profile", _save),
)

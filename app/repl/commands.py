"""The REPL's slash commands: one table of names, helps and functions."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.config import Settings, Value, full_name, parse, resolve
from app.kinds import SettingError

if TYPE_CHECKING:
    from app.repl.repl import Repl


@dataclass(frozen=True, slots=True)
class Command:
    """One slash command; `run` gets the REPL and what follows the name, and returns what to say."""

    usage: str
    help: str
    run: Callable[[Repl, str], str]


def run_command(repl: Repl, line: str) -> str:
    """Run the slash command `line`; returns what to say about it."""
    name, _, rest = line.removeprefix("/").partition(" ")
    if (command := COMMANDS.get(name)) is not None:
        return command.run(repl, rest.strip())
    near = difflib.get_close_matches(name, COMMANDS, n=1)
    hint = f"Did you mean /{near[0]}?" if near else "/help lists them."
    return f"There is no command /{name}. {hint} To send text that starts with a slash, write two."


def _help(repl: Repl, rest: str) -> str:
    rows = [f"  {command.usage:<18} {command.help}" for command in COMMANDS.values()]
    return "\n".join(["Commands:", *rows])


def _quit(repl: Repl, rest: str) -> str:
    repl.leaving = True
    return ""


def _new(repl: Repl, rest: str) -> str:
    repl.chat.reset()
    return "A new chat."


def _system(repl: Repl, rest: str) -> str:
    if not rest:
        return str(repl.settings.get("system") or "There is no system prompt.")
    repl.settings = _with(repl.settings, "system", Value(rest, "/system"))
    repl.start_chat()
    return "A new chat with this system prompt."


def _set(repl: Repl, rest: str) -> str:
    name, _, text = rest.partition(" ")
    if not name:
        return "Give a setting: /set temperature 0.7"
    try:
        key = full_name(name)
        if not text:
            return f"{key} = {repl.settings.get(key, '(not set)')}"
        if not key.startswith("generation."):
            return f"{key} holds from the start of a chat: fireside repl --set {name}={text}"
        repl.settings = _with(repl.settings, key, Value(parse(key, text.strip()), "/set"))
    except SettingError as err:
        return str(err)
    return f"{key} = {repl.settings.get(key)}"


def _unset(repl: Repl, rest: str) -> str:
    if not rest:
        return "Give a setting: /unset temperature"
    try:
        key = full_name(rest)
        if not key.startswith("generation."):
            return f"{key} holds from the start of a chat: `fireside config unset {key}` is for the next."
        others = {name: value for name, value in repl.settings.values.items() if name != key}
        repl.settings = resolve(others)
    except SettingError as err:
        return str(err)
    if (left := repl.settings.values.get(key)) is not None:
        return f"{key} = {left.value}, which {left.origin} says."
    return f"{key} is not set; its default holds."


def _params(repl: Repl, rest: str) -> str:
    values = {key: (item.value, item.origin) for key, item in repl.settings.values.items()}
    for name, (value, origin) in repl.model.explain(repl.settings.generation()).items():
        values.setdefault(f"generation.{name}", (value, f"default of the {origin}"))
    return "\n".join(f"  {key} = {value}    ({origin})" for key, (value, origin) in sorted(values.items()))


def _model(repl: Repl, rest: str) -> str:
    card = repl.model.card
    devices = ", ".join(card.devices) or "cpu"
    return (
        f"{card.model_id}: {card.architecture}, {card.parameters / 1e6:.0f} M parameters, "
        f"{card.quantization}, context {card.max_seq}, on {devices}"
    )


def _usage(repl: Repl, rest: str) -> str:
    report = repl.chat.report
    if report is None:
        return "There is no reply yet."
    return (
        f"{report.prompt_tokens} prompt tokens ({report.reused_tokens} reused), {report.new_tokens} new, "
        f"{report.tokens_per_second:.1f} tokens/s, first after {report.time_to_first_token_s:.2f} s, "
        f"seed {report.seed}; the context holds {repl.model.max_seq}"
    )


def _retry(repl: Repl, rest: str) -> str:
    if not repl.unsent:
        return "There is no message that failed."
    repl.answer(repl.unsent)
    return ""


def _with(settings: Settings, key: str, value: Value) -> Settings:
    """`settings` with one more value, checked like all others."""
    return resolve({**settings.values, key: value})


COMMANDS: dict[str, Command] = {
    "help": Command("/help", "this list", _help),
    "new": Command("/new", "begin a new chat", _new),
    "system": Command(
        "/system [TEXT]", "show or set the system prompt; setting it begins a new chat", _system
    ),
    "set": Command("/set KEY [VALUE]", "show or set a sampling setting", _set),
    "unset": Command("/unset KEY", "take a sampling setting back", _unset),
    "params": Command("/params", "the settings that hold, with their origin", _params),
    "model": Command("/model", "what is loaded", _model),
    "usage": Command("/usage", "tokens and speed of the last reply", _usage),
    "retry": Command("/retry", "send the message again that failed", _retry),
    "quit": Command("/quit", "leave (also Ctrl-D)", _quit),
}

"""The flags of a chat as a table, and the typer command that takes them.

One table serves every command that chats; a flag names the setting it sets, or is the command's own.
"""

from __future__ import annotations

import json
import keyword
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from app.characters import quote
from app.cli.completions import COMPLETERS, Completer, of_kind
from app.settings.config import Settings, Value, full_name, parse, resolve, tell_once
from app.settings.kinds import BOM, Kind, SettingError
from app.settings.project import read_project
from app.settings.table import SETTINGS
from app.settings.text_or_file import grammar_text, schema_text, template_value

if TYPE_CHECKING:
    import typer

Given = dict[str, Any]
"""The flags a person gave, by parameter name."""


class Flag(NamedTuple):
    """One flag: its spellings, the type typer reads, the help, the setting it sets (or none)."""

    names: tuple[str, ...]
    kind: Any
    help: str
    setting: str | None = None
    metavar: str | None = None

    @property
    def name(self) -> str:
        """The parameter's name: the longest spelling."""
        first = max((spelling.partition("/")[0] for spelling in self.names), key=len)
        name = first.lstrip("-").replace("-", "_")
        return f"{name}_" if keyword.iskeyword(name) else name


_TYPES: dict[Kind, Any] = {
    **dict.fromkeys(("int", "count", "index", "seed"), int),
    **dict.fromkeys(("float", "seconds"), float),
    **dict.fromkeys(("texts", "adapters"), list[str]),
    "bool": bool,
}
"""What typer reads for the kinds of settings that are not text to it."""


def _of(*settings: str) -> tuple[Flag, ...]:
    """The flags of these settings, as the table of settings has them."""
    rows = ((key, SETTINGS[key]) for key in settings)
    return tuple(Flag(one.flag, _TYPES.get(one.kind, str), one.help, key, one.metavar) for key, one in rows)


CHAT: tuple[Flag, ...] = (
    *_of("model", "server", "pull", "system"),
    Flag(
        ("--profile",), str, "A set of settings: profiles/NAME.toml beside your settings file.", None, "NAME"
    ),
    *_of("instructions", "generation.enable_thinking", "generation.reasoning_effort", "show_thinking"),
    *_of("load.max_seq", "load.n_gpu_layers", "generation.max_new_tokens", "generation.temperature"),
    *_of("generation.top_k", "generation.top_p", "generation.min_p", "generation.typical_p"),
    *_of("generation.repeat_penalty", "generation.frequency_penalty", "generation.presence_penalty"),
    *_of("generation.seed", "generation.stop", "generation.json_schema", "generation.grammar"),
    *_of("load.threads", "load.slots", "load.kv_cache_type", "load.flash_attn", "load.chat_template"),
    *_of("load.tool_call_format", "load.mmproj", "load.assistant_model", "load.lora"),
    *_of("timeout", "color", "ascii"),
    Flag(("--set",), list[str], "Any setting of load or generation (repeatable).", None, "KEY=VALUE"),
)
"""In the order in which `--help` shows them."""

SESSION: tuple[Flag, ...] = (
    *_of("tools"),
    Flag(("--no-tools",), bool, "Offer no tools."),
    *_of("approve"),
    Flag(("--workspace",), str, "The folder that tools work in; the current one by default.", None, "DIR"),
    Flag(("--max-turns",), int, "The most rounds of tool calls.", None, "N"),
    Flag(("--continue", "-c"), bool, "Continue the last chat."),
    Flag(("--resume",), str, "Continue this chat; without an id, choose one.", None, "[ID]"),
    Flag(("--fork",), str, "Continue in a copy of this chat.", None, "ID"),
    Flag(("--private",), bool, "Save nothing of this chat to disk."),
)


def _completer(flag: Flag) -> Completer | None:
    return COMPLETERS.get(flag.name) or (of_kind(SETTINGS[flag.setting].kind) if flag.setting else None)


def command(run: Callable[[typer.Context, Given], int], *flags: Flag) -> Callable[..., None]:
    """A function that typer reads `flags` from; it calls `run` and exits with what that returns."""
    import inspect

    import typer

    def invoke(invocation: typer.Context, **values: Any) -> None:
        given = {name: value for name, value in values.items() if value is not None and value != []}
        if code := run(invocation, given):
            raise typer.Exit(code)

    parameters = [
        inspect.Parameter("invocation", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    ]
    for flag in flags:
        option = typer.Option(
            *flag.names,
            help=flag.help,
            metavar=flag.metavar,
            show_default=False,
            autocompletion=_completer(flag),
        )
        annotation = Annotated[flag.kind | None, option]
        parameters.append(
            inspect.Parameter(flag.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        )
    invoke.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
    invoke.__annotations__ = {item.name: item.annotation for item in parameters}
    invoke.__doc__ = run.__doc__
    return invoke


def settings_of(given: Mapping[str, Any]) -> Settings:
    """The settings that hold with the flags in `given`; SettingError or OSError with its reason."""
    values: dict[str, Value] = {}
    for assignment in given.get("set", ()):
        name, equals, text = assignment.partition("=")
        if not equals:
            raise SettingError(f"--set expects KEY=VALUE, not {quote(assignment)}.")
        key = full_name(name)
        values[key] = Value(parse(key, text), "--set")
    for flag in (*CHAT, *SESSION):
        if flag.setting is not None and flag.name in given:
            values[flag.setting] = Value(_value(flag, given[flag.name]), flag.names[0].partition("/")[0])
    return _with_surroundings(values, given)


def _with_surroundings(values: Mapping[str, Value], given: Mapping[str, Any]) -> Settings:
    """The settings that hold with what the profile and the folder bring."""
    profile: dict[str, Value] = {}
    if "profile" in given:
        from app.settings.profiles import read_profile

        profile = read_profile(given["profile"])
    project = read_project(Path(given.get("workspace") or ""))
    settings = resolve(values, project=project.values, profile=profile)
    for notice in project.notices:
        tell_once(notice)
    if not project.instructions or not settings.get("instructions", True):
        return settings
    return settings._replace(instructions=project.instructions)


def _value(flag: Flag, value: Any) -> Any:
    match flag.name:
        case "schema":
            return parse("generation.json_schema", schema_text(value))
        case "grammar":
            return grammar_text(value)
        case "chat_template":
            return template_value("--chat-template", value)
        case "stop" | "tools":
            return tuple(value)
        case "lora":
            return parse("load.lora", json.dumps(value))
        case "gpu_layers" | "flash_attn":
            return parse(str(flag.setting), value)
        case _:
            return value.removeprefix(BOM) if isinstance(value, str) else value  # as in -s "$(cat FILE)"

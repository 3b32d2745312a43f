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
from app.cli.completions import COMPLETERS
from app.settings.config import Settings, Value, full_name, parse, resolve, tell_once
from app.settings.kinds import BOM, SettingError
from app.settings.project import read_project
from app.settings.text_or_file import grammar_text, schema_text, template_text

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


def _knob(flag: str, kind: Any, help: str, setting: str = "") -> Flag:
    name = setting or f"generation.{flag.replace('-', '_')}"
    return Flag((f"--{flag}",), kind, help, name)


CHAT: tuple[Flag, ...] = (
    Flag(("--model", "-m"), str, "Model: a file, a folder, a name, or user/repo[:quantization].", "model"),
    Flag(("--pull",), bool, "Fetch the model if it is missing, without asking.", "pull"),
    Flag(("--system", "-s"), str, "System prompt.", "system"),
    Flag(
        ("--profile",), str, "A set of settings: profiles/NAME.toml beside your settings file.", None, "NAME"
    ),
    Flag(
        ("--instructions/--no-instructions",),
        bool,
        "Give the model AGENTS.md of a trusted folder, or not.",
        "instructions",
    ),
    Flag(("--think/--no-think",), bool, "Let the model think first, or not.", "generation.enable_thinking"),
    _knob(
        "effort",
        str,
        "How hard to think: none, minimal, low, medium, high, xhigh, max.",
        "generation.reasoning_effort",
    ),
    Flag(("--show-thinking",), bool, "Show the thinking, on standard error.", "show_thinking"),
    _knob("ctx", int, "Context window in tokens.", "load.max_seq"),
    Flag(("--gpu-layers",), str, "Layers on the GPU: a number, all or auto.", "load.n_gpu_layers"),
    _knob("max-tokens", int, "The most tokens a reply may have.", "generation.max_new_tokens"),
    _knob("temperature", float, "Randomness; 0 always takes the likeliest token."),
    _knob("top-k", int, "Keep the k most probable tokens; 0 keeps all."),
    _knob("top-p", float, "Nucleus sampling; 1 is off."),
    _knob("min-p", float, "Drop tokens below this share of the best; 0 is off."),
    _knob("typical-p", float, "Locally typical sampling; 1 is off."),
    _knob("repeat-penalty", float, "Penalty for repeated tokens; 1 is off."),
    _knob("frequency-penalty", float, "Penalty that grows with each repetition; 0 is off."),
    _knob("presence-penalty", float, "Penalty for tokens seen at all; 0 is off."),
    _knob("seed", int, "Seed of the sampler; unset, each run differs."),
    Flag(("--stop",), list[str], "End the reply before this text (repeatable).", "generation.stop", "TEXT"),
    Flag(
        ("--schema",),
        str,
        "JSON schema the reply must satisfy: a file or JSON.",
        "generation.json_schema",
        "FILE|JSON",
    ),
    Flag(
        ("--grammar",),
        str,
        "GBNF grammar the reply must match: a file or GBNF.",
        "generation.grammar",
        "FILE|GBNF",
    ),
    _knob("threads", int, "CPU threads.", "load.threads"),
    _knob("slots", int, "Replies that can decode at the same time.", "load.slots"),
    _knob("kv-type", str, "Type of the KV cache, such as q8_0.", "load.kv_cache_type"),
    Flag(("--flash-attn",), str, "Flash attention: on, off or auto.", "load.flash_attn"),
    Flag(
        ("--chat-template",),
        str,
        "Chat template: a file, or the template itself.",
        "load.chat_template",
        "FILE|TEXT",
    ),
    Flag(
        ("--tool-format",),
        str,
        "How the model writes tool calls; generic works with any model.",
        "load.tool_call_format",
        "NAME",
    ),
    Flag(("--mmproj",), str, "The projector of a model that sees or hears.", "load.mmproj", "FILE"),
    Flag(("--draft-model",), str, "A small model that drafts for this one.", "load.assistant_model", "NAME"),
    Flag(("--lora",), list[str], "LoRA adapter (repeatable).", "load.lora", "FILE[:SCALE]"),
    Flag(("--timeout",), float, "Give up after this many seconds.", "timeout", "SECONDS"),
    Flag(("--color",), str, "Colours: auto, always, never, 16, 256 or truecolor.", "color", "DEPTH"),
    Flag(("--ascii",), bool, "Draw with ASCII only.", "ascii"),
    Flag(("--set",), list[str], "Any setting of load or generation (repeatable).", None, "KEY=VALUE"),
)

SESSION: tuple[Flag, ...] = (
    Flag(
        ("--tools",),
        list[str],
        "Tools the model may call: names, patterns, files (commas; repeatable).",
        "tools",
        "NAMES|FILE",
    ),
    Flag(("--no-tools",), bool, "Offer no tools."),
    Flag(
        ("--approve",),
        str,
        "What runs without asking: ask (nothing), read (workspace reads), all (sandboxed); none, plan.",
        "approve",
        "ask|read|all|none|plan",
    ),
    Flag(("--workspace",), str, "The folder that tools work in; the current one by default.", None, "DIR"),
    Flag(("--max-turns",), int, "The most rounds of tool calls.", None, "N"),
    Flag(("--continue", "-c"), bool, "Continue the last chat."),
    Flag(("--resume",), str, "Continue this chat; without an id, choose one.", None, "[ID]"),
    Flag(("--fork",), str, "Continue in a copy of this chat.", None, "ID"),
    Flag(("--private",), bool, "Save nothing of this chat to disk."),
)


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
            autocompletion=COMPLETERS.get(flag.name),
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
            return template_text(value)
        case "stop" | "tools":
            return tuple(value)
        case "lora":
            return parse("load.lora", json.dumps(value))
        case "gpu_layers" | "flash_attn":
            return parse(str(flag.setting), value)
        case _:
            return value.removeprefix(BOM) if isinstance(value, str) else value  # as in -s "$(cat FILE)"

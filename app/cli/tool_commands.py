"""`fireside tools list, show, run, trust`: what there is, what one takes, and one call by one's own hand.

A project that is not trusted is listed, never run; only a person at a terminal trusts one.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app import paths
from app.characters import clean_text
from app.cli.table import table
from app.exits import ExitCode, Failure, usage
from app.frontend.tool_choice import registry, trust_book, unknown
from app.frontend.workspace import chosen_folder
from app.terminal.confirm import agreed
from app.terminal.output import is_terminal, notify, one_line, sanitize
from app.terminal.own_output import own_output
from tools.context import ToolContext
from tools.definition import Tool
from tools.manifest import Manifest
from tools.permission.permissions import decide
from tools.permission.visible import one_row
from tools.plugins import PluginError
from tools.registry import UnknownToolError, split_choices
from tools.run import ToolResult, run
from tools.sandbox.aside import Aside
from tools.sandbox.escape import find_sandbox
from tools.trust import INSTRUCTIONS_FILE, TOOLS_FOLDER, TrustError, project_files, read_tools
from tools.workspace import Workspace

_HEADINGS = ("NAME", "DOES", "FROM", "WHAT")


def show_all(workspace: str | None, *, as_json: bool) -> ExitCode:
    """Print every tool without loading any; those of an untrusted project are marked.

    Configured MCP servers are asked for theirs.
    """
    found = registry(chosen_folder(workspace))
    rows = [(one, True) for one in found.manifests()] + [(one, False) for one in found.untrusted]
    if as_json:
        print(json.dumps({"tools": [_listed(one, trusted) for one, trusted in rows]}))
    else:
        cells = [_row(one, trusted) for one, trusted in rows]
        print("\n".join(table([_HEADINGS, *cells])))
    for warning in found.warnings:
        notify(warning)
    return ExitCode.ANSWERED


def show(name: str, workspace: str | None, *, as_json: bool) -> ExitCode:
    """Print what one tool does and takes; this loads it."""
    made = _load(name, workspace)
    if as_json:
        fields = {"does": sorted(made.does), "source": made.source, "digest": made.digest}
        print(json.dumps({**made.definition["function"], **fields}))
        return ExitCode.ANSWERED
    print(one_line(f"{made.name} ({made.source}; {', '.join(sorted(made.does))})"))
    print(f"\n{sanitize(made.description)}")
    for field, schema in made.parameters.get("properties", {}).items():
        must = "" if field in made.parameters.get("required", ()) else ", optional"
        kind = schema.get("type", "any")
        print("\n  " + one_line(f"{field} ({kind}{must})"))
        if told := one_line(str(schema.get("description", ""))):
            print(f"      {told}")
    return ExitCode.ANSWERED


def run_one(name: str, given: Sequence[str], workspace: str | None, *, yes: bool, as_json: bool) -> ExitCode:
    """Call a tool once. What always asks needs a yes at the terminal, or `yes` beforehand."""
    made = _load(name, workspace)
    arguments = _arguments(made, given)
    space = _space(workspace)
    sandbox = find_sandbox() if made.subprocess else None
    # Whoever types a call has decided about it, but for what asks in every mode.
    decision = decide(_Call(made.name, arguments), made, "ask", (), space, sandbox=sandbox)
    if decision.fault:
        _print(made.name, ToolResult(decision.reason, "failed"), as_json=as_json)
        return ExitCode.FAILED
    if decision.verdict == "deny":
        raise Failure("denied", decision.reason, exit_code=ExitCode.FAILED)
    if decision.always and not yes:
        shown = decision.preview
        parts = (shown.call, shown.diff, decision.always, *shown.touches, shown.sandbox, "Run it?")
        if not agreed("\n".join(part for part in parts if part)):
            raise Failure(
                "not_confirmed",
                f"Nothing was run. {decision.always}",
                remedy="To agree beforehand, add --yes.",
                exit_code=ExitCode.DENIED,
            )
    context = ToolContext(
        space=space,
        grants=decision.grants,
        sandbox=sandbox,
        notes_folder=paths.make_private_dir(paths.data_dir() / "notes"),
        aside=Aside(paths.data_dir() / "aside"),
    )
    with own_output():
        result = asyncio.run(run(made, arguments, context))
    _print(made.name, result, as_json=as_json)
    return ExitCode.ANSWERED if result.status == "done" else ExitCode.FAILED


def trust(directory: str | None, *, revoke: bool) -> ExitCode:
    """Let a project's files be used as they are now, after a person has seen them; or no longer.

    Nobody at the terminal means no. A file that changes later is asked about again.
    """
    folder = _folder_to_trust(directory)
    try:
        if revoke:
            trust_book().revoke(folder)
            notify(f"{folder} is not trusted")
            return ExitCode.ANSWERED
        # Read once: what is trusted is what was shown, whatever is written meanwhile.
        files = project_files(folder)
        if not files:
            raise usage(
                f"{folder} has nothing to trust: no tools, settings or prompts in {TOOLS_FOLDER.parent}, "
                f"and no {INSTRUCTIONS_FILE}."
            )
        found = trust_book().check_project(folder, files)
        if found.state == "trusted":
            notify(f"{folder} is trusted already")
            return ExitCode.ANSWERED
        if fault := read_tools(folder).fault:
            notify(f"its tools cannot be used: {fault}")
        what = "has changed since it was trusted" if found.state == "changed" else "contains this"
        asked = f"{one_row(str(folder))} {what}. Trust it, with exactly these files?"
        if not agreed(f"{found.difference}\n\n{asked}"):
            raise Failure(
                "not_confirmed",
                f"{folder} is not trusted.",
                remedy="Only a person at a terminal can trust a project, after reading its files.",
                exit_code=ExitCode.DENIED,
            )
        trust_book().grant(folder, files)
    except TrustError as err:
        raise Failure("trust", str(err), exit_code=ExitCode.FAILED) from err
    notify(f"{folder} is trusted, as long as these files stay as they are")
    return ExitCode.ANSWERED


@dataclass(frozen=True)
class _Call:
    name: str
    arguments: Mapping[str, Any]


def _space(workspace: str | None) -> Workspace | None:
    folder = chosen_folder(workspace)
    hidden = (paths.data_dir(), paths.state_dir(), paths.config_file().parent)
    return None if folder is None else Workspace.at(folder, hidden=hidden)


def _folder_to_trust(path: str | None) -> Path:
    try:
        folder = Path(path or ".").expanduser().resolve()
    except (OSError, RuntimeError) as err:
        raise usage("`fireside trust` expects a folder, but the current folder does not exist.") from err
    if not folder.is_dir():
        raise usage(f"`fireside trust` expects a folder; {folder} is not one.")
    return folder


def _load(name: str, workspace: str | None) -> Tool:
    """The tool of a name, or the one of a file."""
    _, files = split_choices([name])
    found = registry(chosen_folder(workspace), files, () if files else (name,))
    if files:
        names = [one.name for one in found.manifests() if one.source == "file"]
        if len(names) != 1:
            reason = " ".join(found.warnings) or f"{name} defines {len(names)} tools: {', '.join(names)}."
            raise usage(f"{name} is not a single tool. {reason}")
        name = names[0]
    try:
        with own_output():
            return found.get(name)
    except UnknownToolError as err:
        raise unknown(err, [name], found) from err
    except PluginError as err:
        raise Failure("plugin", str(err), exit_code=ExitCode.FAILED) from err


def _arguments(made: Tool, given: Sequence[str]) -> dict[str, Any]:
    """The arguments: one JSON object, or KEY=VALUE each."""
    if len(given) == 1 and given[0].lstrip().startswith("{"):
        try:
            whole = json.loads(given[0])
        except (ValueError, RecursionError) as err:
            raise usage(f"The arguments are not a JSON object: {err}.") from err
        return dict(whole)
    properties: Mapping[str, Any] = made.parameters.get("properties", {})
    found: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise usage(f"Arguments must be KEY=VALUE or one JSON object, not {text!r}.")
        found[name] = _value(value, properties.get(name, {}))
    return found


def _value(text: str, schema: Mapping[str, Any]) -> Any:
    if schema.get("type") == "string":
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _print(name: str, result: ToolResult, *, as_json: bool) -> None:
    if as_json:
        fields = {"tool": name, "status": result.status, "output": result.text}
        print(json.dumps({**fields, "duration_s": round(result.duration_s, 6)}))
        return
    text = sanitize(result.text) if is_terminal(sys.stdout) else clean_text(result.text)
    print(text, end="" if text.endswith("\n") else "\n")


def _listed(one: Manifest, trusted: bool) -> dict[str, Any]:
    return {
        "name": one.name,
        "summary": one.summary,
        "does": list(one.does),
        "source": one.source,
        "origin": one.origin,
        "trusted": trusted,
    }


def _row(one: Manifest, trusted: bool) -> tuple[str, ...]:
    source = one.source if trusted else f"{one.source}, not trusted"
    return one.name, ", ".join(one.does), source, one.summary

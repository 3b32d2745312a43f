"""Tools that a client offers, and which of them the model may or has to call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from app.server.errors import refused
from app.server.openai.body import mapping

MOST_TOOLS = 256


def tools_of(tools: Sequence[object] | None, *, flat: bool = False) -> list[dict[str, Any]]:
    """The definitions, in the envelope of chat completions. `flat`: they come without it (responses)."""
    given = list(tools or ())
    if len(given) > MOST_TOOLS:
        raise refused(f"A request offers at most {MOST_TOOLS} tools.", "tools")
    return [_tool(tool, f"tools.{index}", flat=flat) for index, tool in enumerate(given)]


def _tool(tool: object, where: str, *, flat: bool) -> dict[str, Any]:
    given = mapping(tool)
    if given.get("type") != "function":
        raise refused("This server takes tools of the type function only.", f"{where}.type")
    function = given if flat else mapping(given.get("function"))
    if not isinstance(name := function.get("name"), str) or not name:
        raise refused("A function needs a name.", f"{where}.function.name")
    parameters = function.get("parameters")
    if parameters is not None and not isinstance(parameters, Mapping):
        raise refused("The parameters of a function are a JSON Schema.", f"{where}.function.parameters")
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": str(function.get("description") or ""),
            "parameters": parameters or {"type": "object", "properties": {}},
        },
    }


def choice_of(
    choice: object, tools: list[dict[str, Any]]
) -> tuple[str | dict[str, Any] | None, list[dict[str, Any]]]:
    """What the engine is told of the choice, and the tools that are left to choose from."""
    names = [tool["function"]["name"] for tool in tools]
    match choice:
        case None:
            return None, tools
        case "auto" | "none" | "required":
            if choice == "required" and not tools:
                raise refused("tool_choice is required, but no tools are offered.", "tool_choice")
            return str(choice), tools
        case {"type": "function", "function": {"name": str(name)}} | {"type": "function", "name": str(name)}:
            if name not in names:
                raise refused("tool_choice names a tool that is not offered.", "tool_choice")
            return {"type": "function", "function": {"name": name}}, tools
        case {"type": "allowed_tools"}:
            given = mapping(choice)
            return _allowed(mapping(given.get("allowed_tools")) or given, tools)
        case _:
            raise refused("tool_choice is auto, none, required, or an object naming a tool.", "tool_choice")


def _allowed(
    allowed: dict[str, Any], tools: list[dict[str, Any]]
) -> tuple[str | dict[str, Any] | None, list[dict[str, Any]]]:
    listed = allowed.get("tools")
    given = map(mapping, cast("list[object]", listed) if isinstance(listed, list) else [])
    wanted = [(mapping(tool.get("function")) or tool).get("name") for tool in given]
    left = [tool for tool in tools if tool["function"]["name"] in wanted]
    mode = allowed.get("mode", "auto")
    if not left or mode not in ("auto", "required"):
        raise refused(
            "allowed_tools needs a mode, auto or required, and tools that are offered.", "tool_choice"
        )
    return str(mode), left

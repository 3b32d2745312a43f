"""Agents: a name with its instructions, model and tools, registered in code or read from a bundle.

Reading a bundle is in `bundles`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from app.sessions.errors import InvalidInputError, not_found
from app.sessions.records import Json, plain

DEFAULT_AGENT = "fireside"
_NAME_CHARS = 120


@dataclass(frozen=True)
class Agent:
    """Who answers. `tools` are entries with `name`, `description`, `parameters` and `runtime`."""

    name: str
    instructions: str = ""
    model: str | None = None
    tools: Sequence[Mapping[str, Any]] = field(default=())

    def __post_init__(self) -> None:
        if not self.name.strip() or len(self.name) > _NAME_CHARS:
            raise InvalidInputError(f"An agent needs a name of 1 to {_NAME_CHARS} characters.")

    @property
    def id(self) -> str:
        return f"agent_{self.name}"

    @property
    def client_tools(self) -> dict[str, Json]:
        """The tools that the caller runs, by name; entries without a good name are left out."""
        found: dict[str, Json] = {}
        for entry in self.tools:
            name = entry.get("name")
            if entry.get("runtime") == "client" and isinstance(name, str) and name:
                found[name] = dict(entry)
        return found

    @property
    def server_tools(self) -> tuple[str, ...] | None:
        """Names of the offered tools that run here; None where the agent names no tools at all."""
        if not self.tools:
            return None
        names = (entry.get("name") for entry in self.tools if entry.get("runtime", "server") == "server")
        return tuple(name for name in names if isinstance(name, str) and name)

    def to_wire(self) -> Json:
        """The agent as a JSON object."""
        tools = [plain(entry) for entry in self.tools]
        return {"name": self.name, "instructions": self.instructions, "model": self.model, "tools": tools}


def agent_from_wire(data: Mapping[str, Any]) -> Agent:
    """An agent of a JSON object or a bundle's configuration. InvalidInputError says what is wrong."""
    name = data.get("name")
    if not isinstance(name, str) or not name.strip():
        raise InvalidInputError("An agent's configuration needs a name.")
    instructions = data.get("instructions", data.get("prompt", ""))
    model = data.get("model")
    tools: Any = [] if data.get("tools") is None else data["tools"]
    if not isinstance(instructions, str) or not isinstance(model, str | None):
        raise InvalidInputError("An agent's instructions and model should be texts.")
    if not isinstance(tools, list) or not all(isinstance(entry, dict) for entry in cast("list[Any]", tools)):
        raise InvalidInputError("An agent's tools should be a list of objects.")
    return Agent(name.strip(), instructions, model or None, tuple(cast("list[Json]", tools)))


class Agents:
    """The registered agents by name; there is always the default one."""

    def __init__(self) -> None:
        self._agents = {DEFAULT_AGENT: Agent(DEFAULT_AGENT)}

    def register(self, agent: Agent) -> None:
        """Add an agent, in place of one of its name."""
        self._agents[agent.name] = agent

    def get(self, name_or_id: str) -> Agent:
        """A registered agent by name or id; 404 where there is none."""
        name = name_or_id.removeprefix("agent_")
        agent = self._agents.get(name_or_id) or self._agents.get(name)
        if agent is None:
            raise not_found("agent", name_or_id)
        return agent

    def list(self) -> list[Agent]:
        return list(self._agents.values())

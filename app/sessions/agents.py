"""Agents: a name with its instructions, model and tools, registered in code or read from a bundle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, cast

from app.sessions.errors import InvalidInputError, not_found
from app.sessions.records import Json, plain

if TYPE_CHECKING:
    import tarfile

DEFAULT_AGENT = "fireside"
CONFIG_NAMES = ("config.yaml", "config.yml", "config.json")
MAX_MEMBERS = 200
MAX_UNPACKED = 5_000_000
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


def agent_from_bundle(bundle: bytes) -> Agent:
    """The agent in a .tar.gz with a configuration; nothing is written anywhere.

    InvalidInputError for a bad archive, links, ways out of it, too much in it, no configuration.
    """
    import io
    import tarfile

    try:
        with tarfile.open(fileobj=io.BytesIO(bundle), mode="r:gz") as archive:
            text, name = _config_of(archive)
    except (tarfile.TarError, OSError, EOFError) as err:
        raise InvalidInputError(f"The bundle is no .tar.gz archive: {err}.") from err
    return agent_from_wire(_parsed(text, name))


def _config_of(archive: tarfile.TarFile) -> tuple[bytes, str]:
    found: tuple[bytes, str] | None = None
    total = 0
    for count, member in enumerate(archive):
        path = PurePosixPath(member.name)
        if path.is_absolute() or ".." in path.parts:
            raise InvalidInputError(f"The bundle has a way out of it: {member.name[:80]!r}.")
        if not member.isreg() and not member.isdir():
            raise InvalidInputError(
                f"The bundle holds something that is no plain file: {member.name[:80]!r}."
            )
        total += member.size
        if count >= MAX_MEMBERS or total > MAX_UNPACKED:
            raise InvalidInputError("The bundle holds too much.")
        if member.isreg() and path.name in CONFIG_NAMES and len(path.parts) <= 2 and found is None:
            content = archive.extractfile(member)
            assert content is not None
            found = content.read(MAX_UNPACKED), path.name
    if found is None:
        raise InvalidInputError("The bundle has no config.yaml.")
    return found


def _parsed(text: bytes, name: str) -> Json:
    import json

    try:
        if name.endswith(".json"):
            data = json.loads(text)
        else:
            import yaml

            data = yaml.safe_load(text)
    except ImportError as err:
        raise InvalidInputError("Reading config.yaml needs PyYAML; use config.json instead.") from err
    except Exception as err:  # The parsers of both raise many kinds for text from outside.
        raise InvalidInputError(f"The bundle's {name} cannot be read: {err}.") from err
    if not isinstance(data, dict):
        raise InvalidInputError(f"The bundle's {name} should be an object.")
    return cast(Json, data)


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

"""What holds in a session: its own choices over its agent's over the manager's, each with its origin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from app.sessions.agents import Agent, agent_from_wire
from app.sessions.errors import InvalidInputError
from app.sessions.records import Json
from app.sessions.store.rows import SessionRecord
from app.sessions.turn.toolbox import MODES, Toolbox, bounded
from backend.types import EFFORT_LEVELS, ChatCard, GenerationConfig, usual_reserve

if TYPE_CHECKING:
    from app.sessions.tools_adapter import Mode

MAX_ROUNDS = 50
"""Replies of one turn, where nobody says how many."""
OverflowPolicy = Literal["ask", "compact", "drop", "error"]
OVERFLOWS: tuple[OverflowPolicy, ...] = ("ask", "compact", "drop", "error")
_NAMES = frozenset("approve config max_rounds model overflow reasoning_effort system tools workspace".split())
_EFFORT_BUDGETS = {"minimal": 256, "low": 1024, "medium": 4096, "high": 16_384, "xhigh": 32_768}


@dataclass(frozen=True)
class Defaults:
    """What a manager gives its sessions where they say nothing."""

    approve: Mode = "ask"
    overflow: OverflowPolicy = "ask"
    workspace: str | None = None
    tools: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Settings:
    """The settings of one session, resolved."""

    agent: Agent
    config: GenerationConfig
    system: str | None
    tools: tuple[str, ...] | None
    approve: Mode
    overflow: OverflowPolicy
    model: str | None
    effort: str | None
    workspace: str | None
    max_rounds: int
    origins: Mapping[str, str]

    def generation(self, card: ChatCard) -> GenerationConfig:
        """The generation settings with the effort level as this model understands it."""
        config = self.config.over(GenerationConfig(reply_reserve=usual_reserve(card.max_seq)))
        if self.effort is None or not card.supports_thinking:
            return config
        if self.effort == "none":
            return config.over(GenerationConfig(enable_thinking=False))
        effort = GenerationConfig(
            enable_thinking=True,
            reasoning_effort=self.effort,
            reasoning_budget=_EFFORT_BUDGETS.get(self.effort),
        )
        return config.over(effort)

    @property
    def folder(self) -> Path | None:
        return None if self.workspace is None else Path(self.workspace)

    def to_wire(self) -> Json:
        """Each setting as `{value, origin}`."""
        values: Json = {
            "config": self.config.as_dict(),
            "system": self.system,
            "tools": None if self.tools is None else list(self.tools),
            "approve": self.approve,
            "overflow": self.overflow,
            "model": self.model,
            "reasoning_effort": self.effort,
            "workspace": self.workspace,
            "max_rounds": self.max_rounds,
        }
        return {
            name: {"value": value, "origin": self.origins.get(name, "default")}
            for name, value in values.items()
        }


def within(own: Settings, above: Settings, toolbox: Toolbox) -> Settings:
    """The settings of a session below another: never more mode and never more tools than that now has."""
    tools = own.tools
    if above.tools is not None:
        offered = toolbox.offered(above.tools, "all")
        tools = tuple(name for name in toolbox.offered(own.tools, "all") if name in offered)
    return replace(own, approve=bounded(own.approve, above.approve), tools=tools)


def resolve(record: SessionRecord, defaults: Defaults) -> Settings:
    """The settings that hold for a session."""
    agent, own = agent_from_wire(record.agent), record.settings
    layers: list[tuple[str, Mapping[str, Any]]] = [
        ("session", own),
        (
            "agent",
            {"system": agent.instructions or None, "model": agent.model, "tools": agent.server_tools},
        ),
        (
            "manager",
            {
                "approve": defaults.approve,
                "overflow": defaults.overflow,
                "workspace": defaults.workspace,
                "tools": defaults.tools,
            },
        ),
    ]
    origins: dict[str, str] = {}

    def find(name: str) -> Any:
        for origin, values in layers:
            if values.get(name) is not None:
                origins[name] = origin
                return values[name]
        return None

    tools = find("tools")
    config = GenerationConfig.of(own.get("config"))
    if config.as_dict():
        origins["config"] = "session"
    return Settings(
        agent=agent,
        config=config,
        system=find("system"),
        tools=None if tools is None else tuple(tools),
        approve=find("approve"),
        overflow=find("overflow"),
        model=find("model"),
        effort=find("reasoning_effort"),
        workspace=find("workspace"),
        max_rounds=find("max_rounds") or MAX_ROUNDS,
        origins=origins,
    )


def checked(changes: Mapping[str, Any]) -> Json:
    """Settings as the store keeps them. InvalidInputError or ValueError names an unfit one."""
    kept: Json = {}
    for name, value in changes.items():
        if name not in _NAMES:
            raise InvalidInputError(f"There is no session setting {name[:40]!r}.")
        kept[name] = None if value is None else _checked(name, value)
    return kept


def _checked(name: str, value: Any) -> Any:
    match name:
        case "config":
            return GenerationConfig.of(value).as_dict()
        case "approve":
            return _choice(name, value, MODES)
        case "overflow":
            return _choice(name, value, OVERFLOWS)
        case "reasoning_effort":
            return _choice(name, value, EFFORT_LEVELS)
        case "max_rounds":
            if not isinstance(value, int) or value < 1:
                raise InvalidInputError("max_rounds should be a whole number of at least 1.")
            return value
        case "tools":
            names = [value] if isinstance(value, str) else list(cast("Sequence[Any]", value))
            if not all(isinstance(item, str) for item in names):
                raise InvalidInputError("tools should be a list of names or patterns.")
            return names
        case _:
            if not isinstance(value, str) or (name == "model" and not value.strip()):
                raise InvalidInputError(f"{name} should be text that is not blank.")
            return value


def _choice(name: str, value: Any, choices: Sequence[str]) -> str:
    if value not in choices:
        raise InvalidInputError(f"{name} must be one of {', '.join(choices)}, not {str(value)[:40]!r}.")
    return cast(str, value)

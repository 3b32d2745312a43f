"""What a client may do to this machine: what its owner offered at the start of the server, and no more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from app.server.errors import ApiError, refused
from app.server.models import Models
from app.sessions.agents import Agent
from app.sessions.manager import SessionManager

_OF_TOOLS = ("tool_call", "tool_input")
"""Phases of questions about tools that run here."""


@dataclass(frozen=True)
class Rights:
    """What the owner allows clients."""

    tools: frozenset[str] = frozenset()
    """Names of the tools that run here."""
    remote_approval: bool = False
    """Whether clients may say yes to what a tool asks."""
    workspace_root: Path | None = None
    """Where the folders of chats have to lie; None: clients name none."""

    def folder(self, wanted: object) -> str | None:
        """The folder that a client names for its chat. ApiError for one that is not below the root."""
        if wanted is None:
            return None
        if not isinstance(wanted, str) or "\0" in wanted:
            raise refused("A workspace is named by its path.", "workspace")
        if self.workspace_root is None:
            raise _not_here("This server takes no workspace from clients (--workspace-root).")
        root = self.workspace_root.resolve()
        folder = (root / wanted).resolve()
        if not folder.is_relative_to(root) or not folder.is_dir():
            raise _not_here("That is not a folder below the --workspace-root of this server.")
        return str(folder)

    async def agent(self, agent: Agent, models: Models) -> Agent:
        """An agent of a client, with its model as the server names it. ApiError for tools and models that
        are not offered."""
        missing = sorted(set(agent.server_tools or ()) - self.tools)
        if missing:
            listed = ", ".join(name[:60] for name in missing[:8])
            raise refused(f"This server does not offer the tools {listed}.", "tools", "tool_refused")
        model = (await models.find(agent.model)).source if agent.model else None
        return replace(agent, model=model)

    async def require_served(self, manager: SessionManager, session_id: str) -> None:
        """ApiError for a chat of the owner whose own settings allow more than this server does."""
        if not self.tools:
            return
        settings = await manager.settings(session_id)
        if settings["approve"]["value"] == "all" and not self.remote_approval:
            raise ApiError(
                403, "This chat runs tools unasked, so it is not answered from here.", code="chat_refused"
            )
        workspace = settings["workspace"]
        if workspace["origin"] == "session" and workspace["value"] is not None:
            self.folder(workspace["value"])

    async def require_answerable(
        self, manager: SessionManager, session_id: str, elicitation_id: str, answer: Mapping[str, Any]
    ) -> None:
        """ApiError (403) for a yes to a tool that runs here, unless clients may say it, and for any that
        would be remembered for the chats of the owner."""
        if answer.get("action") != "accept":
            return
        content = answer.get("content")
        if isinstance(content, Mapping) and content.get("scope") == "always":  # pyright: ignore[reportUnknownMemberType]
            raise ApiError(
                403,
                "What is allowed for always is the owner's to say.",
                code="approval_refused",
                param="content",
            )
        if self.remote_approval:
            return
        snapshot = await manager.get(session_id, include_items=False)
        for event in snapshot.pending_elicitations:
            params: Mapping[str, Any] = event.get("params") or {}
            if event.get("elicitation_id") == elicitation_id and params.get("phase") in _OF_TOOLS:
                raise ApiError(
                    403,
                    "A tool of this machine is approved by its owner only (--allow-remote-approval).",
                    code="approval_refused",
                )


def _not_here(why: str) -> ApiError:
    return ApiError(403, why, code="workspace_refused", param="workspace")

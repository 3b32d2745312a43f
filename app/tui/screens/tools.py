"""The tools picker: what runs without asking, which tools are offered, and the saved rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from textual import work

from app.sessions.errors import FiresideError
from app.sessions.manager import SessionManager
from app.tui.shell import Shell
from app.tui.widgets.cells import Line, Span, plain
from app.tui.widgets.picker import Entry, Picker

MODES: Mapping[str, str] = {
    "ask": "every call that touches something asks first",
    "read": "read-only calls run; everything else asks first",
    "all": "files, pages and sandboxed commands run; the rest asks first",
    "plan": "only reading tools are offered, and the model plans",
}
_MODE, _TOOL, _RULE, _TEACH, _NONE = "mode ", "tool ", "rule ", "teach", "none"
# A template that shows no way of writing calls: the load can give it one, held to a grammar.
_GENERIC = {"tool_call_format": "generic"}


def tool_entries(
    mode: str,
    tools: Sequence[Mapping[str, Any]],
    rules: Sequence[Mapping[str, Any]],
    done: str,
    *,
    calls: bool = True,
) -> list[Entry]:
    """Approval modes, tools and rules as entries; `done` is the sign of what holds.

    `calls` is False where the loaded model has no way of writing calls: nothing is offered to it then.
    """
    found = [
        Entry(
            _TEACH,
            "allow tool calls",
            "reloads it, with a grammar for calls",
            (),
            "this model cannot call tools",
        )
    ][: not calls]
    found += [
        Entry(
            f"{_MODE}{name}",
            name,
            does,
            (Span(f"{done} current", "warning" if name == "all" else "success"),) if name == mode else (),
            "what runs without asking",
        )
        for name, does in MODES.items()
    ]
    for tool in tools:
        offered = bool(tool.get("offered")) and calls
        fact: Line = (
            Span(f"{done} offered", "success")
            if offered
            else Span("hidden" if calls else "not offered", "muted"),
        )
        first = plain(str(tool.get("description") or "").partition("\n")[0])
        name = plain(str(tool["name"]))
        found.append(Entry(f"{_TOOL}{tool['name']}", name, first, fact, "tools"))
    if not tools:
        found.append(Entry(_NONE, "none", "this program was started without any", (), "tools"))
    for rule in rules:
        scope = "always" if rule.get("scope") == "always" else "this chat"
        fact = (Span(scope, "warning" if scope == "always" else "muted"),)
        if fault := rule.get("fault"):
            fact = (Span("not used", "muted"),)
        says = plain(str(rule["rule"].get("text") or "every call"))
        found.append(
            Entry(
                f"{_RULE}{rule['id']}",
                plain(str(rule["tool"])),
                f"{says}: {plain(str(fault))}" if fault else says,
                fact,
                "may run without asking",
            )
        )
    return found


class ToolsPicker(Picker):
    """Enter sets a mode, offers or hides a tool, or takes a rule back; it stays open until esc."""

    WIDTH = 104

    def __init__(self, shell: Shell, session_id: str, *, manager: SessionManager | None = None) -> None:
        super().__init__(
            shell, "tools", hints=(("enter", "changes"), ("esc", "closes")), empty="Looking for tools"
        )
        self._session_id = session_id
        self._manager = manager or shell.manager
        self._tools: Sequence[Mapping[str, Any]] = ()
        self._doomed: str | None = None

    def on_mount(self) -> None:
        self.reload()

    @work(exclusive=True, group="tools")
    async def reload(self) -> None:
        """Read modes, tools and rules anew."""
        try:
            await self._reload()
        except FiresideError as err:
            self._empty = str(err)
            self.refill()

    async def _reload(self) -> None:
        manager, session_id = self._manager, self._session_id
        mode = str((await manager.settings(session_id))["approve"]["value"])
        self._tools = await manager.tools(session_id)
        card, rules = manager.card, await manager.rules(session_id)
        calls = card is None or card.supports_tools
        self.give(tool_entries(mode, self._tools, rules, self.ink.glyphs.done, calls=calls))

    def choose(self) -> None:
        if (key := self.list.selected) is not None and key != _NONE:
            self._change(key)

    @work(exclusive=True, group="change")
    async def _change(self, key: str) -> None:
        try:
            said = await self._apply(key)
            await self._reload()
        except FiresideError as err:
            said = Span(plain(str(err))[:70], "error")
        self.filter.say((said,))

    async def _apply(self, key: str) -> Span:
        manager, session_id = self._manager, self._session_id
        if key == _TEACH:
            # The engine is one for all chats: also a private one is written by the model that is loaded.
            if await self.shell.load_model(self.shell.manager.model_source, _GENERIC):
                return Span("its calls now follow a grammar", "success")
            return Span("it could not be loaded", "error")
        if key.startswith(_MODE):
            mode = key.removeprefix(_MODE)
            await manager.configure(session_id, approve=mode)
            return Span(f"approvals: {mode}", "success")
        if key.startswith(_TOOL):
            name = key.removeprefix(_TOOL)
            offered = [str(tool["name"]) for tool in self._tools if tool.get("offered")]
            hides = name in offered
            names = [one for one in offered if one != name] if hides else [*offered, name]
            await manager.configure(session_id, tools=names)
            return Span("hidden from now on" if hides else "offered from now on", "success")
        # A rule cannot be had back by the same key, so it takes two presses.
        if self._doomed != key:
            self._doomed = key
            return Span("enter again removes this rule", "warning")
        self._doomed = None
        await manager.revoke(key.removeprefix(_RULE))
        return Span("rule removed: such calls ask again", "success")

    def selected(self, entry: Entry | None) -> None:
        if entry is None or entry.key != self._doomed:
            self._doomed = None

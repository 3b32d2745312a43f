"""Commands about the program itself: theme, keys, logs, leaving."""

from __future__ import annotations

from collections import deque

from app import paths
from app.commands.face import Choice, Command, Face
from app.commands.shared import choose, show
from app.terminal.output import squeezed

LOG_LINES = 60
"""Where they are not read page by page."""
MOST_LOG_LINES = 2000
LOG_BYTES = 1 << 18


async def _theme(face: Face, rest: str) -> None:
    name: str | None = rest
    if not rest:
        if await face.screen("theme"):
            return
        name = await choose(face, "Which theme?", [Choice(one, one) for one in face.themes()])
    if name:
        face.set_theme(name)
        face.say(f"The theme is now {squeezed(name)}.")


async def _keys(face: Face, rest: str) -> None:
    if not await face.screen("keys"):
        await show(face, "Keys", face.keys())


async def _logs(face: Face, rest: str) -> None:
    """The end of the engine's log."""
    if await face.screen("logs"):
        return
    file = paths.state_dir() / "engine.log"
    try:
        with open(file, "rb") as log:
            log.seek(0, 2)
            log.seek(max(0, log.tell() - LOG_BYTES))
            lines = deque(log.read().decode("utf-8", "replace").splitlines(), MOST_LOG_LINES)
    except FileNotFoundError:
        face.say(f"There is no log yet; it will be {squeezed(str(file))}.")
        return
    if not await face.read_pages("\n".join(lines)):
        await show(face, str(file), "\n".join(list(lines)[-LOG_LINES:]))


async def _settings(face: Face, rest: str) -> None:
    await face.screen("settings")


async def _tokens(face: Face, rest: str) -> None:
    await face.screen("tokens")


async def _quit(face: Face, rest: str) -> None:
    face.quit()


COMMANDS = (
    Command("theme", "/theme [NAME]", "choose a theme", _theme),
    Command("keys", "/keys", "list the keys and what they do", _keys),
    Command("settings", "/settings", "view and change all settings", _settings, faces=("tui",)),
    Command(
        "tokens",
        "/tokens",
        "show how sure the model was of each token, and the alternatives",
        _tokens,
        faces=("tui",),
    ),
    Command("logs", "/logs", "show the end of the engine's log", _logs),
    Command("quit", "/quit", "quit", _quit, ("exit", "q", "bye"), "ctrl+d"),
)

"""Which screen opens for which purpose. Screens are imported when they are opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.tui.app import FiresideApp


async def open_screen(app: FiresideApp, name: str) -> bool:
    """Open a screen and wait for it; False where the face has none of that name."""
    match name:
        case "chats":
            app.side_wanted = True
            app.place(app.size.width, app.size.height)
            app.open_side()
            return True
        case _:
            return False

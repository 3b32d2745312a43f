"""The mouse's wheel over rows that a widget scrolls by itself."""

from __future__ import annotations

from textual.events import MouseScrollDown, MouseScrollUp

WHEEL_ROWS = 3


class Wheel:
    """Turns of the wheel as rows. Stands before the widget class it is mixed into."""

    def roll(self, rows: int) -> None:
        """Scroll by so many rows, up where they are negative."""
        raise NotImplementedError

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        event.stop()
        self.roll(WHEEL_ROWS)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        event.stop()
        self.roll(-WHEEL_ROWS)

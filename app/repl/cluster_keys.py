"""Keys that move by, and delete, what a person takes for one character: in each line that is written."""

from __future__ import annotations

from prompt_toolkit.application.current import get_app
from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from app.repl.clusters import size_after, size_before

MOST_STEPS = 1000
"""What a prefix may say."""


def add_cluster_keys(keys: KeyBindings) -> None:
    """Backspace, delete, left and right with their control keys, as often as a prefix says."""
    writes = Condition(lambda: bool(get_app().current_buffer.text))

    @keys.add("c-h")
    def _backspace(event: KeyPressEvent) -> None:  # pyright: ignore[reportUnusedFunction]
        for _ in range(max(1, min(event.arg, MOST_STEPS))):
            before = event.current_buffer.document.text_before_cursor
            event.current_buffer.delete_before_cursor(count=size_before(before))

    @keys.add("delete")
    @keys.add("c-d", filter=writes)
    def _delete(event: KeyPressEvent) -> None:  # pyright: ignore[reportUnusedFunction]
        for _ in range(max(1, min(event.arg, MOST_STEPS))):
            after = event.current_buffer.document.text_after_cursor
            event.current_buffer.delete(count=size_after(after))

    @keys.add("left")
    @keys.add("c-b")
    def _left(event: KeyPressEvent) -> None:  # pyright: ignore[reportUnusedFunction]
        for _ in range(max(1, min(event.arg, MOST_STEPS))):
            before = event.current_buffer.document.current_line_before_cursor
            event.current_buffer.cursor_position -= size_before(before)

    @keys.add("right")
    @keys.add("c-f")
    def _right(event: KeyPressEvent) -> None:  # pyright: ignore[reportUnusedFunction]
        for _ in range(max(1, min(event.arg, MOST_STEPS))):
            after = event.current_buffer.document.current_line_after_cursor
            event.current_buffer.cursor_position += size_after(after)

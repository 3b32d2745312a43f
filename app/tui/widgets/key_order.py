"""Keys of a text field in the order in which they came, also those that come together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from textual import events

if TYPE_CHECKING:
    from textual.app import App
    from textual.widget import Widget as _Base
else:
    # Textual takes styles and bindings from the first of the bases that is a widget.
    _Base = object


class KeysInOrder(_Base):
    """Does at once what a key means to this field.

    By its bindings that happens only after the letters that came with the key: a slow terminal or a busy
    moment would take away what is typed behind a ctrl+u. Stands before the widget class it is mixed into.
    """

    async def _on_key(self, event: events.Key) -> None:
        app = cast("App[Any]", self.app)
        for binding in self._bindings.key_to_bindings.get(event.key, ()):
            if not binding.priority and await app.run_action(binding.action, self):
                event.prevent_default()
                event.stop()
                return
        if event.key.startswith("alt+"):
            # A key that means nothing here, or no longer, writes no letter.
            event.prevent_default()

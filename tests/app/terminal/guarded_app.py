"""A small full-screen program under the guard, which ends in the way that a key asks for."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

from app.terminal import guard


def face() -> int:
    from textual.app import App, ComposeResult
    from textual.events import Key
    from textual.widgets import Static

    from app.tui.driver import ScreenDriver

    class Sample(App[None]):
        def __init__(self) -> None:
            super().__init__(driver_class=ScreenDriver)
            self.keys = 0

        def compose(self) -> ComposeResult:
            yield Static("", id="count")

        def on_mount(self) -> None:
            self.show()

        def show(self) -> None:
            self.query_one("#count", Static).update(f"ready, {self.keys} keys", layout=False)

        def on_key(self, event: Key) -> None:
            self.keys += 1
            self.show()
            match event.key:
                case "q":
                    self.exit()
                case "e":
                    raise RuntimeError("raised on purpose")
                case "a":
                    os.abort()
                case "x":
                    os._exit(7)
                case "h":
                    Path(sys.argv[1]).touch()
                    while True:
                        pass
                case "ctrl+z":
                    self.action_suspend_process()
                case _:
                    pass

    app = Sample()

    def end(number: int) -> None:
        loop = getattr(app, "_loop", None)
        if loop is None:
            sys.exit(128 + number)
        loop.call_soon_threadsafe(lambda: app.exit(return_code=128 + number))

    guard.on_ending_signal(end)
    app.run()
    return app.return_code or 0


if __name__ == "__main__":
    warnings.simplefilter("error")
    guard.GRACE_S = int(os.environ.get("GRACE_S", guard.GRACE_S))
    sys.exit(guard.run_guarded(face))

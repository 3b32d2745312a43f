"""The terminal around the screen: its title, focus and mouse, and other programs that have it for a while."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator

from textual import events
from textual.driver import Driver

from app.terminal.fd_guard import FdGuard
from app.terminal.guard import interrupts_left_to_programs
from app.terminal.output import title_sequence
from app.tui.bell import Attention
from app.tui.driver import ScreenDriver
from app.tui.program.parts import Parts


class Window:
    """The terminal, by the driver that draws on it; `has_focus` says what Textual knows of its focus."""

    def __init__(
        self, parts: Parts, driver: Callable[[], Driver | None], has_focus: Callable[[], bool]
    ) -> None:
        self.fd_guard: FdGuard | None = None
        """What keeps native output off the screen, where there is one."""
        self.mouse_on = True
        self._parts = parts
        self._driver_now = driver
        self._has_focus = has_focus
        self._title = ""
        self._tells_focus = False
        self._key_at = time.monotonic()

    @property
    def _screen_driver(self) -> ScreenDriver | None:
        driver = self._driver_now()
        return driver if isinstance(driver, ScreenDriver) else None

    # ---- other programs --------------------------------------------------------------------

    @contextlib.contextmanager
    def lent(self) -> Generator[tuple[int, int] | None]:
        """Within, the terminal is another program's, whose output goes where this leads."""
        driver = self._screen_driver
        try:
            with driver.lent() if driver else contextlib.nullcontext(), interrupts_left_to_programs():
                yield self.fd_guard.terminal if self.fd_guard else None
        finally:
            left = self._driver_now()
            if left is not None and not self.is_lent:
                left.write(title_sequence(self._title))

    @property
    def is_lent(self) -> bool:
        """Whether another program has the terminal."""
        driver = self._screen_driver
        return driver is not None and driver.is_lent

    # ---- title, mouse, sequences -----------------------------------------------------------

    def set_title(self, title: str) -> None:
        """The title of the terminal's window."""
        driver = self._driver_now()
        if title != self._title and driver is not None:
            self._title = title
            driver.write(title_sequence(title))

    def switch_mouse(self) -> None:
        """Leave the mouse to the terminal, for its own selection, or take it back."""
        driver = self._screen_driver
        if driver is None:
            return
        self.mouse_on = not self.mouse_on
        driver.use_mouse(self.mouse_on)
        key = self._parts.hint_label("mouse")
        self._parts.say(
            "mouse on: clicks and the wheel work here"
            if self.mouse_on
            else f"mouse off: the terminal handles it; {key} turns it on"
        )

    def write(self, sequence: str) -> None:
        """Send a control sequence of our own."""
        driver = self._driver_now()
        if driver is not None:
            driver.write(sequence)
            driver.flush()

    # ---- the person ------------------------------------------------------------------------

    def heard(self, event: events.Event) -> None:
        """The person is here: a key was pressed."""
        if isinstance(event, (events.Key, events.Paste)):
            self._key_at = time.monotonic()

    def told_focus(self) -> None:
        """The terminal tells where the focus is."""
        self._tells_focus = True

    @property
    def attention(self) -> Attention:
        """Where the person may be. In an editor the screen here is not seen."""
        is_told = self._tells_focus or self.is_lent
        focused = self._has_focus() and not self.is_lent if is_told else None
        return Attention(focused, time.monotonic() - self._key_at)

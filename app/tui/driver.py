"""Textual's driver, made to go on after any way of being stopped and continued."""

from __future__ import annotations

import asyncio

from textual.drivers.linux_driver import LinuxDriver


class ScreenDriver(LinuxDriver):
    """Counts on nothing when SIGCONT comes: the terminal may have been given to somebody else meanwhile.

    Textual starts its screen at every SIGCONT, also where it never stopped: after SIGSTOP, or when a
    closing shell continues all of its jobs. Two threads would then read the same keys. And it paints
    nothing where nothing changed, though the screen it continues on is empty.
    """

    def _sigcont_application(self, *_: object) -> None:
        if not self._auto_restart or self._app._exit:  # pyright: ignore[reportPrivateUsage]
            return
        if self._writer_thread is not None and self._writer_thread.is_alive():
            self._must_signal_resume = True
            self.suspend_application_mode()
        self.resume_application_mode()
        # This is a signal handler: the loop is to be woken, and the app to paint in its own time.
        asyncio.get_running_loop().call_soon_threadsafe(self._app.call_later, self._app.refresh)

    def use_mouse(self, on: bool) -> None:
        """Take the mouse, or leave it to the terminal for its own selection; holds after a stop too."""
        if not on:
            self._disable_mouse_support()
        self._mouse = on
        if on:
            self._enable_mouse_support()

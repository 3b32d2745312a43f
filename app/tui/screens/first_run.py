"""The first run at work: fetches the starter, opens a file, pulls a repository, or names a server.

It ends with a model to load, posted as `FirstRunPage.Ready`; what fails is told on the page.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual import work
from textual.binding import Binding
from textual.message import Message

from app.exits import Failure
from app.models import catalog, starter
from app.models.catalog import SearchedFolder
from app.models.download import Fetch, download, fetched
from app.terminal.figures import gib, gib_of
from app.tui.screens.dialogs import LineDialog
from app.tui.widgets.cells import from_home
from app.tui.widgets.choices import ChoicePage
from app.tui.widgets.first_run import Download, FirstRun

if TYPE_CHECKING:
    from app.tui.shell import Shell

Work = Callable[[Callable[[int, int], None], Callable[[], bool]], Awaitable[Path | None]]
"""A download that is given what shows it, and what says whether it is stopped."""
WORKING_BYTES = 512 << 20
"""What the starter needs beside its weights."""


def starter_words(free_bytes: int) -> str:
    """What the starter is, and whether it fits; 0 free bytes are not known."""
    needed = starter.ABOUT_BYTES + WORKING_BYTES
    fits = "" if not free_bytes else ", fits" if free_bytes > needed else ", may not fit"
    return f"{starter.NAME}, {gib(starter.ABOUT_BYTES)}{fits}"


def machine_facts(gpu_bytes: int, free_bytes: int, total_bytes: int) -> list[tuple[str, str]]:
    """The memory of this machine as (name, amount); 0 bytes are not known, or not there."""
    facts: list[tuple[str, str]] = []
    if gpu_bytes:
        facts.append(("gpu", gib(gpu_bytes)))
    if total_bytes and free_bytes:
        facts.append(("memory", f"{gib_of(free_bytes, total_bytes)} free"))
    return facts


def looked_at(places: Sequence[SearchedFolder]) -> list[tuple[str, str]]:
    """Where models were looked for, as the page tells it."""
    return [(from_home(place.path), place.found) for place in places]


class FirstRunPage(FirstRun):
    """The page with its work. Esc ends a download; nothing of it is left."""

    BINDINGS: ClassVar[Any] = [Binding("escape", "stop", show=False)]

    class Ready(Message):
        """There is a model now: a file or a name to load, or a server's address."""

        def __init__(self, source: str) -> None:
            super().__init__()
            self.source = source

    def __init__(
        self,
        looked: Sequence[tuple[str, str]],
        *,
        starter_fact: str,
        servers: bool = False,
        fetch: Fetch = starter.fetch,
        machine: Sequence[tuple[str, str]] = (),
        id: str | None = "first-run",
    ) -> None:
        super().__init__(looked, starter=starter_fact, servers=servers, id=id)
        self._fetch = fetch
        self.machine = machine
        """What this machine has, as (name, amount)."""
        self._stop = threading.Event()

    @classmethod
    def of_this_machine(cls) -> FirstRunPage:
        """The page with what is found here. Looks at folders and devices, so call it from a thread."""
        gpu, free, total = catalog.memory()
        facts = machine_facts(gpu, free, total)
        return cls(looked_at(catalog.places()), starter_fact=starter_words(free), servers=True, machine=facts)

    def on_unmount(self) -> None:
        self._stop.set()

    # ---- choices ---------------------------------------------------------------------------

    def on_choice_page_chosen(self, event: ChoicePage.Chosen) -> None:
        event.stop()
        if self.download is not None:
            return
        match event.key:
            case "enter":
                self._get_starter()
            case "o":
                self._open_file()
            case "p":
                self._pull()
            case _:
                self._use_server()

    def on_first_run_dropped(self, event: FirstRun.Dropped) -> None:
        event.stop()
        self._take_file(event.path)

    def action_stop(self) -> None:
        """End the download that runs."""
        self._stop.set()

    @work(exclusive=True, group="first-run")
    async def _get_starter(self) -> None:
        await self._run(starter.NAME, partial(fetched, self._fetch))

    @work(exclusive=True, group="first-run")
    async def _open_file(self) -> None:
        if path := await self._ask("the path of a .gguf file"):
            self._take_file(path)

    @work(exclusive=True, group="first-run")
    async def _pull(self) -> None:
        if name := await self._ask("a model on Hugging Face: owner/name, or owner/name:Q4_K_M"):
            await self._run(name, partial(download, name, self._agree))

    async def _agree(self, model: str, takes: str) -> bool:
        answer = await self._ask(f"{model}: {takes}; type yes")
        return answer.lower() in ("y", "yes")

    @work(exclusive=True, group="first-run")
    async def _use_server(self) -> None:
        url = await self._ask("the address of a server: http://127.0.0.1:8080")
        if not url:
            return
        if not url.startswith(("http://", "https://", "server:")):
            self.failed("A server's address begins with http:// or https://.")
            return
        self.post_message(self.Ready(url))

    async def _ask(self, question: str) -> str:
        shell = cast("Shell", self.app)
        answer = await cast("Any", self.app).push_screen_wait(LineDialog(shell, question))
        return str(answer or "").strip()

    def _take_file(self, text: str) -> None:
        path = Path(text).expanduser()
        try:
            catalog.facts(path)
        except Exception as err:  # whatever the file is, the page says why not
            self.failed(str(err), getattr(err, "remedy", ""))
            return
        self.post_message(self.Ready(str(path)))

    async def _run(self, name: str, work: Work) -> None:
        """A download in a thread, shown as it goes on."""
        self._stop.clear()
        self.downloading(Download(name))

        def show(done: int, total: int) -> None:
            if self.is_attached and self.download is not None:
                self.downloading(Download(name, done, total))

        try:
            path = await work(show, self._stop.is_set)
        except Failure as err:
            self.failed(err.message, err.remedy)
            return
        self.downloading(None)
        if path is not None:
            self.post_message(self.Ready(str(path)))

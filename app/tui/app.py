"""The full-screen face, its parts wired together. One file, because it is the one list of handlers.

Every key and message stands here, by whose matter it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events
from textual.actions import SkipAction
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.widgets import TextArea

from app.frontend.history import History
from app.frontend.model_name import ModelState
from app.frontend.start import Start, make_manager
from app.settings.config import Settings
from app.terminal.glyphs import Glyphs
from app.terminal.theming import Palette, read, switch
from app.tui.driver import ScreenDriver
from app.tui.keys import bindings, key_rows
from app.tui.program import parts
from app.tui.program.drafts import Drafts
from app.tui.program.leaving import Leaving
from app.tui.program.model import ModelControl
from app.tui.program.open_chats import OpenChats
from app.tui.program.parts import MainScreen, Parts
from app.tui.program.startup import EarlyKeys, Startup
from app.tui.program.window import Window
from app.tui.widgets.composer import Draft

if TYPE_CHECKING:
    from textual.worker import Worker

    from app.sessions.manager import SessionManager
    from app.terminal.graphics import Way
    from app.tui.chat.chat import Chat
    from app.tui.screens.first_run import FirstRunPage
    from app.tui.screens.model_plans import Catalog
    from app.tui.shell import LiveState
    from app.tui.transcript.view import Transcript
    from app.tui.widgets.approval import ApprovalCard
    from app.tui.widgets.opening import Opening
    from app.tui.widgets.side import ChatsPane
    from app.tui.widgets.waiting import WaitingList

ANYWHERE = frozenset({"copy_or_stop", "leave", "suspend_process", "mouse"})
"""What a key does also while a dialog is open."""
OF_TEXTUAL = frozenset({"focus_next", "focus_previous"})
TICK_S = 0.5


class FiresideApp(App[int]):
    """The program. What a key or a message means is decided by the part of `program/` that its line names.

    Those that the first frame needs are there from the start, the others come with `furnish`.
    """

    TITLE = "fireside"
    ENABLE_COMMAND_PALETTE = False
    ESCAPE_TO_MINIMIZE = False
    BINDINGS: ClassVar[list[BindingType]] = [*bindings()]
    CSS = """
    Screen { background: $background; color: $foreground; layout: vertical; }
    MainScreen { layout: horizontal; layers: base above; }
    #side { display: none; height: 1fr; width: 31; background: $surface; }
    #side.-open { display: block; }
    #side.-overlay { layer: above; dock: left; }
    #main { width: 1fr; height: 1fr; layers: base above; }
    #transcript { height: 1fr; width: 1fr; }
    #transcript.-tall { margin-top: 1; }
    #approval, #waiting, #seam { margin-top: 1; }
    StatusBar.-tall { margin-top: 1; }
    """

    def __init__(
        self,
        start: Start,
        palette: Palette,
        glyphs: Glyphs,
        *,
        make: Callable[[Start], SessionManager] = make_manager,
        history: History | None = None,
        motion: bool = True,
        hyperlinks: bool = True,
        keymap: Mapping[str, str] | None = None,
        pictures: Way = "blocks",
        catalog: Catalog | None = None,
    ) -> None:
        """`make` builds the manager, off the event loop. Without `motion` nothing moves by itself;
        `hyperlinks` where the terminal knows OSC 8. `keymap` binds other keys, by the names in `keys`.
        `catalog` is what the model picker asks about files; None: those of this machine.
        """
        super().__init__(driver_class=ScreenDriver)
        self.animation_level = "none"
        self.given = start
        self.model = ModelState()
        self._pictures: Way = pictures
        self._catalog = catalog
        self.parts = Parts(
            self,
            palette,
            glyphs,
            history or History(),
            motion=motion,
            hyperlinks=hyperlinks,
            keymap=keymap,
        )
        if self.parts.bound:
            self._rebind()
        self.window = Window(self.parts, lambda: self._driver, lambda: self.app_focus)
        self.early = EarlyKeys(self.parts, self.on_event)
        self.leaving = Leaving(self, self.parts, self.early)
        self.chats = OpenChats(self, self.parts, self.window, self.model, start)
        self.drafts = Drafts(self, self.parts, self.chats, self.model, start.settings)
        self.control = ModelControl(self, self.parts, self.chats, self.model, start.settings)
        self.startup = Startup(
            self,
            self.parts,
            self.early,
            self.chats,
            self.drafts,
            self.control,
            start=start,
            make=make,
            furnish=self.furnish,
        )

    def _rebind(self) -> None:
        """The keys of the config in place of those of the class. There is no public way to take one away."""
        held = self._bindings.key_to_bindings
        ours = {binding.id for binding in bindings()}
        for key in list(held):
            held[key] = [binding for binding in held[key] if binding.id not in ours]
        for binding in bindings(self.parts.bound):
            held.setdefault(binding.key, []).append(binding)

    def get_default_screen(self) -> Screen[None]:
        """The screen that all parts stand on."""
        return MainScreen(id="_default")

    def compose(self) -> ComposeResult:
        # Now, while no part has a look yet that would have to be found anew.
        self.parts.place(*self.size)
        yield self.parts.side
        yield self.parts.main

    async def furnish(self) -> None:
        """Bring what the first frame does without."""
        await parts.load()
        self._build()
        self.wire()
        await self.parts.furnish()
        self.set_interval(TICK_S, self.status.tick)
        self.drafts.begin()

    def _build(self) -> None:
        """The other parts of the program, each with those that it uses. Imported by now."""
        from app.tui.program.blocks import Blocks
        from app.tui.program.cards import Cards
        from app.tui.program.commands import Commands, TuiFace
        from app.tui.program.completion import Completions
        from app.tui.program.copying import Copying
        from app.tui.program.empty_chat import EmptyChat
        from app.tui.program.first_run import FirstRun
        from app.tui.program.focus import Focus
        from app.tui.program.hints import Hints
        from app.tui.program.other_programs import OtherPrograms
        from app.tui.program.reading import Reader
        from app.tui.program.screens import Screens
        from app.tui.program.sending import Sender
        from app.tui.program.shell_lines import ShellLines
        from app.tui.program.side import SidePane
        from app.tui.program.status import StatusFacts
        from app.tui.program.stopping import Stopping
        from app.tui.transcript.gallery import Gallery

        parts, chats, drafts, control = self.parts, self.chats, self.drafts, self.control
        self.status = StatusFacts(self, parts, self.window, chats, self.model, self.given)
        self.cards = Cards(self, parts, chats)
        self.copying = Copying(self, parts, self.window, chats)
        self.others = OtherPrograms(self, parts, self.window, chats)
        self.shell_lines = ShellLines(self, parts, chats)
        self.side = SidePane(self, parts, chats, drafts)
        self.first_run = FirstRun(self, parts, control)
        self.empty_chat = EmptyChat(self, parts, chats, self.model, self.first_run)
        screens = Screens(self, parts, chats, control, self._catalog)
        face = TuiFace(self, parts, chats, control, self.copying, self.others, self.side, screens)
        self.commands = Commands(self, parts, chats, face)
        self.completions = Completions(self, parts, chats, self.commands)
        self.sender = Sender(
            self,
            parts,
            chats,
            drafts,
            self.commands,
            self.shell_lines,
            self.first_run,
            self.empty_chat,
        )
        self.reader = Reader(self, parts, chats)
        self.blocks = Blocks(self, parts, chats, drafts, self.copying, self.others, self.commands)
        self.hints = Hints(parts, chats, drafts, self.blocks, self.shell_lines)
        self.focus = Focus(
            self,
            parts,
            chats,
            self.completions,
            self.reader,
            self.blocks,
            self.side,
            self.copying,
            self.commands,
        )
        self.stopping = Stopping(
            parts, chats, drafts, control, self.completions, self.shell_lines, self.side, self.copying
        )
        parts.draft.picking = lambda: self.completions.is_open
        parts.draft.moves = self.empty_chat.move
        parts.transcript.gallery = Gallery(
            self._pictures, chats.picture, parts.transcript.changed, self.window.write
        )
        self.side.follow_layout()

    def wire(self) -> None:
        """Who hears of what, in this order."""
        start, parts, chats, drafts, control = self.startup, self.parts, self.chats, self.drafts, self.control
        status, cards, side, focus, hints = self.status, self.cards, self.side, self.focus, self.hints
        empty_chat = self.empty_chat

        start.started.to(empty_chat.list_recent, side.refresh)
        start.asks_which.to(lambda: self.commands.run("/chats"))
        parts.placed.to(status.refresh, self.completions.place, side.placed)
        parts.vi_mode.to(status.refresh, hints.show)
        parts.vi_page.to(self.reader.page)
        chats.switched.to(drafts.switch)
        chats.shown.to(
            cards.show,
            status.refresh,
            status.count,
            empty_chat.chat_shown,
            focus.to_draft,
            hints.show,
            focus.settle,
            side.refresh,
        )
        chats.told.to(empty_chat.told, cards.told, status.told, side.told, focus.told, hints.told)
        drafts.edits.to(hints.show)
        drafts.written.to(
            cards.draft_written,
            hints.written,
            empty_chat.show,
            drafts.keep_soon,
            drafts.read_ahead,
            self.completions.offer,
        )
        control.changed.to(status.refresh)
        control.loaded.to(status.count)
        control.none_found.to(self.first_run.begin)
        status.refreshed.to(empty_chat.show)
        status.ticked.to(side.tick)
        self.first_run.changed.to(hints.show)
        self.shell_lines.changed.to(hints.show)
        focus.moved.to(hints.focus_moved, side.focus_moved)
        self.commands.ran.to(focus.settle)

    # ---- what screens and parts ask: see `Shell` and `Program` -----------------------------

    @property
    def manager(self) -> SessionManager:
        return self.chats.manager

    @property
    def settings(self) -> Settings:
        return self.given.settings

    @property
    def chat(self) -> Chat:
        return self.chats.current

    @property
    def palette(self) -> Palette:
        return self.parts.palette

    @property
    def glyphs(self) -> Glyphs:
        return self.parts.glyphs

    async def ready(self) -> None:
        await self.chats.ready()

    async def close_chat(self, session_id: str) -> None:
        await self.chats.close_chat(session_id)

    def live_states(self) -> Mapping[str, LiveState]:
        return self.chats.live_states()

    def say(self, text: str, *, error: bool = False) -> None:
        self.parts.say(text, error=error)

    async def load_model(self, source: str | None, options: Mapping[str, Any] | None = None) -> bool:
        return await self.control.load(source, options)

    def use_theme(self, name: str) -> None:
        self.parts.draw_with(switch(self.palette, read(name)))
        self.cards.show()
        self.status.refresh()

    def label(self, name: str) -> str:
        return self.parts.label(name)

    def key_rows(self) -> Sequence[tuple[str, str, str]]:
        return key_rows(self.parts.bound)

    def start(
        self, work: Callable[[], Coroutine[Any, Any, object]], *, group: str, exclusive: bool = False
    ) -> Worker[Any]:
        return self.run_worker(work, group=group, exclusive=exclusive, exit_on_error=False)

    async def ended(self, group: str) -> None:
        running = [worker.wait() for worker in self.workers if worker.group == group]
        await asyncio.gather(*running, return_exceptions=True)

    # ---- messages --------------------------------------------------------------------------

    async def on_event(self, event: events.Event) -> None:
        self.window.heard(event)
        taken = self.parts.furnished and self.early.over and self.focus.takes_first(event)
        if not taken and not self.early.holds(event):
            await super().on_event(event)

    def on_mount(self) -> None:
        self.startup.mount()

    def on_resize(self, event: events.Resize) -> None:
        # Textual tells its subclasses first: until it has heard too, `size` is the size of before.
        self.call_next(self.parts.place, *event.size)

    def on_app_focus(self) -> None:
        self.window.told_focus()

    def on_app_blur(self) -> None:
        self.window.told_focus()

    def on_key(self, event: events.Key) -> None:
        if self.parts.furnished:
            self.focus.key(event)

    def on_paste(self, event: events.Paste) -> None:
        if self.parts.furnished:
            self.focus.paste(event)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        if self.parts.furnished:
            self.focus.moved(event.widget)

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        self.drafts.changed(event.text_area)

    def on_mouse_scroll_up(self) -> None:
        if self.parts.furnished:
            self.reader.reach_up()

    def on_draft_left(self, event: Draft.Left) -> None:
        self.exit(0)

    def on_draft_sent(self, event: Draft.Sent) -> None:
        event.stop()
        self.sender.enter()

    def on_draft_picking(self, event: Draft.Picking) -> None:
        event.stop()
        self.completions.press(event.key)

    def on_waiting_list_leave(self, event: WaitingList.Leave) -> None:
        self.blocks.leave_queue(event.up)

    def on_waiting_list_edit(self, event: WaitingList.Edit) -> None:
        self.drafts.edit_waiting(event.item_id)

    def on_waiting_list_remove(self, event: WaitingList.Remove) -> None:
        self.drafts.remove_waiting(event.item_id)

    def on_transcript_new_below(self, event: Transcript.NewBelow) -> None:
        self.parts.seam.set_new_lines(event.rows)

    def on_transcript_cursor_moved(self, event: Transcript.CursorMoved) -> None:
        self.hints.show()

    def on_transcript_link_chosen(self, event: Transcript.LinkChosen) -> None:
        self.reader.choose_link(event)

    def on_opening_chosen(self, event: Opening.Chosen) -> None:
        self.empty_chat.go_on_with(event.session_id)

    def on_first_run_page_ready(self, event: FirstRunPage.Ready) -> None:
        self.first_run.chosen(event)

    def on_chats_pane_wished(self, event: ChatsPane.Wished) -> None:
        self.side.wish(event.session_id, event.wish)

    def on_approval_card_answered(self, event: ApprovalCard.Answered) -> None:
        self.cards.answer(event.question, event.action, event.content)

    def on_approval_card_unasked(self, event: ApprovalCard.Unasked) -> None:
        self.cards.unasked(event.text)

    # ---- keys ------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While a dialog is open, its own keys count and few others; vi has ctrl+r where it redoes."""
        if len(self.screen_stack) > 1 and action not in ANYWHERE and hasattr(type(self), f"action_{action}"):
            return action in OF_TEXTUAL
        if action == "retry" and self.parts.vi_redoes:
            return False
        return super().check_action(action, parameters)

    async def action_stop(self) -> None:
        await self.stopping.escape()

    async def action_copy_or_stop(self) -> None:
        if not (self.parts.furnished and await self.stopping.copy_or_stop(self.screen)):
            self.leaving.clear_or_quit()

    def action_leave(self) -> None:
        self.exit(0)

    async def action_editor(self) -> None:
        self.others.write_on()

    def action_page(self, direction: int) -> None:
        self.reader.page(direction)

    def action_newest(self) -> None:
        self.reader.newest()

    def action_oldest(self) -> None:
        self.reader.oldest()

    def action_find(self) -> None:
        self.reader.find()

    def action_block(self, step: int) -> None:
        self.blocks.move(step)

    def action_retry(self) -> None:
        self.blocks.retry()

    def action_variant(self, step: int) -> None:
        self.blocks.walk_variants(step)

    def action_fold_thoughts(self) -> None:
        self.parts.transcript.fold_all_thoughts()

    def action_next(self) -> None:
        self.focus.next()

    def action_chats(self) -> None:
        self.side.switch()

    def action_new_chat(self) -> None:
        self.chats.begin_chat()

    def action_cycle_approval(self) -> None:
        self.cards.cycle_approval()

    def action_mouse(self) -> None:
        self.window.switch_mouse()

    def action_palette(self) -> None:
        self.commands.open_palette()

    def action_search(self) -> None:
        self.commands.run("/search")

    def action_models(self) -> None:
        self.commands.run("/model")

    def action_params(self) -> None:
        self.commands.run("/params")

    def action_themes(self) -> None:
        self.commands.run("/theme")

    def action_help(self) -> None:
        if self.parts.draft.text and self.focused is self.parts.draft:
            raise SkipAction
        self.commands.run("/help")

    # ---- the terminal ----------------------------------------------------------------------

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        """Draw, and leave the terminal's own cursor at the caret: input methods compose there.

        Textual moves it with the caret only, and not with what moves a field: a size, a dialog, a card.
        """
        if self.screen_stack:
            self.cursor_position = self.parts.caret()
        super()._display(screen, renderable)  # pyright: ignore[reportUnknownMemberType]

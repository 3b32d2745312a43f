"""A list under a filter, with choices beside it that tab leads to: what search and models share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

from textual.binding import Binding
from textual.events import Click
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input

from app.tui.screens.dialog import Dialog, Hint
from app.tui.shell import Shell
from app.tui.widgets.filter import Filter
from app.tui.widgets.rows import Lines, RowList

ResultT = TypeVar("ResultT")


class Zones(Dialog[ResultT]):
    """Keys go to the filter and its list, or to the choices. What derives from it knows what they are.

    `hints` are the keys at the list, `choice_hints` those at the choices.
    """

    BINDINGS: ClassVar[Any] = [
        Binding("up,ctrl+p", "move(-1)", show=False, priority=True),
        Binding("down,ctrl+n", "move(1)", show=False, priority=True),
        Binding("pageup", "page(-1)", show=False, priority=True),
        Binding("pagedown", "page(1)", show=False, priority=True),
        Binding("ctrl+home", "jump(False)", show=False, priority=True),
        Binding("ctrl+end", "jump(True)", show=False, priority=True),
        Binding("tab,shift+tab", "zone", show=False, priority=True),
        Binding("left", "turn(-1)", show=False),
        Binding("right", "turn(1)", show=False),
        Binding("enter", "choose", show=False),
    ]

    def __init__(
        self,
        shell: Shell,
        heading: str,
        hints: Sequence[Hint],
        choice_hints: Sequence[Hint],
        *,
        filter: Filter,
        choices: ChoiceRows,
    ) -> None:
        super().__init__(shell, heading, hints)
        self._list_hints, self._choice_hints = hints, choice_hints
        self.in_choices = False
        self.filter = filter
        self.choices = choices
        self.list = RowList(id="list")

    # ---- for what derives from it ----------------------------------------------------------

    def typed(self) -> None:
        """Something was typed into the filter."""

    def has_choices(self) -> bool:
        """Whether there is something to choose beside the list."""
        return True

    def show_choices(self) -> None:
        """Draw the choices: keys go there now, or do not any more."""

    def move_choice(self, step: int) -> None:
        """Up (-1) or down (1) at the choices."""

    def turn_choice(self, step: int) -> None:
        """Left (-1) or right (1) at the choices."""

    def choice_clicked(self, x: int, y: int) -> None:
        """The mouse chose a cell of the choices."""

    def choose(self) -> None:
        """Enter: give back what is selected."""

    # ---- keys and the mouse ----------------------------------------------------------------

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.typed()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.choose()

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        event.stop()
        self.choose()

    def on_choice_rows_clicked(self, event: ChoiceRows.Clicked) -> None:
        event.stop()
        if not self.in_choices:
            self.action_zone()
        if self.in_choices:
            self.choice_clicked(event.x, event.y)

    def action_move(self, step: int) -> None:
        if self.in_choices:
            self.move_choice(step)
        else:
            self.list.move(step)

    def action_page(self, direction: int) -> None:
        self.list.page(direction)

    def action_jump(self, end: bool) -> None:
        self.list.jump(end=end)

    def action_turn(self, step: int) -> None:
        if self.in_choices:
            self.turn_choice(step)

    def action_choose(self) -> None:
        self.choose()

    def action_zone(self) -> None:
        """Go between the filter and the choices."""
        if not self.in_choices and not self.has_choices():
            return
        self.in_choices = not self.in_choices
        self.list.active = not self.in_choices
        self.hint(self._choice_hints if self.in_choices else self._list_hints)
        target: Widget = self.choices if self.in_choices else self.filter.input
        target.focus()
        self.show_choices()


class ChoiceRows(Lines, can_focus=True):
    """The rows of the choices. They hold the focus while one is chosen."""

    class Clicked(Message):
        """The mouse chose a cell."""

        def __init__(self, x: int, y: int) -> None:
            super().__init__()
            self.x = x
            self.y = y

    def on_click(self, event: Click) -> None:
        event.stop()
        self.post_message(self.Clicked(event.x, event.y))

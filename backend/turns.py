"""The turns of a chat session: one question and its answer each, and the queue that says which may run."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from itertools import takewhile

from backend.chat_engine import Request
from backend.reply import Delivery, Failed, Reply
from backend.stream import Inbox
from backend.types import ChatOutcome, QueueFullError, ReasoningPiece, TextPiece, ToolCallPiece


class Turn:
    """One waiting or running turn of a session.

    `request` makes what is asked when the turn begins; `commit` enters its result into the history.
    """

    def __init__(
        self,
        request: Callable[[], Request],
        *,
        keeps_history: bool,
        commit: Callable[[Turn], None],
        on_outcome: Callable[[ChatOutcome], None],
    ) -> None:
        self.keeps_history = keeps_history
        self.reader = threading.get_ident()
        """The thread that reads the reply, or will."""
        self.reply: Reply | None = None
        self.inbox = Inbox(on_outcome=on_outcome)
        self.outcome: ChatOutcome | None = None
        """Set when the reply was read to its end."""
        self.cancelled = False
        self.began = False
        """Whether a first piece of the reply was read."""
        self.text: list[str] = []
        self.reasoning: list[str] = []
        """What was read so far."""
        self._request = request
        self._commit = commit
        self._over = False
        self._lock = threading.Lock()

    @property
    def over(self) -> bool:
        """Whether the turn no longer occupies its session."""
        return self._over

    @property
    def is_whole(self) -> bool:
        """Whether the reply was read to an end of its own."""
        return self.outcome is not None and self.outcome.finish not in ("cancelled", "error")

    def begin(self) -> Request | None:
        """The request, entered into the history; None when the reader went away before."""
        with self._lock:
            return None if self._over else self._request()

    def finish(self) -> None:
        """Enter the result into the history, once, and only then let the next turn begin."""
        with self._lock:
            if not self._over:
                self._commit(self)
                self._over = True

    def drop(self, error: Exception) -> None:
        """End a turn that never began; its reader sees `error`."""
        with self._lock:
            self._over = True
        self.inbox.put([Failed(error)])

    def note(self, item: Delivery) -> None:
        """Remember what the reader is about to see."""
        match item:
            case TextPiece(text):
                self.text.append(text)
            case ReasoningPiece(text):
                self.reasoning.append(text)
            case ChatOutcome():
                self.outcome = item
            case _:
                pass
        self.began = self.began or isinstance(item, TextPiece | ReasoningPiece | ToolCallPiece)


class TurnQueue:
    """Decides which turns run: at most `max_active`, those that use the history one after another.

    `start` is called for each turn that may run, on a thread of the queue's own. At most
    `max_queued` turns wait.
    """

    def __init__(self, start: Callable[[Turn], None], *, max_active: int, max_queued: int) -> None:
        self._start = start
        self._max_active = max_active
        self._max_queued = max_queued
        self._closed = False
        self._changed = threading.Condition()
        self._waiting: deque[Turn] = deque()
        self._ready: deque[Turn] = deque()
        """Turns that may run now and are to be started."""
        self._running: list[Turn] = []
        """Those that began, and those in `_ready`."""
        self._has_worker = False

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def waiting(self) -> int:
        """How many turns wait for others to end."""
        return len(self._waiting)

    def add(self, turn: Turn) -> None:
        """Queue a turn. QueueFullError when too many wait, ValueError after `close()`."""
        with self._changed:
            if self._closed:
                raise ValueError("the session is closed")
            self._waiting.append(turn)
            self._admit()
            if turn in self._waiting and len(self._waiting) > self._max_queued:
                self._waiting.remove(turn)
                raise QueueFullError(
                    f"{len(self._waiting)} turns are waiting already, and this session queues "
                    f"{self._max_queued}. Wait for one to finish."
                )

    def read_by_this_thread(self, turn: Turn) -> None:
        """Note who reads a turn. ValueError where that thread itself is what the turn waits for."""
        with self._changed:
            turn.reader = threading.get_ident()
            if turn not in self._waiting:
                return
            earlier = [*self._running, *takewhile(lambda other: other is not turn, self._waiting)]
            unread = [other for other in earlier if other.reader == turn.reader and not other.over]
            if not self._fits_beside(turn, unread):
                raise ValueError("read the streamed reply to its end, or close it, before the next turn")

    def withdraw(self, turn: Turn) -> None:
        """Take a turn back that still waits."""
        with self._changed:
            if turn in self._waiting:
                self._waiting.remove(turn)

    def finish(self, turn: Turn) -> None:
        """End a turn, and let those begin that waited for it."""
        turn.finish()
        with self._changed:
            self._running = [other for other in self._running if not other.over]
            self._admit()

    def close(self) -> list[Turn]:
        """Drop every turn that has not begun; the ones that run. Nothing when closed before."""
        with self._changed:
            if self._closed:
                return []
            self._closed = True
            dropped = [*self._ready, *self._waiting]
            running = [turn for turn in self._running if turn not in self._ready]
            self._ready.clear()
            self._waiting.clear()
            self._changed.notify_all()
        for turn in dropped:
            turn.drop(ValueError("the session was closed before this turn began"))
        return running

    def _fits_beside(self, turn: Turn, others: Sequence[Turn]) -> bool:
        if len(others) >= self._max_active:
            return False
        return not (turn.keeps_history and any(other.keeps_history for other in others))

    def _admit(self) -> None:
        """Make every waiting turn ready that may run beside the running ones, in order."""
        for turn in list(self._waiting):
            if self._fits_beside(turn, self._running):
                self._waiting.remove(turn)
                self._running.append(turn)
                self._ready.append(turn)
        if self._ready and not self._has_worker:  # It ends with its work, so that no idle session holds one.
            self._has_worker = True
            threading.Thread(target=self._work, name="fireside-session", daemon=True).start()
        self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._ready:
                    self._has_worker = False
                    return
                turn = self._ready.popleft()
            self._start(turn)

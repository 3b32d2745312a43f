"""Reads harmony replies: messages with a channel and a recipient between control tokens."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator

from backend.chat.parsing.calls import OpenCall, is_json
from backend.chat.parsing.parser import ReplyParser
from backend.chat.parsing.stream import Mark, Marks, visible

_MESSAGE = "<|message|>"
_START = "<|start|>"
_ENDS = ("<|end|>", "<|call|>", "<|return|>", _START)
_RECIPIENT = re.compile(r"to=([^\s<]+)")
_CHANNEL = re.compile(r"<\|channel\|>(\w+)")
_HEAD_STARTS = ("<|", "to=", "assistant")
_LONGEST_HEAD_START = 9
_FUNCTIONS = "functions."
_HEAD_MARKS = Marks([Mark(text) for text in (_MESSAGE, *_ENDS)])
_END_MARKS = Marks([Mark(text) for text in _ENDS])
_ANYBODY = frozenset({"assistant", "user", "all"})


class HarmonyParser(ReplyParser):
    """The parser of the harmony format: the last channel of a header counts, a recipient may stand
    in the role or the channel, and a broken header is dropped with its message."""

    def _read(self) -> Generator[None, None, None]:
        while not (self.stream.final and self.stream.ended):
            head = yield from self._head()
            if head is not None:
                yield from self._message(head)

    def _head(self) -> Generator[None, None, str | None]:
        """The header in front of a message's body; None when it has none and is dropped."""
        stream = self.stream
        if not (yield from self._begins_head()):
            return ""
        head = ""
        while True:
            at, found = _HEAD_MARKS.find(stream.text, stream.pos, stream.final)
            head += stream.take(at)
            if found is None:
                if stream.final:
                    stream.pos = len(stream.text)
                    if "<|" not in head and not _RECIPIENT.search(head):
                        self.reply.text(head)
                    return None
                yield
                continue
            mark = _HEAD_MARKS.marks[found[0]]
            stream.pos = found[1].end
            if mark.text == _MESSAGE:
                return head
            if mark.text == _START:
                head = ""
            elif head.strip():
                return None

    def _begins_head(self) -> Generator[None, None, bool]:
        """Whether what comes next is a header at all; a model that forgets it speaks to the user."""
        stream = self.stream
        while True:
            at = yield from visible(stream)
            if at >= len(stream.text):
                return True
            rest = stream.text[at : at + _LONGEST_HEAD_START]
            if rest.startswith(_HEAD_STARTS):
                return True
            if stream.final or not any(start.startswith(rest) for start in _HEAD_STARTS):
                return False
            yield

    def _message(self, head: str) -> Generator[None, None, None]:
        recipients = _RECIPIENT.findall(head)
        channels = _CHANNEL.findall(head)
        channel = channels[-1] if channels else "final"
        named = [each.removeprefix(_FUNCTIONS) for each in recipients if each not in _ANYBODY]
        name = next((name for name in named if name in self.sink.schemas), named[-1] if named else None)
        if name is not None and self.sink.schemas:  # Told of a tool that is not there, the model can mend it.
            yield from self._call(name)
        elif recipients and recipients[-1] not in _ANYBODY:
            self.unoffered = self.unoffered or named[-1]
            yield from self._body(lambda _text: None)
        elif channel == "analysis":
            self.reply.open_thought(head.removeprefix("assistant").lstrip() + _MESSAGE)
            end = yield from self._body(self.reply.thought)
            if end:
                self.reply.close_thought("" if end == _START else end)
        else:
            self.reply.open_wrapper()
            end = yield from self._body(self.reply.text)
            if self.specials and end != _START:
                self.reply.text(end)

    def _call(self, name: str) -> Generator[None, None, None]:
        call = OpenCall(self.sink, name)
        before = len(self.sink.pieces)
        call.tell()
        self._tell_calls(before)

        def write(text: str) -> None:
            told = len(self.sink.pieces)
            call.write(text)
            self._tell_calls(told)

        end = yield from self._body(write)
        if not end and not is_json(call.text):
            self.sink.incomplete = True
            call.fault = "the reply ended before the call was complete"
        call.close()

    def _body(self, tell: Callable[[str], None]) -> Generator[None, None, str]:
        """Tell the body as it arrives; the marker that ended it, empty at the end of the reply."""
        stream = self.stream
        while True:
            at, found = _END_MARKS.find(stream.text, stream.pos, stream.final)
            tell(stream.take(at))
            if found is not None:
                mark = _END_MARKS.marks[found[0]]
                if mark.text == _START:
                    return mark.text
                return stream.take(found[1].end)
            if stream.final:
                return ""
            yield

"""Reads the calls of a reply from a stream, by the format's `CallSyntax`."""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from typing import Any

from backend.chat.format import ID, INDEX, NAME, CallSyntax, inner_tag, is_tag
from backend.chat.format import visible as visible_atoms
from backend.chat.parsing.arguments import ArgumentReader
from backend.chat.parsing.calls import CallSink, NotACall, OpenCall, excerpt, is_json
from backend.chat.parsing.literals import Cut, Malformed, json_value
from backend.chat.parsing.looking import coming, passed, skip_to, taken_to
from backend.chat.parsing.loose import LooseReader
from backend.chat.parsing.stream import Mark, Match, Stream, skip_space, visible, wait_for

_ARGUMENT_KEYS = ("arguments", "parameters")
_STRAY = re.compile(r"[\s\]})]{0,1000}")
_MOST_IN_VAIN = 20_000
"""Characters of a reply that are read as calls which turn out to be none; what follows is text unread."""
_MOST_SALVAGED = 20
_SEMICOLON = Mark(";")
"""Stands between calls where no other mark does, as Llama 3 writes several."""


class CallReader:
    """Reads one run of calls: a section, or calls that follow one another."""

    def __init__(self, syntax: CallSyntax, sink: CallSink) -> None:
        names = tuple(sink.schemas)
        self.syntax = syntax
        self.sink = sink
        self.section_start, self.section_end = Mark(syntax.section_start), Mark(syntax.section_end)
        self.call_start, self.call_end = Mark(syntax.call_start), Mark(syntax.call_end)
        self.short_end = Mark(next((atom for atom in visible_atoms(syntax.call_end) if is_tag(atom)), ""))
        self.separator = Mark(syntax.separator)
        self.separator_is_tag = is_tag(syntax.separator)
        self.loose = LooseReader(syntax, sink)
        heads = {*syntax.triggers, *self.loose.heads}
        self.triggers = [Mark(text) for text in sorted(heads, key=lambda text: (-len(text), text))]
        self.arguments = ArgumentReader(syntax)
        self.members = {*syntax.members, *(names if syntax.name_is_key else ()), "type", "id"}
        middle = syntax.middle if syntax.kind == "tagjson" else syntax.head_end.rstrip()
        name = NAME if syntax.kind == "tagjson" else syntax.head
        starts = [syntax.call_start, inner_tag(syntax.call_start)]
        starts = [start for start in starts if start or start == starts[0]]
        self.heads = [Mark(start + name + middle, names) for start in starts]
        if syntax.id_pattern:  # A model that made the id up leaves parts of it out.
            short = syntax.call_start.removesuffix("functions.")
            bare = middle.removeprefix(":" + INDEX)
            self.heads += [Mark(start + name + bare, names) for start in starts]
            self.heads += [Mark(short + name + rest, names) for rest in (middle, bare)]
        self.bare_heads = [
            Mark(start + NAME, names) for start in starts if start and syntax.kind == "tagjson"
        ]
        """Heads without the mark between name and arguments, which some models leave out."""
        self._in_vain = 0
        self._salvaged = 0

    def read(self, stream: Stream) -> Generator[None, None, None]:
        """Read every call of the run that begins at the stream's position.

        Raises NotACall, with the position unchanged, when it does not begin with a call.
        """
        if self._in_vain > _MOST_IN_VAIN:
            raise NotACall
        stream.keep = stream.pos
        try:
            yield from self._open_section(stream)
            yield from self._one(stream)
        except NotACall:
            if not (yield from self._loosely(stream)):
                raise
        finally:
            stream.keep = None
        yield from self._rest(stream)

    def _loosely(self, stream: Stream) -> Generator[None, None, bool]:
        """Go back and read the same in another format's shape; False where it is no call at all."""
        assert stream.keep is not None
        self._in_vain += stream.pos - stream.keep
        stream.pos = stream.keep
        if (yield from self.loose.read(stream)):
            return True
        self._in_vain += self.loose.passed
        return False

    def _rest(self, stream: Stream) -> Generator[None, None, None]:
        while (yield from self._more(stream)):
            stream.keep = stream.pos
            try:
                yield from passed(stream, _SEMICOLON)
                yield from self._open_section(stream)
                yield from self._one(stream)
            except NotACall:
                if not (yield from self._loosely(stream)):
                    return
            finally:
                stream.keep = None

    def _open_section(self, stream: Stream) -> Generator[None, None, None]:
        yield from passed(stream, self.section_start)

    def _one(self, stream: Stream) -> Generator[None, None, None]:
        yield from skip_space(stream)
        match self.syntax.kind:
            case "json":
                yield from self._json_call(stream)
            case "tagjson":
                yield from self._tagged_json_call(stream)
            case "tagged":
                yield from self._tagged_call(stream)

    def _more(self, stream: Stream) -> Generator[None, None, bool]:
        """Go to the next call of the run; False at its end, behind the section's end mark."""
        if (yield from passed(stream, self.separator)):
            yield from skip_space(stream)
            if not stream.ended:
                return True
        closed = yield from passed(stream, self.section_end)
        if (yield from self._at_trigger(stream)):
            yield from skip_space(stream)
            return True
        if closed or self.syntax.kind != "json" or self.separator.parts:
            return False
        at = yield from visible(stream)
        return stream.text.startswith(("{", ";"), at)

    def _at_trigger(self, stream: Stream) -> Generator[None, None, bool]:
        for mark in self.triggers:
            if (yield from coming(stream, mark)):
                return True
        return False

    def _end_call(self, stream: Stream, call: OpenCall) -> Generator[None, None, None]:
        """Consume what closes a call; a malformed one is skipped to there."""
        if not self.call_end.parts:
            return
        if (yield from passed(stream, self.call_end)) or (yield from passed(stream, self.short_end)):
            return
        if call.fault is not None:
            yield from skip_to(stream, [self.call_end])
            return
        while True:
            match = _STRAY.match(stream.text, stream.pos)
            at = match.end() if match else stream.pos
            end = self.call_end.match(stream.text, at, stream.final)
            if end == "partial" or (at >= len(stream.text) and not stream.final):
                yield
                continue
            stream.pos = end.end if end is not None else stream.pos
            return

    def _commit(self, stream: Stream, call: OpenCall) -> None:
        """From here on it is a call, and what is read need not be kept."""
        if call.known:
            call.tell()
            stream.keep = None

    def _close(self, call: OpenCall, err: Malformed | None) -> None:
        """Hand in the call, and the calls that it swallowed if its brackets or quotes were never closed."""
        swallowed = None if err is None else self._swallowed(call, err)
        call.close()
        if swallowed is not None:
            _exhaust(self._rest(swallowed))

    def _swallowed(self, call: OpenCall, err: Malformed) -> Stream | None:
        """What follows the end of a call in its own text; None where the reply's end broke it off."""
        if not isinstance(err, Cut) or not self.call_end.first or self._salvaged >= _MOST_SALVAGED:
            return None
        self._salvaged += 1
        rest = Stream(call.text)
        rest.final = True
        if _exhaust(skip_to(rest, [self.call_end])) is None:
            return None
        call.fault = "the call is malformed: its brackets or quotes are not closed"
        self.sink.incomplete = False
        return rest

    # ---- calls as one JSON object ----------------------------------------------------------

    def _json_call(self, stream: Stream) -> Generator[None, None, None]:
        if self.call_start.parts:
            match = yield from wait_for(stream, self.call_start)
            stream.pos = match.end if match else stream.pos
            yield from skip_space(stream)
        if not stream.text.startswith("{", stream.pos):
            raise NotACall
        call = OpenCall(self.sink)
        fault: Malformed | None = None
        try:
            yield from self._members(stream, call, ())
        except Malformed as err:
            if not call.name or (not self.triggers and not call.told):
                raise NotACall from err
            if not (is_json(call.text) and (yield from coming(stream, self.call_end))):
                call.blame(err)
                fault = err
        if not call.name or (not self.triggers and not call.known):
            raise NotACall
        stream.keep = None
        yield from self._end_call(stream, call)
        if call.raw.startswith('"') and call.fault is None:
            call.write(_text(call.raw))
        self._close(call, fault)

    def _members(self, stream: Stream, call: OpenCall, path: tuple[str, ...]) -> Generator[None, None, None]:
        """The members of the object at the position, the name and the arguments among them."""
        stream.pos += 1
        while True:
            yield from skip_space(stream)
            character = stream.text[stream.pos : stream.pos + 1]
            if character == "}":
                stream.pos += 1
                return
            if character == ",":
                stream.pos += 1
                continue
            if character != '"':
                raise (Malformed if character else Cut)("a key is missing")
            key = _text((yield from json_value(stream)))
            yield from skip_space(stream)
            if not stream.text.startswith(":", stream.pos):
                raise (Cut if stream.ended else Malformed)(f"the key {key!r} has no value")
            stream.pos += 1
            yield from skip_space(stream)
            if stream.ended:
                raise Cut(f"the key {key!r} has no value")
            yield from self._member(stream, call, (*path, key))

    def _member(self, stream: Stream, call: OpenCall, path: tuple[str, ...]) -> Generator[None, None, None]:
        syntax = self.syntax
        if not self.triggers and path[0] not in self.members:
            raise NotACall
        nests = any(path == known[: len(path)] for known in (syntax.name_path, syntax.arguments_path))
        if syntax.name_is_key and len(path) == 1 and not call.name:
            call.name = path[0]
            yield from self._arguments(stream, call)
        elif self._holds_arguments(path):
            yield from self._arguments(stream, call)
        elif stream.text[stream.pos] == "{" and nests:
            yield from self._members(stream, call, path)
        else:
            value = yield from json_value(stream, stop=self.call_end)
            if path == syntax.name_path:
                call.name = _text(value)
                if self.triggers:
                    self._commit(stream, call)
            elif path == syntax.id_path:
                call.id = _text(value)

    def _holds_arguments(self, path: tuple[str, ...]) -> bool:
        """Whether the arguments stand at `path`; models mix up the two usual words for them."""
        wanted = self.syntax.arguments_path
        if path == wanted:
            return True
        alike = bool(wanted) and wanted[-1] in _ARGUMENT_KEYS and path[-1] in _ARGUMENT_KEYS
        return alike and path[:-1] == wanted[:-1]

    def _arguments(self, stream: Stream, call: OpenCall) -> Generator[None, None, None]:
        if call.name:
            self._commit(stream, call)
        if stream.text[stream.pos] == '"':
            call.raw = yield from json_value(stream, stop=self.call_end)
            return
        yield from json_value(stream, emit=call.write, stop=self.call_end)

    # ---- calls with the name outside -------------------------------------------------------

    def _tagged_json_call(self, stream: Stream) -> Generator[None, None, None]:
        call = yield from self._head(stream)
        yield from skip_space(stream)
        fault: Malformed | None = None
        if stream.ended and call.known:
            call.blame(Cut("the reply ended inside it"))
        elif not stream.text.startswith("{", stream.pos):
            raise NotACall
        self._commit(stream, call)
        try:
            if not stream.ended:
                yield from json_value(stream, emit=call.write, stop=self.call_end)
        except Malformed as err:
            if not call.known:
                raise NotACall from err
            call.blame(err)
            fault = err
        yield from self._end_call(stream, call)
        self._close(call, fault)

    def _tagged_call(self, stream: Stream) -> Generator[None, None, None]:
        call = yield from self._head(stream)
        values: dict[str, Any] = {}
        self._commit(stream, call)
        try:
            yield from self.arguments.read(stream, call, self.sink.schemas.get(call.name, {}), values)
        except Malformed as err:
            if not call.known:
                raise NotACall from err
            call.blame(err)
            if isinstance(err, Cut):
                call.close(values)
                return
            skipped, _ = yield from taken_to(stream, [self.call_end])
            if skipped.strip():
                call.fault = f"{call.fault}: {excerpt(skipped)}"
        call.write("}")
        call.close(values)

    def _head(self, stream: Stream) -> Generator[None, None, OpenCall]:
        """The start of a call up to its arguments, consumed."""
        while True:
            waiting = False
            for mark in (*self.heads, *self.bare_heads):
                match = mark.match(stream.text, stream.pos, stream.final)
                if match == "partial":
                    waiting = True
                    break
                if match is not None and not self.triggers and match.values[NAME] not in self.sink.schemas:
                    raise NotACall
                if match is not None and (mark in self.heads or stream.text.startswith("{", match.end)):
                    stream.pos = match.end
                    return self._opened(match)
            if not waiting:
                raise NotACall
            yield

    def _opened(self, match: Match) -> OpenCall:
        name = match.values[NAME]
        call_id = match.values.get(ID, "")
        if self.syntax.id_pattern:
            call_id = self.syntax.id_pattern.replace(NAME, name).replace(INDEX, match.values.get(INDEX, ""))
        return OpenCall(self.sink, name, call_id)


def _exhaust(run: Generator[None, None, Any]) -> Any:
    """What a reader over a finished stream returns."""
    while True:
        try:
            next(run)
        except StopIteration as stop:
            return stop.value


def _text(value: str) -> str:
    try:
        parsed = json.loads(value, strict=False)
    except ValueError:
        return value
    return parsed if isinstance(parsed, str) else json.dumps(parsed)

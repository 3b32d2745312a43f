"""The engine child: reads requests as JSON lines from one pipe, writes pieces to another.

It ends with its parent: at end-of-file of its pipe. Descriptors 0, 1 and 2 lead to the log.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from backend import native
from backend.chat_engine import LoadSpec, Rendered, Request
from backend.engines import wire
from backend.model import GenerativeModel, load
from backend.reply import Delivery, Failed, Ids
from backend.types import EngineError

_PROGRESS_STEP = 0.01
_CLOSING_S = 4.0
"""For what is to be kept of conversations, before the parent loses its patience."""


class Child:
    """Serves one parent. Every command is answered by `{"re": id, "value" or "error": ...}`."""

    def __init__(self, commands: BinaryIO, answers: BinaryIO) -> None:
        self._commands = commands
        self._answers = answers
        self._write_lock = threading.Lock()
        self._model: GenerativeModel | None = None
        self._loading = threading.Lock()
        self._load_cancelled = threading.Event()
        """Of the load that was asked for last."""

    def run(self) -> None:
        """Serve until the parent is gone."""
        self._write({"hello": wire.VERSION, "pid": os.getpid()})
        for line in self._commands:
            command = wire.loads(line)
            match command["op"]:
                case "submit":
                    self._submit(command["request"], warm=bool(command.get("warm")))
                case "cancel":
                    if self._model:
                        self._model.pipeline.cancel(command["request"])
                case "cancel_load":
                    self._load_cancelled.set()
                case "load":
                    given_up = self._load_cancelled = threading.Event()
                    self._later(command, functools.partial(self._load, command, given_up))
                case operation:
                    self._later(command, lambda command=command, name=operation: self._do(name, command))

    def _later(self, command: dict[str, Any], action: Callable[[], Any]) -> None:
        """Do it on a thread of its own, so that cancellations are read meanwhile."""

        def answer() -> None:
            try:
                self._write({"re": command["re"], "value": action()})
            except Exception as err:
                self._write({"re": command["re"], "error": err})

        threading.Thread(target=answer, daemon=True).start()

    def _load(self, command: dict[str, Any], given_up: threading.Event) -> Any:
        with self._loading:  # One whose caller went away must end before the next begins.
            return self._load_alone(command, given_up)

    def _load_alone(self, command: dict[str, Any], given_up: threading.Event) -> Any:
        spec: LoadSpec = command["spec"]
        self._unload()
        shown = -1.0

        def progress(fraction: float) -> bool:
            nonlocal shown
            if fraction - shown >= _PROGRESS_STEP or fraction >= 1.0:
                shown = fraction
                self._write({"re": command["re"], "progress": fraction})
            return not given_up.is_set()

        self._model = load(spec.source, progress=progress, for_text=spec.for_text, **spec.options)
        if cells := command.get("cells"):
            folder, most_bytes = cells
            self._model.pipeline.keep_cells(Path(folder), most_bytes)
        return {"card": self._model.card, "residency": self._model.residency}

    def close(self) -> None:
        """Keep what is worth it of the conversations; without files for them there is nothing to do."""
        if self._model and self._model.pipeline.keeps_cells:
            closing = threading.Thread(target=self._model.pipeline.close, daemon=True)
            closing.start()
            closing.join(_CLOSING_S)

    def _unload(self) -> None:
        model, self._model = self._model, None
        if model:
            model.close()

    def _do(self, operation: str, command: dict[str, Any]) -> Any:
        if operation == "unload":
            return self._unload()
        model = self._loaded()
        match operation:
            case "count":
                return len(model.pipeline.prepare(command["request"]).result().tokens)
            case "render":
                prompt = model.pipeline.prepare(command["request"]).result()
                return Rendered(prompt.text, tuple(prompt.tokens))
            case "tokenize":
                return model.tokenizer.encode(command["text"])
            case "detokenize":
                return model.tokenizer.decode(command["ids"])
            case "embed":
                return model.embed(command["texts"])
            case "forget":
                return model.pipeline.forget(command["conversation"]).result()
            case "residency":
                return model.residency
            case "stats":
                return model.pipeline.stats()
            case _:
                raise ValueError(f"unknown operation {operation!r}")

    def _submit(self, request: Request, *, warm: bool) -> None:
        def deliver(items: list[Delivery]) -> None:
            pieces = [item for item in items if not isinstance(item, Failed | Ids)]
            if pieces:
                self._write({"of": request.id, "pieces": pieces})
            for item in items:
                if isinstance(item, Failed):
                    self._write({"of": request.id, "error": item.error})

        try:
            model = self._loaded()
            model.check(request)
            model.pipeline.start(request, deliver, warm=warm)
        except Exception as err:
            self._write({"of": request.id, "error": err})

    def _loaded(self) -> GenerativeModel:
        if self._model is None:
            raise EngineError("No model is loaded.", remedy="Load one first.")
        return self._model

    def _write(self, message: dict[str, Any]) -> None:
        line = wire.dumps(message)
        with self._write_lock:
            self._answers.write(line)
            self._answers.flush()


def main(commands: int, answers: int) -> None:
    """Serve on two descriptors. Leaves at once at the end: whatever still runs has no reader."""
    native.log.to_descriptor(2)
    child = Child(os.fdopen(commands, "rb"), os.fdopen(answers, "wb"))
    try:
        with contextlib.suppress(BrokenPipeError):
            child.run()
        child.close()
    finally:
        os._exit(0)

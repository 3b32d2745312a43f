"""The way of a request through one model: prepared on one thread, decoded on the engine's, parsed and
delivered on a third, so that neither a slow template nor a slow reader holds up anybody's tokens."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from backend import native
from backend.chat_engine import EngineStats, Request
from backend.engine.constrained import compiled
from backend.engine.engine import Engine
from backend.engine.kept_cells import CellFiles, KeptCells, drop, model_mark
from backend.engine.request import Ended, EngineRequest, belongs
from backend.engine.scheduler import Outputs
from backend.loaded_model import LoadedModel
from backend.prompt import Prompt, PromptBuilder
from backend.reply import Reply, Sink
from backend.types import EngineError, GenerationConfig, Grammar, StageEvent, StageObserver

logger = logging.getLogger("fireside")


class Pipeline:
    """Answers requests on one loaded model. The first request builds the context."""

    def __init__(self, handle: LoadedModel) -> None:
        self.handle = handle
        self.prompts = PromptBuilder(handle.tokenizer, lambda: handle.template, handle.max_seq)
        self._observer: StageObserver | None = None
        self._outputs: queue.SimpleQueue[Outputs | None] = queue.SimpleQueue()
        self._replies: dict[str, Reply] = {}
        self._lock = threading.Lock()
        self._closed = False
        self._cells: CellFiles | None = None
        self._looked_for: set[str] = set()
        """Conversations whose file was read, or is not there."""
        self._dropped: set[str] = set()
        """Conversations that were forgotten, and of which nothing may be written any more."""
        self._preparing = ThreadPoolExecutor(1, thread_name_prefix="fireside-prepare")
        self.engine = Engine(
            handle.model, handle.engine_params, self._outputs.put, slots=handle.options.asked_slots
        )
        self._delivery = threading.Thread(target=self._deliver, name="fireside-deliver", daemon=True)
        self._delivery.start()

    def keep_cells(self, folder: Path, most_bytes: int) -> None:
        """Keep on disk what the cache holds of lasting conversations, for the next time they are opened."""
        mark = model_mark(
            self.handle.info.path,
            adapters=self.handle.options.lora,
            kv_type=self.handle.plan.kv_type,
            flash_attn=self.handle.plan.flash_attn,
            swa_full=self.handle.plan.swa_full,
            llama_cpp=native.build_mark(),
        )
        self._cells = CellFiles(folder, mark, most_bytes)
        self._writing = ThreadPoolExecutor(1, thread_name_prefix="fireside-cells")
        self.engine.keep = self._keep

    @property
    def keeps_cells(self) -> bool:
        """Whether there are files for what the cache holds."""
        return self._cells is not None

    def _keep(self, conversation: str, tokens: list[int], cells: bytearray) -> None:
        """On the engine's thread, which does not wait for the disk."""
        priors = self.prompts.kept(conversation)
        texts, spelled = tuple(text for text, _ in priors), priors[0][1] if priors else ()
        kept = KeptCells(tokens, cells, texts, spelled)

        def write() -> None:
            if self._cells and not any(belongs(conversation, name) for name in self._dropped):
                self._cells.write(conversation, kept)

        self._writing.submit(write)

    def _recall(self, request: Request) -> KeptCells | None:
        """What a file holds of a conversation that is new to this process."""
        name = request.conversation
        if self._cells is None or not name or not request.is_lasting or name in self._looked_for:
            return None
        self._looked_for.add(name)
        self._dropped.discard(name)
        kept = self._cells.read(name)
        if kept and kept.texts:
            self.prompts.keep(name, kept.spelled, *kept.texts)
        return kept

    def observe(self, callback: StageObserver | None) -> None:
        """Tell `callback` of the stages of requests that start from now on."""
        self._observer = callback and self._guarded(callback)

    def start(
        self,
        request: Request,
        sink: Sink,
        *,
        ids: bool = False,
        show_specials: bool = False,
        warm: bool = False,
    ) -> Reply:
        """Take a request. Its pieces reach `sink` on the delivery thread; failures do too.

        `ids` delivers ids instead of text, `warm` evaluates the prompt and writes nothing.
        """
        reply = Reply(request, sink, self._observer, ids=ids, keep=self.prompts.keep)
        with self._lock:
            self._check_open()
            known = self._replies.get(reply.id)
            if known is not None and not known.over:
                raise ValueError(
                    f"request {reply.id} is already running; a second answer needs a request of its own"
                )
            self._replies[reply.id] = reply
            self.engine.open()
            self._preparing.submit(self._prepare, reply, ids or show_specials, warm)
        return reply

    def cancel(self, request_id: str) -> None:
        """End a request early. Its outcome says `cancelled`; unknown ids are ignored."""
        if reply := self._replies.get(request_id):
            reply.cancelled.set()
            self.engine.cancel(request_id)

    def forget(self, conversation: str) -> Future[None]:
        """Empty what the cache holds of a conversation, once what was asked before is on its way. Nothing
        is left to empty once the model was closed."""

        def forget() -> None:
            self.prompts.forget(conversation)
            self.engine.forget(conversation)
            if self._cells:  # Behind what is being written of it.
                self._dropped.add(conversation)
                self._looked_for.discard(conversation)
                self._writing.submit(drop, self._cells.folder, conversation)

        with self._lock:
            if not self._closed:
                return self._preparing.submit(forget)
        nothing: Future[None] = Future()
        nothing.set_result(None)
        return nothing

    def stats(self) -> EngineStats:
        """What the engine is doing now."""
        now = self.engine.counters()
        return EngineStats(now.running, now.waiting, now.slots, now.cached_tokens, self.handle.max_seq)

    def prepare(self, request: Request) -> Future[Prompt]:
        """The prompt of a request, made on the preparing thread, whether or not it fits. What was made is
        kept for the request that follows. EngineError once the model was closed."""
        with self._lock:
            self._check_open()
            return self._preparing.submit(self._prompt, request)

    def _check_open(self) -> None:
        if self._closed:
            raise EngineError("The model was closed.", remedy="Load it again.")

    def close(self) -> None:
        """End what runs as cancelled, free the context."""
        with self._lock:
            self._closed = True
        self._preparing.shutdown(cancel_futures=False)
        self.engine.close()
        if self._cells:
            self._writing.shutdown()
        self._outputs.put(None)
        if threading.current_thread() is not self._delivery:
            self._delivery.join()

    # ---- preparing -------------------------------------------------------------------------

    def _prompt(self, request: Request) -> Prompt:
        return self.prompts.measure(request, self.handle.resolve(request.config))

    def _prepare(self, reply: Reply, show_specials: bool, warm: bool) -> None:
        request = reply.request
        began = time.perf_counter()
        try:
            config = self.handle.resolve(request.config)
            kept = self._recall(request)
            prompt = self.prompts.build(request, config)
            binding = self.handle.binding_for(request)
            parsers = [
                binding.parser(request, config, prompt, specials=show_specials) for _ in range(request.n)
            ]
            bound = binding.bound(request, config, prompt)
            engine_request = self._engine_request(request, config, prompt, bound.grammar)
            if show_specials:
                engine_request.shown_specials = None
            engine_request.kept = kept
            if warm:
                engine_request.max_new_tokens = 0
            notes = binding.unmet(request, config, self.handle.info.path.stem)
            reply.prepared(parsers, prompt, time.perf_counter() - began, bound.answer_check, notes)
            engine_request.submitted = began
            self.engine.submit(engine_request)
            if reply.cancelled.is_set():
                self.engine.cancel(reply.id)
        except Exception as err:
            self._replies.pop(reply.id, None)
            reply.fail(err)

    def _engine_request(
        self, request: Request, config: GenerationConfig, prompt: Prompt, grammar: Grammar | None
    ) -> EngineRequest:
        binding, chats = self.handle.binding_for(request), request.messages is not None
        forced = request.forced
        if isinstance(forced, str):
            forced = self.handle.tokenizer.encode_rest([forced])
        return EngineRequest(
            tokens=prompt.tokens,
            config=config,
            seed=_random_seed() if config.seed is None else config.seed,
            max_new_tokens=self.handle.max_seq if config.max_new_tokens is None else config.max_new_tokens,
            id=request.id,
            n=request.n,
            stop=config.stop or (),
            role_stops=binding.role_stops if chats else (),
            forced=None if forced is None else tuple(forced),
            grammar=grammar,
            compiled=compiled(self.handle.model, grammar) if grammar else None,
            thought=binding.thought(request, config, prompt),
            thought_budget=binding.thought_budget(config),
            shown_specials=binding.shown_specials(config) if chats else frozenset(),
            priority=request.priority,
            conversation=request.conversation or "",
            is_lasting=request.is_lasting and not request.adapters,
        )

    # ---- delivering ------------------------------------------------------------------------

    def _deliver(self) -> None:
        while (outputs := self._outputs.get()) is not None:
            for request, output in outputs:
                reply = self._replies.get(request.id)
                if reply is None:
                    continue
                try:
                    over = reply.take(output)
                except Exception as err:  # A parser's fault must reach its caller, and only that one.
                    logger.exception("A reply could not be delivered")
                    with contextlib.suppress(Exception):  # It may be the sink itself that fails.
                        reply.fail(err)
                    over = True
                    if not isinstance(output, Ended):
                        self.engine.cancel(request.id)
                if over and isinstance(output, Ended) and output.error and request.n > 1:
                    self.engine.cancel(request.id)  # Its other replies have nobody to go to.
                # Whoever heard the end may have asked again with the same request meanwhile.
                if over and self._replies.get(request.id) is reply:
                    del self._replies[request.id]

    def _guarded(self, callback: StageObserver) -> StageObserver:
        attached = True

        def tell(event: StageEvent) -> None:
            nonlocal attached
            if not attached:  # Requests that began before keep a reference.
                return
            try:
                callback(event)
            except Exception:  # An observer must not stop a reply.
                logger.exception("The stage observer failed and was detached")
                attached = False

        return tell


def _random_seed() -> int:
    """A seed below 2^32 - 1, which llama.cpp keeps for itself. (`secrets` would cost 12 ms of imports.)"""
    return int.from_bytes(os.urandom(8)) % (2**32 - 1)

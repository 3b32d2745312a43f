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

from backend.chat_engine import EngineStats, Request
from backend.engine.constrained import compiled
from backend.engine.engine import Engine
from backend.engine.request import Ended, EngineRequest
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
        self._preparing = ThreadPoolExecutor(1, thread_name_prefix="fireside-prepare")
        self.engine = Engine(
            handle.model, handle.engine_params, self._outputs.put, slots=handle.options.asked_slots
        )
        self._delivery = threading.Thread(target=self._deliver, name="fireside-deliver", daemon=True)
        self._delivery.start()

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
            prompt = self.prompts.build(request, config)
            binding = self.handle.binding_for(request)
            parsers = [
                binding.parser(request, config, prompt, specials=show_specials) for _ in range(request.n)
            ]
            bound = binding.bound(request, config, prompt)
            engine_request = self._engine_request(request, config, prompt, bound.grammar)
            if show_specials:
                engine_request.shown_specials = None
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

"""`GenerativeModel`: a loaded model. One file, because it is the one object that a program calls."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeVar, cast

from backend.batch import Batch
from backend.chat_engine import Request, Tool
from backend.chat_session import SESSION_OPTIONS, ChatSession
from backend.handle import ModelHandle, open_model
from backend.load_options import MOST_SLOTS, check_options
from backend.model_facts import Config, ModelFacts
from backend.pipeline import Pipeline
from backend.prompt import PromptBuilder
from backend.reply import Failed, Ids
from backend.request_checks import (
    check_flags,
    check_messages,
    check_prompt,
    check_stream,
    check_texts,
    check_tools,
    check_whole,
    refuse_media,
)
from backend.stream import Inbox, Stream
from backend.types import (
    ChatOutcome,
    GenerationConfig,
    Message,
    Piece,
    StageObserver,
    TextPiece,
    ToolCall,
)

T = TypeVar("T")
DEFAULT_NEW_TOKENS = 256
StreamMode = bool | Literal["events"]


def load(
    source: str | os.PathLike[str] | None = None,
    *,
    assistant_model: GenerativeModel | None = None,
    mmproj: str | os.PathLike[str] | None = None,
    progress: Callable[[float], bool] | None = None,
    most_cells: int | None = None,
    for_text: bool = False,
    **options: Any,
) -> GenerativeModel:
    """Load a GGUF model.

    `source`: a path, a directory with one model, or a name; None means `FIRESIDE_MODEL`, then the
    starter model. `options`: n_gpu_layers ("auto", a number, -1 for all), max_seq (tokens of
    context; None: what was trained, within memory), kv_cache_mode (None one slot, "paged" a
    partition for each slot, "continuous" one cache for many short sequences, where a batched
    reply may differ from the one alone at a near tie), kv_cache_type, flash_attn ("auto", True,
    False), compute_dtype, chat_template (text), threads, main_gpu, tensor_split, mmap, mlock,
    slots, tool_call_format, lora ((path, scale) pairs). `progress(fraction)`
    cancels by returning False. `most_cells`: tokens of prompt and reply that will be used at most,
    where that is known: a smaller context is built sooner. `for_text`: refuse an embedding model before
    its weights are read.

    Raises ModelLoadError with `.cause` and `.remedy`, and ValueError for an impossible option.
    """
    if mmproj is not None:
        raise ValueError("mmproj: this version reads no pictures or sound; load the model without it")
    if source is not None and not isinstance(source, str | os.PathLike):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"source must be a path or the name of a model, not {type(source).__name__}")
    if assistant_model is not None and not isinstance(assistant_model, GenerativeModel):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"assistant_model must be a loaded model, not {type(assistant_model).__name__}")
    if progress is not None and not callable(progress):  # pyright: ignore[reportUnnecessaryComparison]
        raise ValueError(f"progress must be a function, not {type(progress).__name__}")
    check_whole("most_cells", most_cells, 1, optional=True)
    handle = open_model(source, check_options(options), progress, most_cells=most_cells, for_text=for_text)
    model = GenerativeModel(handle)
    if assistant_model is not None:
        try:
            model.set_assistant(assistant_model)
        except BaseException:
            model.close()
            raise
    return model


class GenerativeModel(ModelFacts):
    """A loaded model that generates text (checklist 1 to 69, 92, 99 to 101 of the model API).

    Wrapping a handle builds nothing; the first request builds the context, and later ones reuse
    it and what it caches. Every method may be called from any thread. A context manager.
    """

    def __init__(self, handle: ModelHandle) -> None:
        if not isinstance(handle, ModelHandle):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"handle must come from a load, not {type(handle).__name__}; use load(source)")
        handle.retain()
        super().__init__(handle)
        self._lock = threading.Lock()
        self._pipeline: Pipeline | None = None
        self._assistant: GenerativeModel | None = None
        self._observer: StageObserver | None = None
        self._report: ChatOutcome | None = None
        self._reports: list[ChatOutcome] = []
        self._closed = False

    # ---- properties ------------------------------------------------------------------------

    @property
    def assistant_model(self) -> GenerativeModel | None:
        """The draft model that was attached (11)."""
        return self._assistant

    @property
    def report(self) -> ChatOutcome | None:
        """The last generation's outcome, None before the first (12)."""
        return self._report

    @property
    def reports(self) -> list[ChatOutcome]:
        """The last batch's outcomes, in prompt order (12)."""
        return list(self._reports)

    @property
    def residency(self) -> dict[str, Any]:
        """Weights per device and the pipeline's part, JSON-ready. Sizes are bytes (13)."""
        built = self._pipeline is not None and self._pipeline.engine.built
        return self._handle.residency(self._pipeline.engine.params if built and self._pipeline else None)

    # ---- generating ------------------------------------------------------------------------

    def generate(
        self,
        prompt: str | Sequence[str] | None = None,
        *,
        messages: Sequence[Message] | None = None,
        config: Config = None,
        images: Sequence[Any] = (),
        audio: Sequence[Any] = (),
        videos: Sequence[Any] = (),
        max_active: int | None = None,
        raw: bool = False,
        **overrides: Any,
    ) -> str | list[str]:
        """The reply to a prompt, or to each of a list of prompts.

        A prompt is one user message where there is a chat template, else (or with `raw`) plain
        text to continue; `messages` is a whole conversation instead. `overrides` are
        GenerationConfig fields for this call. At most 256 new tokens unless told.

        Raises ValueError, ContextOverflowError, EngineError.
        """
        refuse_media(self._handle.info.path.stem, images, audio, videos)
        check_whole("max_active", max_active, 1, optional=True)
        check_flags(raw=raw)
        if prompt is not None and not isinstance(prompt, str):
            if messages is not None:
                raise ValueError("give either a prompt or messages, not both and not neither")
            return self.generate_batch(prompt, config=config, max_active=max_active, raw=raw, **overrides)
        request = self._request(prompt, messages, GenerationConfig.of(config, **overrides), raw=raw)
        return self._outcome(request).text

    def generate_batch(
        self,
        prompts: Sequence[str],
        *,
        config: Config = None,
        max_active: int | None = None,
        raw: bool = False,
        **overrides: Any,
    ) -> list[str]:
        """The reply to each prompt, in prompt order (53 to 58).

        At most `max_active` decode at once; by default all, within the slots memory allows.
        """
        if isinstance(prompts, str):
            raise ValueError("generate_batch takes a list of prompts; generate takes a single one")
        if not isinstance(prompts, Sequence) or isinstance(prompts, bytes):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"prompt must be text or a list of texts, not {type(prompts).__name__}")
        for index, prompt in enumerate(prompts):
            check_prompt(prompt, f"prompts[{index}]")
        check_whole("max_active", max_active, 1, optional=True)
        check_flags(raw=raw)
        settings = GenerationConfig.of(config, **overrides)
        requests = [self._request(prompt, None, settings, raw=raw) for prompt in prompts]
        if not requests:
            self._reports = []
            return []
        active = min(max_active or len(requests), len(requests), MOST_SLOTS)
        pipeline = self._running()
        pipeline.engine.widen(active)
        outcomes = Batch(pipeline, requests, active).run()
        self._reports = outcomes
        self._report = outcomes[-1]
        return [outcome.text for outcome in outcomes]

    def stream_generate(
        self,
        prompt: str | None = None,
        *,
        messages: Sequence[Message] | None = None,
        config: Config = None,
        images: Sequence[Any] = (),
        audio: Sequence[Any] = (),
        videos: Sequence[Any] = (),
        skip_special_tokens: bool = True,
        decode: bool = True,
        raw: bool = False,
        stream: Literal["text", "events"] = "text",
        **overrides: Any,
    ) -> Stream[Any]:
        """The reply in pieces: text, or lists of ids with `decode=False`, or typed pieces with
        `stream="events"` (59 to 65). Closing it early only stops the delivery.
        """
        refuse_media(self._handle.info.path.stem, images, audio, videos)
        check_stream(stream, ("text", "events"))
        check_flags(skip_special_tokens=skip_special_tokens, decode=decode, raw=raw)
        request = self._request(prompt, messages, GenerationConfig.of(config, **overrides), raw=raw)
        inbox = Inbox(on_outcome=self._remember)
        self._running().start(request, inbox.put, ids=not decode, show_specials=not skip_special_tokens)
        if not decode:
            return Stream(list(item.ids) for item in inbox if isinstance(item, Ids))
        return Stream(_pieces(inbox) if stream == "events" else _text(inbox))

    def chat(
        self,
        messages: Sequence[Message],
        *,
        stream: StreamMode = False,
        config: Config = None,
        images: Sequence[Any] = (),
        audio: Sequence[Any] = (),
        videos: Sequence[Any] = (),
        tools: Sequence[Tool] | None = None,
        **overrides: Any,
    ) -> Any:
        """The reply to a conversation, which is neither changed nor remembered (66 to 73).

        Returns the text; with `stream=True` an iterator of text pieces and then `ToolCall`s, with
        `stream="events"` of typed pieces ending in the ChatOutcome. Closing it cancels the reply.
        """
        refuse_media(self._handle.info.path.stem, images, audio, videos)
        check_stream(stream)
        request = self.chat_request(messages, GenerationConfig.of(config, **overrides), tools)
        if not stream:
            return self._outcome(request).text
        return self.answer(request) if stream == "events" else self._stream(request, _text)

    def answer(self, request: Request) -> Stream[Piece]:
        """Typed pieces of whatever a request asks for, several replies and raw text included.

        The `ChatOutcome` of each reply comes last; closing it cancels them all. Raises ValueError.
        """
        self.check(request)
        return self._stream(request, _pieces)

    def _stream(self, request: Request, items: Callable[[Inbox], Iterator[T]]) -> Stream[T]:
        inbox = Inbox(request.n, on_outcome=self._remember)
        pipeline = self._running()
        try:
            pipeline.start(request, inbox.put)
        except KeyboardInterrupt:
            pipeline.cancel(request.id)
            raise
        return Stream(items(inbox), on_close=lambda _: pipeline.cancel(request.id))

    def chat_request(
        self,
        messages: Sequence[Message],
        config: GenerationConfig,
        tools: Sequence[Tool] | None = None,
        prior: tuple[str, tuple[int, ...]] | None = None,
    ) -> Request:
        """A checked request for a reply to a conversation. Raises ValueError."""
        config = config.over(GenerationConfig(max_new_tokens=DEFAULT_NEW_TOKENS))
        copies = tuple(dict(turn) for turn in check_messages(messages))
        request = Request(messages=copies, tools=check_tools(tools), config=config, prior=prior)
        self.check(request)
        return request

    def chat_session(self, **options: Any) -> ChatSession:
        """A conversation on this model that keeps its own history (74).

        `options` are those of `ChatSession`; an unknown one is a TypeError.
        """
        self._check_open()
        if unknown := sorted(options.keys() - SESSION_OPTIONS):
            raise TypeError(f"unknown setting of a chat session: {', '.join(map(repr, unknown))}")
        return ChatSession(self, **options)

    # ---- text ------------------------------------------------------------------------------

    def render(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Tool] | None = None,
        config: Config = None,
        **overrides: Any,
    ) -> str:
        """The template's output, the text a generation from these messages is fed (26 to 39)."""
        self._check_open()
        if not self.has_chat_template:
            raise ValueError(
                f"{self._handle.info.path.name} has no chat template; conversation_text() works without one"
            )
        check_flags(add_generation_prompt=add_generation_prompt)
        request = Request(
            messages=check_messages(messages),
            tools=self.offered(tools),
            add_generation_prompt=add_generation_prompt,
        )
        resolved = self._handle.resolve(GenerationConfig.of(config, **overrides))
        return "".join(self._prompts.parts(request, messages, resolved))

    def conversation_text(self, messages: Sequence[Message]) -> str:
        """A conversation as the text it is evaluated as, with or without a template (40, 41)."""
        self._check_open()
        request = Request(messages=check_messages(messages))
        return "".join(self._prompts.parts(request, messages, self._handle.resolve(GenerationConfig())))

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector of length 1 per text. ValueError where the model makes no embeddings."""
        self._check_open()
        if not self._handle.info.is_embedding:
            raise ValueError(f"{self._handle.info.path.name} makes no embeddings; load an embedding model")
        return self._handle.embed(check_texts(texts, "texts"))

    # ---- attachments -----------------------------------------------------------------------

    def set_assistant(self, model: GenerativeModel | None) -> None:
        """Attach a draft model, None detaches it (11, 96, 98). ValueError when it does not match.

        Raises after the first generation, when it could no longer take part.
        """
        if model is not None and not isinstance(model, GenerativeModel):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"assistant_model must be a loaded model, not {type(model).__name__}")
        if self._report is not None:
            raise ValueError("set_assistant comes too late: this model has generated already")
        if model is not None and (mismatch := self.mismatch(model)):
            raise ValueError(mismatch)
        self._assistant = model

    def set_stage_observer(self, callback: StageObserver | None) -> None:
        """Tell `callback` of each stage of later requests, off the caller's thread (99 to 101)."""
        if callback is not None and not callable(callback):  # pyright: ignore[reportUnnecessaryComparison]
            raise ValueError(f"callback must be a function or None, not {type(callback).__name__}")
        self._observer = callback
        if self._pipeline:
            self._pipeline.observe(callback)

    def open(self) -> None:
        """Begin to build the context now, on the engine's thread, as the first request would."""
        self._running().engine.open()

    def close(self) -> None:
        """Let go of the model. It is freed when no session uses it either. Harmless when repeated."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._handle.release()

    def __enter__(self) -> GenerativeModel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- inside ----------------------------------------------------------------------------

    @property
    def pipeline(self) -> Pipeline:
        """What answers requests; made by the first one."""
        return self._running()

    def shared_pipeline(self) -> Pipeline:
        """The same for a session, which may outlive `close()`."""
        with self._lock:
            if self._pipeline is None:
                self._pipeline = self._handle.pipeline()
                self._pipeline.observe(self._observer)
            return self._pipeline

    @property
    def _prompts(self) -> PromptBuilder:
        return PromptBuilder(self.tokenizer, lambda: self._handle.template, self.max_seq)

    def _running(self) -> Pipeline:
        self._check_open()
        return self.shared_pipeline()

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError("the model is closed")

    def _remember(self, outcome: ChatOutcome) -> None:
        self._report = outcome

    def _outcome(self, request: Request) -> ChatOutcome:
        inbox = Inbox(on_outcome=self._remember)
        pipeline = self._running()
        try:
            # An interrupt may come while it starts: the request runs by then.
            pipeline.start(request, inbox.put)
            *_, last = inbox
        except BaseException:
            pipeline.cancel(request.id)
            raise
        return cast("ChatOutcome", last)

    def _request(
        self,
        prompt: str | None,
        messages: Sequence[Message] | None,
        config: GenerationConfig,
        *,
        raw: bool,
    ) -> Request:
        if (prompt is None) == (messages is None):
            raise ValueError("give either a prompt or messages, not both and not neither")
        if messages is not None:
            return self.chat_request(messages, config)
        prompt = check_prompt(prompt)
        if self.has_chat_template and not raw:
            return self.chat_request([{"role": "user", "content": prompt}], config)
        config = config.over(GenerationConfig(max_new_tokens=DEFAULT_NEW_TOKENS))
        request = Request(text=prompt, config=config)
        self.check(request)
        return request


def _pieces(inbox: Inbox) -> Iterator[Piece]:
    for item in inbox:
        if not isinstance(item, Ids | Failed):
            yield item


def _text(inbox: Inbox) -> Iterator[str | ToolCall]:
    for item in inbox:
        if isinstance(item, TextPiece):
            yield item.text
        elif isinstance(item, ToolCall):
            yield item

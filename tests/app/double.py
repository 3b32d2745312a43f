"""A model without a model: it plays scripted pieces and records what it was asked."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from backend.chat_engine import Request
from backend.prompt import Prompt
from backend.types import ChatCard, ChatOutcome, GenerationConfig, Piece, TextPiece

Play = Callable[[GenerationConfig], Iterable[Piece | BaseException]]


def says(*texts: str, finish: Any = "stop") -> Play:
    """A script of one reply in pieces."""

    def play(config: GenerationConfig) -> list[Piece | BaseException]:
        pieces: list[Piece | BaseException] = [TextPiece(text) for text in texts]
        seed = config.seed or 0
        return [*pieces, ChatOutcome(finish=finish, prompt_tokens=9, text="".join(texts), seed=seed)]

    return play


@dataclass
class Double:
    """Stands for both a GenerativeModel and its ChatSession."""

    play: Play = field(default_factory=lambda: says("Hello", " there."))
    max_seq: int = 512
    asked: list[list[dict[str, str]]] = field(default_factory=list)
    configs: list[GenerationConfig] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    residency: dict[str, Any] = field(default_factory=lambda: {"notes": []})
    closed: bool = False
    resets: int = 0
    report: ChatOutcome | None = None
    messages: list[dict[str, str]] = field(default_factory=list)
    """The history of the chat it stands for; a test fills it."""
    card: ChatCard = field(
        default_factory=lambda: ChatCard("double", "none", parameters=0, quantization="F32", max_seq=512)
    )

    def chat(
        self, messages: list[dict[str, str]], *, stream: str, config: GenerationConfig
    ) -> Generator[Piece]:
        self.asked.append(messages)
        self.configs.append(config)
        for step in self.play(config):
            if isinstance(step, BaseException):
                raise step
            if isinstance(step, ChatOutcome):
                self.report = step
            yield step

    def answer(self, request: Request) -> Generator[Piece]:
        self.asked.append([dict(turn) for turn in request.messages or ()])
        self.configs.append(request.config)
        for index in range(request.n):
            seed = None if request.config.seed is None else request.config.seed + index
            for step in self.play(replace(request.config, seed=seed)):
                if isinstance(step, BaseException):
                    raise step
                yield replace(step, reply=index) if hasattr(step, "reply") else step

    def send(self, text: str, *, stream: str, config: GenerationConfig) -> Generator[Piece]:
        return self.chat([{"role": "user", "content": text}], stream=stream, config=config)

    def chat_session(self, **options: Any) -> Double:
        self.options = options
        return self

    def explain(self, config: GenerationConfig) -> dict[str, tuple[Any, str]]:
        given = {name: (value, "config") for name, value in config.as_dict().items()}
        return {"top_k": (40, "library"), **given}

    @property
    def pipeline(self) -> Double:
        return self

    def chat_request(self, messages: list[dict[str, str]], config: GenerationConfig) -> Request:
        return Request(messages=messages, config=config)

    def prepare(self, request: Request) -> Future[Prompt]:
        text = "".join(f"<{turn['role']}>{turn['content']}" for turn in request.messages or ())
        made = Future[Prompt]()
        made.set_result(Prompt(text or request.text or "", list((text or request.text or "").encode())))
        return made

    def open(self) -> None:
        pass

    def reset(self) -> None:
        self.resets += 1

    def close(self) -> None:
        self.closed = True

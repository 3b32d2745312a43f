"""A prompt is rendered once for its count, its look and its reply."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from app.sessions.events import SessionPrefillEvent
from app.sessions.manager import SessionManager
from app.sessions.store.store import Store
from backend.chat.renderer import Renderer
from backend.engines.local import InProcessEngine
from tests.app.sessions.conftest import listening
from tools import tool

CONFIG: dict[str, Any] = {"max_new_tokens": 8, "temperature": 0.0}
THINKS = (
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content + "
    "'<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
    "{% if enable_thinking is defined and enable_thinking is false %}{{ '<think>\n\n</think>\n\n' }}"
    "{% endif %}{% endif %}"
)


@tool(does="nothing")
def ping() -> str:
    """Say pong."""
    return "pong"


class Chat:
    """A chat with a real model, and how often its template ran."""

    def __init__(self, manager: SessionManager, session_id: str, renders: list[int]) -> None:
        self.manager = manager
        self.id = session_id
        self._renders = renders

    async def say(self, text: str) -> tuple[int, int]:
        """Tokens of the first prompt, and the renderings of the whole turn."""
        self._renders.clear()
        async with listening(self.manager, self.id) as heard:
            data = {"role": "user", "content": text}
            await self.manager.post_event(self.id, {"type": "message", "data": data})
            prefill: SessionPrefillEvent = await heard.kind(SessionPrefillEvent)
            await heard.status("idle", "failed")
        return prefill.total, len(self._renders)

    async def look(self, draft: str = "") -> tuple[int, int]:
        """Tokens of the next prompt, and the renderings of the look."""
        self._renders.clear()
        told = await self.manager.context(self.id, draft)
        return told["total"], len(self._renders)


@pytest.fixture
async def chat(tiny_llama: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Chat]:
    renders: list[int] = []
    render = Renderer.render

    def counted(self: Renderer, messages: Any, *given: Any, **named: Any) -> str:
        renders.append(len(messages))
        return render(self, messages, *given, **named)

    options = {"threads": 1, "chat_template": THINKS, "tool_call_format": "generic"}
    async with SessionManager(
        model=str(tiny_llama), engine=InProcessEngine(), store=Store(None), tools=[ping]
    ) as manager:
        await manager.load_model(str(tiny_llama), **options)
        made = await manager.create()
        await manager.configure(made.id, config=CONFIG, overflow="error", system="Be terse.", tools=[])
        monkeypatch.setattr(Renderer, "render", counted)
        yield Chat(manager, made.id, renders)


async def test_a_turn_renders_its_prompt_once(chat: Chat) -> None:
    assert (await chat.say("hello"))[1] == 1
    assert (await chat.say("and more"))[1] == 1


async def test_each_round_of_calls_renders_its_prompt_once(chat: Chat) -> None:
    config = {**CONFIG, "tool_choice": "required", "max_new_tokens": 100}
    await chat.manager.configure(chat.id, config=config, tools=["ping"], approve="all", max_rounds=2)
    _, renders = await chat.say("call it")
    items = await chat.manager.list_items(chat.id)
    results = [item for item in items if type(item).__name__ == "FunctionCallOutput"]
    assert results
    assert renders == 2  # One of each round.


@pytest.mark.parametrize("effort", [None, "none"])
async def test_a_look_at_the_context_counts_what_is_sent_then(chat: Chat, effort: str | None) -> None:
    await chat.manager.set_reasoning_effort(chat.id, effort)
    await chat.say("hello")
    looked, renders = await chat.look("and more")
    assert renders == 3  # With the draft, without it, and the system prompt.
    assert await chat.look("and more") == (looked, 0)
    assert await chat.say("and more") == (looked, 0)


async def test_a_draft_that_grows_renders_only_what_it_changes(chat: Chat) -> None:
    await chat.say("hello")
    await chat.look("a")
    assert (await chat.look("a draft"))[1] == 1
    assert (await chat.look())[1] == 0

"""Small templates of the field's syntaxes, and helpers to parse replies to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from backend.chat import ChatTemplate, ParsedReply
from backend.types import HeldPiece, ReasoningPiece, TextPiece, ToolCallPiece

OPEN = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
TOOLS_BLOCK = "{% if tools %}<|im_start|>system\n{{ tools|tojson }}<|im_end|>\n{% endif %}"
TURNS = TOOLS_BLOCK + "{% for m in messages %}<|im_start|>{{ m.role }}\nBODY<|im_end|>\n{% endfor %}"
CALLS = "{{ m.content }}{% for c in m.tool_calls or [] %}CALL{% endfor %}"


def chatml(call: str = "", body: str = CALLS, opened: str = OPEN) -> str:
    return TURNS.replace("BODY", body).replace("CALL", call) + opened


HERMES = chatml(
    '\n<tool_call>\n{"name": {{ c.function.name|tojson }}, "arguments": ARGS}\n</tool_call>'.replace(
        "ARGS", "{{ c.function.arguments|tojson }}"
    )
)
QWEN_XML = chatml(
    "<tool_call>\n<function={{ c.function.name }}>\n{% for k, v in c.function.arguments|items %}"
    "<parameter={{ k }}>\n{{ v if v is string else v|tojson }}\n</parameter>\n"
    "{% endfor %}</function>\n</tool_call>\n"
)
LLAMA3 = chatml(
    '{"name": {{ c.function.name|tojson }}, "parameters": {{ c.function.arguments|tojson }}}',
    body="{% if (m.tool_calls or [])|length > 1 %}{{ raise_exception('one call') }}{% endif %}" + CALLS,
)
PYTHONIC = chatml(
    body="{{ m.content }}{% if m.tool_calls %}[{% for c in m.tool_calls %}{{ c.function.name }}("
    '{% for k, v in c.function.arguments|items %}{{ k }}={{ "\'" ~ v ~ "\'" if v is string else v }}'
    "{% if not loop.last %}, {% endif %}{% endfor %})"
    "{% if not loop.last %}, {% endif %}{% endfor %}]{% endif %}"
)
MISTRAL = chatml("[TOOL_CALLS]{{ c.function.name }}[ARGS]{{ c.function.arguments|tojson }}")
PLAIN = chatml(body="{{ m.content }}").removeprefix(TOOLS_BLOCK)
THINK = chatml(
    body="{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}"
    "{{ m.content }}",
)
THINK_OPEN = THINK.replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}")
USER = [{"role": "user", "content": "hi"}]


def tool(name: str, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "description": "d", "parameters": parameters}}


def anything(*names: str) -> list[dict[str, Any]]:
    return [tool(name) for name in names]


def prompt_of(template: ChatTemplate, tools: list[dict[str, Any]] | None = None) -> str:
    return template.render(USER, tools=tools)


def reply(
    source: str, text: str | list[str], tools: list[dict[str, Any]] | None = None, **options: Any
) -> ParsedReply:
    """The parsed reply; `text` is fed whole, or in the increments given."""
    template = ChatTemplate(source)
    parser = template.parser(prompt=prompt_of(template, tools), tools=tools, **options)
    for part in [text] if isinstance(text, str) else text:
        parser.feed(part)
    return parser.finish()


def everywhere(text: str) -> Iterator[list[str]]:
    """The text whole, in single characters, in threes, and cut in two at every place."""
    yield [text]
    yield list(text)
    yield [text[start : start + 3] for start in range(0, len(text), 3)]
    for at in range(1, len(text)):
        yield [text[:at], text[at:]]


def in_all_ways(
    source: str, text: str, tools: list[dict[str, Any]] | None = None, **options: Any
) -> ParsedReply:
    """The reply, after all increments of it gave the same and told only prefixes."""
    template = ChatTemplate(source)
    prompt = prompt_of(template, tools)
    found: list[ParsedReply] = []
    for parts in everywhere(text):
        parser = template.parser(prompt=prompt, tools=tools, **options)
        pieces: list[Any] = [piece for part in parts for piece in parser.feed(part)]
        message = parser.finish()
        pieces += message.pieces
        kinds = (TextPiece, ReasoningPiece, HeldPiece, ToolCallPiece)
        assert all(isinstance(piece, kinds) for piece in pieces)
        assert "".join(p.text for p in pieces if isinstance(p, TextPiece)) == message.content
        assert "".join(p.text for p in pieces if isinstance(p, ReasoningPiece)) == message.reasoning
        for index, call in enumerate(message.tool_calls):
            told = [p.arguments_delta for p in pieces if isinstance(p, ToolCallPiece) and p.index == index]
            assert call.raw_arguments.startswith("".join(told))
            assert call.error or "".join(told) == call.raw_arguments
        found.append(replace(message, pieces=()))
    assert all(message == found[0] for message in found)
    return found[0]

from __future__ import annotations

import codecs
import dataclasses
import json
import random
import re
import subprocess
import sys
from typing import Any

import pytest

from backend.chat import ChatTemplate
from backend.chat.format import PLACEHOLDERS, visible
from tests.backend.chat import published, test_cases, toys

MAX_RENDERS = 50
WORDS = [
    "amber",
    "birch",
    "cedar",
    "dunes",
    "ember",
    "fjord",
    "grove",
    "heath",
    "islet",
    "juniper",
    "kelp",
    "larch",
]
KNOWN_BY_WORDS = {
    "openai-gpt-oss-120b",
    "google-gemma-4-31B-it",
    "moonshotai-Kimi-K2",
    "ibm-granite-granite-3.3-2B-Instruct",
    "Kimi-K3",
    "muse-glimmer",
}
"""Families in the registry, and those whose closers are told from openers by words like open and close."""
needs_templates = pytest.mark.skipif(not published.names(), reason=published.MISSING)


def record(template: ChatTemplate) -> dict[str, Any]:
    """What was learned of a template, without what is empty."""

    def kept(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: kept(item)
                for key, item in value.items()
                if item not in (None, "", (), {}, False, ("", ""))
            }
        return value

    learned = {
        "format": dataclasses.asdict(template.format),
        "rules": dataclasses.asdict(template.rules),
        "switches": dataclasses.asdict(template.switches),
        "supports_tools": template.supports_tools,
        "renders_tools": template.renders_tools,
    }
    return json.loads(json.dumps(kept(learned)))


@needs_templates
@pytest.mark.parametrize("name", published.names())
def test_a_learned_record_is_the_golden_one(name: str) -> None:
    path = published.GOLDEN / f"{name}.json"
    found = record(published.template(name))
    if "FIRESIDE_WRITE_GOLDEN" in published.ENVIRONMENT:
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(found, indent=1, ensure_ascii=True) + "\n")
    assert found == json.loads(path.read_text())


@needs_templates
@pytest.mark.parametrize("name", published.names())
def test_learning_takes_few_renders_and_is_done_once(name: str) -> None:
    source = published.source(name) + "{# once #}"
    first = ChatTemplate(source, name=name)
    renders = first._renderer.renders
    assert renders <= MAX_RENDERS
    assert ChatTemplate(source, name=name)._renderer.renders == renders


# ---- nothing rests on the words of tags ----------------------------------------------------


def tags_of(template: ChatTemplate, source: str) -> list[str]:
    """The tags, whole or cut by a name, of a template's format that stand literally in its source."""
    found: set[str] = set()
    for text in template.marker_texts:
        for atom in visible(text):
            if re.search(r"[<\[][^<>]*[A-Za-z]{3}", atom) and not set(atom) & set(PLACEHOLDERS):
                found.add(atom)
    return sorted((tag for tag in found if tag in source), key=len, reverse=True)


def replaced(text: str, names: dict[str, str]) -> str:
    if not names:
        return text
    pattern = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return re.sub(pattern, lambda match: names[match.group()], text)


def scrambled(case: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """The case with other words in its tags: what the model writes, and what is expected of it."""
    new = dict(case)
    new["input"] = replaced(case["input"], names)
    expected = case["expected_delta"] if case["kind"] == "continuation" else case["expected"]
    wanted = json.loads(replaced(json.dumps(expected, ensure_ascii=False), names))
    new["expected"] = new["expected_delta"] = wanted
    return new


def is_read(template: ChatTemplate, case: dict[str, Any]) -> bool:
    continued = case["continue_final_message"]
    prompt = template.render(
        case["messages"],
        tools=case["tools"] or None,
        add_generation_prompt=case["kind"] != "continuation",
        continue_final_message=False if continued == "none" else continued,
        enable_thinking=None if template.reasoning_mode == "always" else case["enable_thinking"],
    )
    names = ("tools", "tool_choice", "parallel_tool_calls", "reasoning_format", "json_schema")
    try:
        test_cases.check(
            case, template.parse(case["input"], prompt=prompt, **{name: case[name] for name in names})
        )
    except AssertionError:
        return False
    return True


@needs_templates
@pytest.mark.timeout(60)
def test_tags_with_scrambled_words_are_learned_as_well() -> None:
    unread: list[str] = []
    templates: dict[str, tuple[ChatTemplate, dict[str, str]]] = {}
    for case in test_cases.CASES:
        name = case["template"].removesuffix(".jinja")
        if name not in templates:
            source = published.source(name)
            names = {tag: codecs.encode(tag, "rot13") for tag in tags_of(published.template(name), source)}
            templates[name] = ChatTemplate(replaced(source, names)), names
        template, names = templates[name]
        if not is_read(template, scrambled(case, names)):
            unread.append(case["id"])
    assert {each.partition("#")[0] for each in unread} <= KNOWN_BY_WORDS
    assert len(unread) <= 0.08 * len(test_cases.CASES)


@needs_templates
@pytest.mark.parametrize("name", ["Qwen3.5-4B", "GLM-4.7-Flash", "mistralai-Ministral-3-14B-Reasoning-2512"])
@pytest.mark.parametrize("seed", range(3))
def test_a_template_with_renamed_markers_is_read_by_learning_alone(name: str, seed: int) -> None:
    generator = random.Random(seed)
    source = published.source(name)
    words = sorted(
        {word for tag in tags_of(published.template(name), source) for word in re.findall("[A-Za-z_]+", tag)}
    )
    new = dict(zip(words, generator.sample(WORDS, len(words)), strict=True))
    new = {word: new[word].upper() if word.isupper() else new[word] for word in words}
    names = {
        tag: re.sub("[A-Za-z_]+", lambda match: new[match.group()], tag)
        for tag in tags_of(published.template(name), source)
    }
    template = ChatTemplate(replaced(source, names))
    assert not any(note.startswith("registry") for note in template.notes)
    if not test_cases.CASES:
        pytest.skip("the recorded cases are not beside this checkout")
    cases = [case for case in test_cases.CASES if case["template"] == f"{name}.jinja"]
    unread = [case["id"] for case in cases if not is_read(template, scrambled(case, names))]
    assert cases and not unread


# ---- what cannot be learned ----------------------------------------------------------------


def test_a_template_that_fails_its_probes_is_plain_text() -> None:
    template = ChatTemplate("{{ raise_exception('no') }}")
    assert (template.supports_tools, template.reasoning_mode, template.tool_call_format) == (
        False,
        "never",
        "generic",
    )
    assert template.parse("<think>x", prompt="").content == "<think>x"


def test_the_vocabulary_is_evidence_where_the_template_shows_nothing() -> None:
    source = toys.TOOLS_BLOCK + toys.PLAIN
    assert not ChatTemplate(source).supports_tools
    known = ChatTemplate(source, special_tokens=["<|tool_call_start|>", "<|tool_call_end|>"])
    assert known.tool_call_format == "pythonic"
    message = known.parse("<|tool_call_start|>[f(x=1)]<|tool_call_end|>", prompt="", tools=toys.anything("f"))
    assert [(call.name, call.arguments) for call in message.tool_calls] == [("f", {"x": 1})]


def test_importing_the_room_loads_no_jinja() -> None:
    heavy = "('jinja2', 'llama_cpp', 'pydantic')"
    code = f"import sys, backend.chat; print(sorted({{m.split('.')[0] for m in sys.modules}} & set({heavy})))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=published.ROOT
    )
    assert done.stdout.strip() == "[]"

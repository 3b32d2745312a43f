from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest

from backend.chat import ChatTemplate, sandbox
from backend.types import TemplateError
from tests.backend.chat import published
from tests.backend.chat.hostile import HOSTILE, MOST_BYTES

HELLO = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def prison() -> Iterator[Callable[[str], dict[str, Any]]]:
    """Renders a hostile template in a child process that has 200 MB and one second of a processor."""
    command = [sys.executable, "-m", "tests.backend.chat.hostile"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=published.ROOT
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        asked, answers = process.stdin, process.stdout

        def render(name: str) -> dict[str, Any]:
            print(name, file=asked, flush=True)
            return json.loads(answers.readline())

        yield render
        asked.close()


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_template_ends_in_a_clear_error_soon_and_in_little_memory(
    prison: Callable[[str], dict[str, Any]], name: str
) -> None:
    found = prison(name)
    assert "died" not in found, f"the limits ended it: {found}"
    assert re.match(
        r"The chat template evil(, line 1)?,? (was (stopped|refused)|does not compile|failed)", found["told"]
    ), found
    assert "MemoryError" not in found["told"]
    assert found["grown_bytes"] < MOST_BYTES


def test_there_are_many_hostile_templates() -> None:
    assert len(HOSTILE) >= 100


@pytest.mark.parametrize(
    "trick",
    [
        "''|attr('__class__')",
        "'{0.__class__}'.format(1)",
        "'{0.__class__.__mro__}'.format(1)",
        "'{a.__class__}'.format_map({'a': 1})",
        "''['__class__']",
        "''|map(attribute='__class__')|list",
        "[[]]|map(attribute='__class__')|first",
        "[[]]|map('attr', '__class__')|first",
        "[1]|groupby('__class__')|first|first",
        "[1]|sum(attribute='__class__', start='')",
        "raise_exception.__globals__",
        "strftime_now.__code__",
        "namespace.__init__",
        "range.__class__",
        "dict.__base__",
        "joiner._sep",
        "self.__dict__",
        "loop.__class__",
        "messages.__class__",
        "messages[0].__class__",
        "(messages|map('upper')).gi_frame",
        "''.join.__self__",
        "''.format.__globals__",
        "''.format.__closure__",
        "cycler(1).__init__",
        "namespace(a=1)._Namespace__attrs",
        "(''|e).__html__",
        "(''|safe).__class__",
    ],
)
def test_attribute_tricks_reach_nothing(trick: str) -> None:
    try:
        text = ChatTemplate("{{ " + trick + " }}").render(HELLO)
    except TemplateError:
        return
    assert text in ("", "[]", "[Undefined]")


@pytest.mark.parametrize(
    "call",
    ["''|attr('format')", "(''|e).unescape", "(''|safe).striptags", "dict.fromkeys", "(1).to_bytes",
     "''.encode", "''.maketrans", "''.translate", "(1.5).hex", "(1).bit_length", "messages.__len__",
     "''.format.__wrapped__"],
)  # fmt: skip
def test_methods_that_are_not_offered_are_refused(call: str) -> None:
    try:
        text = ChatTemplate("{{ (" + call + ")('x') }}").render(HELLO)
    except TemplateError as err:
        assert "MemoryError" not in str(err)
    else:
        assert text == ""


def test_an_error_names_the_template_and_the_line() -> None:
    with pytest.raises(TemplateError, match=r"template mine, line 3, does not compile"):
        ChatTemplate("a\nb\n{% if %}", name="mine")
    with pytest.raises(TemplateError, match=r"template mine, line 2, needs something.*'foo' is undefined"):
        ChatTemplate("a\n{{ foo.bar }}", name="mine").render(HELLO)
    with pytest.raises(TemplateError, match=r"template mine, line 3, does not accept.*only poems"):
        ChatTemplate("a\n\n{{ raise_exception('only poems') }}", name="mine").render(HELLO)


@pytest.mark.parametrize(
    "tag",
    ["include 'other.jinja'", "include 5", "import 'other' as o", "from 'other' import a", "extends 'other'"],
)
def test_a_template_that_asks_for_another_one_is_told_so(tag: str) -> None:
    with pytest.raises(TemplateError, match=r"evil, line 2, does not compile: .* asks for another template"):
        ChatTemplate("hello\n{% if false %}{% " + tag + " %}{% endif %}", name="evil")


@pytest.mark.parametrize(
    "source",
    ["{% if", "{{ ''.__class__.__mro__ }}", "{% for a in range(999999) %}{% endfor %}", "{{ a.b }}",
     "{{ raise_exception('No system turn.') }}", "{{ raise_exception('no system turn') }}", "{{ 1 / 0 }}"],
)  # fmt: skip
def test_a_given_template_is_named_as_such_and_errors_are_sentences(source: str) -> None:
    with pytest.raises(TemplateError) as caught:
        ChatTemplate(source, name="qwen3", given=True).render(HELLO)
    text = str(caught.value)
    assert text.startswith("The given chat template, line 1, ")
    assert "qwen3" not in text
    assert text.endswith(".") and ".." not in text


def test_tojson_writes_the_characters_themselves_and_keeps_the_order() -> None:
    tool = {"name": "f", "description": 'Löscht <alt> & "neu" - it\'s 5 > 3', "parameters": {"b": 1, "a": 2}}
    text = ChatTemplate("{{ tools[0]|tojson }}").render(HELLO, tools=[tool])
    assert 'Löscht <alt> & \\"neu\\" - it\'s 5 > 3' in text
    assert text.index('"b"') < text.index('"a"')
    assert ChatTemplate("{{ messages|tojson(indent=4) }}").render(HELLO).startswith("[\n    {\n        ")
    assert ChatTemplate("{{ messages|map(attribute='role')|tojson }}").render(HELLO) == '["user"]'
    assert ChatTemplate("{{ ('[1,' ~ ' 2]')|from_json|last }}").render(HELLO) == "2"


def test_clock_loop_controls_and_generation_blocks_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "clock", lambda: datetime(2026, 2, 3))
    source = (
        "Today is {{ strftime_now('%d %b %Y') }}{% for m in messages %}{% if loop.index > 1 %}{% break %}"
        "{% endif %}{% generation %}:{{ m.content }}{% endgeneration %}{% endfor %}"
    )
    turns = [*HELLO, {"role": "assistant", "content": "no"}]
    assert ChatTemplate(source).render(turns) == "Today is 03 Feb 2026:hi"


def test_a_template_that_changes_lists_works_on_copies() -> None:
    source = "{% set _ = messages.append({'role': 'x', 'content': 'more'}) %}{{ messages|length }}"
    template = ChatTemplate(source)
    assert template.render(HELLO) == "2"
    assert template.render(HELLO) == "2"
    assert len(HELLO) == 1


def test_long_conversations_of_ordinary_size_render() -> None:
    source = "{% for m in messages %}{{ m.role ~ ': ' ~ m.content.strip()|replace('a', 'b') }}\n{% endfor %}"
    turns = [{"role": role, "content": "la " * 300} for _ in range(500) for role in ("user", "assistant")]
    assert ChatTemplate(source).render(turns).count("lb") == 300_000


def test_the_limits_leave_ordinary_templates_alone() -> None:
    source = (
        "{% set ns = namespace(text='', seen=[]) %}{% for m in messages %}"
        "{% set ns.text = ns.text ~ '%s: %-6s' % (m.role, loop.index) ~ '{:>4}|'.format(m.content|length) %}"
        "{% if loop.changed(m.role) %}{{ m.role.ljust(10) }}{% endif %}"
        "{% if 'a' in m.content and m.role in ['user', 'assistant'] %}"
        "{{ m.content.split(' ')[0]|capitalize }}{% endif %}{% endfor %}"
        "{{ ns.text }}{{ ['b', 'a']|sort|join(', ') }}{{ [1, 2]|sum }}{{ 2.345|round(1) }}{{ '7'|int * 6 }}"
        "{{ '%05.1f'|format(3.14159) }}{{ 'x'|center(5) }}{{ [3, 1]|max }}{{ 'a-b'|replace('-', '+') }}"
        "{{ ('a\nb')|indent(2) }}{{ [1, 2, 3]|batch(2)|list|length }}{{ 7 // 2 }}{{ 7 / 2 }}{{ 2 ** 10 }}"
        "{{ {'b': 1, 'a': 2}|dictsort|first|first }}{{ '<a>'|e }}{{ none }}{{ missing }}{{ [1, 'a'] }}"
    )
    turns = [{"role": "user", "content": "la la"}, {"role": "assistant", "content": "so"}]
    assert ChatTemplate(source).render(turns) == (
        "user      Laassistant user: 1        5|assistant: 2        2|a, b32.342003.1  x  3a+ba\n  b233.51024"
        "a&lt;a&gt;None[1, 'a']"
    )

from __future__ import annotations

import time
import tracemalloc
from datetime import datetime

import pytest

from backend.chat import ChatTemplate, sandbox
from backend.types import TemplateError

DOUBLE = "{% set ns = namespace(s=START) %}{% for i in range(99) %}{% set ns.s = STEP %}{% endfor %}"
HOSTILE = {
    "endless loops": "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}",
    "recursion": "{% macro a(n) %}{% if n %}{{ a(n-1) }}{{ a(n-1) }}{% endif %}{% endmacro %}{{ a(60) }}",
    "deep recursion": "{% for a in [1] recursive %}{{ loop([1, 2]) }}{% endfor %}",
    "repeated text": "{{ 'x' * 10**9 }}",
    "doubled text": DOUBLE.replace("START", "'xxxx'").replace("STEP", "ns.s ~ ns.s") + "{{ ns.s }}",
    "added text": DOUBLE.replace("START", "'xxxx'").replace("STEP", "ns.s + ns.s") + "{{ ns.s }}",
    "nested lists": DOUBLE.replace("START", "[1]").replace("STEP", "[ns.s, ns.s]") + "{{ ns.s }}",
    "nested tuples": DOUBLE.replace("START", "(1,)").replace("STEP", "(ns.s, ns.s)"),
    "json of nested lists": DOUBLE.replace("START", "[1]").replace("STEP", "[ns.s, ns.s]")
    + "{{ ns.s|tojson }}",
    "grown list": "{% set l = [1] %}{% for i in range(60) %}{% set _ = l.extend(l) %}{% endfor %}",
    "power": "{{ 9**99999999 }}",
    "percent width": "{{ '%999999999d' % 1 }}",
    "format width": "{{ '{:>999999999}'.format('x') }}",
    "passed width": "{{ '{:>{w}}'.format('x', w=999999999) }}",
    "padding": "{{ 'x'.center(10**9) }}",
    "padding filter": "{{ 'x'|center(1000000000) }}",
    "replacement": "{{ ('x' * 1000000).replace('x', 'y' * 1000) }}",
    "join": "{{ ('x' * 1000000).join(['a'] * 90000) }}",
    "indent": "{{ ('\\n' * 1000000)|indent(9999) }}",
    "huge output": "{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}",
    "huge block": "{% set a %}{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}{% endset %}",
    "slow search": "{% set a = 'x' * 8000000 %}{% for i in range(99999) %}{% set b = 'y' in a %}{% endfor %}",
    "slow cuts": "{% set a = 'x' * 8000000 %}{% for i in range(99999) %}{% set b = a[1:] %}{% endfor %}",
    "slow sums": "{% set r = range(100000) %}{% for i in r %}{{ r|sum }}{% endfor %}",
    "many words": "{% for i in range(99) %}{{ ('x ' * 4000000)|title|length }}{% endfor %}",
    "raw memory": "{{ (5).to_bytes(1000000000, 'big') }}",
    "class walk": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "globals walk": "{{ lipsum.__globals__['os'].getcwd() }}",
    "init walk": "{{ cycler.__init__.__globals__ }}",
    "deep syntax": "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "huge source": "x" * 300_000,
}
HELLO = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_template_ends_in_a_clear_error_soon_and_in_little_memory(source: str) -> None:
    start = time.thread_time()
    tracemalloc.start()
    try:
        with pytest.raises(
            TemplateError, match=r"The chat template evil(, line 1)?,? (was (stopped|refused))"
        ):
            ChatTemplate(source, name="evil").render(HELLO)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 200 * 2**20
    assert time.thread_time() - start < 5  # one second without the tracing of memory


def test_attribute_tricks_through_filters_and_formats_reach_nothing() -> None:
    template = ChatTemplate("{{ ''|attr('__class__') }}{{ '{0.__class__}'.format(1) }}")
    assert template.render(HELLO) == ""


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

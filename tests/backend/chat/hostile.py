"""Templates that mean harm, each one trick, and the child process that renders one under limits."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from pathlib import Path

MOST_BYTES = 200 * 2**20
MOST_CPU_S = 1.0
STATM = Path("/proc/self/statm")
HELLO = [{"role": "user", "content": "hi"}]

_GROW = "{% set ns = namespace(s=START) %}{% for i in range(99) %}{% set ns.s = STEP %}{% endfor %}"


def grown(start: str, step: str, end: str = "") -> str:
    """A loop that makes `ns.s` out of itself."""
    return _GROW.replace("START", start).replace("STEP", step) + end


def loop(body: str, rounds: int = 99_999) -> str:
    return "{% for i in range(" + str(rounds) + ") %}" + body + "{% endfor %}"


def kept(expression: str, before: str = "") -> str:
    """A loop that keeps what `expression` makes each time."""
    return before + "{% set l = [] %}" + loop("{% set _ = l.append(" + expression + ") %}")


_BIG = "{% set s = 'x' * 4000000 %}"
_WIDE = "{% set s = ('x' * 1000000) ~ '\U0001f600' %}"
_MANY = ",".join(f"a{n}=0" for n in range(1_200))
_NESTED = grown("[1]", "[ns.s, ns.s]")
_VARARGS = "{% macro m(box) %}{% set box.t = varargs %}{% endmacro %}{% set ns = namespace(t=1) %}" + loop(
    "{{ m(ns, ns.t, ns.t) }}", 60
)

HOSTILE = {
    # ---- loops and recursion
    "endless loops": loop(loop("x")),
    "recursion": "{% macro a(n) %}{% if n %}{{ a(n-1) }}{{ a(n-1) }}{% endif %}{% endmacro %}{{ a(60) }}",
    "endless recursion": "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}",
    "deep recursion": "{% for a in [1] recursive %}{{ loop([1, 2]) }}{% endfor %}",
    "calls in calls": "{% macro a() %}{% call a() %}{{ caller() }}{% endcall %}{% endmacro %}{{ a() }}",
    "a block in itself": "{% block b %}{{ self.b() }}{% endblock %}",
    # ---- texts that grow
    "repeated text": "{{ 'x' * 10**9 }}",
    "text repeated from the left": "{{ 10**9 * 'x' }}",
    "doubled text": grown("'xxxx'", "ns.s ~ ns.s", "{{ ns.s }}"),
    "added text": grown("'xxxx'", "ns.s + ns.s", "{{ ns.s }}"),
    "huge output": loop("{{ 'x' * 1000 }}"),
    "huge block": "{% set a %}" + loop("{{ 'x' * 1000 }}") + "{% endset %}",
    "plain text in a loop": loop("y" * 60_000),
    "kept texts": kept("'x' * 100000 ~ i"),
    "kept wide texts": kept("'\U0001f600' * 10000 ~ i"),
    "replacement": "{{ ('x' * 1000000).replace('x', 'y' * 1000) }}",
    "replacement of nothing": "{{ ('x' * 1000000).replace('', 'y' * 1000) }}",
    "replacement filter": "{{ ('x' * 1000000)|replace('x', 'y' * 1000) }}",
    "join": "{{ ('x' * 1000000).join(['a'] * 90000) }}",
    "join of a text": "{{ ('x' * 1000000)|join('y' * 100000) }}",
    "join filter": "{{ (['x' * 1000000] * 90000)|join }}",
    "indent": "{{ ('\\n' * 1000000)|indent(9999) }}",
    "indent by a text": "{{ ('\\n' * 1000000)|indent('x' * 9999) }}",
    "escaped text": "{{ ('\"' * 8000000 ~ '\U0001f600')|e }}",
    "upper of wide text": kept("s|upper", _WIDE),
    "block of a filter": "{% filter upper %}" + loop("{{ 'x' * 1000 }}") + "{% endfilter %}",
    # ---- widths
    "percent width": "{{ '%999999999d' % 1 }}",
    "percent width filter": "{{ '%999999999d'|format(1) }}",
    "many percent widths": "{{ ('%9999d' * 100000) % (([1] * 100000)|list) }}",
    "many named widths": "{{ ('%(a)9999d' * 100000) % {'a': 1} }}",
    "many named widths filter": "{{ ('%(a)9999d' * 100000)|format(a=1) }}",
    "many named texts": "{{ ('%(a)s' * 100000)|format(a='x' * 1000000) }}",
    "star width": "{{ '%*d' % (999999999, 1) }}",
    "precision": "{{ '%.999999999f' % 1.0 }}",
    "format width": "{{ '{:>999999999}'.format('x') }}",
    "many format widths": "{{ ('{0:>9999}' * 100000).format('x') }}",
    "many format fields": "{{ ('{0}' * 2000000).format('') }}",
    "many formatted texts": "{{ ('{0}' * 100000).format('x' * 1000000) }}",
    "passed width": "{{ '{:>{w}}'.format('x', w=999999999) }}",
    "format_map": "{{ '{a:>999999999}'.format_map({'a': 1}) }}",
    "padding": "{{ 'x'.center(10**9) }}",
    "ljust": "{{ 'x'.ljust(10**9) }}",
    "zfill": "{{ 'x'.zfill(10**9) }}",
    "kept padding": kept("'x'.ljust(9999, '\U0001f600')"),
    "expandtabs": "{{ '\\t'.expandtabs(10**9) }}",
    "many tabs": "{{ ('\\t' * 100000).expandtabs(9999) }}",
    "named tabs": "{{ ('\\t' * 100000).expandtabs(tabsize=9999) }}",
    "padding filter": "{{ 'x'|center(1000000000) }}",
    "rounding": "{{ 5|round(-1000000000) }}",
    "rounding up": "{{ 5|round(-1000000000, 'ceil') }}",
    # ---- numbers
    "power": "{{ 9**99999999 }}",
    "power of powers": grown("9", "ns.s ** ns.s"),
    "grown number": grown("9", "ns.s * ns.s"),
    "digits": "{{ ('9' * 1000000)|int }}",
    "digits of a base": kept("('1' * 1000000)|int(0, 2)"),
    "division of numbers": loop("{{ (('f' * 8000000)|int(0, 16)) // (('f' * 4000000)|int(0, 16)) }}"),
    "modulo of numbers": loop("{{ (('f' * 8000000)|int(0, 16)) % (('f' * 4000000)|int(0, 16)) }}"),
    "digits of a float": loop("{{ ('9' * 8000000)|float }}"),
    "raw memory": "{{ (5).to_bytes(1000000000, 'big') }}",
    # ---- lists and mappings
    "nested lists": grown("[1]", "[ns.s, ns.s]", "{{ ns.s }}"),
    "nested tuples": grown("(1,)", "(ns.s, ns.s)"),
    "json of nested lists": _NESTED + "{{ ns.s|tojson }}",
    "tuples of arguments as a key": _VARARGS + "{{ {}[ns.t] }}",
    "tuples of arguments in a mapping": _VARARGS + "{{ {ns.t: 1} }}",
    "tuples of arguments looked up": _VARARGS + "{{ {}.get(ns.t) }}",
    "equal nested lists": _NESTED + "{% set a = ns.s %}" + _NESTED + "{{ [a].index(ns.s) }}",
    "counted nested lists": _NESTED + "{% set a = ns.s %}" + _NESTED + "{{ [a].count(ns.s) }}",
    "changed nested lists": _NESTED
    + "{% set a = ns.s %}"
    + _NESTED
    + "{% for x in [a, ns.s] %}{{ loop.changed(x) }}{% endfor %}",
    "printed namespace": _BIG + "{% set ns = namespace(a=[s] * 90000) %}{{ ns }}",
    "listed namespace": _BIG + "{% set ns = namespace(a=[s] * 90000) %}{{ [ns]|string }}",
    "printed values": _BIG + "{{ {'a': [s] * 90000}.values() }}",
    "printed items": _BIG + "{{ {'a': [s] * 90000}.items() ~ '' }}",
    "listed text": "{{ ('\U0001f600' * 8000000)|list|length }}",
    "sorted text": "{{ ('ab' * 4000000)|sort|length }}",
    "split text": "{{ ('ab ' * 2700000).split()|length }}",
    "split at a sign": "{{ ('ab,' * 2700000).split(',')|length }}",
    "split from the right": "{{ ('ab,' * 2700000).rsplit(',')|length }}",
    "split lines": "{{ ('ab\\n' * 2700000).splitlines()|length }}",
    "grown list": "{% set l = [1] %}" + loop("{% set _ = l.extend(l) %}", 60),
    "added lists": grown("[1]", "ns.s + ns.s"),
    "multiplied list": "{{ [0] * 10**9 }}",
    "multiplied lists": grown("[1]", "ns.s * 2"),
    "summed lists": "{{ ([[1, 2, 3]] * 100000)|sum(start=[])|length }}",
    "literal lists": kept("[" + "0," * 4_000 + "]"),
    "literal mappings": kept("{" + ",".join(f"{n}:0" for n in range(1_200)) + "}"),
    "copied mappings": kept("d.copy()", "{% set d = dict(" + _MANY + ") %}"),
    "made mappings": kept("dict(d)", "{% set d = dict(" + _MANY + ") %}"),
    "kept namespaces": kept("namespace(a=i)"),
    "kept batches": kept("([1]|batch(9999, 0)|list)"),
    "kept slices": kept("([1]|slice(9999, 0)|list)"),
    "kept ranges": kept("range(99999)|list"),
    "huge range": "{{ range(10**9)|list|length }}",
    "grouped text": "{{ ('ab' * 4000000)|groupby(0)|length }}",
    "unique text": kept("s|unique|list", _WIDE),
    "mapped text": "{{ ('ab' * 4000000)|map('upper')|list|length }}",
    "iterators in iterators": "{% set ns = namespace(g=[1]) %}"
    + loop("{% set ns.g = ns.g|map('upper') %}", 99_999),
    "deep json": "{% set ns = namespace(s=[]) %}" + loop("{% set ns.s = [ns.s] %}") + "{{ ns.s|tojson }}",
    "indented json": "{% set ns = namespace(s=[0] * 5000) %}"
    + loop("{% set ns.s = [ns.s] %}", 400)
    + "{{ ns.s|tojson(indent=16) }}",
    "wide json": "{{ ('\U0001f600' * 2000000)|tojson(ensure_ascii=true) }}",
    "shared json": _BIG + "{{ ([s] * 90000)|tojson }}",
    "json of controls": "{{ (('\x01' * 8000000) ~ '\U0001f600')|tojson }}",
    "read json": "{{ ('[' * 100000)|from_json }}",
    "read json of lists": "{{ ('[' ~ '[],' * 2000000 ~ '0]')|from_json|length }}",
    # ---- slow work
    "slow search": "{% set a = 'x' * 8000000 %}" + loop("{% set b = 'y' in a %}"),
    "slow method": "{% set a = 'x' * 8000000 %}" + loop("{{ a.find('y') }}"),
    "slow cuts": "{% set a = 'x' * 8000000 %}" + loop("{% set b = a[1:] %}"),
    "slow sums": "{% set r = range(100000) %}{% for i in r %}{{ r|sum }}{% endfor %}",
    "many words": loop("{{ ('x ' * 4000000)|title|length }}", 99),
    "word count": loop("{{ ('x ' * 4000000)|wordcount }}", 99),
    "address of a text": "{{ ('\U0001f600' * 4000000)|urlencode }}",
    "class walk": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "globals walk": "{{ lipsum.__globals__['os'].getcwd() }}",
    "init walk": "{{ cycler.__init__.__globals__ }}",
    "macro walk": "{% macro m() %}{% endmacro %}{{ m._func.__globals__ }}",
    "signs of nested lists": _NESTED + "{{ [1]|tojson(separators=[ns.s, ns.s]) }}",
    "summed by nested tuples": _VARARGS + "{{ [{}]|sum(attribute=ns.t) }}",
    "joined by nested tuples": _VARARGS + "{{ [{}]|join(attribute=ns.t) }}",
    "a filter named by nested tuples": _VARARGS + "{{ ns.t is filter }}",
    "a test named by nested tuples": _VARARGS + "{{ ns.t is test }}",
    "long ways through items": "{% set d = {} %}{% set _ = d.update(a=d) %}"
    "{{ ([d] * 5000)|map(attribute='a.' * 1000000 ~ 'a')|list|length }}",
    "very many sort keys": "{{ ([{}] * 500)|sort(attribute='a,' * 100000)|length }}",
    "long ways of tests": "{% set d = {} %}{% set _ = d.update(a=d) %}"
    "{{ ([d] * 5000)|selectattr('a.' * 1000000 ~ 'a')|list|length }}",
    "stripped of very many": "{{ ('a' * 4000000).strip('b' * 4000000 ~ 'a')|length }}",
    "trimmed of very many": "{{ ('a' * 4000000)|trim('b' * 4000000 ~ 'a')|length }}",
    "slow search from the right": "{{ ('a' * 4000000).rfind('ab' ~ 'a' * 1000000) }}",
    "slow cut from the right": "{{ ('a' * 4000000).rsplit('ab' ~ 'a' * 1000000)|length }}",
    "slow parting from the right": "{{ ('a' * 4000000).rpartition('ab' ~ 'a' * 1000000)|length }}",
    "slow tests": "{% set a = 'x' * 8000000 %}" + loop("{{ a is lower }}"),
    "slow tests of items": "{{ ([{'a': 'x' * 4000000}] * 1000)|selectattr('a', 'lower')|list|length }}",
    "text spread over arguments": "{% macro m() %}{% endmacro %}{{ m(*('\U0001f600' * 8000000)) }}",
    "text spread over a filter": "{{ 1|default(*('\U0001f600' * 8000000)) }}",
    # ---- what is said of it
    "huge refusal": _BIG + "{{ raise_exception([s] * 90000) }}",
    "huge name": "{{ {}['k' * 8000000].x }}",
    # ---- the source itself
    "deep syntax": "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "deep lists": "{{ " + "[" * 20_000 + "]" * 20_000 + " }}",
    "deep minus": "{{ " + "-" * 60_000 + "1 }}",
    "deep not": "{{ " + "not " * 15_000 + "1 }}",
    "long sum": "{{ " + "+".join("1" * 30_000) + " }}",
    "long chain": "{{ a" + ".b" * 30_000 + " }}",
    "long filter chain": "{{ 1" + "|e" * 30_000 + " }}",
    "deep ifs": "{% if 1 %}" * 3_000 + "{% endif %}" * 3_000,
    "deep loops": "{% for a in [1] %}" * 1_500 + "{% endfor %}" * 1_500,
    "many ifs": "{% if 1 %}" + "{% elif 2 %}" * 5_000 + "{% endif %}",
    "many macros": "".join("{% macro m" + str(n) + "() %}{% endmacro %}" for n in range(1_700)),
    "many sets": "".join("{%set a" + str(n) + "=1%}" for n in range(3_500)),
    "open comments": "{#" * 30_000,
    "open blocks": "{%" * 30_000,
    "open raws": "{% raw %}" * 7_000,
    "folded text": "{{ 'x' * 10**9 * 0 }}",
    "huge number": "{{ " + "9" * 60_000 + " }}",
    "huge source": "x" * 50_000_000,
}  # fmt: skip


def limited(source: str) -> dict[str, object]:
    """What became of one render in this process, which is to have no other work."""
    from backend.chat import ChatTemplate
    from backend.types import TemplateError

    before = resource.getrusage(resource.RUSAGE_SELF)
    if STATM.exists():
        size = int(STATM.read_text().split()[0]) * resource.getpagesize() + MOST_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
    signal.setitimer(signal.ITIMER_PROF, MOST_CPU_S)
    told = ""
    try:
        ChatTemplate(source, name="evil").render(HELLO)
    except TemplateError as err:
        told = str(err)
    signal.setitimer(signal.ITIMER_PROF, 0)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before.ru_maxrss
    return {"told": told, "grown_bytes": grown * (1 if sys.platform == "darwin" else 1024)}


def serve() -> None:
    """Answer each name on stdin by a line of JSON, from a child of its own that the limits may end."""
    from backend.chat import ChatTemplate

    ChatTemplate("{{ messages[0].content|tojson }}").render(HELLO)  # What is imported late is imported now.
    for line in sys.stdin:
        name = line.strip()
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.write(writing, json.dumps(limited(HOSTILE[name])).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as answer:
            found = answer.read()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(found.decode() or json.dumps({"died": status}), flush=True)


if __name__ == "__main__":
    serve()

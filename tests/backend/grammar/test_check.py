import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from backend import native
from backend.grammar.check import GrammarError, check_grammar
from backend.samplers import GrammarSampler

pytestmark = pytest.mark.timeout(60)  # Large grammars: bounded work, but no small one.

GOOD = [
    'root ::= "a"',
    'root ::= "a" b # a comment\nb ::= [a-z]+ | "x"{2,5} | ("q" "\\n"?)*\n',
    'root ::= (\n  "a" |\n  "b"\n)\n\n# the end',
    'root ::= "\\u00e9\\x41\\"\\\\" [^\\]\\n] . {0,3}',
    'root ::= b |\n  c\nb ::= ""\nc ::= b',
    'root ::= "a" root | ""',
    'root ::= a root | "x"\na ::= "" "y"',
    'root ::= ("a"?){0,3} "x"',
    'root ::= ("a"{0,40}){0,40}',
    'root ::= ("a" ("b" ("c"){0,20}){0,20}){0,20}',
    'root ::= "a"{2000}',
    'root ::= (b c*)* "x"\nb ::= "b"*\nc ::= "c"',
    'root ::= ("a" | "b")* ("c" d?)+\nd ::= "e"*',
]


def chain(rule: str, length: int) -> str:
    rules = [rule.format(number, *[number + 1] * 2) for number in range(length)]
    return "\n".join(["root ::= a0", *rules, f'a{length} ::= "a"'])


BAD = {
    'root ::= ("x"?){1000} "y"': "can be empty",
    'root ::= x{65}\nx ::= "a" | ""': "can be empty",
    'root ::= ("a"? "b"?){2,500} "y"': "can be empty",
    "": "no rule called root",
    'foo ::= "x"': "no rule called root",
    'root ::= "a" b': "b is used but not defined (line 1)",
    'x ::= "a"\nroot ::= [a': "close what was opened (line 2)",
    'root ::= "a': "close what was opened",
    'root = "a"': "expected ::=",
    'root ::= ("a"': "expected )",
    "root ::= +": "needs something in front",
    'root ::= "a"{5,2}': "in order",
    'root ::= "a"{99999}': "at most",
    'root ::= "\\q"': "unknown escape",
    'root ::= "a" )': "end of the rule",
    'root ::= "\0"': "not text",
    'root ::= "\ud800"': "not text",
    'root ::= root "a"': "the rule root can begin with itself (left recursion); let it take something first",
    'root ::= "x" a\na ::= b "y"\nb ::= "z" | a': "begin with itself (left recursion)",
    'root ::= e root "x" | "y"\ne ::= ""': "the rule root can begin with itself",
    'root ::= e root "x" | "y"\ne ::= f f\nf ::= "a"?': "the rule root can begin with itself",
    'root ::= (\n"" root)': "the rule root can begin with itself",
    'root ::= (""*)* "x"': "something in front",
    'root ::= "x"\na ::= ("a" |)*': "repeated without an end can be empty (line 2)",
    'root ::= b+ "x"\nb ::= "b" | ""': "repeated without an end can be empty (line 1)",
    'root ::= "a"**': "repeated without an end can be empty",
    'root ::= "a"{2001}': "at most 2000",
    'root ::= "a"{' + "9" * 5000 + "}": "at most 2000",
    'root ::= ("a"{0,1000}){0,1000}': "makes 1001000 rules; at most 2000 are allowed",
    'root ::= "' + "a" * 20_000 + '"{1500}': "too large when written out",
    "root ::= " + '"a"{0,1999} ' * 60: "too large when written out",
    "\n".join(
        ["root ::= a0", *(f"a{n} ::= a{n + 1} | a{n + 1}" for n in range(40)), 'a40 ::= "a"']
    ): "too many",
    "\n".join(["root ::= a0", *(f"a{n} ::= a{n + 1}" for n in range(9000)), 'a9000 ::= "a"']): "too many",
}


@pytest.mark.parametrize("text", GOOD)
def test_a_good_grammar_is_accepted(text: str) -> None:
    check_grammar(text)


@pytest.mark.parametrize("text", BAD, ids=itertools.count())
def test_a_bad_grammar_says_what_and_where(text: str) -> None:
    with pytest.raises(GrammarError, match=r".") as raised:
        check_grammar(text)
    assert BAD[text] in str(raised.value)


@pytest.mark.parametrize("text", ["root ::= " + "(" * 5000, "root ::= " + '"a" ' * 400_000])
def test_a_hostile_grammar_ends_in_an_error(text: str) -> None:
    with pytest.raises(GrammarError):
        check_grammar(text)


def test_a_large_grammar_of_empty_rules_is_read_soon() -> None:
    names = [f"a{number}" for number in range(30_000)]
    began = time.process_time()
    check_grammar(f"root ::= {' '.join(names)}\n" + "\n".join(f'{name} ::= ""' for name in names))
    assert time.process_time() - began < 5


@pytest.fixture(scope="module")
def model(tiny_llama: Path) -> Iterator[native.Model]:
    opened = native.Model.load(tiny_llama, vocab_only=True)
    assert opened
    yield opened
    opened.close()


@pytest.mark.parametrize("text", GOOD)
def test_llama_cpp_takes_what_is_accepted(model: native.Model, text: str) -> None:
    GrammarSampler(model, text).close()


@pytest.mark.parametrize(
    "text",
    [
        'root ::= "a"{2001}',
        'root ::= ("a"{0,50}){0,50}',
        'root ::= "a"{100}{100}',
        'root ::= ("a" | "")*',
        'root ::= "a"**',
        "root ::= root",
        "root ::= (",
    ],
)
def test_what_llama_cpp_refuses_is_one_sentence_without_its_log(model: native.Model, text: str) -> None:
    with pytest.raises(GrammarError, match=r"^The grammar does not compile: llama\.cpp refuses it\.$"):
        GrammarSampler(model, text)
    with pytest.raises(GrammarError, match="line 1"):
        check_grammar(text)

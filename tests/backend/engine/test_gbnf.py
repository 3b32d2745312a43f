import pytest

from backend.engine.gbnf import GrammarError, check_grammar

GOOD = [
    'root ::= "a"',
    'root ::= "a" b # a comment\nb ::= [a-z]+ | "x"{2,5} | ("q" "\\n"?)*\n',
    'root ::= (\n  "a" |\n  "b"\n)\n\n# the end',
    'root ::= "\\u00e9\\x41\\"\\\\" [^\\]\\n] . {0,3}',
    'root ::= b |\n  c\nb ::= ""\nc ::= b',
]
BAD = {
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
}


@pytest.mark.parametrize("text", GOOD)
def test_a_good_grammar_is_accepted(text: str) -> None:
    check_grammar(text)


@pytest.mark.parametrize("text", BAD)
def test_a_bad_grammar_says_what_and_where(text: str) -> None:
    with pytest.raises(GrammarError, match=r".") as raised:
        check_grammar(text)
    assert BAD[text] in str(raised.value)


@pytest.mark.parametrize("text", ["root ::= " + "(" * 5000, "root ::= " + '"a" ' * 400_000])
def test_a_hostile_grammar_ends_in_an_error(text: str) -> None:
    with pytest.raises(GrammarError):
        check_grammar(text)

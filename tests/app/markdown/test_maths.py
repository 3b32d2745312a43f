from __future__ import annotations

import pytest

from app.markdown.markdown import MarkdownText
from app.markdown.maths import find_formula, to_unicode
from app.markdown.rows import COLOUR, Mode


def shown(source: str, mode: Mode = COLOUR) -> str:
    text = MarkdownText(source, finished=True)
    text.layout(90, mode)
    return "\n".join(row.text for row in text.rows)


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        ("x^2 + y_1", "x² + y₁"),
        ("x^{a+b}", "xᵃ⁺ᵇ"),
        ("a_{n-1}", "aₙ₋₁"),
        (r"\alpha \beta", "αβ"),
        (r"\pi r^2", "πr²"),
        (r"\frac{1}{2}", "1/2"),
        (r"\frac{a + b}{c}", "(a + b)/c"),
        (r"\frac12", "1/2"),
        (r"\sqrt{x}", "√x"),
        (r"\sqrt[3]{x+1}", "∛(x+1)"),
        (r"\sqrt{b^2 - 4ac}", "√(b² - 4ac)"),
        (r"a \le b \neq c", "a ≤ b ≠ c"),
        (r"x\in\mathbb{R}^n", "x ∈ ℝⁿ"),
        (r"\sum_{i=1}^{n} i", "∑ᵢ₌₁ⁿ i"),
        (r"\int_0^1 x\,dx", "∫₀¹ x dx"),
        (r"\left( \frac{a}{b} \right)^2", "( a/b )²"),
        (r"\sin x + \log(y)", "sin x + log(y)"),
        (r"\hat{x}", "x\u0302"),
        (r"90^\circ", "90°"),
        (r"f'(x)", "f′(x)"),
        (r"\text{if } x > 0", "if x > 0"),
        (r"\begin{aligned} a &= b \\ c &= d \end{aligned}", "a = b\nc = d"),
        (r"a = b \\[2pt] c \tag{3}", "a = b\nc (3)"),
        (r"\{1, 2\}", "{1, 2}"),
        (r"A^T B^{-1}", "Aᵀ B⁻¹"),
        (r"e^{i\pi}", "e^{iπ}"),
        (r"\lim_{x \to 0} x", "lim_{x → 0} x"),
    ],
)
def test_what_unicode_can_write(formula: str, text: str) -> None:
    assert to_unicode(formula) == text


@pytest.mark.parametrize(
    "formula",
    [r"\unknown{x}", r"\begin{matrix} a \end{matrix}", "{a", "a}", r"\frac{a}", "x^", "{" * 30 + "}" * 30],
)
def test_what_cannot_be_written_stays_source(formula: str) -> None:
    assert to_unicode(formula) is None
    assert shown(f"so \\({formula}\\) is") == f"so \\({formula}\\) is"


@pytest.mark.parametrize(
    "source",
    [
        "costs $5 and $10",
        "from $5 to $6.",
        "$ x $ and $x $ and $ x$",
        "US$5-US$6",
        "it costs $5 or 6$ here, $1,000 (net)$ there",
        "$HOME/$USER and $PATH:$HOME",
        "a `$x^2$` and `\\(x\\)`",
        "one $ alone",
        "$5",
    ],
)
def test_dollars_that_are_no_formula(source: str) -> None:
    assert shown(source) == source.replace("`", "")


@pytest.mark.parametrize(
    "source", ["$x^2$", "\\(x^2\\)", "\\[x^2\\]", "$$x^2$$", "$$\nx^2\n$$", "\\[\n x^2 \n\\]"]
)
def test_the_four_kinds_of_signs(source: str) -> None:
    assert shown(source) == "x²"


def test_a_formula_moves_no_block_border() -> None:
    assert shown("$$\na\n- b\n$$") == "$$\na\n\n- b\n  $$"
    assert shown("| $a | b$ |\n|---|---|\n") == "$a   b$\n╌╌╌╌╌╌╌"
    assert shown("$x\n\ny$") == "$x\n\ny$"


def test_emphasis_signs_inside_a_formula_are_its_own() -> None:
    assert shown("\\(a_1 * b_2 * c\\)") == "a₁ * b₂ * c"


def test_the_run_of_a_formula_says_what_it_stands_for() -> None:
    text = MarkdownText("so $x^2$ is", finished=True)
    text.layout(40)
    run = text.rows[0].runs[1]
    assert (run.text, run.offset, run.stands_for) == ("x²", 3, 5)


def test_ascii_keeps_the_source() -> None:
    assert shown("$\\alpha^2$", Mode(plain=True, ascii=True)) == "$\\alpha^2$"


def test_a_search_for_a_formula_is_bounded() -> None:
    assert find_formula("$" + "x" * 500 + "$", 0) is None
    assert find_formula("\\(" + "x" * 3000 + "\\)", 0) is None

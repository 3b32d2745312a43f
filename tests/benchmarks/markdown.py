"""What one appended token costs to parse and lay out, without a widget, whatever came before it.

Run on a quiet machine, from the repository:
    python -m tests.benchmarks.markdown [CASE ...]
"""

from __future__ import annotations

import argparse
import gc
from statistics import median
from time import process_time

from app.markdown.markdown import MarkdownText, warm

WIDTH = 92
TOKENS = 100
CODE = "    def method(self, value: int) -> str:\n        return f'{value}' + \"abc\"  # comment\n\n"
PARAGRAPH = "Some **bold** text and `code`, long enough to wrap over a row of the screen at this width.\n\n"
RICH = "long *para* with `code` and **bold** words [l](u) plus snake_case and 2 * 3 < 4, "
TABLE = "| a | b | c |\n|---|---|--:|\n"
WIDE = f"| cell | {'words in it ' * 9}| {'more words ' * 9}|\n"

CASES = {
    "empty": ("", "word "),
    "400 paragraphs": (PARAGRAPH * 400, "word "),
    "4,000 paragraphs": (PARAGRAPH * 4000, "word "),
    "3,000 lines of Python": ("```python\n" + CODE * 1000, "value "),
    "3,000 lines of Python, a line each": ("```python\n" + CODE * 1000, "x = f(1)\n"),
    "3,000 lines in a list item": ("- x\n\n  ```python\n  " + (CODE * 1000).replace("\n", "\n  "), "value "),
    "3,000 lines in a quote": ("> ```python\n> " + (CODE * 1000).replace("\n", "\n> "), "value "),
    "30,000 lines of Python": ("```python\n" + CODE * 10_000, "value "),
    "200 items": ("- item with **bold**\n" * 200 + "- ", "word "),
    "200 items, an item each": ("- item with **bold**\n" * 200, "- item word\n"),
    "200 nested items": ("".join(f"{'  ' * (at % 4)}- item {at}\n" for at in range(200)) + "- ", "word "),
    "200 rows": (TABLE + "| cell | **bold** | 12 |\n" * 200 + "| ", "word "),
    "200 rows, cells wrap": (TABLE + WIDE * 200 + "| ", "word "),
    "2,000 rows": (TABLE + "| cell | **bold** | 12 |\n" * 2000 + "| ", "word "),
    "6,000 rich characters": (RICH * 75, "word "),
    "1,000 lines without a blank": ("12, 7, and a word\n" * 1000, "12,"),
    "1,000 lines of HTML": ("<script>\n" + "  let x = 1;\n" * 1000, "x = "),
}


def measure(before: str, token: str) -> list[float]:
    """CPU milliseconds of each of `TOKENS` appended tokens, sorted."""
    text = MarkdownText(before)
    text.layout(WIDTH)
    while text.settle(1):
        pass
    text.layout(WIDTH)
    gc.collect()
    gc.freeze()
    took: list[float] = []
    for _ in range(TOKENS):
        text.append(token)
        start = process_time()
        text.layout(WIDTH)
        took.append((process_time() - start) * 1e3)
    gc.unfreeze()
    return sorted(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", nargs="*", help="parts of names of cases; all by default")
    wanted = parser.parse_args().case
    warm()
    print(f"{'ms of CPU per token, parse + layout':40} {'median':>7} {'mean':>7} {'worst':>7}")
    for name, (before, token) in CASES.items():
        if wanted and not any(part in name for part in wanted):
            continue
        took = measure(before, token)
        print(f"{name:40} {median(took):7.3f} {sum(took) / len(took):7.3f} {took[-1]:7.3f}")


if __name__ == "__main__":
    main()

"""Every sentence that a person can meet is plain, idiomatic English: the habits below do not come back."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "app/help").glob("*.md"))

HABITS: dict[str, str] = {
    r"\banew\b": "again",
    r"\bholds?\b": "applies, contains, has",
    r"\b(takes?|taken) (it|them|this rule|a \w+ chat|what was \w+) back\b": "undo, reset, restore, remove",
    r"\b(takes?|taken) back\b": "undo, reset, restore, remove",
    r"\bputs? (\w+ ){0,2}away\b": "archive",
    r"\b(go|goes|going|gone) on with\b": "continue",
    r"\b(goes|going) on\b": "continue",
    r"\b(is|are|was|were|be) told\b": "is shown, is reported, gets",
    r"\btells (what|which|whether|that|where|every|how|there|the)\b": "says, shows",
    # "There is no tool" and "is no longer" are plain English; "X is no tool" is not.
    r"(?<![Tt]here )\b(is|are|was|were) no (?!longer\b|more\b|one\b|need\b|less\b)[a-z]": "is not a",
    r"\ball the same\b": "anyway",
    r"\bof (before|now)\b": "previous, current",
    r"\bthat (is|are) none\b": "that is not one",
    r"\b(folder|one|file); \{?\w+\}? is none\b": "is not one",
    r"\bis to be\b": "must be",
    r"\b(it|which|that|what) lies\b|\blies in\b": "is",
    r"\bcan be had\b": "is available",
    r"\bas it was\b(?! kept| is kept)": "unchanged",
    r"\bonce more (quits|leaves)\b": "press again to quit",
    r"\bnot whole\b": "incomplete",
    r"\b(one|a model) that is here\b": "found",
    r"\b(begins?|began) (one|a chat|a new chat)\b": "starts",
    r"\bNear it\b": "Did you mean",
    r"\bdivided? anew\b": "split again",
    r"\btyping error\b": "typo",
}
"""What reads stilted, as patterns, and what to say instead."""

ALLOWED: dict[str, str] = {
    "The reply as it was is kept as another variant.": "the variant is the old reply itself",
}
"""Sentences that a pattern finds and that are right, with the reason."""


_ANY = re.compile("|".join(HABITS))
ROOMS = sorted(
    {file.parent for room in ("app", "backend", "tools") for file in (ROOT / room).rglob("*.py")} | {ROOT}
)


def _documentation(tree: ast.Module) -> set[int]:
    """The docstrings of code; those of commands are help texts, and are read."""
    kept: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and any(
            ".command(" in ast.unparse(one) for one in node.decorator_list
        ):
            kept |= {id(one) for one in node.body[:1]}
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and id(node) not in kept}


def _text(node: ast.AST) -> str | None:
    """A literal, or an f-string with its holes as {}."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(one.value) if isinstance(one, ast.Constant) else "{}" for one in node.values)
    return None


def literals(source: str) -> Iterator[tuple[int, str]]:
    """Every text of a module that could be shown, with its line."""
    tree = ast.parse(source)
    comments = _documentation(tree)
    for node in ast.walk(tree):
        text = None if id(node) in comments else _text(node)
        if text is not None:
            yield getattr(node, "lineno", 0), text


def stilted(text: str) -> list[str]:
    """The habits that a text has, each with better words."""
    if not _ANY.search(text):
        return []
    for sentence in ALLOWED:
        text = text.replace(sentence, "")
    return [
        f"{found[0]!r}: say {better}" for habit, better in HABITS.items() if (found := re.search(habit, text))
    ]


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.relative_to(ROOT).as_posix())
def test_no_text_of_the_code_has_a_stilted_phrase(room: Path) -> None:
    files = sorted(room.glob("*.py"))
    found = [
        f"{file.relative_to(ROOT)}:{line}: {fault} in {text[:120]!r}"
        for file in files
        for line, text in literals(file.read_text(encoding="utf-8"))
        for fault in stilted(text)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_page_of_help_has_a_stilted_phrase(page: Path) -> None:
    lines = page.read_text(encoding="utf-8").splitlines()
    found = [f"{number}: {fault}" for number, line in enumerate(lines, 1) for fault in stilted(line)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "answer the last message anew",
        "No chat holds {}.",
        "delete this chat; it can be taken back for 30 days",
        "enter takes it back",
        "put this chat away",
        "fireside --resume {}   goes on with {}",
        "What it made is told, and left there.",
        "standard output is no terminal here",
        "LICENSE is no export of Fireside",
        "allow all the same",
        "23.8 GB can be had",
    ],
)
def test_the_habits_are_found(text: str) -> None:
    assert stilted(text)


@pytest.mark.parametrize(
    "text",
    [
        "There is no log yet.",
        "{} is no longer set.",
        "take your last message back into the draft",
        "restore a deleted chat",
        "Did you mean {}?",
        "no, go on",
    ],
)
def test_plain_english_is_let_through(text: str) -> None:
    assert not stilted(text)


def test_help_texts_of_commands_are_read_and_docstrings_of_code_are_not() -> None:
    source = '@cli.command()\ndef a():\n    """Read it anew."""\n\ndef b():\n    """Read anew."""\n'
    assert [text for _, text in literals(source)] == ["Read it anew."]

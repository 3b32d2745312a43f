from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.frontend.draft import (
    PASTED,
    Beginning,
    Wish,
    as_keys,
    blocks_of,
    draft_of,
    wish_of,
    with_double,
    without_double,
)
from app.frontend.paste import Folds

KNOWN = frozenset({"help", "model"})
MARKED = st.text(st.sampled_from("/!* aé-_1\n\t"), max_size=12)


def wish(draft: str, *, typed: bool = True) -> Wish:
    return wish_of(draft, typed=typed, meant=KNOWN.__contains__)


@pytest.mark.parametrize("draft", ["/help", "/help me", "/model\nx", "/modle", " /help"])
def test_a_slash_and_a_word_are_a_command(draft: str) -> None:
    assert wish(draft) == Wish("command", draft.strip())


@pytest.mark.parametrize(
    ("draft", "word"),
    [
        ("// comment", "//"),
        ("/// docs of a function", "///"),
        ("/* a comment */ int x;", "/*"),
        ("/etc/hosts is what?", "/etc/hosts"),
        ("/etc/hosts", "/etc/hosts"),
        ("/usr/", "/usr/"),
        ("/shrug is no command", "/shrug"),
        ("/shrug\nnor is this", "/shrug"),
        ("/ 2 = 4?", "/"),
    ],
)
def test_what_only_looks_like_a_command_is_text_with_one_hint(draft: str, word: str) -> None:
    assert wish(draft) == Wish("message", draft, f"Sent as text: {word} is not a command.")


@pytest.mark.parametrize(
    ("draft", "sent"),
    [("//help", "/help"), ("//etc", "/etc"), ("!!x", "!x"), ("!! x", "! x"), ("!", "!"), ("///x", "//x")],
)
def test_two_marks_send_text_that_begins_with_one(draft: str, sent: str) -> None:
    assert wish(draft) == Wish("message", sent)
    assert [block["text"] for block in blocks_of(draft, Folds())] == [sent]


@pytest.mark.parametrize("draft", ["/help", "//x", "!rm -rf x", "!!x", "/model a b", " /help"])
def test_what_was_pasted_goes_as_it_is_and_says_so(draft: str) -> None:
    assert wish(draft, typed=False) == Wish("message", draft.strip(), PASTED)
    assert [block["text"] for block in blocks_of(draft, Folds(), typed=False)] == [draft]


@pytest.mark.parametrize("draft", ["// comment", "/etc/hosts is what?", "hello", "!"])
def test_a_paste_that_keys_could_have_written_needs_no_hint(draft: str) -> None:
    assert wish(draft, typed=False) == Wish("message", draft)


@given(MARKED)
def test_what_keys_would_write_for_a_text_sends_that_text(text: str) -> None:
    text = text.rstrip()  # as it is sent
    kept = with_double(text)
    assert without_double(kept) == text
    if text.strip():
        assert wish(kept)._replace(hint="") == Wish("message", text.strip())
    if kept == text:
        assert wish(text, typed=False).hint == ""


@given(MARKED)
def test_a_message_that_is_edited_or_kept_says_the_same(text: str) -> None:
    sent = blocks_of(text, Folds(), typed=False)
    draft, folds = draft_of(sent)
    assert blocks_of(draft, folds, typed=False) == sent
    kept = as_keys(draft, folds, typed=False)
    assert [block["text"] for block in blocks_of(kept, Folds())] == [block["text"] for block in sent]


def test_a_folded_paste_at_the_front_is_kept_as_text() -> None:
    folds = Folds()
    text = "/help\n" * 20
    assert as_keys(folds.fold(text) + " what?", folds, typed=True) == f"/{text} what?"


def test_who_wrote_the_first_character() -> None:
    first = Beginning()
    first.written("/model x")
    assert first.typed
    first.uncovered()
    assert first.typed  # nothing was pasted
    first.pasted(first=False)
    assert first.typed
    first.uncovered()
    assert not first.typed  # it may be the pasted one
    first.written("/")
    assert first.typed
    first.written("  ")
    first.pasted(first=True)
    first.written(" \n")
    assert not first.typed
    first.reset()
    assert first.typed

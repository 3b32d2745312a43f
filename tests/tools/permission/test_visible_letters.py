"""Letters, digits and signs that pose as others are told; honest words of any script stay plain."""

from __future__ import annotations

import pytest

from tools.permission.visible import visible


@pytest.mark.parametrize(
    "text",
    [
        "cat .git/con\ufb01g",
        "/etc/pro\ufb01le",
        "di\ufb00",
        "g\u101d\u101dgle.com",
        "g\u12d0\u12d0gle.com",
        "g\u0b20ogle.com",
        "\u05e1k",
        "a\u0627b",
        "a\u0966b",
        "127.0.0.\u0966",
        "v1.\u0660",
        "rm \u02d7rf x",
        "x\u02c2y",
        "x\u02c3y",
        "a\u07fab",
        "http\u02f8//x",
        "a\ua78fb",
        "a\u2041b",
        "\u029fs",
        "p\u026ap install",
        "a\U0001d159b",
    ],
)
def test_what_poses_as_another_is_pointed_out(text: str) -> None:
    assert "U+" in visible(text)


@pytest.mark.parametrize(
    "text",
    [
        "\u7528Python\u5199",
        "\u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22good",
        "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd",
        "\u0645\u0631\u062d\u0628\u0627 world",
        "\u0928\u092e\u0938\u094d\u0924\u0947 \u0967\u0968\u0969",
        "\u0663 items",
        "k\u00fct\u00fck \u0131ss\u0131z",
        "1\u00aa edi\u00e7\u00e3o",
        "\u65e5\u672c\u8a9e\u3068English",
        "10\u00b2",
    ],
)
def test_honest_words_stay_plain(text: str) -> None:
    assert visible(text) == text

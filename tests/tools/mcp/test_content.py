"""What a tool of an MCP server gives back becomes words: pictures and files by their kind and size."""

from __future__ import annotations

import base64
import importlib
import importlib.util
from typing import Any

import pytest

from tools.mcp.content import files_of, words_of

pytestmark = [
    pytest.mark.timeout(60),  # The package takes long to import, and only where it is needed.
    pytest.mark.skipif(importlib.util.find_spec("mcp") is None, reason="the package mcp is not installed"),
]
NOT_SHOWN = "not shown, only the text of a result can be read"


class _Types:
    """The types of the package."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("mcp.types"), name)


types = _Types()


def words(*content: Any, **fields: Any) -> str:
    return words_of(types.CallToolResult(content=list(content), **fields))


def data(count: int) -> str:
    return base64.b64encode(bytes(count)).decode()


def test_words_stay_and_pictures_are_named_with_their_size() -> None:
    text = words(
        types.TextContent(text="The page:\nas it is"),
        types.ImageContent(data=data(12_345), mime_type="image/png"),
        types.AudioContent(data=data(7), mime_type="audio/wav"),
    )
    assert text == (
        "The page:\nas it is\n"
        f"[picture, image/png, 12.3 kB: {NOT_SHOWN}]\n[recording, audio/wav, 7 bytes: {NOT_SHOWN}]"
    )


def test_files_are_their_text_or_their_name() -> None:
    text = words(
        types.EmbeddedResource(resource=types.TextResourceContents(uri="file:///a.txt", text="inside")),
        types.EmbeddedResource(
            resource=types.BlobResourceContents(
                uri="file:///a.pdf", mime_type="application/pdf", blob=data(2_000_000)
            )
        ),
        types.ResourceLink(name="log", uri="file:///log", size=40, description="the\nlast run"),
    )
    assert text.splitlines() == [
        "inside",
        f"[file file:///a.pdf, application/pdf, 2.0 MB: {NOT_SHOWN}]",
        "[link to file:///log, log, 40 bytes: the last run]",
    ]


def test_what_a_server_names_is_bounded_and_on_one_line() -> None:
    text = words(types.ImageContent(data=data(3), mime_type="image/png\n" + "x" * 10_000))
    assert "\n" not in text and len(text) < 400


def test_pictures_recordings_and_files_are_given_to_the_person() -> None:
    png = types.BlobResourceContents(uri="file:///tmp/a%20b.bin", mime_type="application/pdf", blob=data(2))
    nameless = types.BlobResourceContents(uri="http://[bad", mime_type="text/csv", blob=data(1))
    result = types.CallToolResult(
        content=[
            types.TextContent(text="two pictures"),
            types.ImageContent(data=data(3), mime_type="image/png"),
            types.ImageContent(data="not base64!", mime_type="image/png"),
            types.EmbeddedResource(resource=png),
            types.EmbeddedResource(resource=nameless),
            types.EmbeddedResource(resource=types.TextResourceContents(uri="file:///a.txt", text="inside")),
        ]
    )
    assert list(files_of(result, "shot")) == [
        ("shot-2.png", bytes(3)),
        ("a b.bin", bytes(2)),
        ("shot-5.csv", bytes(1)),
    ]

"""What a tool of an MCP server gives back becomes words: pictures and files by their kind and size."""

from __future__ import annotations

import base64
from typing import Any

import pytest

pytest.importorskip("mcp")

from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from tools.mcp.content import files_of, words_of

pytestmark = pytest.mark.timeout(60)  # The package takes long to import.
NOT_SHOWN = "not shown, only the text of a result can be read"


def words(*content: Any, **fields: Any) -> str:
    return words_of(CallToolResult(content=list(content), **fields))


def data(count: int) -> str:
    return base64.b64encode(bytes(count)).decode()


def test_words_stay_and_pictures_are_named_with_their_size() -> None:
    text = words(
        TextContent(text="The page:\nas it is"),
        ImageContent(data=data(12_345), mime_type="image/png"),
        AudioContent(data=data(7), mime_type="audio/wav"),
    )
    assert text == (
        "The page:\nas it is\n"
        f"[picture, image/png, 12.3 kB: {NOT_SHOWN}]\n[recording, audio/wav, 7 bytes: {NOT_SHOWN}]"
    )


def test_files_are_their_text_or_their_name() -> None:
    text = words(
        EmbeddedResource(resource=TextResourceContents(uri="file:///a.txt", text="inside")),
        EmbeddedResource(
            resource=BlobResourceContents(
                uri="file:///a.pdf", mime_type="application/pdf", blob=data(2_000_000)
            )
        ),
        ResourceLink(name="log", uri="file:///log", size=40, description="the\nlast run"),
    )
    assert text.splitlines() == [
        "inside",
        f"[file file:///a.pdf, application/pdf, 2.0 MB: {NOT_SHOWN}]",
        "[link to file:///log, log, 40 bytes: the last run]",
    ]


def test_what_a_server_names_is_bounded_and_on_one_line() -> None:
    text = words(ImageContent(data=data(3), mime_type="image/png\n" + "x" * 10_000))
    assert "\n" not in text and len(text) < 400


def test_pictures_recordings_and_files_are_given_to_the_person() -> None:
    png = BlobResourceContents(uri="file:///tmp/a%20b.bin", mime_type="application/pdf", blob=data(2))
    nameless = BlobResourceContents(uri="http://[bad", mime_type="text/csv", blob=data(1))
    result = CallToolResult(
        content=[
            TextContent(text="two pictures"),
            ImageContent(data=data(3), mime_type="image/png"),
            ImageContent(data="not base64!", mime_type="image/png"),
            EmbeddedResource(resource=png),
            EmbeddedResource(resource=nameless),
            EmbeddedResource(resource=TextResourceContents(uri="file:///a.txt", text="inside")),
        ]
    )
    assert list(files_of(result, "shot")) == [
        ("shot-2.png", bytes(3)),
        ("a b.bin", bytes(2)),
        ("shot-5.csv", bytes(1)),
    ]

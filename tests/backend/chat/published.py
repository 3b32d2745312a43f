"""The published templates, where they are at hand, and the recorded cases."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from backend.chat import ChatTemplate

ROOT = Path(__file__).resolve().parents[3]
SHARED = ROOT.parent / "shared"
GOLDEN = Path(__file__).parent / "golden"
EVERYTHING = {"supports_tools": True, "rules": {"prints_calls": True}}
ENVIRONMENT = dict(os.environ)
MISSING = "the published templates are not here: shared/bin/chat-templates build/chat-templates fetches them"


@cache
def folder() -> Path | None:
    """Where the 70 published templates lie: FIRESIDE_TEMPLATES, build/chat-templates, or /tmp/dev."""
    places = (os.environ.get("FIRESIDE_TEMPLATES"), ROOT / "build" / "chat-templates", "/tmp/dev/templates")
    return next((Path(place) for place in places if place and any(Path(place).glob("*.jinja"))), None)


def names() -> list[str]:
    place = folder()
    return sorted(path.stem for path in place.glob("*.jinja")) if place else []


def source(name: str) -> str:
    place = folder()
    if place is None:
        pytest.skip(MISSING)
    return (place / f"{name}.jinja").read_text(encoding="utf-8")


@cache
def template(name: str) -> ChatTemplate:
    return ChatTemplate(source(name), name=name)


@cache
def learned(name: str) -> dict[str, Any]:
    """What is known of a template, which spares collecting the tests a compilation of all of them.

    A test holds it against the template. A template that nothing is recorded of is taken to have all.
    """
    path = GOLDEN / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else EVERYTHING


@cache
def recorded_cases() -> list[dict[str, Any]]:
    path = SHARED / "data" / "chat_cases.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

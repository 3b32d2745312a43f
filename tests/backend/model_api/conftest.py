"""Loaded models shared by the tests of this room; a test that counts its model's life loads its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from backend import GenerativeModel, load

STARTER_SECONDS = 120


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("model") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(STARTER_SECONDS))


@pytest.fixture(scope="session", autouse=True)
def native_log_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Session fixtures load before any test has a home of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRESIDE_STATE", str(tmp_path_factory.mktemp("state")))
        yield


def _shared(path: Path, **options: Any) -> Iterator[GenerativeModel]:
    with load(path, **options) as model:
        yield model


def _single_threaded(path: Path, **options: Any) -> Iterator[GenerativeModel]:
    # Two threads that wait for each other on a busy machine are slower than one.
    yield from _shared(path, threads=1, **options)


@pytest.fixture(scope="session")
def tiny(tiny_llama: Path, native_log_folder: None) -> Iterator[GenerativeModel]:
    """Byte-level BPE, ChatML, 2,048 tokens of context."""
    yield from _single_threaded(tiny_llama)


@pytest.fixture(scope="session")
def small(tiny_llama: Path, native_log_folder: None) -> Iterator[GenerativeModel]:
    """The same with a context of 128 tokens."""
    yield from _single_threaded(tiny_llama, max_seq=128)


@pytest.fixture(scope="session")
def spm(tiny_llama_spm: Path, native_log_folder: None) -> Iterator[GenerativeModel]:
    """SentencePiece with a BOS token."""
    yield from _single_threaded(tiny_llama_spm)


@pytest.fixture(scope="session")
def base(tiny_base: Path, native_log_folder: None) -> Iterator[GenerativeModel]:
    """No chat template."""
    yield from _single_threaded(tiny_base)


@pytest.fixture(scope="session")
def starter(starter_model: Path, native_log_folder: None) -> Iterator[GenerativeModel]:
    """SmolLM2, with 1,024 tokens of context for each of up to four replies."""
    yield from _single_threaded(starter_model, max_seq=1024)


@pytest.fixture
def fresh(tiny_llama: Path) -> Iterator[Callable[..., GenerativeModel]]:
    """Loads models of a test's own: `fresh(path=None, **options)`; they are closed afterwards."""
    opened: list[GenerativeModel] = []

    def opener(path: Path | None = None, **options: Any) -> GenerativeModel:
        opened.append(load(path or tiny_llama, threads=1, **options))
        return opened[-1]

    yield opener
    for model in opened:
        model.close()

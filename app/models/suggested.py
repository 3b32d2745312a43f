"""Models to begin with after the starter, by the memory of a machine: told alike in every place."""

from __future__ import annotations

from typing import NamedTuple


class Suggestion(NamedTuple):
    """A model of the Hugging Face Hub that may be used for anything."""

    memory_gib: int
    """The memory of a machine, or of its GPU, that it is for; it leaves room for a context and for others."""
    name: str
    repository: str
    """As `fireside models pull` takes it."""
    quantization: str
    size_bytes: int
    licence: str


SUGGESTED: tuple[Suggestion, ...] = (
    Suggestion(4, "Qwen3 1.7B", "Qwen/Qwen3-1.7B-GGUF:Q8_0", "Q8_0", 1_834_426_016, "Apache-2.0"),
    Suggestion(8, "Qwen3 4B", "Qwen/Qwen3-4B-GGUF:Q4_K_M", "Q4_K_M", 2_497_280_256, "Apache-2.0"),
    Suggestion(16, "Qwen3 8B", "Qwen/Qwen3-8B-GGUF:Q4_K_M", "Q4_K_M", 5_027_783_488, "Apache-2.0"),
)


def rows() -> list[str]:
    """Each of them in a line: memory, what to pull, size and licence."""
    from app.terminal.figures import gib

    return [
        f"{one.memory_gib} GiB: {one.repository} ({gib(one.size_bytes)}, {one.licence})" for one in SUGGESTED
    ]

"""What is said of a file that llama.cpp does not load: by its own log, or by what it did to a child."""

from __future__ import annotations

from pathlib import Path

from backend.gguf.file import DOWNLOAD_AGAIN, shown
from backend.types import ModelLoadError


def refusal(path: Path, log: str) -> ModelLoadError:
    """The error for a file that llama.cpp did not load, with the reason that its `log` gives."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    reasons = [line.rpartition("error loading model")[2].lstrip(": ") for line in lines if "error" in line]
    reason = shown(" ".join((reasons or lines or ["it gave no reason"])[-1].split()), 200)
    where = shown(path, 300)
    if "unknown model architecture" in reason:
        return ModelLoadError(
            f"{where} is of a kind that llama.cpp does not know ({reason}).",
            cause="unsupported_arch",
            remedy="Update Fireside and llama-cpp-python, or choose another model.",
        )
    if any("allocat" in line and "fail" in line for line in lines):
        return ModelLoadError(
            f"{where} could not get enough memory for its weights: {reason}.",
            cause="out_of_memory",
            remedy="Choose a smaller model or quantization, or close other programs.",
        )
    return ModelLoadError(
        f"{where} was refused by llama.cpp: {reason}.", cause="bad_metadata", remedy=DOWNLOAD_AGAIN
    )


def at_fault(path: Path, problem: str) -> ModelLoadError:
    """The error for a file that does harm when it is loaded; `problem` goes on after its name."""
    return ModelLoadError(f"{shown(path, 300)} {problem}.", cause="bad_metadata", remedy=DOWNLOAD_AGAIN)

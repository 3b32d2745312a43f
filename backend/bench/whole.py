"""The whole model API as a side of a comparison: text in, text out, as a program sees it."""

from __future__ import annotations

from backend.bench.workload import BURST, CONFIG, SEED, BenchError, Prompts, Setup, now, rate
from backend.model import GenerativeModel, load


class WholePipeline:
    """Streams replies from `GenerativeModel` to a reader."""

    def __init__(self, path: str, threads: int | None) -> None:
        self._path = path
        self._threads = threads
        self._model: GenerativeModel | None = None

    def open(self, setup: Setup) -> None:
        """Load the model with that context and the attention it is given by default."""
        self.close()
        self._model = load(self._path, max_seq=setup.cells, slots=setup.slots, threads=self._threads)

    def close(self) -> None:
        """Free the model."""
        if self._model:
            self._model.close()
        self._model = None

    def write(self, depth: int, min_s: float) -> float:
        """Tokens per second that reach the reader as text, from `depth` tokens of context on."""
        if self._model is None:
            raise BenchError("The pipeline is not open.")
        model = self._model
        prompt = model.tokenizer.decode(Prompts(model.handle.model).of(depth))
        return rate(lambda _seconds: self._burst(model, prompt), min_s)

    def _burst(self, model: GenerativeModel, prompt: str) -> tuple[int, float]:
        began = now()
        for _ in model.stream_generate(prompt, raw=True, config=CONFIG, max_new_tokens=BURST + 1, seed=SEED):
            pass
        spent = now() - began
        if model.report is None:
            raise BenchError("The pipeline wrote nothing.")
        # From the engine's first token to the reader's last text: a reader that is late for the first
        # piece must not make the rest look quick.
        return model.report.new_tokens - 1, spent - model.report.time_to_first_token_s

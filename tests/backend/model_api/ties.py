"""When two greedy replies count as equal: exactly, or up to a near tie where sums may round differently."""

from __future__ import annotations

from backend import GenerativeModel

NEAR_TIE = 0.3


def assert_equal_up_to_near_ties(model: GenerativeModel, prompt: str, alone: str, other: str) -> None:
    """At the first differing position the run alone must give both tokens logprobs close together.

    `alone` and `other` are greedy replies of `model` to `prompt`.
    """
    if alone == other:
        return
    ids = model.tokenizer.encode
    first, second = ids(alone), ids(other)
    differing = next(index for index, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)
    model.generate(prompt, temperature=0, max_new_tokens=differing + 1, logprobs=20)
    assert model.report is not None and model.report.logprobs is not None
    best = dict((token, logprob) for token, _, logprob in model.report.logprobs[differing].top)
    assert abs(best[first[differing]] - best[second[differing]]) < NEAR_TIE, (alone, other)

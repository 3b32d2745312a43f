"""The starter model: a batched greedy reply is the one alone, token for token."""

from pathlib import Path

import pytest

from tests.backend.engine.driver import Stepper, load

pytestmark = [pytest.mark.model, pytest.mark.timeout(120)]
QUESTIONS = [
    "Name three colours.",
    "Why is the sky blue?",
    "Write a line about a fire.",
    "What is two plus two?",
    "Tell me about Paris in one sentence, and then about Rome in another one, please.",
    "List fruit.",
    "Translate 'good morning' to French.",
    "Who wrote Hamlet?",
]


def prompt(path: Path, question: str) -> list[int]:
    text = f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
    return load(path).tokenize(text, parse_special=True)


def test_eight_prompts_in_four_slots_equal_each_alone(starter_model: Path) -> None:
    prompts = [prompt(starter_model, question) for question in QUESTIONS]
    with Stepper(starter_model, slots=4, n_threads=1) as stepper:
        requests = [stepper.add(tokens, new=20) for tokens in prompts]
        stepper.finish()
        together = [stepper.seen.of(request).ids for request in requests]
    with Stepper(starter_model, n_threads=1) as stepper:
        for tokens, ids in zip(prompts, together, strict=True):
            assert stepper.run(tokens, new=20).ids == ids


def test_an_edited_chat_equals_a_fresh_one(starter_model: Path) -> None:
    def chat(number: int) -> list[int]:
        return prompt(starter_model, f"The code is {number}. Remember it. What is the code?")

    with Stepper(starter_model, n_threads=1) as stepper:
        stepper.run(chat(41), new=16)
        edited = stepper.run(chat(73), new=16)
        assert edited.ended.reused_tokens > 5
        stepper.scheduler.forget()
        assert stepper.run(chat(73), new=16).ids == edited.ids
        assert "73" in edited.text

"""Grammars on a real model: what they allow is all that is written, and lazy ones wait."""

import json
import queue
from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.engine.engine import Engine
from backend.engine.params import EngineParams
from backend.engine.request import Delta, Ended, EngineRequest
from backend.engine.thought import ThoughtMarks
from backend.grammar.check import GrammarError
from backend.native import Model
from backend.types import EngineError, GenerationConfig, Grammar

GREEDY = GenerationConfig(temperature=0.0)
WILD = GenerationConfig(temperature=1.5, top_k=40)
OBJECT = """root ::= "{" ws "\\"n\\":" ws [0-9]{1,4} "," ws "\\"ok\\":" ws ("true" | "false") ws "}"
ws ::= " "?
"""


class Runner:
    def __init__(self, path: Path) -> None:
        model = Model.load(path)
        assert model is not None
        self.model = model
        self.outputs: queue.SimpleQueue = queue.SimpleQueue()
        params = EngineParams(max_seq=512, slots=2, n_threads=1)
        self.engine = Engine(model, lambda _: params, self.outputs.put, slots=2)

    def run(self, prompt: str, config: GenerationConfig = GREEDY, **fields) -> tuple[str, Ended]:
        request = EngineRequest(
            self.model.tokenize(prompt, parse_special=True), config, config.seed or 1, 80, **fields
        )
        self.engine.submit(request)
        text = ""
        while True:
            for _, output in self.outputs.get(timeout=60):
                if isinstance(output, Delta):
                    text += output.text
                elif isinstance(output, Ended):
                    return text, output

    def close(self) -> None:
        self.engine.close()
        self.model.close()


@pytest.fixture(scope="module")
def tiny(tiny_llama: Path) -> Iterator[Runner]:
    runner = Runner(tiny_llama)
    yield runner
    runner.close()


@pytest.fixture(scope="module")
def starter(starter_model: Path) -> Iterator[Runner]:
    runner = Runner(starter_model)
    yield runner
    runner.close()


@pytest.mark.parametrize("seed", range(5))
def test_a_model_of_random_weights_writes_only_what_the_grammar_allows(tiny: Runner, seed: int) -> None:
    request = GenerationConfig(temperature=1.5, top_k=40, seed=seed)
    text, ended = tiny.run("hello", request, grammar=Grammar(OBJECT))
    assert ended.finish == "stop"
    assert set(json.loads(text)) == {"n", "ok"}


@pytest.mark.parametrize(
    "grammar",
    ['root ::= "a" root "b" | "a" root "c" | "a" root "d" | "e"',
     "".join(f'r{i} ::= "a" r{i + 1} "b" | "a" r{i + 1} "c"\n' for i in range(60)) 
     + 'r60 ::= "x"\nroot ::= r0'],
)  # fmt: skip
def test_a_grammar_whose_ways_double_ends_its_reply_and_nothing_else(tiny: Runner, grammar: str) -> None:
    (first,) = tiny.model.tokenize("a")
    _, ended = tiny.run(
        "hello", GenerationConfig(temperature=0, logit_bias={first: 99.0}), grammar=Grammar(grammar)
    )
    assert isinstance(ended.error, EngineError)
    assert "too many continuations" in str(ended.error)
    assert tiny.run("hello", grammar=Grammar('root ::= "fine"'))[0] == "fine"


def test_two_replies_keep_their_own_grammar_state(tiny: Runner) -> None:
    ids = tiny.model.tokenize("hello")
    requests = [EngineRequest(list(ids), WILD, seed, 80, grammar=Grammar(OBJECT)) for seed in (1, 2, 3)]
    for request in requests:
        tiny.engine.submit(request)
    texts = {request.id: "" for request in requests}
    left = len(requests)
    while left:
        for request, output in tiny.outputs.get(timeout=60):
            if isinstance(output, Delta):
                texts[request.id] += output.text
            left -= isinstance(output, Ended)
    assert all(set(json.loads(text)) == {"n", "ok"} for text in texts.values())


def test_a_lazy_grammar_sleeps_until_its_trigger(tiny: Runner) -> None:
    lazy = Grammar('root ::= "never" "!"', lazy=True, triggers=("<no such text>",))
    assert tiny.run("hello", grammar=lazy)[0] == tiny.run("hello")[0]


@pytest.mark.model
@pytest.mark.parametrize("lead", ["", "Sure. ", "x<", "<<", "aa"])
def test_a_lazy_grammar_binds_from_the_triggers_first_character(starter: Runner, lead: str) -> None:
    lazy = Grammar('root ::= "<call>" [a-z]{1,8} "</call>"', lazy=True, triggers=("<call>",))
    ids = starter.model.tokenize(lead + "<call>")
    sampler_text, ended = starter.run("Say", WILD, grammar=lazy, prefix=tuple(ids))
    assert sampler_text.startswith(lead + "<call>")
    inner = sampler_text.removeprefix(lead + "<call>")
    assert ended.finish == "stop"
    assert inner.endswith("</call>")
    assert inner.removesuffix("</call>").islower()


def test_a_forced_token_against_the_grammar_is_an_error_not_a_crash(tiny: Runner) -> None:
    forced = tuple(tiny.model.tokenize("zzz"))
    _, ended = tiny.run("hello", grammar=Grammar(OBJECT), forced=forced)
    assert ended.finish == "error"
    assert isinstance(ended.error, EngineError)
    assert tiny.run("hello")[1].finish in ("stop", "length")


@pytest.mark.parametrize("lazy", [False, True])
def test_a_grammar_llama_cpp_refuses_fails_the_request_only(tiny: Runner, lazy: bool) -> None:
    refused = Grammar("root ::= (", lazy=lazy, triggers=("z",))
    _, ended = tiny.run("hello", grammar=refused, forced=tuple(tiny.model.tokenize("z")))
    assert ended.finish == "error"
    assert isinstance(ended.error, GrammarError)
    assert tiny.run("hello")[1].finish != "error"


@pytest.mark.parametrize("opened", [True, False])
def test_a_trigger_inside_a_thought_wakes_nothing(tiny: Runner, opened: bool) -> None:
    lazy = Grammar('root ::= "<call>x</call>"', lazy=True, triggers=("<call>",))
    marks = ThoughtMarks("<think>", "</think>", open=opened)
    lead = "" if opened else "<think>"
    thought = lead + "I might <call> it. </think>"
    prefix = tuple(tiny.model.tokenize(thought + "<call>", parse_special=True))
    text, ended = tiny.run("hello", WILD, grammar=lazy, prefix=prefix, thought=marks, shown_specials=None)
    assert ended.finish == "stop", ended.error
    assert text.startswith(thought + "<call>x</call>")


def test_the_end_of_a_thought_can_be_the_trigger(tiny: Runner) -> None:
    lazy = Grammar('root ::= "</think>" " "? [0-9]{3}', lazy=True, triggers=("</think>",))
    marks = ThoughtMarks("<think>", "</think>", open=True)
    prefix = tuple(tiny.model.tokenize("hm <x></think>", parse_special=True))
    text, ended = tiny.run("hello", WILD, grammar=lazy, prefix=prefix, thought=marks)
    assert ended.finish == "stop", ended.error
    assert text.removeprefix("hm <x></think>").strip().isdigit()


def test_text_behind_a_trigger_in_one_token_is_drawn_again(tiny: Runner) -> None:
    """A grammar that allows nothing but its own next character, whatever token completes the trigger."""
    lazy = Grammar('root ::= "e" "!"', lazy=True, triggers=("e",))
    stopped = 0
    for seed in range(20):
        config = GenerationConfig(temperature=2.0, top_k=0, seed=seed)
        text, ended = tiny.run("hello", config, grammar=lazy)
        assert ended.finish in ("stop", "length"), ended.error
        if ended.finish == "stop" and "e" in text:
            stopped += 1
            assert text.endswith("e!")
    assert stopped

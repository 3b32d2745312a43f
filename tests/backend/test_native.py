"""The wrapper around llama.cpp: its import, its log, its callbacks, its memory operations."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from backend import native
from backend.native import AbortFlag, Batch, Context, ContextParams, Model, NativeLog
from tests import tiny_gguf

ROOT = Path(__file__).parents[2]


def python(code: str, *args: str, path: tuple[Path, ...] = ()) -> subprocess.CompletedProcess[bytes]:
    """Run code in a fresh interpreter from the checkout."""
    places = [str(place) for place in (*path, ROOT)]
    head = f"import sys; sys.path[:0] = {places!r}\n"
    return subprocess.run(
        [sys.executable, "-c", head + code, *args], capture_output=True, timeout=60, check=False
    )


@pytest.fixture(scope="module")
def model(tiny_llama: Path) -> Model:
    loaded = Model.load(tiny_llama)
    assert loaded is not None
    return loaded


class Cells:
    """A context of two slots with a batch, for tests of memory operations."""

    def __init__(self, model: Model) -> None:
        self.context = Context(model, ContextParams(n_ctx=512, n_seq_max=2, n_batch=64, n_threads=1))
        self.batch = Batch(64)

    def read(self, slot: int, start: int, tokens: list[int]) -> list[float]:
        self.batch.clear()
        row = self.batch.add(slot, start, tokens, outputs=1)
        assert self.context.decode(self.batch) == 0
        return list(self.context.logits(row))


@pytest.fixture
def cells(model: Model) -> Cells:
    return Cells(model)


class TestImport:
    def test_it_brings_neither_numpy_nor_the_package(self) -> None:
        done = python("import backend.native; print('numpy' in sys.modules, 'llama_cpp' in sys.modules)")
        assert done.stdout.split() == [b"False", b"False"], done.stderr

    def test_somebody_else_can_still_import_the_package(self) -> None:
        done = python(
            "import backend.native, llama_cpp\n"
            "print(llama_cpp.Llama.__name__, llama_cpp.llama_cpp is backend.native.C, llama_cpp.__version__)"
        )
        assert done.stdout.split()[:2] == [b"Llama", b"True"], done.stderr

    def test_a_package_that_was_imported_before_is_used(self) -> None:
        done = python("import llama_cpp, backend.native; print(backend.native.C is llama_cpp.llama_cpp)")
        assert done.stdout.split() == [b"True"], done.stderr

    @pytest.mark.parametrize("version", ["0.3.35", "0.4.0", "1.0.0", "unknown"])
    def test_another_version_is_refused_with_the_install_line(self, tmp_path: Path, version: str) -> None:
        self._package(tmp_path, version)
        done = python("import backend.native", path=(tmp_path,))
        assert b"ImportError" in done.stderr
        assert native.INSTALL_LINE.encode() in done.stderr

    @pytest.mark.parametrize("version", ["0.3.36", "0.3.99"])
    def test_tested_versions_are_taken(self, tmp_path: Path, version: str) -> None:
        self._package(tmp_path, version)
        native._check_version(tmp_path / "llama_cpp")

    def test_a_library_that_does_not_load_is_refused_with_the_install_line(self, tmp_path: Path) -> None:
        self._package(tmp_path, "0.3.36")
        (tmp_path / "llama_cpp/llama_cpp.py").write_text("raise OSError('libggml.so: wrong ELF class')")
        done = python("import backend.native", path=(tmp_path,))
        assert b"wrong ELF class" in done.stderr
        assert native.INSTALL_LINE.encode() in done.stderr

    def test_a_missing_package_is_named_with_the_install_line(self) -> None:
        done = python(
            "import importlib.util\n"
            "real = importlib.util.find_spec\n"
            "importlib.util.find_spec = lambda name, *a: None if name == 'llama_cpp' else real(name, *a)\n"
            "import backend.native"
        )
        assert b"llama-cpp-python is not installed" in done.stderr
        assert native.INSTALL_LINE.encode() in done.stderr

    def test_a_missing_function_is_named_with_the_install_line(self) -> None:
        bindings = {name: object() for name in native._FUNCTIONS if name != "llama_memory_seq_cp"}
        fields = [(name, int) for name in native._CONTEXT_FIELDS if name != "swa_full"]
        bindings["llama_context_params"] = SimpleNamespace(_fields_=fields)
        with pytest.raises(ImportError) as caught:
            native._check_symbols(SimpleNamespace(**bindings))
        for part in ("llama_memory_seq_cp", "swa_full", native.INSTALL_LINE):
            assert part in str(caught.value)

    def test_every_function_that_is_called_is_checked_for(self) -> None:
        home = Path(native.__file__)
        sources = [
            path.read_text() for path in (home, home.parent / "samplers.py", *home.parent.glob("engine/*.py"))
        ]
        named = {name for source in sources for name in re.findall(r"\bC\.(llama_\w+)", source)}
        called = {name for name in named if not isinstance(getattr(native.C, name), type)}
        assert "llama_decode" in called
        assert called <= set(native._FUNCTIONS)

    @staticmethod
    def _package(folder: Path, version: str) -> None:
        (folder / "llama_cpp").mkdir()
        (folder / "llama_cpp/__init__.py").write_text(f'__version__ = "{version}"\n')
        (folder / "llama_cpp/llama_cpp.py").write_text("")


class TestLog:
    def test_nothing_reaches_the_standard_streams(self, tiny_llama: Path, tmp_path: Path) -> None:
        done = python(
            """
from pathlib import Path
from backend import native
native.log.to_file(Path(sys.argv[2]))
model = native.Model.load(sys.argv[1])
context = native.Context(model, native.ContextParams(n_ctx=256))
batch = native.Batch(8)
batch.add(0, 0, [1, 2, 3], outputs=1)
assert context.decode(batch) == 0
assert native.Model.load(sys.argv[2]) is None
context.close(); model.close()
""",
            str(tiny_llama),
            str(tmp_path / "state/native.log"),
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        written = (tmp_path / "state/native.log").read_text()
        assert "llama_model_loader" in written
        assert "failed" in written

    def test_without_a_file_it_stays_in_memory(self, tiny_llama: Path) -> None:
        native.log.recent.clear()
        model = Model.load(tiny_llama)
        assert model
        model.close()
        assert native.log.tail(3)
        assert len(native.log.recent) <= 400

    def test_the_file_is_private_and_appended_to(self, tmp_path: Path) -> None:
        path = tmp_path / "deep/native.log"
        for text in (b"one\n", b"two\n"):
            log = NativeLog()
            log.to_file(path)
            log.write(text)
            log.to_file(None)
            log.write(b"not this\n")
        assert path.read_bytes() == b"one\ntwo\n"
        assert path.stat().st_mode & 0o777 == 0o600

    def test_a_long_file_starts_over(self, tmp_path: Path) -> None:
        path = tmp_path / "native.log"
        path.write_bytes(b"x" * 100)
        log = NativeLog()
        log.to_file(path, limit_bytes=99)
        log.write(b"new\n")
        log.to_file(None)
        assert path.read_bytes() == b"new\n"

    def test_bytes_that_are_no_text_are_kept_readable(self) -> None:
        log = NativeLog()
        log.write(b"bad \xff byte")
        assert log.tail() == "bad � byte"


class TestProgress:
    def test_it_goes_from_nothing_to_all(self, tiny_llama: Path) -> None:
        seen: list[float] = []
        model = Model.load(tiny_llama, progress=lambda fraction: seen.append(fraction) or True)
        assert model is not None
        model.close()
        assert seen == sorted(seen)
        assert seen[-1] == 1.0

    def test_false_cancels_the_load(self, tiny_llama: Path) -> None:
        assert Model.load(tiny_llama, progress=lambda _: False) is None

    def test_an_exception_in_it_comes_out_of_the_load(self, tiny_llama: Path) -> None:
        with pytest.raises(ZeroDivisionError):
            Model.load(tiny_llama, progress=lambda _: bool(1 // 0))

    def test_even_one_at_the_very_end(self, tiny_llama: Path) -> None:
        def interrupt(fraction: float) -> bool:
            if fraction == 1.0:
                raise KeyboardInterrupt
            return True

        with pytest.raises(KeyboardInterrupt):
            Model.load(tiny_llama, progress=interrupt)


class TestModel:
    def test_what_llama_cpp_refuses_is_none_with_reasons(self, tmp_path: Path) -> None:
        (tmp_path / "no.gguf").write_bytes(b"GGUFnothing")
        assert Model.load(tmp_path / "no.gguf") is None
        assert native.log.tail()

    def test_closing_twice_is_harmless(self, tiny_llama: Path) -> None:
        model = Model.load(tiny_llama)
        assert model
        model.close()
        model.close()
        assert model.handle is None

    def test_text_becomes_tokens_and_their_bytes_the_text(self, model: Model) -> None:
        text = "the thing 🌿 is\n\x00 on"
        tokens = model.tokenize(text)
        assert b"".join(map(model.piece, tokens)) == text.encode()
        assert model.tokenize("") == []

    def test_control_tokens_are_text_unless_asked_for(self, model: Model) -> None:
        assert len(model.tokenize("<|im_end|>", parse_special=True)) == 1
        assert model.eos not in model.tokenize("<|im_end|>")

    def test_lone_surrogates_are_replaced(self, model: Model) -> None:
        assert b"".join(map(model.piece, model.tokenize("a\udcffb"))) == b"a?b"

    def test_special_and_end_tokens(self, model: Model) -> None:
        texts = {model.token_text(token) for token in model.special_tokens}
        assert texts == {*tiny_gguf.CONTROL_TOKENS, *tiny_gguf.USER_TOKENS}
        ends = {model.token_text(token) for token in range(model.n_vocab) if model.is_eog(token)}
        assert ends == set(tiny_gguf.EOG_TOKENS)
        assert model.token_text(-1) == ""

    def test_metadata_and_template(self, model: Model) -> None:
        assert model.metadata("general.name") == "Tiny llama"
        assert model.metadata("no.such.key") is None
        assert model.chat_template() == tiny_gguf.CHATML

    @pytest.mark.parametrize(
        ("kind", "can_cut", "window"),
        [
            ("tiny_llama", True, 0),
            ("tiny_gemma3", True, 32),
            ("tiny_recurrent", False, 0),
            ("tiny_hybrid", False, 0),
        ],
    )
    def test_what_its_memory_can_do(
        self, kind: str, can_cut: bool, window: int, request: pytest.FixtureRequest
    ) -> None:
        model = Model.load(request.getfixturevalue(kind))
        assert model
        assert (model.can_cut, model.n_swa) == (can_cut, window)
        model.close()


class TestAbort:
    def test_a_raised_flag_ends_a_decode_and_a_cleared_one_does_not(self, cells: Cells) -> None:
        cells.batch.add(0, 0, [1, 2, 3], outputs=1)
        cells.context.abort.raise_()
        assert cells.context.decode(cells.batch) == 2
        assert cells.context.highest(0) == -1
        cells.context.abort.clear()
        assert cells.context.decode(cells.batch) == 0
        assert cells.context.highest(0) == 2

    def test_the_callback_is_what_the_flag_says(self) -> None:
        flag = AbortFlag()
        assert not flag.callback(flag.data)
        flag.raise_()
        assert flag.callback(flag.data)


class TestMemory:
    def test_dropping_a_tail_gives_the_logits_of_a_fresh_prompt(self, model: Model, cells: Cells) -> None:
        cells.read(0, 0, [1, 2, 3, 4, 5, 6])
        cells.context.drop(0, 3)
        assert (cells.context.lowest(0), cells.context.highest(0)) == (0, 2)
        cut = cells.read(0, 3, [9, 10])
        assert cut == pytest.approx(Cells(model).read(0, 0, [1, 2, 3, 9, 10]), abs=1e-3)

    def test_a_copy_is_a_slot_of_its_own(self, cells: Cells) -> None:
        cells.read(0, 0, [1, 2, 3, 4])
        cells.context.copy(0, 1)
        assert cells.read(1, 4, [5, 6]) == pytest.approx(cells.read(0, 4, [5, 6]), abs=1e-3)
        cells.context.wipe(0)
        assert (cells.context.highest(0), cells.context.highest(1)) == (-1, 5)


class TestContext:
    def test_closing_twice_is_harmless(self, cells: Cells) -> None:
        cells.context.close()
        cells.context.close()
        assert cells.context.handle is None

    def test_each_slot_has_its_own_cells(self, cells: Cells) -> None:
        assert cells.context.cells_per_slot == 256

    def test_what_cannot_be_built_is_a_memory_error(self, model: Model) -> None:
        with pytest.raises(MemoryError):
            Context(model, ContextParams(n_ctx=512, n_seq_max=100_000))

    def test_a_batch_writes_runs_one_behind_another(self) -> None:
        batch = Batch(8)
        assert batch.add(0, 5, [1, 2, 3], outputs=1) == 2
        assert batch.add(1, 0, [4], outputs=0) == 3
        assert batch.rows == batch.raw.n_tokens == 4
        assert list(batch.token[:4]) == [1, 2, 3, 4]
        assert list(batch.pos[:4]) == [5, 6, 7, 0]
        assert list(batch.seq_id[:4]) == [0, 0, 0, 1]
        assert list(batch.output[:4]) == [0, 0, 1, 0]
        batch.clear()
        assert batch.raw.n_tokens == 0


def test_the_cpu_is_among_the_devices() -> None:
    assert any(device.kind == "cpu" and device.total_bytes > 0 for device in native.devices())
    assert "CPU" in native.system_info()


def _openmp_settings(**variables: str) -> tuple[str, str]:
    """What GNU OpenMP says of itself when the engine's library loads, and whether our variable is left."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("OMP_", "GOMP_"))}
    done = subprocess.run(
        [sys.executable, "-c", "import backend.native, os; print(os.environ.get('GOMP_SPINCOUNT'))"],
        env=kept | variables | {"OMP_DISPLAY_ENV": "VERBOSE"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    if "GOMP_SPINCOUNT" not in done.stderr:
        pytest.skip("this build of llama.cpp does not wait by GNU OpenMP")
    return done.stderr, done.stdout.strip()


def test_threads_that_wait_for_each_other_sleep_soon() -> None:
    told, left = _openmp_settings()
    assert f"GOMP_SPINCOUNT = '{native.SPINS}'" in told
    assert left == "None", "the variable is not handed to programs that this one starts"


def test_a_persons_own_way_of_waiting_is_obeyed() -> None:
    told, left = _openmp_settings(GOMP_SPINCOUNT="77")
    assert "GOMP_SPINCOUNT = '77'" in told
    assert left == "77"
    assert f"GOMP_SPINCOUNT = '{native.SPINS}'" not in _openmp_settings(OMP_WAIT_POLICY="active")[0]

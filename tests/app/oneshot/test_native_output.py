"""What native code prints, at once, from C's buffer or at its end, is no part of an answer."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app import paths
from tests.app.process import ROOT

SOURCE = """
#include <stdio.h>
#include <unistd.h>
void speak(void) {
    printf("printf-noise\\n");
    fprintf(stderr, "stderr-noise\\n");
    if (write(1, "one-noise\\n", 10) + write(2, "two-noise\\n", 10)) {}
}
__attribute__((destructor)) static void leave(void) { printf("late-noise\\n"); fflush(stdout); }
"""
PROGRAM = """
import ctypes, sys
sys.path.insert(0, {root!r})
noisy = ctypes.CDLL({library!r})
import fireside
from backend import native

decode = native.Context.decode

def aloud(self, *args, **fields):
    noisy.speak()
    return decode(self, *args, **fields)

native.Context.decode = aloud
sys.argv = ["fireside", *sys.argv[1:]]
sys.exit(fireside.main())
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("there is no C compiler to build a library with")
    folder = tmp_path_factory.mktemp("noisy")
    (folder / "noisy.c").write_text(SOURCE)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", "noisy.so", "noisy.c"], cwd=folder, check=True)
    return folder / "noisy.so"


@pytest.mark.parametrize("form", ["text", "json", "jsonl"])
def test_a_library_that_prints_leaves_the_answer_alone(library: Path, tiny_llama: Path, form: str) -> None:
    program = PROGRAM.format(root=str(ROOT), library=str(library))
    flags = ["-m", str(tiny_llama), "-p", "hi", "--max-tokens", "4", "--temperature", "0", "--format", form]
    quiet = subprocess.run(
        [sys.executable, str(ROOT / "fireside.py"), *flags], capture_output=True, timeout=60
    )
    loud = subprocess.run([sys.executable, "-c", program, *flags], capture_output=True, timeout=60)
    assert loud.returncode == 0
    assert b"noise" not in loud.stdout + loud.stderr
    if form == "text":
        assert loud.stdout == quiet.stdout
    log = (paths.state_dir() / "native.log").read_text(errors="replace")
    assert all(f"{word}-noise" in log for word in ("printf", "stderr", "one", "two", "late"))


def test_a_reader_that_leaves_early_is_no_error(library: Path, tiny_llama: Path) -> None:
    program = PROGRAM.format(root=str(ROOT), library=str(library))
    flags = ["-m", str(tiny_llama), "-p", "hi", "--max-tokens", "64", "--set", "ignore_eos=true"]
    with subprocess.Popen(
        [sys.executable, "-c", program, *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from app.terminal.fd_guard import LOG_BYTES
from tests.app.terminal_process import ROOT, Terminal

pytestmark = pytest.mark.timeout(60)

SCRIPT = """
import os, shutil, subprocess, sys
from pathlib import Path
from app.terminal.fd_guard import FdGuard

def draw(text):
    sys.__stderr__.write(text)
    sys.__stderr__.flush()

open_before = len(os.listdir("/proc/self/fd"))
before = [os.readlink(f"/proc/self/fd/{number}") for number in (1, 2)]
with FdGuard(Path(sys.argv[1])) as guard:
    os.write(1, b"native out")
    os.system("echo native error >&2")
    print("python out", flush=True)
    saved, hole = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(hole, 1)
    os.dup2(hole, 2)
    draw("drawn while a loader is quiet\\n")
    os.dup2(saved, 2)
    draw(f"{shutil.get_terminal_size()}\\n")
    out, err = guard.terminal
    subprocess.run(["sh", "-c", "echo a program has the terminal"], stdout=out, stderr=err, check=True)
    os.write(2, b"native end")
print("after", flush=True)
assert before == [os.readlink(f"/proc/self/fd/{number}") for number in (1, 2)]
os.close(saved)
os.close(hole)
assert len(os.listdir("/proc/self/fd")) == open_before
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_native_output_goes_to_the_log_and_frames_to_the_terminal(tmp_path: Path) -> None:
    log = tmp_path / "state" / "native.log"
    log.parent.mkdir()
    log.write_bytes(b"x" * (LOG_BYTES + 1))
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "TERM": "xterm"}
    with Terminal([sys.executable, "-c", SCRIPT, str(log)], environ, columns=97, rows=31) as terminal:
        assert terminal.wait() == 0, terminal.text
        assert terminal.text.split("\n")[:4] == [
            "drawn while a loader is quiet",
            "os.terminal_size(columns=97, lines=31)",
            "a program has the terminal",
            "after",
        ]
    written = log.read_text()
    assert written == "native outnative error\npython out\nnative end"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_it_draws_on_the_output_that_is_a_terminal(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "TERM": "xterm"}
    script = f'exec {sys.executable} -c "$0" {tmp_path}/native.log 2> {tmp_path}/errors'
    with Terminal(["sh", "-c", script, SCRIPT], environ) as terminal:
        assert terminal.wait() == 0, terminal.text
        assert terminal.text.startswith("drawn while a loader is quiet")
    assert "native end" in (tmp_path / "native.log").read_text()
    assert (tmp_path / "errors").read_text() == ""

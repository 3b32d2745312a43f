"""llama.cpp as it is installed: loaded in a child process, because a build that does not fit this
processor ends the process that loads it."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from app.doctor.check import Check
from app.terminal.figures import gib_of

INDEX = "https://abetlen.github.io/llama-cpp-python/whl"
CUDA_WHEELS = ((11, 8), (12, 1), (12, 2), (12, 3), (12, 4), (12, 5), (13, 0), (13, 2))
"""The CUDA versions that built wheels exist for."""
WHEEL_PYTHONS = ((3, 10), (3, 11), (3, 12))
_CHILD = "import sys; sys.path[:] = {path!r}; from app.doctor.engine import main; main()"
_TIMEOUT_S = 60
_OPTIONS = {"cuda": "CUDA", "metal": "METAL", "rocm": "HIP", "vulkan": "VULKAN"}
"""What ggml's build calls the software of each kind of GPU."""
_TOOLKITS = {
    "cuda": "NVIDIA's CUDA toolkit",
    "metal": "the command line tools of Xcode",
    "rocm": "AMD's ROCm",
    "vulkan": "the Vulkan SDK",
}
GPU_KINDS = {
    "cuda": "NVIDIA (CUDA)",
    "metal": "Apple (Metal)",
    "rocm": "AMD (ROCm)",
    "vulkan": "others (Vulkan)",
}
"""Kinds of GPU software, and what a person calls them."""
_FEATURES = {
    "AVX2": "avx2",
    "FMA": "fma",
    "F16C": "f16c",
    "AVX512": "avx512f",
    "AVX512_VNNI": "avx512_vnni",
    "AVX_VNNI": "avx_vnni",
}
"""What llama.cpp calls a processor's feature, and what Linux calls it."""


def checks() -> Iterator[Check]:
    """llama.cpp, its processor features, the devices it sees, and a GPU that it does not use."""
    told = look()
    if problem := told.get("problem"):
        yield Check("llama.cpp", "problem", str(problem), str(told.get("remedy", "")))
        yield from _gpu(False, machine_gpus())
        return
    backends = ", ".join(dict.fromkeys(device["kind"] for device in told["devices"])) or "none"
    yield Check(
        "llama.cpp",
        "ok",
        f"llama-cpp-python {told['version']}, devices of kind {backends}",
        facts={"version": told["version"], "gpu_offload": told["gpu_offload"]},
    )
    yield _features(told["system_info"], processor_flags())
    for device in told["devices"]:
        free, total = device["free_bytes"], device["total_bytes"]
        memory = f"{gib_of(free, total)} free" if total else "memory unknown"
        yield Check("device", "ok", f"{device['name']} ({device['description']}), {memory}", facts=device)
    yield from _gpu(told["gpu_offload"], machine_gpus())


def look() -> dict[str, Any]:
    """What the installed llama.cpp says of itself, or `problem` and `remedy`."""
    try:
        ended = subprocess.run(
            [sys.executable, "-I", "-c", _CHILD.format(path=sys.path)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            env={**os.environ, "GGML_NO_BACKTRACE": "1"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"problem": f"loading it took over {_TIMEOUT_S} s", "remedy": reinstall(())}
    if ended.returncode == -signal.SIGILL:
        return {
            "problem": "it was built for a newer processor and crashes with an illegal instruction",
            "remedy": f"Build it here:\n{reinstall(('-DGGML_NATIVE=on',))}",
        }
    try:
        return dict(json.loads(ended.stdout))
    except ValueError:
        reason = (ended.stderr.decode("utf-8", "replace").strip().splitlines() or [""])[-1]
        return {"problem": f"it cannot be loaded ({reason or ended.returncode})", "remedy": reinstall(())}


def main() -> None:
    """The child's part: load llama.cpp and print what it says, as JSON."""
    try:
        from backend import native

        told: dict[str, Any] = {
            "version": _installed_version(),
            "system_info": native.system_info(),
            "gpu_offload": native.supports_gpu_offload(),
            "devices": [vars(device) for device in native.devices()],
        }
    except ImportError as err:
        what, _, remedy = str(err).partition(" Install ")
        told = {"problem": what, "remedy": f"Install {remedy}" if remedy else reinstall(())}
    json.dump(told, sys.stdout)


def reinstall(options: Sequence[str], index: str = "") -> str:
    """The line that installs llama-cpp-python anew: built with these CMake options, or from an index."""
    arguments = f'CMAKE_ARGS="{" ".join(options)}" ' if options else ""
    extra = (
        f" --only-binary llama-cpp-python --extra-index-url {INDEX}/{index}"
        if index
        else " --no-binary llama-cpp-python"
    )
    return (
        f"{arguments}{sys.executable} -m pip install --force-reinstall --no-cache-dir --no-deps"
        f"{extra} 'llama-cpp-python>=0.3.36,<0.4'"
    )


def gpu_lines(kind: str, cuda: tuple[int, int] | None = None) -> str:
    """How llama-cpp-python is had for a kind of GPU: a built wheel where there is one, and the build.

    `kind` is cuda, metal, rocm or vulkan; `cuda` the newest CUDA version that the driver takes.
    """
    option = _OPTIONS[kind]
    build = reinstall((f"-DGGML_{option}=on",))
    index = {"metal": "metal", "rocm": "rocm72", "vulkan": "vulkan"}.get(kind, "")
    if cuda is not None and (
        fitting := [each for each in CUDA_WHEELS if each[0] == cuda[0] and each <= cuda]
    ):
        index = "cu{}{}".format(*fitting[-1])
    if not index or sys.version_info[:2] not in WHEEL_PYTHONS:
        return f"Build it (this needs {_TOOLKITS[kind]}):\n{build}"
    wheel = reinstall((), index)
    return f"Install a built wheel:\n{wheel}\nor build it (this needs {_TOOLKITS[kind]}):\n{build}"


def machine_gpus() -> dict[str, Any]:
    """The GPUs of this machine, as far as the system tells: kind of software to what is known of it."""
    if sys.platform == "darwin":
        return {"metal": None} if platform.machine() == "arm64" else {}
    found: dict[str, Any] = {}
    signs = ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/usr/lib/wsl/lib/libcuda.so.1")
    if any(Path(sign).exists() for sign in signs):
        found["cuda"] = _cuda_of_driver()
    if Path("/dev/kfd").exists():
        found["rocm"] = None
    if not found and any(Path("/dev/dri").glob("renderD*")):
        found["vulkan"] = None
    return found


def processor_flags() -> frozenset[str]:
    """The processor's features as Linux names them; empty elsewhere."""
    try:
        found = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return frozenset()
    return frozenset(found[1].split()) if found else frozenset()


def _installed_version() -> str:
    from importlib.metadata import version

    return version("llama-cpp-python")


def _features(system_info: str, flags: frozenset[str]) -> Check:
    used = re.findall(r"(\w+) = 1", system_info)
    missed = [name for name, flag in _FEATURES.items() if flag in flags and name not in used]
    facts = {"used": used, "missed": missed}
    text = f"the build uses {', '.join(used) or 'no special instructions'}"
    if not missed:
        return Check("processor", "ok", text, facts=facts)
    return Check(
        "processor",
        "warning",
        f"{text}, but not {', '.join(missed)}, which this processor has",
        f"Build it for this machine, which makes it faster:\n{reinstall(('-DGGML_NATIVE=on',))}",
        facts,
    )


def _gpu(offloads: bool, present: Mapping[str, Any]) -> Iterator[Check]:
    lines = {kind: gpu_lines(kind, present.get(kind)) for kind in _OPTIONS}
    facts = {"offload": offloads, "present": sorted(present), "install": lines}
    if offloads:
        yield Check("GPU", "ok", "this build puts layers on a GPU", facts=facts)
    elif not present:
        text = "none found; models run on the processor (if there is one, see `fireside help gpu`)"
        yield Check("GPU", "note", text, facts=facts)
    for kind in present:
        if not offloads:
            yield Check(
                "GPU",
                "warning",
                f"there is one ({kind}), but this build of llama.cpp does not use it",
                lines[kind],
                facts,
            )


def _cuda_of_driver() -> tuple[int, int] | None:
    """The newest CUDA version that the driver takes."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    try:
        told = subprocess.run(
            [program], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"CUDA Version:\s*(\d+)\.(\d+)", told)
    return (int(found[1]), int(found[2])) if found else None

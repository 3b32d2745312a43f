"""`fireside models info, pull, plan, verify, rm, use`: what each prints and asks. The index, the hub and
the memory plan do the work."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.exits import ExitCode, Failure, usage
from app.terminal import is_terminal, notify, sanitize, takes_styles

if TYPE_CHECKING:
    from backend.gguf import GGUFInfo
    from backend.hub import Offer

_METER_PERIOD_S = 0.1


def info(name: str | None, *, as_json: bool) -> ExitCode:
    """Print what a model's file says of it, under the name that the list gives it."""
    from backend.gguf import read_gguf
    from backend.loading import find_model

    found = read_gguf(find_model(name))
    fields = {"name": _listed_name(found.path), **_facts(found)}
    if as_json:
        print(json.dumps(fields))
    else:
        _print_fields(fields)
    return ExitCode.ANSWERED


def plan(name: str | None, *, slots: int, ctx: int | None, as_json: bool) -> ExitCode:
    """Print what a load would take of each device, and the largest context that fits."""
    from backend.handle import LoadOptions, plan_load
    from backend.loading import check_file, find_model

    found = check_file(find_model(name))
    made = plan_load(found, LoadOptions(slots=slots, max_seq=ctx))
    devices = [
        {
            "name": device.name,
            "layers": device.layers,
            "weights_bytes": device.weights_bytes,
            "kv_cache_bytes": device.kv_cache_bytes,
            "compute_bytes": device.compute_bytes,
            "free_bytes": device.free_bytes,
            "fits": not device.free_bytes or device.total_bytes <= device.free_bytes,
        }
        for device in made.devices
    ]
    fields: dict[str, Any] = {
        "model": found.path.stem,
        "context": made.max_seq,
        "trained_context": found.n_ctx_train,
        "slots": made.slots,
        "flash_attention": made.flash_attn,
        "devices": devices,
        "notes": list(made.notes),
    }
    if as_json:
        print(json.dumps(fields))
        return ExitCode.ANSWERED
    print(sanitize(f"{found.path.stem}: {made.slots} x {made.max_seq} tokens of context"))
    for device in made.devices:
        parts = (
            f"weights {_size(device.weights_bytes)}, cache {_size(device.kv_cache_bytes)}, "
            f"compute {_size(device.compute_bytes)}"
        )
        free = f" of {_size(device.free_bytes)} free" if device.free_bytes else ""
        print(sanitize(f"  {device.name}: {_size(device.total_bytes)}{free} ({parts})"))
    for note in made.notes:
        print(sanitize(f"  {note}"))
    return ExitCode.ANSWERED


def pull(name: str, *, yes: bool, projector: bool) -> ExitCode:
    """Fetch a model from the hub, after showing what it takes; without a terminal only with `yes`."""
    from backend import hub

    try:
        wanted = hub.offer(name, projector=projector)
        _show_offer(wanted)
        if wanted.missing_bytes and not yes and not _agreed("Fetch it?"):
            raise Failure(
                "not_confirmed",
                "Nothing was fetched.",
                remedy=f"Say yes beforehand: fireside models pull {name} --yes",
                exit_code=ExitCode.FAILED,
            )
        path = hub.pull(wanted, _Meter())
    except hub.HubError as err:
        raise Failure("hub", str(err), remedy=err.remedy, exit_code=ExitCode.NO_MODEL) from err
    print(sanitize(str(path)))
    return ExitCode.ANSWERED


def verify(name: str | None) -> ExitCode:
    """Hash a pulled model's files against what the hub said."""
    from backend import hub
    from backend.loading import find_model

    words = {True: "ok", False: "DAMAGED", None: "no hash is known"}
    results = list(hub.verify(find_model(name)))
    for path, good in results:
        print(sanitize(f"{path.name}: {words[good]}"))
    return ExitCode.NO_MODEL if any(good is False for _, good in results) else ExitCode.ANSWERED


def remove(name: str, *, yes: bool) -> ExitCode:
    """Delete a model of the own folder; the question is asked only where that is possible."""
    from backend import hub
    from backend.loading import find_model

    path = find_model(name)
    _require_own(path)
    if not yes and not _agreed(f"Delete {path}?"):
        raise Failure(
            "not_confirmed",
            "Nothing was deleted.",
            remedy=f"Say yes beforehand: fireside models rm {name} --yes",
            exit_code=ExitCode.FAILED,
        )
    try:
        removed = hub.remove(path)
    except hub.HubError as err:
        raise usage(str(err), err.remedy) from err
    for part in removed:
        print(sanitize(f"deleted {part}"))
    return ExitCode.ANSWERED


def use(name: str) -> ExitCode:
    """Make a model that can be loaded the default: its name goes into the settings file."""
    from app.config import store
    from backend.loading import check_file, find_model

    path = find_model(name)
    check_file(path)
    value = str(path.resolve()) if Path(name).expanduser().exists() else name
    _, file = store("model", value)
    print(sanitize(f"model is set to {value} in {file}"))
    return ExitCode.ANSWERED


def _require_own(path: Path) -> None:
    """A usage failure for a model that is not Fireside's to delete, with the way to do it."""
    from backend.models import STARTER_PACKAGE, own_folder, starter_model

    folder = own_folder()
    if path.resolve().is_relative_to(folder.resolve()):
        return
    remedy = "Delete it with the program it belongs to."
    if path == starter_model():
        remedy = f"It is part of a package: pip uninstall {STARTER_PACKAGE.replace('_', '-')}"
    raise usage(f"{path} is not in Fireside's own model folder, {folder}; nothing was deleted.", remedy)


def _listed_name(path: Path) -> str:
    """What `models list` calls the model at `path`; the file's own name where it is not listed."""
    from backend.models import find_files

    real = path.resolve()
    return next((file.name for file in find_files() if file.path.resolve() == real), path.stem)


def _facts(found: GGUFInfo) -> dict[str, Any]:
    kind = "embedding" if found.is_embedding else "chat" if found.chat_template else "base"
    return {
        "title": found.name,
        "path": str(found.path),
        "parts": len(found.parts),
        "size_bytes": found.size_bytes,
        "kind": kind if found.kind == "model" else found.kind,
        "architecture": found.architecture,
        "parameters": found.n_params,
        "quantization": found.quantization,
        "context": found.n_ctx_train,
        "layers": found.n_layer,
        "embedding_length": found.n_embd,
        "vocabulary": found.n_vocab,
        "sliding_window": found.sliding_window,
        "has_chat_template": found.chat_template is not None,
        "sampling_defaults": found.defaults.as_dict(),
        "licence": str(found.metadata.get("general.license", "")),
    }


def _print_fields(fields: dict[str, Any]) -> None:
    width = max(map(len, fields))
    for name, value in fields.items():
        shown = _size(value) if name.endswith("_bytes") else _words(value)
        print(sanitize(f"{name.removesuffix('_bytes').replace('_', ' '):<{width}}  {shown}"))


def _words(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case {}:
            return ", ".join(f"{key} {item}" for key, item in value.items()) or "-"
        case "" | None:
            return "-"
        case _:
            return str(value)


def _show_offer(wanted: Offer) -> None:
    parts = f", {len(wanted.files)} files" if len(wanted.files) > 1 else ""
    notify(
        f"{wanted.repo} {wanted.quantization}{parts}: {_size(wanted.total_bytes)}, "
        f"{_size(wanted.missing_bytes)} to fetch, {_size(wanted.free_bytes)} free; licence {wanted.licence}"
    )


def _agreed(question: str) -> bool:
    """Whether a person at the terminal says yes; nobody there means no."""
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        return False
    print(sanitize(f"{question} [y/N] "), end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


class _Meter:
    """One line of progress on a terminal; nothing elsewhere."""

    def __init__(self) -> None:
        self._rewrites = takes_styles(sys.stderr)
        self._shown = 0.0

    def __call__(self, done: int, total: int) -> bool:
        now = time.monotonic()
        if self._rewrites and (now - self._shown > _METER_PERIOD_S or done >= total):
            self._shown = now
            percent = 100 * done // total if total else 100
            end = "\n" if done >= total else ""
            sys.stderr.write(f"\r\x1b[K{percent} % of {_size(total)}{end}")
            sys.stderr.flush()
        return True


def _size(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"

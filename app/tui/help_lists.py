"""The lists that pages of help contain, made of what the program itself knows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

_PAGE_CUDA = (12, 4)
"""The CUDA version whose wheel the page of graphics cards shows, and names."""


def help_lists(keymap: Mapping[str, str] | None = None) -> dict[str, Callable[[], str]]:
    """Each list by the mark that stands for it, with the keys as `keymap` binds them."""
    return {
        "keys": lambda: _keys(keymap or {}),
        "commands": _commands,
        "settings": _settings,
        "gpu": _gpu,
    }


def _keys(keymap: Mapping[str, str]) -> str:
    from app.tui.keys import KEYS, can_be_other, shown

    rows = (
        (f"`{shown(keymap.get(key.name, key.keys))}`", key.own_help, key.name if can_be_other(key) else "")
        for key in KEYS
    )
    return _table(("key", "does", "name"), rows)


def _commands() -> str:
    from app.commands import COMMANDS

    return _table(("command", "does"), ((f"`{one.usage}`", one.help) for one in COMMANDS))


def _settings() -> str:
    from app.settings.config import environment_name
    from app.settings.kinds import wanted
    from app.settings.table import KINDS, words_of

    rows = (
        (f"`{key}`", words_of(key)[0], wanted(kind), f"`{environment_name(key)}`")
        for key, kind in KINDS.items()
    )
    return _table(("setting", "does", "is", "variable"), rows)


def _gpu() -> str:
    from app.doctor.engine import GPU_KINDS, gpu_lines

    return "\n\n".join(
        f"## {title}\n\n{_fenced(gpu_lines(kind, _PAGE_CUDA if kind == 'cuda' else None))}"
        for kind, title in GPU_KINDS.items()
    )


def _table(heading: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heading = tuple(heading)
    lines = [heading, tuple("---" for _ in heading), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in lines)


def _fenced(text: str) -> str:
    """Lines that end with a colon as words, the commands between them as code."""
    return "\n\n".join(line if line.endswith(":") else f"```sh\n{line}\n```" for line in text.splitlines())

"""`fireside tools aside`: what commands left that would become code, moved out of the workspace."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime

from app import paths
from app.cli.table import table
from app.exits import ExitCode, Failure, usage
from app.terminal.confirm import agreed
from app.terminal.output import notify, sanitize, squeezed
from tools.sandbox.aside import Aside, AsideError

_HEADINGS = ("N", "ID", "FILE", "WHAT", "WHEN", "WORKSPACE")
_ACTIONS = ("list", "show", "allow", "drop")


def act(action: str, which: str | None, *, yes: bool, as_json: bool) -> ExitCode:
    """List what was moved aside, show one, put it back or delete it; `which` is an id or a number."""
    aside = Aside(paths.data_dir() / "aside")
    if action not in _ACTIONS:
        raise usage(f"The actions are {', '.join(_ACTIONS)}, not {action!r}.")
    if action == "list":
        return _list(aside, as_json=as_json)
    if which is None:
        raise usage(f"Say which: fireside tools aside {action} ID. `fireside tools aside` lists them.")
    try:
        kept = aside.find(which)
        if action == "show":
            print(sanitize(aside.text(kept)))
        elif action == "drop":
            aside.drop(kept)
            notify(f"{kept.path} was deleted")
        else:
            question = f"{aside.text(kept)}\n\n{kept.path} becomes code in {kept.workspace}. Put it back?"
            if not yes and not agreed(question):
                raise Failure(
                    "not_confirmed",
                    "Nothing was put back.",
                    remedy="To agree beforehand, add --yes.",
                    exit_code=ExitCode.DENIED,
                )
            notify(f"{aside.allow(kept)} was put back")
    except AsideError as err:
        raise Failure("aside", str(err), exit_code=ExitCode.FAILED) from err
    return ExitCode.ANSWERED


def _list(aside: Aside, *, as_json: bool) -> ExitCode:
    found = aside.all()
    if as_json:
        print(json.dumps({"aside": [asdict(one) for one in found]}))
    elif found:
        rows = [
            (
                str(number),
                one.id,
                squeezed(one.path),
                one.reason,
                f"{datetime.fromtimestamp(one.at):%Y-%m-%d %H:%M}",
                squeezed(one.workspace),
            )
            for number, one in enumerate(found, 1)
        ]
        print("\n".join(table([_HEADINGS, *rows])))
    else:
        notify("nothing was moved aside")
    return ExitCode.ANSWERED

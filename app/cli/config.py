"""The commands of `fireside config`: what holds, where it is from, and changing it."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli.flags import settings_of
from app.cli.groups import group, lists_alone
from app.terminal.output import is_terminal, one_line

config = group("Your settings.")


@config.command("show")
def config_show(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Include settings that are not set.")] = False,
    profile: Annotated[
        str | None, typer.Option("--profile", metavar="NAME", help="With this profile.")
    ] = None,
) -> None:
    """Show each setting with its value and where it comes from."""
    import json

    from app.settings.table import KINDS

    values = settings_of({} if profile is None else {"profile": profile}).values
    rows = {key: (values[key].value, values[key].origin) for key in KINDS if key in values}
    if every:
        rows = {key: rows.get(key, (None, "default")) for key in KINDS}
    if as_json:
        print(json.dumps({key: {"value": value, "origin": origin} for key, (value, origin) in rows.items()}))
        return
    for key, (value, origin) in rows.items():
        print(one_line(f"{key} = {'(not set)' if value is None else json.dumps(value)}    # {origin}"))
    if not rows:
        print("Nothing is set: every default applies. `fireside config show --all` lists the settings.")


@config.command("set")
def config_set(key: str, value: str) -> None:
    """Set KEY to VALUE in the settings file; its comments stay."""
    from app.settings.config import TEMPLATE, full_name, parse, store
    from app.settings.text_or_file import template_origin

    if full_name(key) == "theme":
        _check_theme(value)
    name, file = store(key, value)
    taken = ""
    if name == TEMPLATE:
        taken = f", to {template_origin(parse(name, value))}"
    print(one_line(f"{name} is set in {file}{taken}"))


def _check_theme(name: str) -> None:
    from app.exits import usage
    from app.terminal.theming import ThemeError, read

    try:
        read(name)
    except ThemeError as err:
        raise usage(str(err)) from err


@config.command("unset")
def config_unset(key: str) -> None:
    """Remove KEY from the settings file; its comments stay."""
    from app.settings.config import forget

    name, file = forget(key)
    print(one_line(f"{name} is no longer set in {file}"))


@config.command("profiles")
def config_profiles(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the profiles, for --profile."""
    import json

    from app.settings.profiles import profile_names, profiles_folder

    names = profile_names()
    if as_json:
        print(json.dumps({"profiles": names, "folder": str(profiles_folder())}))
        return
    folder = one_line(str(profiles_folder()))
    print(
        "\n".join(map(one_line, names))
        or f"There are no profiles yet. A profile is a file NAME.toml in {folder}"
    )


@config.command("path")
def config_path() -> None:
    """Print the path of the settings file."""
    import sys

    from app.paths import config_file

    file = str(config_file())
    print(one_line(file) if is_terminal(sys.stdout) else file)


lists_alone(config, config_show)

"""The commands of `fireside models`: what each takes. The bodies are elsewhere."""

from __future__ import annotations

from typing import Annotated

import typer

from app.characters import quote
from app.cli.flags import Given, settings_of
from app.cli.groups import group, lists_alone
from app.exits import usage
from app.models.suggested import rows

models = group("The models on this machine.")

_Name = Annotated[str | None, typer.Argument(help="A file, a folder or a name.")]
_Model = Annotated[str | None, typer.Option("--model", "-m", help="The same, as for a chat.")]


def _meant(ctx: typer.Context, name: str | None, model: str | None) -> str | None:
    """The model a person means: named here, or before the command, or the one of the settings."""
    before: Given = ctx.obj or {}
    if name is not None and model is not None:
        raise usage(f"Two models were named, {quote(name)} and {quote(model)}.", "Name one of them.")
    return name or model or settings_of(before).get("model")


@models.command("list")
def models_list(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the models found on this machine."""
    from app.cli.model_list import show

    raise typer.Exit(show(as_json=as_json))


@models.command("info")
def models_info(
    ctx: typer.Context,
    name: _Name = None,
    model: _Model = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what a model's file says about it."""
    from app.cli import model_commands

    raise typer.Exit(model_commands.info(_meant(ctx, name, model), as_json=as_json))


@models.command("plan")
def models_plan(
    ctx: typer.Context,
    name: _Name = None,
    model: _Model = None,
    slots: Annotated[int, typer.Option("--slots", help="Replies that can decode at the same time.")] = 1,
    size: Annotated[int | None, typer.Option("--ctx", help="Context window in tokens.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show how much memory a model would take on each device, and the context that fits."""
    from app.cli import model_commands

    raise typer.Exit(model_commands.plan(_meant(ctx, name, model), slots=slots, ctx=size, as_json=as_json))


@models.command("pull", epilog="\b\nGood models by the memory of this machine:\n  " + "\n  ".join(rows()))
def models_pull(
    name: Annotated[
        str, typer.Argument(help="user/repo or user/repo:QUANTIZATION, on the Hugging Face Hub.")
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Fetch without asking.")] = False,
    projector: Annotated[bool, typer.Option(help="Fetch the projector for pictures too.")] = True,
) -> None:
    """Fetch a model into Fireside's own folder."""
    from app.cli import model_commands

    raise typer.Exit(model_commands.pull(name, yes=yes, projector=projector))


@models.command("ps")
def models_ps(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List running Firesides that have a model loaded."""
    from app.cli import model_commands

    raise typer.Exit(model_commands.show_running(as_json=as_json))


@models.command("stop")
def models_stop(
    name: Annotated[
        str | None, typer.Argument(metavar="[MODEL|PID]", help="As `models ps` lists it.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Stop every one.")] = False,
) -> None:
    """Stop running Firesides cleanly, which unloads their models."""
    from app.cli import model_commands

    raise typer.Exit(model_commands.stop_running(name, every=every))


@models.command("verify")
def models_verify(
    ctx: typer.Context,
    name: _Name = None,
    model: _Model = None,
) -> None:
    """Check a pulled model against the hashes the hub gave."""
    from app.cli import model_commands

    raise typer.Exit(model_commands.verify(_meant(ctx, name, model)))


@models.command("rm")
def models_rm(
    name: Annotated[str, typer.Argument(help="A model in Fireside's own folder.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
) -> None:
    """Delete a model from Fireside's own folder."""
    from app.cli import model_commands

    raise typer.Exit(model_commands.remove(name, yes=yes))


@models.command("use")
def models_use(name: Annotated[str, typer.Argument(help="A file, a folder or a name.")]) -> None:
    """Make a model the default."""
    from app.cli import model_commands

    raise typer.Exit(model_commands.use(name))


lists_alone(models, models_list)

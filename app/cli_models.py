"""The commands of `fireside models`: what each takes. The bodies are elsewhere."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli_groups import group

models = group("The models on this machine.")


@models.command("list")
def models_list(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the models found on this machine."""
    from app.model_list import show

    raise typer.Exit(show(as_json=as_json))


@models.command("info")
def models_info(
    name: Annotated[str | None, typer.Argument(help="A file, a folder or a name.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what a model's file says of it."""
    from app import model_commands

    raise typer.Exit(model_commands.info(name, as_json=as_json))


@models.command("plan")
def models_plan(
    name: Annotated[str | None, typer.Argument(help="A file, a folder or a name.")] = None,
    slots: Annotated[int, typer.Option("--slots", help="Replies that can decode at the same time.")] = 1,
    ctx: Annotated[int | None, typer.Option("--ctx", help="Context window in tokens.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what loading a model would take of each device, and the context that fits."""
    from app import model_commands

    raise typer.Exit(model_commands.plan(name, slots=slots, ctx=ctx, as_json=as_json))


@models.command("pull")
def models_pull(
    name: Annotated[
        str, typer.Argument(help="user/repo or user/repo:QUANTIZATION, on the Hugging Face Hub.")
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Fetch without asking.")] = False,
    projector: Annotated[bool, typer.Option(help="Fetch the projector for pictures too.")] = True,
) -> None:
    """Fetch a model into Fireside's own folder."""
    from app import model_commands

    raise typer.Exit(model_commands.pull(name, yes=yes, projector=projector))


@models.command("ps")
def models_ps(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the running Firesides that have a model loaded."""
    from app import model_commands

    raise typer.Exit(model_commands.show_running(as_json=as_json))


@models.command("stop")
def models_stop(
    name: Annotated[
        str | None, typer.Argument(metavar="[MODEL|PID]", help="As `models ps` lists it.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Stop every one.")] = False,
) -> None:
    """End running Firesides in good order, which frees their models."""
    from app import model_commands

    raise typer.Exit(model_commands.stop_running(name, every=every))


@models.command("verify")
def models_verify(
    name: Annotated[str | None, typer.Argument(help="A file, a folder or a name.")] = None,
) -> None:
    """Check a pulled model against the hashes the hub gave."""
    from app import model_commands

    raise typer.Exit(model_commands.verify(name))


@models.command("rm")
def models_rm(
    name: Annotated[str, typer.Argument(help="A model of Fireside's own folder.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
) -> None:
    """Delete a model of Fireside's own folder."""
    from app import model_commands

    raise typer.Exit(model_commands.remove(name, yes=yes))


@models.command("use")
def models_use(name: Annotated[str, typer.Argument(help="A file, a folder or a name.")]) -> None:
    """Make a model the default."""
    from app import model_commands

    raise typer.Exit(model_commands.use(name))

"""Running a command in the workspace, and looking at what it left there that would become code.

In the sandbox such files are moved aside and kept for a person. A command that a person allowed to run
outside of it may have meant them: these are told, and left.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import stat
from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tools.context import Limits, ToolContext
from tools.definition import ToolError
from tools.permission.preview import visible
from tools.process import Ended, run_process
from tools.sandbox import git_folder
from tools.sandbox.aside import Aside
from tools.sandbox.bubblewrap import Sandbox, Wrapped, filtered, last_verdict, look_over, remember
from tools.sandbox.expected import Written, expecting, is_expected
from tools.sandbox.survey import Key, Spot, Survey
from tools.workspace import Workspace

logger = logging.getLogger("fireside")

NOTE_BYTES = 640
"""The longest note about what was left, in UTF-8."""
_MOST_NAMED = 6
_REPLACED = "replaced"
_MOST_SHOWN = 60


@dataclass
class _Flight:
    """A run that has not ended yet."""

    root: Path
    taken: set[Path] = field(default_factory=set[Path])
    """What others moved aside since it began."""
    mode: int = 0o700
    """The permissions of the folder when it began."""
    is_alone: bool = True
    """No other one ran in this folder meanwhile: it might have moved what was being mounted."""


_flights: list[_Flight] = []


@dataclass(frozen=True)
class Left:
    """Files that become code and that a run made or changed."""

    spots: tuple[tuple[Spot, str], ...] = ()
    """Each with "made", "changed" or "replaced"."""
    trouble: str = ""
    """Why not all of them can be known, as the end of a sentence."""


async def run_confined(
    command: Sequence[str], context: ToolContext, sandbox: Sandbox, limits: Limits, *, network: bool
) -> tuple[Ended, str]:
    """Run `command` as `run_process` does; how it ended, and a note about what it left, "" for nothing.

    Raises as `run_process`, and ToolError where the workspace cannot be watched as was said before.
    """
    with _flying(context.workspace) as flight, expecting() as expected:
        return await _run(command, context, sandbox, limits, expected, flight, network=network)


@contextlib.contextmanager
def _flying(root: Path) -> Generator[_Flight]:
    mine = _Flight(root, mode=stat.S_IMODE(root.stat().st_mode))
    for other in _flights:
        if root == other.root or root in other.root.parents or other.root in root.parents:
            mine.is_alone = other.is_alone = False
    _flights.append(mine)
    try:
        yield mine
    finally:
        _flights[:] = [one for one in _flights if one is not mine]


async def _run(
    command: Sequence[str],
    context: ToolContext,
    sandbox: Sandbox,
    limits: Limits,
    expected: Written,
    flight: _Flight,
    *,
    network: bool,
) -> tuple[Ended, str]:
    space = context.place
    before = await asyncio.to_thread(look_over, space)
    if before.trouble and sandbox.wraps(space) and not last_verdict(space):
        remember(space, before)
        raise ToolError(f"Nothing was run: {before.trouble}. Call it again, and a person will be asked.")
    remember(space, before)
    with filtered() as handle:
        # A folder is mounted to be written only where nobody can have put a link in its place.
        found = before if flight.is_alone else replace(before, repositories=[])
        wrapped = sandbox.confine(command, space, network=network, found=found, filter_fd=handle)

        async def settle() -> str:
            settling = asyncio.to_thread(
                _settle, context, before, wrapped, expected, flight, sandbox.wraps(space)
            )
            return await asyncio.shield(asyncio.ensure_future(settling))

        try:
            ended = await run_process(
                wrapped.command,
                folder=context.workspace,
                limits=limits,
                cancellation=context.cancellation,
                output_folder=context.output_folder,
                on_output=context.progress,
                pass_fds=() if handle is None else (handle,),
            )
        except BaseException:
            if note := await settle():
                context.progress(f"\n{note}\n")
            raise
        return ended, await settle()


def _settle(
    context: ToolContext,
    before: Survey,
    wrapped: Wrapped,
    expected: Written,
    flight: _Flight,
    confined: bool,
) -> str:
    space = context.place
    try:
        if confined and stat.S_IMODE(space.root.stat().st_mode) != flight.mode:
            # Closed, nothing in it could be looked at, and the person could not either.
            space.root.chmod(flight.mode)
        if not before.is_whole:  # What it did not get to would seem to be made since.
            return f"[the files it left could not be checked: {before.trouble}]"
        guarded = wrapped.guarded if flight.is_alone else frozenset[Key]()
        left = compare(before, look_over(space), guarded, expected, flight.taken)
        return tidy(space, left, context.aside) if confined else _told(space, left)
    except Exception as err:  # Whatever it left, its output must not get lost over that.
        logger.warning("what a run left could not be checked", exc_info=True)
        return f"[the files it left could not be checked, so check them yourself: {type(err).__name__}]"


def compare(
    before: Survey,
    after: Survey,
    guarded: frozenset[Key],
    expected: Written,
    taken: Collection[Path] = (),
) -> Left:
    """What became code between two looks, but for the `expected`. Places that were `guarded` cannot have
    been changed by the run, except through a further name of the same file, or once something outside
    took them away. What others had `taken` aside meanwhile was there by no right."""
    known = {spot.key: spot for spot in before.code if spot.path not in taken}
    found: dict[Path, tuple[Spot, str]] = {}
    made_bare = {spot.bare for spot in after.code if _is_head(spot) and spot.key not in known}
    keys = {spot.path: spot.key for spot in after.code}
    # What is code by its own name comes first: it may be the only reason for what it leads to.
    for spot in sorted(after.code, key=lambda spot: spot.via is not None):
        old = known.get(spot.key)
        held = old is not None and spot.key in guarded and not old.has_other_names
        if old is not None and (spot.mark == old.mark or (held and _is_same_file(spot, old))):
            continue
        if expected and is_expected(spot.path, expected):
            continue
        if old is None and spot.via is not None and (spot.via in found or keys.get(spot.via) not in known):
            continue
        if spot.bare in made_bare and spot.bare is not None:
            if not _is_head(spot) or _is_fresh(spot.bare, after):
                continue
        elif spot.in_git and git_folder.is_harmless(spot.path):
            continue
        # Whoever replaced what was held may be the person: it is told, and left.
        found[spot.path] = (spot, "made" if old is None else _REPLACED if held else "changed")
    return Left(tuple(found.values()), before.trouble or after.trouble)


def _is_same_file(spot: Spot, old: Spot) -> bool:
    return spot.mark[:2] == old.mark[:2]


def _is_head(spot: Spot) -> bool:
    return spot.bare is not None and spot.path.name.lower() == git_folder.HEAD


def _is_fresh(folder: Path, after: Survey) -> bool:
    mine = [spot for spot in after.code if spot.bare == folder and not _is_head(spot)]
    return all(git_folder.is_harmless(spot.path) for spot in mine)


def tidy(space: Workspace, left: Left, aside: Aside) -> str:
    """Move what is left aside; a note for the model and the person."""
    moved: list[Spot] = []
    stuck: list[Spot] = []
    replaced = [spot for spot, reason in left.spots if reason == _REPLACED]
    for spot, reason in left.spots:
        if reason == _REPLACED:
            continue
        for flight in _flights:
            flight.taken.add(spot.path)
        try:
            if aside.take(space.root, spot.path, reason) is not None:
                moved.append(spot)
        except OSError:
            stuck.append(spot)
    parts: list[str] = []
    if moved:
        parts.append(
            f"moved aside, because other programs would run or obey it: {_named(space, moved)}; "
            f"a person can review and allow it:  /tools aside, fireside tools aside"
        )
    if stuck:
        parts.append(f"could not be moved aside, so check it: {_named(space, stuck)}")
    if replaced:
        parts.append(
            f"replaced by something else while this ran, and other programs run or obey it, so check it: "
            f"{_named(space, replaced)}"
        )
    if left.trouble:
        parts.append(f"not everything was checked: {left.trouble}")
    return "\n".join(f"[{part}]" for part in parts)


def _told(space: Workspace, left: Left) -> str:
    spots = [spot for spot, _ in left.spots]
    parts = [f"made or changed, and other programs run or obey it: {_named(space, spots)}"] if spots else []
    if left.trouble:
        parts.append(f"not everything was checked: {left.trouble}")
    return "\n".join(f"[{part}]" for part in parts)


def _named(space: Workspace, spots: Sequence[Spot]) -> str:
    names = [visible(str(spot.path.relative_to(space.root))).replace("\n", "⏎") for spot in spots]
    shown = [name if len(name) <= _MOST_SHOWN else f"{name[:_MOST_SHOWN]}..." for name in names]
    more = f" and {len(shown) - _MOST_NAMED} more" if len(shown) > _MOST_NAMED else ""
    return ", ".join(shown[:_MOST_NAMED]) + more

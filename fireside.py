"""The launcher of the command and the public door of the library.

It puts Fireside's folders first on `sys.path`, so that nothing in the environment or the current
directory can shadow them, and hands out the public names when they are first used.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import os
import sys
import warnings
from types import ModuleType
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))
_NESTED = os.path.join(_HERE, "fireside")
_ROOT = _NESTED if os.path.isdir(_NESTED) else _HERE
_ROOMS = ("app", "backend", "tools", "themes")
_EXPORTS = {
    "app": ("__version__",),
    "app.server.library": ("serve",),
    "app.server.serving": ("Server",),
    "app.sessions.agents": ("Agent",),
    "app.sessions.chat": ("SessionToolCallInfo", "SessionsChat", "ToolCallable"),
    "app.sessions.errors": ("ConflictError", "FiresideError", "InvalidInputError", "ServerError"),
    "app.sessions.events": (
        "CancelledEvent",
        "CompletedEvent",
        "CreatedEvent",
        "FailedEvent",
        "InProgressEvent",
        "IncompleteEvent",
        "QueuedEvent",
        "ServerStreamEvent",
        "SessionChildSessionUpdatedEvent",
        "ChildSessionUpdatedEvent",
        "ClientTaskCancelEvent",
        "CompactionCompletedEvent",
        "CompactionFailedEvent",
        "CompactionInProgressEvent",
        "ElicitationRequestEvent",
        "ElicitationResolvedEvent",
        "FunctionCallArgumentsDeltaEvent",
        "FunctionCallOutputDeltaEvent",
        "OutputFileDoneEvent",
        "OutputItemDoneEvent",
        "OutputTextDeltaEvent",
        "PolicyDeniedEvent",
        "ReasoningStartedEvent",
        "ReasoningSummaryTextDeltaEvent",
        "ReasoningTextDeltaEvent",
        "Response",
        "ResponseCancelledEvent",
        "ResponseCompletedEvent",
        "ResponseCreatedEvent",
        "ResponseErrorEvent",
        "ResponseEvent",
        "ResponseFailedEvent",
        "ResponseInProgressEvent",
        "ResponseIncompleteEvent",
        "ResponseQueuedEvent",
        "ResponseRetryEvent",
        "SessionBranchEvent",
        "SessionCreatedEvent",
        "SessionEvent",
        "SessionHeartbeatEvent",
        "SessionInputConsumedEvent",
        "SessionInterruptedEvent",
        "SessionModelEvent",
        "SessionModelLoadEvent",
        "SessionPrefillEvent",
        "SessionQueueEvent",
        "SessionReasoningEffortEvent",
        "SessionNoticeEvent",
        "SessionSettingsEvent",
        "SessionSpeedEvent",
        "SessionStatusEvent",
        "SessionTitleEvent",
        "SessionUsageEvent",
    ),
    "app.sessions.hook_contexts": (
        "CompactionEndCtx",
        "CompactionStartCtx",
        "NativeToolCallCtx",
        "RetryCtx",
        "ServerErrorCtx",
        "SubAgentCompletedCtx",
        "SubAgentInfo",
        "SubAgentSpawnedCtx",
        "ToolResultInfo",
        "ToolResultsReadyCtx",
        "TransportErrorCtx",
    ),
    "app.sessions.hooks": (
        "ElicitationRequestCtx",
        "FileOutputCtx",
        "MessageEndCtx",
        "MessageStartCtx",
        "ReasoningEndCtx",
        "ReasoningStartCtx",
        "ResponseEndCtx",
        "ResponseStartCtx",
        "StreamHooks",
        "ToolCallEndCtx",
        "ToolCallStartCtx",
    ),
    "app.sessions.manager": ("SessionManager",),
    "app.sessions.query": ("QueryResult", "QueryStream"),
    "app.sessions.shapes": ("ElicitationParams", "ErrorInfo", "File", "IncompleteDetails", "Usage"),
    "app.sessions.snapshot": ("Session", "SessionSnapshot"),
    "app.settings.mcp": ("mcp_tools",),
    "backend": ("ChatSession", "GenerativeModel", "ScriptedEngine", "load"),
    "backend.types": (
        "BackendError",
        "ChatCard",
        "ChatOutcome",
        "ContextOverflowError",
        "EngineError",
        "GenerationConfig",
        "GenerationReport",
        "HeldPiece",
        "ModelLoadError",
        "PrefillProgress",
        "QueueFullError",
        "ReasoningPiece",
        "StageEvent",
        "TemplateError",
        "TextPiece",
        "TokenLogprob",
        "ToolCall",
        "ToolCallPiece",
    ),
    "tools": ("ToolContext", "Touch", "tool"),
    "tools.schema": ("tool_definition",),
}
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names}
__all__ = ["main", *sorted(_MODULE_OF)]  # pyright: ignore[reportUnsupportedDunderAll]


def main() -> int:
    """Run the `fireside` command; the process exits with the number it returns."""
    _leave_current_folder()
    _open_door()
    # A short run makes little garbage: looking for it, and at the end once more, takes 30 ms of it.
    gc.set_threshold(50_000)
    try:
        arguments = sys.argv[1:]
        if not arguments or arguments[0] in ("-c", "--continue", "--resume"):
            from app.cli.launch import main as chat

            if (code := chat(arguments)) is not None:
                return code
        from app.cli.main import main as run

        return run(arguments)
    except KeyboardInterrupt:
        return 130
    finally:
        gc.freeze()


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _refuse_foreign_rooms()
    _warn_of_hidden_rooms()
    _open_door()
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__


def _leave_current_folder() -> None:
    """Import no module and start no program just because it lies in the current folder."""
    with contextlib.suppress(OSError):  # It may be gone.
        if sys.path[:1] == [os.getcwd()]:  # `python -m fireside`
            del sys.path[0]
        # By now Python has made whole paths of what was given as a part of one.
        given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        near = {os.path.abspath(place) for place in given if not os.path.isabs(place)}
        sys.path[:] = [place for place in sys.path if os.path.isabs(place) and place not in near]
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    os.environ["PATH"] = os.pathsep.join(filter(os.path.isabs, folders)) or os.defpath


def _open_door() -> None:
    if sys.path[:1] != [_ROOT]:
        sys.path.insert(0, _ROOT)


def _refuse_foreign_rooms() -> None:
    for room in _ROOMS:
        if (module := sys.modules.get(room)) is not None and not _is_ours(module):
            raise ImportError(
                f"fireside needs its own package {room!r}, but this program has already imported another one "
                f"from {_place(module)}. Rename that one, or run Fireside in a process of its own "
                f"(the `fireside` command) and talk to it from here."
            )


def _is_ours(module: ModuleType) -> bool:
    return _place(module).startswith(os.path.join(_ROOT, ""))


def _place(module: ModuleType) -> str:
    if module.__file__:
        return os.path.abspath(module.__file__)
    folders = [os.path.join(os.path.abspath(folder), "") for folder in getattr(module, "__path__", ())]
    return folders[0] if folders else "an unknown place"


def _warn_of_hidden_rooms() -> None:
    hidden: list[str] = []
    for room in _ROOMS:
        if room in sys.modules:
            continue
        try:
            spec = importlib.util.find_spec(room)
        except (ImportError, ValueError):
            continue
        # A folder without __init__.py hides nothing anybody imports on purpose.
        if spec is not None and spec.origin and not spec.origin.startswith(os.path.join(_ROOT, "")):
            hidden.append(spec.origin)
    if hidden:
        warnings.warn(
            f"fireside uses its own packages {', '.join(_ROOMS)}; here they hide {', '.join(hidden)}.",
            RuntimeWarning,
            stacklevel=3,
        )


if __name__ == "__main__":
    sys.exit(main())

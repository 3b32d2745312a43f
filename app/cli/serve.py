"""`fireside serve`: its flags, and what they mean to the server, which is imported only here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.cli.flags import SESSION, Flag, Given, settings_of
from app.exits import usage
from app.extras import install_line

if TYPE_CHECKING:
    from app.server.serving import Options

PORT = 8642
KEY_VARIABLE = "FIRESIDE_API_KEY"
_MOST_KEY_BYTES = 4096

SERVE: tuple[Flag, ...] = (
    Flag(("--host",), str, "The address to listen at; 127.0.0.1, this machine only, by default."),
    Flag(("--port",), int, f"The port; {PORT} by default, 0 for one that is free."),
    Flag(
        ("--api-key-file",), str, f"A file with the key that clients send (or {KEY_VARIABLE}).", None, "FILE"
    ),
    Flag(("--allow-host",), list[str], "Another name that this server goes by (repeatable).", None, "NAME"),
    Flag(("--allow-origin",), list[str], "A web page that may call it (repeatable).", None, "URL"),
    Flag(("--max-queued",), int, "The most replies that may wait; 256 by default.", None, "N"),
    Flag(("--keep-alive",), float, "Free the model after so long without a request.", None, "SECONDS"),
    Flag(("--tls-cert",), str, "The certificate, for HTTPS.", None, "FILE"),
    Flag(("--tls-key",), str, "The key of the certificate.", None, "FILE"),
    Flag(("--private",), bool, "Keep the chats of clients in memory only."),
    next(flag for flag in SESSION if flag.name == "tools"),
    Flag(("--allow-remote-approval",), bool, "Let clients approve what the tools here do."),
    Flag(("--workspace-root",), str, "The folder that chats of clients may work in.", None, "DIR"),
    Flag(("--log-requests",), bool, "Tell of each request on standard error."),
)


def serve(given: Given) -> int:
    """Run the server; returns the exit code. A usage failure for flags that cannot be used."""
    settings = settings_of(given)
    try:
        from app.server import command
    except ModuleNotFoundError as err:
        if err.name is None or err.name.partition(".")[0] in ("app", "backend", "tools"):
            raise
        raise usage(
            f"`fireside serve` needs the package {err.name}, which is not installed.",
            f"Install what it needs: {install_line('serve')}",
        ) from err
    from app.running import name_face

    name_face("serve")
    return command.run(
        command.Job(
            settings,
            _options(given, settings.generation()),
            private=given.get("private", False),
            tools=tuple(given.get("tools", ())),
            remote_approval=given.get("allow_remote_approval", False),
            workspace_root=_root(given.get("workspace_root")),
            keep_alive_s=_positive(given, "keep_alive"),
        )
    )


def _options(given: Given, defaults: Any) -> Options:
    from app.server.command import log_request
    from app.server.security import Access, readable_origins
    from app.server.serving import MAX_QUEUED, Options

    quiet: dict[str, Any] = {"listen": log_request} if given.get("log_requests") else {}
    try:
        options = Options(
            host=given.get("host", "127.0.0.1"),
            port=_whole(given, "port", PORT, 0, 65535),
            access=Access(
                api_key=_key(given.get("api_key_file")),
                hosts=tuple(name.lower() for name in given.get("allow_host", ())),
                origins=readable_origins(given.get("allow_origin", ())),
            ),
            max_queued=_whole(given, "max_queued", MAX_QUEUED, 0, 1024),
            certificate=_file(given, "tls_cert"),
            certificate_key=_file(given, "tls_key"),
            defaults=defaults,
            **quiet,
        )
        options.check()
    except ValueError as err:
        raise usage(str(err)) from err
    return options


def _key(name: str | None) -> str | None:
    """The key that clients have to send; None where none is set. A usage failure for a file without one."""
    if name is None:
        return os.environ.get(KEY_VARIABLE) or None
    try:
        with open(name, "rb") as file:
            text = file.read(_MOST_KEY_BYTES).decode()
    except (OSError, UnicodeDecodeError) as err:
        raise usage(
            f"--api-key-file: {name} cannot be read: {getattr(err, 'strerror', None) or err}."
        ) from err
    if not (key := text.strip()):
        raise usage(f"--api-key-file: {name} is empty.", "Put a long random text into it.")
    return key


def _whole(given: Given, name: str, default: int, low: int, high: int) -> int:
    value = given.get(name, default)
    if not low <= value <= high:
        raise usage(f"--{name.replace('_', '-')} expects a number from {low} to {high}.")
    return value


def _positive(given: Given, name: str) -> float | None:
    value = given.get(name)
    if value is not None and not 0 < value < 1e9:
        raise usage(f"--{name.replace('_', '-')} expects a number of seconds above 0.")
    return value


def _root(name: str | None) -> Path | None:
    if name is None:
        return None
    if not name or not (path := Path(name).expanduser()).is_dir():
        raise usage(f"--workspace-root expects a folder; {name or 'an empty name'} is not one.")
    return path.resolve()


def _file(given: Given, name: str) -> Path | None:
    if (value := given.get(name)) is None:
        return None
    path = Path(value)
    if not path.is_file():
        raise usage(f"--{name.replace('_', '-')}: {value} is not a file.")
    return path

"""Servers that can answer in place of a model of this machine: their addresses, keys and names.

A model of a server is named by a source, as a file is by its path: `http://HOST/v1`, `http://HOST/v1#MODEL`,
`server:NAME` or `server:NAME/MODEL`, where NAME is one of the settings.
"""

from __future__ import annotations

import importlib
import ipaddress
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from backend.engines import foreign
from backend.types import EngineError, ModelLoadError

NAMED = "server:"
_SCHEMES = ("http://", "https://", "unix:")
_TAILS = ("/chat/completions", "/completions", "/models", "/responses")
DEFAULT_SILENCE_S = 600.0
"""How long a server may say nothing while it answers: a long prompt is read for minutes."""


class AddressError(ValueError):
    """An address that cannot be used; the text says why, as a sentence."""


@dataclass(frozen=True)
class Key:
    """Where the key of a server is: a variable, the keyring of the desktop, or here. Never shown."""

    variable: str = ""
    keyring: str = ""
    """`SERVICE/USER`"""
    text: str = ""

    def __repr__(self) -> str:
        return f"Key(variable={self.variable!r}, keyring={self.keyring!r})"

    @property
    def origin(self) -> str:
        """Where it is from, for a person."""
        if self.variable:
            return f"the variable {self.variable}"
        return f"the keyring ({self.keyring})" if self.keyring else "the settings file"

    def read(self) -> str:
        """The key. EngineError where it is not to be had; asking a keyring may take a while."""
        found = self.text
        if self.variable:
            found = os.environ.get(self.variable, "")
        elif self.keyring:
            found = _from_keyring(self.keyring)
        found = found.strip()
        if not found:
            raise EngineError(f"There is no key: {self.origin} is empty.", remedy="Set it, and try again.")
        if not found.isascii() or not found.isprintable() or " " in found:
            raise EngineError(
                f"The key from {self.origin} has a character that no key has.", remedy="Set it again."
            )
        return found


@dataclass(frozen=True)
class Server:
    """A server, or several that answer alike: the least busy one is asked."""

    urls: tuple[str, ...]
    name: str = ""
    """Its name in the settings; empty for one that was given by its address."""
    key: Key | None = None
    model: str = ""
    """The model to use where none is named; empty takes the first that it lists."""
    context: int | None = None
    """Tokens of the context, where a person knows better than the server tells."""
    vision: bool | None = None
    tools: bool | None = None
    silence_s: float = DEFAULT_SILENCE_S

    @property
    def source(self) -> str:
        """How it is named as the source of a model."""
        return f"{NAMED}{self.name}" if self.name else self.urls[0]

    def source_of(self, model: str) -> str:
        """How one of its models is named."""
        if not model:
            return self.source
        return f"{NAMED}{self.name}/{model}" if self.name else f"{self.urls[0]}#{model}"

    @property
    def warnings(self) -> list[str]:
        """What a person should know before it is used, as sentences."""
        bare = [url for url in self.urls if self.key and is_open(url)]
        return [
            f"The key for {shown(url)} is sent unencrypted: anybody on the way can read it." for url in bare
        ]


def is_server(source: str | None) -> bool:
    """Whether the source of a model is a server, and no file or name of one."""
    return source is not None and source.lower().startswith((*_SCHEMES, NAMED))


def split_source(source: str) -> tuple[str, str]:
    """The server and the model that a source names; the model is empty where it names none."""
    if source.lower().startswith(NAMED):
        name, _, model = source[len(NAMED) :].partition("/")
        return NAMED + name, model
    url, _, model = source.partition("#")
    return url, model


def address(text: str) -> str:
    """The base of an address as a person writes it, mostly ending in /v1. AddressError says what is wrong."""
    text = text.strip()
    if text.lower().startswith("unix:"):
        path = text[len("unix:") :]
        if not os.path.isabs(path):
            raise AddressError("A socket is named by its full path: unix:/run/user/1000/fireside.sock.")
        return f"unix:{path}"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as err:
        raise AddressError(f"{foreign.one_line(text, 80)} is not an address: {err}.") from err
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname:
        raise AddressError("A server's address begins with http:// or https://, then its name.")
    if parts.username is not None or parts.password is not None:
        raise AddressError("A key does not belong in an address: name the variable that has it (key_env).")
    if parts.query or parts.fragment:
        raise AddressError("A server's address ends with its path: no ? and no #.")
    if not text.isprintable() or any(letter.isspace() for letter in text):
        raise AddressError("An address has no blanks and no control characters.")
    path = parts.path.rstrip("/")
    for tail in _TAILS:
        path = path.removesuffix(tail)
    host = parts.hostname if ":" not in parts.hostname else f"[{parts.hostname}]"
    netloc = host if port is None else f"{host}:{port}"
    return urlunsplit((parts.scheme.lower(), netloc, path or "/v1", "", ""))


def shown(url: str) -> str:
    """An address as it is shown: without scheme and path, where these say nothing."""
    if url.startswith("unix:"):
        return url
    return url.removeprefix("http://").removesuffix("/v1")


def is_loopback(url: str) -> bool:
    """Whether what is sent there stays on this machine."""
    if url.startswith("unix:"):
        return True
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_open(url: str) -> bool:
    """Whether anybody on the way can read what is sent there."""
    return url.startswith("http://") and not is_loopback(url)


class Servers:
    """The servers of the settings, by name, and `chosen`, the one that a person named for this run."""

    def __init__(self, known: Mapping[str, Server] | None = None, chosen: Server | None = None) -> None:
        self.known = dict(known or {})
        self.chosen = chosen

    def find(self, source: str) -> tuple[Server, str]:
        """The server and the model that a source names. ModelLoadError where there is no such server."""
        where, model = split_source(source)
        if where.startswith(NAMED):
            found = self.known.get(where[len(NAMED) :])
            if found is None:
                raise ModelLoadError(
                    f"The settings name no server {foreign.one_line(where[len(NAMED) :], 40)!r}.",
                    cause="not_found",
                    remedy=f"There {_listed(self.known)}; `fireside help config` shows how to add one.",
                )
            return found, model or found.model
        try:
            url = address(where)
        except AddressError as err:
            raise ModelLoadError(str(err), cause="not_found", remedy="Correct the address.") from err
        return self.at(url), model

    def at(self, url: str) -> Server:
        """The server at an address: as the settings or the command line know it, else a bare one."""
        for server in (*filter(None, [self.chosen]), *self.known.values()):
            if url in server.urls:
                return server
        return Server((url,))

    @property
    def all(self) -> Sequence[Server]:
        """The chosen one first, then those of the settings."""
        chosen = [self.chosen] if self.chosen is not None else []
        return [*chosen, *(one for one in self.known.values() if one not in chosen)]

    def with_chosen(self, text: str, key: Key | None) -> Servers:
        """These, with the server that `text` names chosen: an address, or a name of the settings.

        `key` is used at an address that the settings do not know. AddressError.
        """
        name = text.strip().removeprefix(NAMED)
        if name in self.known:
            return Servers(self.known, self.known[name])
        if not is_server(name):
            raise AddressError(
                f"{foreign.one_line(name, 80)!r} is neither an address nor a server of the settings: an "
                f"address begins with http:// or https://, and there {_listed(self.known)}."
            )
        url = address(split_source(name)[0])
        found = self.at(url)
        if not found.name and key is not None:
            found = replace(found, key=key)
        return Servers(self.known, found)


def _listed(known: Mapping[str, Server]) -> str:
    names = ", ".join(list(known)[:10])
    return f"is {names}" if len(known) == 1 else f"are {names}" if known else "is none"


def _from_keyring(entry: str) -> str:
    service, _, user = entry.partition("/")
    try:
        keyring: Any = importlib.import_module("keyring")
    except ImportError as err:
        raise EngineError(
            "The key is in the keyring, and the package that reads it is not installed.",
            remedy="Install it beside Fireside: pip install keyring",
        ) from err
    try:
        return str(keyring.get_password(service, user) or "")
    except Exception as err:
        # Each desktop has its own; what it says may hold anything.
        raise EngineError(
            f"The keyring did not give the key: {type(err).__name__}.", remedy="Unlock it, and try again."
        ) from err

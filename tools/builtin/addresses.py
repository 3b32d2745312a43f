"""Which network addresses a tool may connect to: public ones, and private ones that a person listed."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Sequence
from typing import TypeAlias

from tools.definition import ToolError

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_NOT_PUBLIC = tuple(
    ipaddress.ip_network(text)
    for text in (
        "192.0.0.0/24 192.88.99.0/24 168.63.129.16 fec0::/10 3fff::/20 5f00::/16 64:ff9b:1::/48"
    ).split()
)
"""Addresses of machines and clouds that speak of themselves, and what Python took for public for long."""
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


async def resolve(host: str, port: int, listed: Sequence[str]) -> str:
    """The one address of `host` to connect to, looked up once.

    `listed` holds hosts, addresses and networks in which private addresses are allowed, each with or
    without `:port`. Every address the name has must be allowed, else ToolError is raised.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as err:
        raise ToolError(f"There is no host {host}: {err}.") from err
    texts = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    if not texts:
        raise ToolError(f"The host {host} has no address.")
    for text in texts:
        address = ipaddress.ip_address(text.partition("%")[0])
        if not is_public(address) and not _is_listed(host, address, port, listed):
            raise ToolError(
                f"{host} is at {address}, which is not on the public network. "
                f"Private addresses are reached only when they are listed in the settings."
            )
    return texts[0]


def is_public(address: Address) -> bool:
    """Whether an address is one of the public network, also where another is hidden inside it."""
    inner = _inner(address)
    if inner is not None:
        return is_public(inner)
    if any(address in network for network in _NOT_PUBLIC):
        return False
    special = address.is_multicast or address.is_loopback or address.is_link_local or address.is_reserved
    return address.is_global and not special and not address.is_unspecified


def _inner(address: Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 one leads to."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    packed = int(address)
    if address in _NAT64 or (packed >> 32 == 0 and packed > 1):
        return ipaddress.IPv4Address(packed & 0xFFFFFFFF)
    return None


def _is_listed(host: str, address: Address, port: int, listed: Sequence[str]) -> bool:
    return any(_fits(entry, host, address, port) for entry in listed)


def _fits(entry: str, host: str, address: Address, port: int) -> bool:
    name, at_port = _split(entry)
    if at_port is not None and at_port != port:
        return False
    try:
        return address in ipaddress.ip_network(name, strict=False)
    except ValueError:
        return name.casefold() == host.casefold()


def _split(entry: str) -> tuple[str, int | None]:
    """An entry's host and port; a bare IPv6 address has colons but no port."""
    name, colon, port = entry.rpartition(":")
    if colon and port.isdecimal() and (":" not in name or name.endswith("]")):
        return name.strip("[]"), int(port)
    return entry.strip("[]"), None

"""Reads the header of one GGUF file and believes none of its claims.

Work and memory are bounded whatever the file says. What the values mean is `backend.gguf.info`'s business.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from backend.gguf.file import DOWNLOAD_AGAIN, MAGIC, Reader, fail, opened, quoted, refuse_foreign, shown
from backend.gguf.tables import REMOVED_TENSOR_TYPES, TENSOR_TYPES
from backend.types import LoadCause, ModelLoadError

Scalar: TypeAlias = bool | int | float | str
Value: TypeAlias = Scalar | tuple[Scalar, ...]

_MAX_KEYS = 16_384
_MAX_TENSORS = 32_768
"""Real files have up to 100 keys and 2,000 tensors."""
_MAX_KEY_BYTES = 65_535
_MAX_NAME_BYTES = 63
_MAX_DIMENSIONS = 4
_MAX_TEXT_BYTES = 1 << 20
_MAX_KEPT_BYTES = 4 << 20
"""Most memory that metadata values may take in one file."""
_MAX_BLOCK_BYTES = 8 << 20
_MAX_KEPT_NUMBERS = 1024
_MAX_KEPT_TEXTS = 64
_OBJECT_BYTES = 32
"""What a Python number or text takes beside its content."""

_OLD_QUANTIZATION = "Get the model again in a newer file."
_NEW_QUANTIZATION = "Update Fireside: the file may use a newer quantization."

_BOOL, _STRING, _ARRAY = 7, 8, 9
_FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}
_KINDS = {
    0: "uint8",
    1: "int8",
    2: "uint16",
    3: "int16",
    4: "uint32",
    5: "int32",
    6: "float32",
    7: "bool",
    8: "string",
    9: "array",
    10: "uint64",
    11: "int64",
    12: "float64",
}


@dataclass(frozen=True, slots=True)
class Array:
    """An array of the metadata that was measured and not kept."""

    kind: str
    length: int


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor: fastest dimension first, `offset` in bytes from the start of the data."""

    name: str
    dimensions: tuple[int, ...]
    type: int
    offset: int
    size_bytes: int

    @property
    def n_elements(self) -> int:
        return math.prod(self.dimensions)


@dataclass(frozen=True, slots=True)
class Header:
    """What one file says of itself, after the checks that need no knowledge of models."""

    path: Path
    version: int
    file_bytes: int
    metadata: Mapping[str, Value]
    kinds: Mapping[str, str]
    """The stored type of every key, arrays as `array of <type>`."""
    arrays: Mapping[str, Array]
    texts: Mapping[str, tuple[bytes, ...]]
    """The text arrays that were asked for."""
    numbers: Mapping[str, bytes]
    """The arrays of numbers that were asked for, as they are stored: little-endian."""
    omitted: Mapping[str, int]
    """Texts too large to keep, with their size in bytes."""
    tensors: tuple[Tensor, ...]
    data_offset: int


def read_header(path: Path, *, arrays: Collection[str] = ()) -> Header:
    """The checked header of the GGUF file at `path`.

    Arrays are measured, not kept, except short ones and those named in `arrays`. Raises
    ModelLoadError with one cause and remedy per defect; memory stays under 50 MB whatever is claimed.
    """
    with opened(path) as (descriptor, size):
        reader = Reader(path, descriptor, size)
        try:
            return _Parser(reader, frozenset(arrays)).parse()
        except OSError as err:
            raise ModelLoadError(
                f"{shown(path, 300)} could not be read: {err.strerror}.",
                cause="not_found",
                remedy="Check the disk it is on and try again.",
            ) from err


class _Parser:
    """The grammar of a GGUF header: fixed part, metadata, tensor table."""

    def __init__(self, reader: Reader, wanted: frozenset[str]) -> None:
        self._reader = reader
        self._wanted = wanted
        self._metadata: dict[str, Value] = {}
        self._kinds: dict[str, str] = {}
        self._arrays: dict[str, Array] = {}
        self._texts: dict[str, tuple[bytes, ...]] = {}
        self._blocks: dict[str, bytes] = {}
        self._omitted: dict[str, int] = {}
        self._room = _MAX_KEPT_BYTES

    def parse(self) -> Header:
        version, n_tensors, n_keys = self._fixed_part()
        for _ in range(n_keys):
            self._entry()
        alignment = self._alignment()
        tensors = self._tensor_table(n_tensors, alignment)
        data_offset = _padded(self._reader.position, alignment)
        if tensors:
            # Without the padding behind the last tensor: some writers leave it out.
            self._check_complete(data_offset + tensors[-1].offset + tensors[-1].size_bytes)
        return Header(
            self._reader.path,
            version,
            self._reader.size,
            self._metadata,
            self._kinds,
            self._arrays,
            self._texts,
            self._blocks,
            self._omitted,
            tensors,
            data_offset,
        )

    def _bad(
        self, problem: str, *, remedy: str = DOWNLOAD_AGAIN, cause: LoadCause = "bad_metadata"
    ) -> NoReturn:
        fail(self._reader.path, problem, cause, remedy)

    def _keep(self, size_bytes: int) -> bool:
        """Whether a value of that size still fits the memory that metadata may take."""
        size_bytes += _OBJECT_BYTES
        if size_bytes > self._room:
            return False
        self._room -= size_bytes
        return True

    # -- fixed part --

    def _fixed_part(self) -> tuple[int, int, int]:
        reader = self._reader
        head = reader.take(min(64, reader.size), "its first bytes")
        if not head.startswith(MAGIC):
            refuse_foreign(reader.path, head, reader.size)
        reader.position = len(MAGIC)
        version = reader.u32("its version")
        self._check_version(version)
        n_tensors, n_keys = reader.u64("its counts"), reader.u64("its counts")
        claim = f"claims {n_tensors:,} tensors and {n_keys:,} keys"
        plausible = n_tensors <= _MAX_TENSORS and n_keys <= _MAX_KEYS
        # The smallest tensor entry has 24 bytes, the smallest metadata entry 13.
        if 24 * n_tensors + 13 * n_keys > reader.size - reader.position:
            cause = "truncated" if plausible else "bad_metadata"
            self._bad(f"{claim} in a file of {reader.size:,} bytes", cause=cause)
        if not plausible:
            self._bad(f"{claim}; no model has so many")
        return version, n_tensors, n_keys

    def _check_version(self, version: int) -> None:
        if version in (2, 3):
            return
        if version == 1:
            problem = "is GGUF version 1, which llama.cpp no longer reads"
            self._bad(problem, remedy="Get the model again in a newer file.")
        if version and not version & 0xFFFF:
            problem = "is a big-endian GGUF, made for another kind of processor"
            self._bad(problem, remedy="Get the little-endian file of this model.")
        remedy = "Update Fireside if this model is new, else download the file again."
        self._bad(f"says it is GGUF version {version}; Fireside reads 2 and 3", remedy=remedy)

    # -- metadata --

    def _entry(self) -> None:
        name = self._reader.text(_MAX_KEY_BYTES, "a metadata key")
        key = name.decode("utf-8", "backslashreplace")
        if key in self._kinds:
            self._bad(f"contains the key {quoted(key)} twice")
        if not self._keep(len(name)):
            self._bad("has more metadata than any model")
        what = f"the value of {quoted(key)}"
        kind = self._reader.u32(what)
        match kind:
            case 9:
                self._array(key, what)
            case 8:
                self._kinds[key] = "string"
                self._string(key, what)
            case _ if kind in _FORMATS:
                self._kinds[key] = _KINDS[kind]
                self._metadata[key] = self._numbers(kind, 1, what)[0]
            case _:
                self._bad(f"gives {quoted(key)} the unknown value type {kind}")

    def _string(self, key: str, what: str) -> None:
        length = self._reader.u64(what)
        # Decoded text takes up to four bytes for each stored one.
        if length > _MAX_TEXT_BYTES or not self._keep(length):
            self._reader.skip(length, what)
            self._omitted[key] = length
            return
        self._metadata[key] = self._reader.take(length, what).decode("utf-8", "replace")

    def _array(self, key: str, what: str) -> None:
        kind, length = self._reader.u32(what), self._reader.u64(what)
        if kind == _ARRAY:
            self._bad(f"nests arrays in {quoted(key)}")
        if kind != _STRING and kind not in _FORMATS:
            self._bad(f"gives {quoted(key)} the unknown element type {kind}")
        self._kinds[key] = f"array of {_KINDS[kind]}"
        self._arrays[key] = Array(_KINDS[kind], length)
        if kind == _STRING:
            self._text_array(key, length, what)
            return
        width = struct.calcsize(_FORMATS[kind])
        if key in self._wanted and length * width <= _MAX_BLOCK_BYTES:
            self._blocks[key] = self._reader.take(length * width, what)
            return
        if length > _MAX_KEPT_NUMBERS or not self._keep(length * _OBJECT_BYTES):
            self._reader.skip(length * width, what)
            return
        self._metadata[key] = self._numbers(kind, length, what)

    def _text_array(self, key: str, length: int, what: str) -> None:
        reader = self._reader
        # Each text takes at least the 8 bytes of its own length.
        reader.need(8 * length, what)
        wanted = key in self._wanted
        if not wanted and length > _MAX_KEPT_TEXTS:
            reader.skip_texts(length, what)
            return
        found = reader.take_texts(length, what)
        if wanted:
            self._texts[key] = tuple(found)
        elif self._keep(sum(map(len, found)) + length * _OBJECT_BYTES):
            self._metadata[key] = tuple(text.decode("utf-8", "replace") for text in found)

    def _numbers(self, kind: int, count: int, what: str) -> tuple[Scalar, ...]:
        form = struct.Struct(f"<{count}{_FORMATS[kind]}")
        numbers: tuple[Any, ...] = form.unpack(self._reader.take(form.size, what))
        return tuple(map(bool, numbers)) if kind == _BOOL else numbers

    def _alignment(self) -> int:
        value, kind = self._metadata.get("general.alignment", 32), self._kinds.get("general.alignment")
        if kind not in (None, "uint32") or not isinstance(value, int):
            self._bad(f"stores its alignment as {kind}, not as uint32")
        if value == 0:
            self._bad("says its alignment is 0")
        if value & (value - 1):
            self._bad(f"says its alignment is {value}, which is not a power of two")
        return value

    # -- tensors --

    def _tensor_table(self, count: int, alignment: int) -> tuple[Tensor, ...]:
        tensors: dict[str, Tensor] = {}
        end = 0
        for _ in range(count):
            tensor = self._tensor()
            if tensor.name in tensors:
                self._bad(f"contains the tensor {quoted(tensor.name)} twice")
            if tensor.offset != end:
                where = f"at byte {tensor.offset:,} instead of {end:,}"
                self._bad(f"puts the tensor {quoted(tensor.name)} {where}")
            end += _padded(tensor.size_bytes, alignment)
            tensors[tensor.name] = tensor
        return tuple(tensors.values())

    def _tensor(self) -> Tensor:
        reader, what = self._reader, "the list of tensors"
        name = reader.text(_MAX_NAME_BYTES, "a tensor name").decode("utf-8", "backslashreplace")
        n_dimensions = reader.u32(what)
        if n_dimensions > _MAX_DIMENSIONS:
            self._bad(f"gives the tensor {quoted(name)} {n_dimensions:,} dimensions; at most 4 are possible")
        form = struct.Struct(f"<{n_dimensions}QIQ")
        *dimensions, kind, offset = form.unpack(reader.take(form.size, what))
        return Tensor(name, tuple(dimensions), kind, offset, self._tensor_bytes(name, dimensions, kind))

    def _tensor_bytes(self, name: str, dimensions: list[int], kind: int) -> int:
        where = f"the tensor {quoted(name)}"
        if 0 in dimensions:
            self._bad(f"gives {where} a dimension of zero")
        storage = TENSOR_TYPES.get(kind)
        if storage is None:
            removed = kind in REMOVED_TENSOR_TYPES
            remedy = _OLD_QUANTIZATION if removed else _NEW_QUANTIZATION
            self._bad(f"stores {where} in the unknown type {kind}", remedy=remedy)
        row = dimensions[0] if dimensions else 1
        if row % storage.block:
            self._bad(f"has rows of {row:,} in {where}, which {storage.name} cannot store")
        n_elements = math.prod(dimensions)
        size_bytes = n_elements // storage.block * storage.block_bytes
        if max(size_bytes, n_elements) >= 1 << 62:
            self._bad(f"gives {where} dimensions that overflow")
        return size_bytes

    def _check_complete(self, end: int) -> None:
        size = self._reader.size
        if size >= end:
            return
        share = f"{100 * size / end:.0f} %"
        remedy = "Let its download finish, or download it again."
        problem = f"is cut short: it has {share} of its bytes ({size:,} of {end:,})"
        self._bad(problem, remedy=remedy, cause="truncated")


def _padded(size_bytes: int, alignment: int) -> int:
    return -(-size_bytes // alignment) * alignment

"""Which model a request means: those of the index by name, never a path."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.characters import quote
from app.server.errors import ApiError
from backend.models import ModelFile, find_files, resolve
from backend.types import ModelLoadError

_LISTED = 20


@dataclass(frozen=True)
class Served:
    """A model as a client names it. `source` is what the engine loads; None is what it has from the start."""

    name: str
    source: str | None = None


class Models:
    """The models of this server: the one it began with, and those of the index where others are offered."""

    def __init__(
        self, name: str, path: Path | None, *, others: bool, context_length: int | None = None
    ) -> None:
        self.own = Served(name)
        self._context_length = context_length
        self._path = path and Path(os.path.realpath(path))
        self._others = others
        self._began = int(time.time())

    async def find(self, name: str | None) -> Served:
        """The model that a request names; without a name the one of the start. ApiError (404) with the names
        that there are."""
        if not name or name == self.own.name:
            return self.own
        files = await self._files()
        try:
            found = resolve(name, files)
        except ModelLoadError as err:
            raise ApiError(404, f"{err} {err.remedy}", code="model_not_found", param="model") from err
        if found is None:
            raise self._unknown(name, files)
        if self._is_own(found):
            return self.own
        if not self._others:
            raise self._unknown(name, ())
        return Served(found.name, found.name)

    async def listed(self) -> list[dict[str, Any]]:
        """The models as `/v1/models` shows them, the one of the start first."""
        others = [file for file in await self._files() if not self._is_own(file)] if self._others else []
        own = entry(self.own.name, self._began)
        if self._context_length is not None:
            own["context_length"] = self._context_length
        return [own] + [entry(file.name, _made(file.path)) for file in others]

    async def _files(self) -> list[ModelFile]:
        return await asyncio.to_thread(find_files)

    def _is_own(self, file: ModelFile) -> bool:
        return self._path is not None and Path(os.path.realpath(file.path)) == self._path

    def _unknown(self, name: str, files: list[ModelFile] | tuple[()]) -> ApiError:
        names = [self.own.name, *(file.name for file in files if self._others and not self._is_own(file))]
        more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        return ApiError(
            404,
            f"There is no model {quote(name)} here. There is {', '.join(names[:_LISTED])}{more}.",
            code="model_not_found",
            param="model",
        )


def entry(name: str, created: int) -> dict[str, Any]:
    """A model of the list. `created` is in Unix seconds."""
    return {"id": name, "object": "model", "created": created, "owned_by": "fireside"}


def _made(path: Path) -> int:
    try:
        return int(path.stat().st_mtime)
    except OSError:
        return 0

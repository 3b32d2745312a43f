"""Bodies of requests: read within bounds, and checked field by field."""

from __future__ import annotations

import json
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request

from app.characters import clean
from app.server.errors import ApiError, refused

Model = TypeVar("Model", bound="Body")


class Body(BaseModel):
    """A body. Fields that it does not know are ignored, as those of clients newer than the server."""

    model_config = ConfigDict(strict=True, extra="ignore", protected_namespaces=())


async def read(request: Request, kind: type[Model]) -> Model:
    """The body of a request as `kind`. ApiError says which field is wrong."""
    return as_kind(await read_json(request), kind)


def as_kind(value: dict[str, Any], kind: type[Model]) -> Model:
    """`value` as `kind`. ApiError says which field is wrong."""
    try:
        return kind.model_validate(value)
    except ValidationError as err:
        first = err.errors(include_url=False, include_context=False, include_input=False)[0]
        param = ".".join(map(str, first["loc"]))
        raise refused(f"{param}: {first['msg']}." if param else f"{first['msg']}.", param or None) from err
    except RecursionError as err:
        raise refused("The body is nested too deeply.") from err


async def read_json(request: Request) -> dict[str, Any]:
    """The body of a request, which has to be an object of JSON."""
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if not (kind == "application/json" or kind.endswith("+json")):
        # A form of another site sends other types without asking first.
        raise ApiError(415, "The body has to be JSON, sent with Content-Type: application/json.")
    try:
        value = clean(json.loads(await request.body(), parse_constant=_no_number))
    except RecursionError as err:
        raise refused("The body is nested too deeply.") from err
    except ValueError as err:
        raise refused(f"The body is not JSON: {err}.") from err
    if not isinstance(value, dict):
        raise refused("The body has to be a JSON object.")
    return cast("dict[str, Any]", value)


def mapping(value: object) -> dict[str, Any]:
    """`value` where it is an object of JSON, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is not a number")

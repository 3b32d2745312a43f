"""A Python function as a tool definition, and a call as values. One file, because both read one signature.

The definition is OpenAI's. Knows nothing of models, formats and permissions.
"""

from __future__ import annotations

import enum
import inspect
import json
import math
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Optional, TypeAlias

from tools.docstring import read_docstring
from tools.output import describe_error

if TYPE_CHECKING:
    from pydantic import BaseModel

Json: TypeAlias = dict[str, Any]

_MAX_ERRORS = 8
_MAX_DEPTH = 100
_CONTEXT = "ToolContext"


class ToolSchemaError(ValueError):
    """A function cannot be offered as a tool; the text names the parameter and the remedy."""


class ArgumentsError(ValueError):
    """A call's arguments do not fit the function; `errors` are sentences a model can act on."""

    def __init__(self, name: str, errors: list[str]) -> None:
        super().__init__(f"The arguments of {name} do not fit: {'; '.join(errors)}.")
        self.errors = errors


def tool_definition(
    function: Callable[..., Any], *, name: str | None = None, description: str | None = None
) -> Json:
    """The OpenAI definition of a tool that calls `function`.

    A parameter of type ToolContext, `self`, `*args` and `**kwargs` are not published; one without
    annotation takes the type of its default, else text. Raises ToolSchemaError for a signature
    that cannot be called by name.
    """
    return ToolSchema(function, name=name, description=description).definition


def validate_arguments(function: Callable[..., Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments a model wrote as the Python values `function` is annotated with.

    Holds only what was given, so that the function's own defaults apply. Raises ArgumentsError.
    """
    return ToolSchema(function).validate(arguments)


@dataclass(frozen=True)
class _Parameter:
    name: str
    annotation: Any
    default: Any
    description: str


class ToolSchema:
    """One function's definition and the check of its arguments, worked out once."""

    def __init__(
        self, function: Callable[..., Any], *, name: str | None = None, description: str | None = None
    ) -> None:
        self.name: str = name or _name(function)
        docstring = read_docstring(_documented(function).__doc__)
        self.description = docstring.description if description is None else description
        parameters = list(_parameters(function, docstring.parameters))
        self._names = {f"p{index}": parameter.name for index, parameter in enumerate(parameters)}
        self._model = _model(self.name, parameters)

    @property
    def parameters(self) -> Json:
        """The JSON Schema of the arguments; references are inlined where they are not recursive."""
        schema = self._model.model_json_schema(schema_generator=_generator())
        plain = _inlined(schema)
        found: Json = {"type": "object", "properties": plain.get("properties", {})}
        found.update({key: plain[key] for key in ("required", "$defs") if key in plain})
        return found

    @property
    def definition(self) -> Json:
        """The tool in the OpenAI envelope."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}

    def validate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """As `validate_arguments`."""
        model = self._read(arguments)
        return {self._names[key]: getattr(model, key) for key in self._given(model)}

    def checked(self, arguments: Mapping[str, Any]) -> Json:
        """The given arguments as JSON that `validate` makes the very same values of.

        Where a type has no such JSON (a secret that hides itself), the argument stays as it was given.
        Raises ArgumentsError.
        """
        model = self._read(arguments)
        return {self._names[key]: self._as_json(model, key, arguments) for key in self._given(model)}

    def _as_json(self, model: BaseModel, key: str, arguments: Mapping[str, Any]) -> Any:
        name = self._names[key]

        def dumped(one: BaseModel) -> Any:
            return one.model_dump(mode="json", include={key}, exclude_unset=True, warnings=False)[key]

        try:
            part = dumped(model)
            again = self._read({**arguments, name: part})
            # A set, too, has to come out in one order, or no grant would be for this call.
            settled = _same(getattr(model, key), getattr(again, key)) and dumped(again) == part
            return part if settled else arguments[name]
        except Exception:  # Types are their author's, and so is what writing and comparing them does.
            return arguments[name]

    def _given(self, model: BaseModel) -> Iterator[str]:
        return (key for key in self._names if key in model.model_fields_set)

    def _read(self, arguments: Mapping[str, Any]) -> BaseModel:
        from pydantic import ValidationError

        try:
            return self._model.model_validate(dict(arguments))
        except ValidationError as err:
            found = err.errors(include_url=False, include_context=False)
            raise ArgumentsError(self.name, [_sentence(item) for item in found[:_MAX_ERRORS]]) from None
        except RecursionError as err:
            raise ArgumentsError(self.name, ["they are nested too deeply"]) from err
        except Exception as err:  # A type is its author's code.
            raise ArgumentsError(self.name, [f"they cannot be checked: {describe_error(err)}"]) from err


def plain_arguments(name: str, arguments: Mapping[str, Any]) -> Json:
    """A copy of arguments that JSON can hold: bounded in depth, every number finite.

    Raises ArgumentsError.
    """
    return {str(key): _plain(name, value, 1) for key, value in arguments.items()}


def _plain(name: str, value: Any, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise ArgumentsError(name, ["they are nested too deeply"])
    match value:
        case float() if not math.isfinite(value):
            raise ArgumentsError(name, ["they contain a number that is not finite"])
        case dict():
            items = typing.cast("Json", value).items()
            return {str(key): _plain(name, item, depth + 1) for key, item in items}
        case list() | tuple():
            return [_plain(name, item, depth + 1) for item in typing.cast("list[Any]", value)]
        case _:
            return value


def _same(one: object, other: object) -> bool:
    return type(one) is type(other) and one == other


# ---- reading a signature -------------------------------------------------------------------


def _name(function: Callable[..., Any]) -> str:
    if isinstance(function, partial):
        return _name(function.func)
    return getattr(function, "__name__", None) or type(function).__name__


def _documented(function: Callable[..., Any]) -> Any:
    """What carries docstring and annotations: the function behind a partial, a wrapper, `__call__`."""
    if isinstance(function, partial):
        return _documented(function.func)
    if inspect.isroutine(function) or inspect.isclass(function):
        return inspect.unwrap(function)
    call = type(function).__call__
    return call if call.__doc__ or not type(function).__doc__ else _Documented(call, type(function).__doc__)


class _Documented:
    """An object's `__call__` with the docstring of its class."""

    def __init__(self, call: Any, doc: str | None) -> None:
        self.__doc__ = doc
        self.__annotations__ = call.__annotations__
        self.__globals__ = call.__globals__


def _parameters(function: Callable[..., Any], said: Mapping[str, str]) -> Iterator[_Parameter]:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as err:
        raise ToolSchemaError(f"{_name(function)} has no signature to make a tool of.") from err
    hints = _hints(_documented(function))
    for index, parameter in enumerate(signature.parameters.values()):
        kind, name = parameter.kind, parameter.name
        annotation = hints.get(name, parameter.annotation)
        bare = annotation is inspect.Parameter.empty
        if kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD) or _is_context(
            annotation
        ):
            continue
        if index == 0 and bare and name in ("self", "cls"):
            continue
        if kind is inspect.Parameter.POSITIONAL_ONLY:
            raise ToolSchemaError(
                f"The parameter '{name}' of {_name(function)} can only be given by position, and a model "
                f"gives arguments by name: take the '/' out of the signature."
            )
        if bare or isinstance(annotation, str):
            annotation = _type_of_default(parameter.default)
        description = _annotated_text(annotation) or said.get(name, "")
        if sys.version_info < (3, 12):
            annotation = _portable(annotation, ())
        yield _Parameter(name, annotation, parameter.default, description)


def _hints(function: Any) -> dict[str, Any]:
    """The annotations as types; what cannot be resolved stays text."""
    try:
        return typing.get_type_hints(function, include_extras=True)
    except Exception:  # Annotations are arbitrary code of the tool's author; any error can come.
        pass
    hints: dict[str, Any] = {}
    names = getattr(function, "__globals__", {})
    for name, annotation in inspect.get_annotations(function).items():
        try:
            holder = type("Holder", (), {"__annotations__": {name: annotation}})
            hints[name] = typing.get_type_hints(holder, globalns=names, include_extras=True)[name]
        except Exception:
            hints[name] = annotation
    return hints


def _portable(annotation: Any, above: tuple[Any, ...]) -> Any:
    """The annotation with `typing.TypedDict` replaced by that of typing_extensions, the only one
    pydantic takes before Python 3.12. One that contains itself becomes a plain dict there."""
    if typing.is_typeddict(annotation):
        return dict[str, Any] if annotation in above else _portable_dict(annotation, above)
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if not parts or origin in (typing.Literal, Callable):
        return annotation
    if origin is Annotated:
        return Annotated[_portable(parts[0], above), *parts[1:]]
    changed = tuple(_portable(part, above) for part in parts)
    if changed == parts or origin is None:
        return annotation
    return typing.Union[changed] if origin in (typing.Union, types.UnionType) else origin[changed]  # noqa: UP007


def _portable_dict(annotation: Any, above: tuple[Any, ...]) -> Any:
    from typing import NotRequired, Required

    from typing_extensions import TypedDict

    marked: dict[str, Any] = {}
    for name, hint in typing.get_type_hints(annotation, include_extras=True).items():
        mark = typing.get_origin(hint)
        inner = typing.get_args(hint)[0] if mark in (typing.Required, typing.NotRequired) else hint
        inner = _portable(inner, (*above, annotation))
        # Where annotations are text, `__required_keys__` does not know of the marks inside them.
        needed = name in annotation.__required_keys__ and mark is not typing.NotRequired
        marked[name] = Required[inner] if needed else NotRequired[inner]
    return TypedDict(annotation.__name__, marked)  # pyright: ignore[reportArgumentType]


def _is_context(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return annotation.strip("\"' ").rpartition(".")[2].removesuffix(" | None") == _CONTEXT
    if typing.get_origin(annotation) is Annotated:
        return _is_context(typing.get_args(annotation)[0])
    parts = typing.get_args(annotation) or (annotation,)
    return any(isinstance(part, type) and part.__name__ == _CONTEXT for part in parts)


def _type_of_default(default: Any) -> Any:
    match default:
        case bool() | int() | float() | str() | enum.Enum():
            return type(default)
        case list():
            return list[Any]
        case dict():
            return dict[str, Any]
        case None:
            return Optional[str]  # noqa: UP045 - a union of types is built at run time
        case _:
            return str


def _annotated_text(annotation: Any) -> str:
    """The text in `Annotated[..., "text"]`, or in `Doc("text")`."""
    if typing.get_origin(annotation) is not Annotated:
        return ""
    for item in typing.get_args(annotation)[1:]:
        text = item if isinstance(item, str) else getattr(item, "documentation", None)
        if isinstance(text, str):
            return " ".join(text.split())
    return ""


# ---- pydantic underneath -------------------------------------------------------------------


def _model(name: str, parameters: list[_Parameter]) -> type[BaseModel]:
    from pydantic import ConfigDict, create_model
    from pydantic.errors import PydanticUserError

    config = ConfigDict(
        extra="forbid", coerce_numbers_to_str=True, ser_json_inf_nan="null", allow_inf_nan=False
    )
    # Fields have names of their own, since a parameter may be called `schema`, `copy` or `_x`.
    fields: dict[str, Any] = {f"p{index}": _field(parameter) for index, parameter in enumerate(parameters)}
    try:
        model = create_model(name, __config__=config, **fields)
        model.model_json_schema(schema_generator=_generator())
    except (PydanticUserError, TypeError) as err:
        parameter = _culprit(parameters)
        raise ToolSchemaError(
            f"The parameter '{parameter}' of {name} has a type that JSON cannot express: annotate it with "
            f"types made of text, numbers, booleans, lists, dicts, dataclasses or models."
        ) from err
    return model


def _field(parameter: _Parameter) -> tuple[Any, Any]:
    from pydantic import Field

    options: dict[str, Any] = {"alias": parameter.name}
    if parameter.description:
        options["description"] = parameter.description
    if parameter.default is inspect.Parameter.empty:
        return parameter.annotation, Field(**options)
    return parameter.annotation, Field(default=parameter.default, **options)


def _culprit(parameters: list[_Parameter]) -> str:
    """The first parameter whose type alone does not work."""
    from pydantic import TypeAdapter

    for parameter in parameters:
        try:
            TypeAdapter(parameter.annotation).json_schema()
        except Exception:  # Whatever it is, this is the one.
            return parameter.name
    return parameters[0].name if parameters else ""


def _generator() -> Any:
    from pydantic.json_schema import GenerateJsonSchema

    class Quiet(GenerateJsonSchema):
        ignored_warning_kinds = {"skipped-choice", "non-serializable-default", "skipped-discriminator"}  # noqa: RUF012

    return Quiet


def _sentence(error: Mapping[str, Any]) -> str:
    """One pydantic error as a sentence that names the place and what was given."""
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in error["loc"]]
    place = "".join(steps).lstrip(".") or "the arguments"
    match error["type"]:
        case "missing":
            return f"{place} is missing"
        case "extra_forbidden":
            return f"{place} is not a parameter"
        case _:
            given = json.dumps(error["input"], default=str, ensure_ascii=False)
            given = given if len(given) <= 60 else given[:57] + "..."
            said = str(error["msg"]).removeprefix("Value error, ")
            return f"{place}: {said[:1].lower()}{said[1:]}, not {given}"


# ---- tidying the schema --------------------------------------------------------------------

_MAPS_OF_SCHEMAS = ("properties", "patternProperties", "$defs", "dependentSchemas")
_LISTS_OF_SCHEMAS = ("anyOf", "oneOf", "allOf", "prefixItems")
_ONE_SCHEMA = ("items", "additionalProperties", "propertyNames", "not", "contains")


def _inlined(schema: Json) -> Json:
    """The schema without titles, with each reference replaced by what it points to; definitions
    that lead back to themselves stay references."""
    definitions: dict[str, Json] = schema.get("$defs", {})
    recursive = {name for name in definitions if name in _reachable(name, definitions)}
    plain = _tidy({key: item for key, item in schema.items() if key != "$defs"}, definitions, recursive)
    if recursive:
        plain["$defs"] = {
            name: _tidy(definitions[name], definitions, recursive) for name in sorted(recursive)
        }
    return plain


def _reachable(name: str, definitions: dict[str, Json]) -> set[str]:
    found: set[str] = set()
    todo = [name]
    while todo:
        for other in _references(definitions[todo.pop()]):
            if other in definitions and other not in found:
                found.add(other)
                todo.append(other)
    return found


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        yield str(typing.cast("Json", schema).get("$ref", "")).rpartition("/")[2]
    for part in _parts(schema):
        yield from _references(part)


def _parts(schema: Any) -> Iterator[Any]:
    if not isinstance(schema, dict):
        return
    known = typing.cast("Json", schema)
    for key in _MAPS_OF_SCHEMAS:
        yield from known.get(key, {}).values()
    for key in _LISTS_OF_SCHEMAS:
        yield from known.get(key, [])
    for key in _ONE_SCHEMA:
        yield known.get(key)


def _tidy(schema: Any, definitions: dict[str, Json], recursive: set[str]) -> Any:
    if not isinstance(schema, dict):
        return schema
    known = typing.cast("Json", schema)
    target = str(known.get("$ref", "")).rpartition("/")[2]
    if target in definitions and target not in recursive:
        rest = {key: item for key, item in known.items() if key != "$ref"}
        return _tidy({**definitions[target], **rest}, definitions, recursive)
    tidy: Json = {}
    for key, item in known.items():
        if key in _MAPS_OF_SCHEMAS:
            tidy[key] = {name: _tidy(part, definitions, recursive) for name, part in item.items()}
        elif key in _LISTS_OF_SCHEMAS:
            tidy[key] = [_tidy(part, definitions, recursive) for part in item]
        elif key in _ONE_SCHEMA:
            tidy[key] = _tidy(item, definitions, recursive)
        elif key == "discriminator":
            continue
        elif key != "title":
            tidy[key] = item
    return tidy

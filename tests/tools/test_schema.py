from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict

import pytest
from pydantic import BaseModel, Field

from tests.limits import processor_time
from tools.docstring import read_docstring
from tools.schema import ArgumentsError, ToolSchema, ToolSchemaError, tool_definition, validate_arguments


class ToolContext:
    pass


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: float
    y: float = 0.0


class Reader(TypedDict):
    name: str
    age: NotRequired[int]


class Address(BaseModel):
    street: str
    country: str = "DE"


class Person(BaseModel):
    name: str = Field(description="Full name")
    home: Address
    work: Address | None = None


class Node(BaseModel):
    value: int
    children: list[Node] = []


def parameters(function: Callable[..., Any]) -> dict[str, Any]:
    return tool_definition(function)["function"]["parameters"]


def properties(function: Callable[..., Any]) -> dict[str, Any]:
    return parameters(function)["properties"]


# ---- definitions ---------------------------------------------------------------------------


def test_literals_optionals_and_defaults() -> None:
    def act(op: Literal["add", "drop"] = "add", tags: list[str] | None = None, n: int = 3) -> None:
        """Act."""

    assert tool_definition(act) == {
        "type": "function",
        "function": {
            "name": "act",
            "description": "Act.",
            "parameters": {
                "type": "object",
                "properties": {
                    "op": {"type": "string", "enum": ["add", "drop"], "default": "add"},
                    "tags": {
                        "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}],
                        "default": None,
                    },
                    "n": {"type": "integer", "default": 3},
                },
            },
        },
    }


def test_scalars_enums_maps_and_unions() -> None:
    def act(
        colour: Colour,
        flag: bool,
        maybe: Optional[int],  # noqa: UP045
        counts: dict[str, int],
        either: int | str,
        day: date,
        pair: tuple[int, str],
        mode: Colour = Colour.RED,
    ) -> None: ...

    found = properties(act)
    assert found["colour"] == {"type": "string", "enum": ["red", "blue"]}
    assert found["flag"] == {"type": "boolean"}
    assert found["maybe"] == {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    assert found["counts"] == {"type": "object", "additionalProperties": {"type": "integer"}}
    assert found["either"] == {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert found["day"] == {"type": "string", "format": "date"}
    assert found["pair"]["prefixItems"] == [{"type": "integer"}, {"type": "string"}]
    assert found["mode"]["default"] == "red"
    assert parameters(act)["required"] == ["colour", "flag", "maybe", "counts", "either", "day", "pair"]


def test_models_dataclasses_and_typed_dicts_are_inlined() -> None:
    def act(person: Person, point: Point, reader: Reader, readers: list[Reader] | None = None) -> None: ...

    address = {
        "type": "object",
        "properties": {"street": {"type": "string"}, "country": {"type": "string", "default": "DE"}},
        "required": ["street"],
    }
    found = properties(act)
    assert found["person"]["properties"]["home"] == address
    assert found["person"]["properties"]["work"]["anyOf"] == [address, {"type": "null"}]
    assert found["person"]["properties"]["name"] == {"type": "string", "description": "Full name"}
    assert found["point"]["required"] == ["x"]
    assert found["reader"] == {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name"],
        "additionalProperties": False,
    }
    assert found["readers"]["anyOf"][0]["items"] == found["reader"]
    assert "$ref" not in json.dumps(parameters(act))


def test_recursive_models_keep_their_reference() -> None:
    def act(tree: Node, other: Address) -> None: ...

    found = parameters(act)
    assert found["properties"]["tree"] == {"$ref": "#/$defs/Node"}
    assert list(found["$defs"]) == ["Node"]
    assert found["$defs"]["Node"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}


def test_a_property_called_title_survives() -> None:
    class Book(BaseModel):
        title: str

    def act(title: str, book: Book) -> None: ...

    act.__annotations__["book"] = Book
    found = properties(act)
    assert found["title"] == {"type": "string"}
    assert found["book"]["properties"] == {"title": {"type": "string"}}


def test_annotated_descriptions_win_over_the_docstring() -> None:
    def act(
        a: Annotated[int, "plain text"],
        b: Annotated[str, Field(description="a field", min_length=2)],
        c: int,
    ) -> None:
        """Act.

        Args:
            a: not this
            c: this
        """

    found = properties(act)
    assert found["a"] == {"type": "integer", "description": "plain text"}
    assert found["b"] == {"type": "string", "description": "a field", "minLength": 2}
    assert found["c"] == {"type": "integer", "description": "this"}


def test_variadic_and_unannotated_parameters() -> None:
    def note(text, *extra, **opts):  # type: ignore[no-untyped-def]
        "Save a note."

    assert parameters(note) == {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
    }
    assert validate_arguments(note, {"text": "x"}) == {"text": "x"}


def test_an_unannotated_parameter_takes_the_type_of_its_default() -> None:
    def act(n=1, ratio=0.5, on=True, tags=[], more={}, name=None):  # type: ignore[no-untyped-def] # noqa: B006
        pass

    found = properties(act)
    kinds = [found[key].get("type") for key in ("n", "ratio", "on", "tags", "more")]
    assert kinds == ["integer", "number", "boolean", "array", "object"]
    assert found["name"]["anyOf"] == [{"type": "string"}, {"type": "null"}]
    assert "required" not in parameters(act)


def test_parameters_named_like_model_attributes() -> None:
    def act(schema: str, copy: int, model_config: str, _private: int, json: str, p0: int) -> None: ...

    assert list(properties(act)) == ["schema", "copy", "model_config", "_private", "json", "p0"]
    given = {"schema": "s", "copy": 1, "model_config": "m", "_private": 2, "json": "j", "p0": 3}
    assert validate_arguments(act, given) == given


class Box:
    """A box."""

    def put(self, item: str, context: ToolContext) -> None:
        """Put it in.

        :param str item: what to put
        """

    @classmethod
    def make(cls, size: int) -> None: ...

    @staticmethod
    def free(size: int) -> None: ...

    def __call__(self, key: int) -> None: ...


async def fetch(url: str, context: ToolContext | None = None) -> str:
    """Fetch."""
    return url


@pytest.mark.parametrize(
    ("function", "name", "published"),
    [
        (Box().put, "put", ["item"]),
        (Box.put, "put", ["item"]),
        (Box.make, "make", ["size"]),
        (Box.free, "free", ["size"]),
        (Box(), "Box", ["key"]),
        (fetch, "fetch", ["url"]),
        (functools.partial(fetch, context=None), "fetch", ["url"]),
        (functools.wraps(fetch)(lambda *args, **kwargs: fetch(*args, **kwargs)), "fetch", ["url"]),
    ],
)
def test_every_kind_of_callable(function: Any, name: str, published: list[str]) -> None:
    definition = tool_definition(function)["function"]
    assert definition["name"] == name
    assert list(definition["parameters"]["properties"]) == published


def test_a_callable_object_is_described_by_its_class() -> None:
    assert tool_definition(Box())["function"]["description"] == "A box."


def test_a_context_that_is_imported_for_checking_only_is_skipped() -> None:
    def act(a: int, context: Missing.ToolContext) -> None:  # type: ignore[name-defined] # noqa: F821
        pass

    assert list(properties(act)) == ["a"]
    assert properties(act)["a"] == {"type": "integer"}


def test_name_and_description_can_be_given() -> None:
    definition = tool_definition(fetch, name="get", description="Get it.")["function"]
    assert (definition["name"], definition["description"]) == ("get", "Get it.")


def test_a_positional_only_parameter_is_refused_with_a_remedy() -> None:
    def act(a: int, /) -> None: ...

    with pytest.raises(ToolSchemaError, match="take the '/' out"):
        tool_definition(act)


def test_a_type_that_json_cannot_express_is_refused_by_name() -> None:
    def act(a: int, where: Path, what: Box) -> None: ...

    with pytest.raises(ToolSchemaError, match="'what'"):
        tool_definition(act)


def test_a_default_that_json_cannot_express_is_left_out() -> None:
    def act(a: Any = Box) -> None: ...

    assert "default" not in properties(act)["a"]
    assert validate_arguments(act, {}) == {}


# ---- docstrings ----------------------------------------------------------------------------


def google(city: str, days: int = 1) -> None:
    """Weather of a city.

    Looks at the forecast.

    Args:
        city (str): Where,
            in full: with country.
        days: How many: 1 to 7.
        *rest: More.

    Returns:
        The weather: all of it.
    """


def numpy_style(city: str, days: int = 1) -> None:
    """Weather of a city.

    Looks at the forecast.

    Parameters
    ----------
    city : str
        Where,
        in full: with country.
    days : int, optional
        How many: 1 to 7.

    Returns
    -------
    str
        The weather.
    """


def rest_style(city: str, days: int = 1) -> None:
    """Weather of a city.

    Looks at the forecast.

    :param str city: Where,
        in full: with country.
    :param days: How many: 1 to 7.
    :type days: int
    :returns: The weather.
    """


@pytest.mark.parametrize("function", [google, numpy_style, rest_style])
def test_docstring_styles(function: Any) -> None:
    definition = tool_definition(function)["function"]
    assert definition["description"] == "Weather of a city.\n\nLooks at the forecast."
    found = definition["parameters"]["properties"]
    assert found["city"]["description"] == "Where, in full: with country."
    assert found["days"]["description"] == "How many: 1 to 7."


def test_a_docstring_that_only_looks_like_sections() -> None:
    def act(a: int) -> None:
        """Do this.

        Note that it matters: very much.
        Args are not listed.
        """

    assert tool_definition(act)["function"]["description"].count("\n") == 3


@pytest.mark.parametrize(
    "text",
    ["Args:\n" * 3000, "Parameters\n----\n" * 2000, "Args:\n    a" + " " * 60_000 + "x\n",
     "Args:\n    a (" + "(" * 60_000 + "\n", ":param " + "a " * 30_000, ":param x: y\n" * 20_000],
)  # fmt: skip
def test_a_docstring_of_any_length_and_shape_is_read_soon(text: str) -> None:
    with processor_time(2):
        read_docstring("What it does.\n\n" + text)


def test_no_docstring_is_an_empty_description() -> None:
    def act(a: int) -> None: ...

    assert tool_definition(act)["function"]["description"] == ""


# ---- the way back --------------------------------------------------------------------------


def test_arguments_become_python_values() -> None:
    def act(
        colour: Colour,
        point: Point,
        person: Person,
        reader: Reader,
        day: date,
        where: Path,
        ids: set[int],
        n: int = 1,
    ) -> None: ...

    values = validate_arguments(
        act,
        {
            "colour": "blue",
            "point": {"x": 1},
            "person": {"name": "A", "home": {"street": "S"}},
            "reader": {"name": "R"},
            "day": "2024-02-29",
            "where": "/tmp",
            "ids": [1, 1, 2],
        },
    )
    assert values == {
        "colour": Colour.BLUE,
        "point": Point(1.0, 0.0),
        "person": Person(name="A", home=Address(street="S")),
        "reader": {"name": "R"},
        "day": date(2024, 2, 29),
        "where": Path("/tmp"),
        "ids": {1, 2},
    }


def test_only_given_arguments_come_back() -> None:
    seen: list[Any] = []

    def act(a: int, b: list[int] = seen) -> None:
        b.append(a)

    act(**validate_arguments(act, {"a": "5"}))
    assert seen == [5]


def test_errors_name_the_place_and_the_value() -> None:
    def act(city: str, days: list[int], point: Point) -> None: ...

    with pytest.raises(ArgumentsError) as caught:
        validate_arguments(act, {"days": [1, "x"], "point": {"y": 1}, "extra": 1})
    first, second, third, fourth = caught.value.errors
    assert first == "city is missing"
    assert second.startswith("days[1]: ")
    assert second.endswith('not "x"')
    assert third == "point.x is missing"
    assert fourth == "extra is not a parameter"
    assert "city is missing" in str(caught.value)


def test_many_and_huge_errors_stay_short() -> None:
    def act(items: list[int]) -> None: ...

    with pytest.raises(ArgumentsError) as caught:
        validate_arguments(act, {"items": ["x" * 100_000] * 1000})
    assert len(str(caught.value)) < 2000


def test_the_function_is_not_called_and_the_arguments_are_not_changed() -> None:
    given = {"tree": {"value": 1, "children": [{"value": "2"}]}}

    def act(tree: Node) -> None:
        raise AssertionError

    values = validate_arguments(act, given)
    assert values["tree"].children[0].value == 2
    assert given == {"tree": {"value": 1, "children": [{"value": "2"}]}}


@dataclass
class Mutable:
    names: list[str] = field(default_factory=list)


def test_a_schema_is_worked_out_once_and_used_again() -> None:
    def act(box: Mutable) -> None: ...

    schema = ToolSchema(act)
    first = schema.validate({"box": {}})["box"]
    first.names.append("x")
    assert schema.validate({"box": {}})["box"] == Mutable()
    assert schema.definition == tool_definition(act)


def test_importing_it_loads_neither_pydantic_nor_other_rooms() -> None:
    code = (
        "import sys, tools.schema;"
        "print([name for name in ('pydantic', 'app', 'backend') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

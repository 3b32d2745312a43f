"""The filters and tests that chat templates are offered, each with a bound of what it may make.

One that is not named here is not offered: a template that asks for it does not compile.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any, cast

from jinja2 import filters as jinja_filters
from jinja2 import pass_environment
from jinja2 import tests as jinja_tests
from jinja2.environment import Environment
from jinja2.runtime import Undefined

from backend.chat import meter, methods
from backend.chat.limits import LimitError

_FILTERS = cast("dict[str, Callable[..., Any]]", jinja_filters.FILTERS)
_TESTS = cast("dict[str, Callable[..., bool]]", jinja_tests.TESTS)
MAX_WORDY = 256 * 1024
"""Most characters given to a filter that takes a text apart."""
MAX_NUMERAL = 4_000
"""Most characters of a text that is read as a number."""
MAX_PLACES = 300

_TEXT = frozenset("capitalize lower title trim truncate upper urlencode wordcount".split())
_CASING = frozenset("capitalize lower title upper".split())
_WORDY = frozenset("title truncate urlencode wordcount".split())
_SHALLOW = frozenset(
    "attr count d default first items last length list map"
    " reject rejectattr reverse select selectattr".split()
)
_DEEP = frozenset("dictsort groupby max min sort unique".split())
_SHAPED = frozenset("batch slice".split())
_PLAIN_TESTS = frozenset(
    "boolean callable defined divisibleby even false filter float integer iterable mapping none number odd"
    " sameas sequence string test true undefined".split()
)
_COMPARING_TESTS = frozenset(
    "== != > >= < <= eq equalto ne gt greaterthan ge lt lessthan le in".split()
)  # fmt: skip
_TEXT_TESTS = frozenset({"lower", "upper"})
_HASHING_TESTS = frozenset({"filter", "test"})
_BY_ATTRIBUTE = frozenset("dictsort groupby max min rejectattr selectattr sort unique".split())
MAX_STEPS = 100
"""Most names that an attribute may be made of, each looked up in every item."""


def offered_filters() -> dict[str, Callable[..., Any]]:
    """All filters by name."""
    found: dict[str, Callable[..., Any]] = {}
    for name in (*_TEXT, *_SHALLOW, *_DEEP, *_SHAPED):
        found[name] = _metered(name, _FILTERS[name])
    own: dict[str, Callable[..., Any]] = {
        "abs": _absolute, "center": _center, "e": _escape, "escape": _escape, "filesizeformat": _file_size,
        "float": _float, "forceescape": _escape, "format": _format, "from_json": _from_json,
        "indent": _indent, "int": _int, "join": _join, "replace": _replace, "round": _round,
        "safe": meter.text_of, "string": meter.text_of, "sum": _sum, "tojson": _to_json,
    }  # fmt: skip
    return found | {name: _looked_through(function) for name, function in own.items()}


def offered_tests() -> dict[str, Callable[..., Any]]:
    """All tests by name."""
    found = {name: _TESTS[name] for name in _PLAIN_TESTS}
    for name in _COMPARING_TESTS:
        found[name] = _comparing(_TESTS[name])
    for name in _TEXT_TESTS:
        found[name] = _of_text(_TESTS[name])
    for name in _HASHING_TESTS:
        found[name] = _looked_through(_TESTS[name], first=0)
    return found


def _looked_through(function: Callable[..., Any], first: int = 1) -> Callable[..., Any]:
    """A function whose arguments from the `first` on are charged: they may be nested without end."""
    leading = first + (1 if hasattr(function, "jinja_pass_arg") else 0)

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if more := (*args[leading:], *kwargs.values()):
            meter.look_through(more)
        return function(*args, **kwargs)

    return wrapped


def _comparing(test: Callable[..., bool]) -> Callable[..., bool]:
    def compare(*values: Any) -> bool:
        for value in values:
            meter.operand(value)
        return test(*values)

    return compare


def _of_text(test: Callable[[str], bool]) -> Callable[[Any], bool]:
    def told(value: Any) -> bool:
        text = meter.text_of(value)
        meter.current.made(text)
        return test(text)

    return told


def _metered(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """One of jinja2's own filters, charged by what goes in and what comes out."""
    leading = 1 if hasattr(function, "jinja_pass_arg") else 0

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        given = args[leading] if len(args) > leading else None
        meter.look_through((*args[leading + 1 :], *kwargs.values()))
        if name in _TEXT:
            given = _text_for(name, given)
            args = (*args[:leading], given, *args[leading + 1 :])
            if name == "trim":
                methods.check_pairs(given, (*args[leading + 1 :], *kwargs.values()))
        elif name in _DEEP:
            meter.look_through(given)
            _spread(given)
        elif name not in ("d", "default", "attr", "count", "length"):
            _spread(given)
        if name in _BY_ATTRIBUTE or "attribute" in kwargs:
            _check_attributes((*args[leading + 1 : leading + 4], kwargs.get("attribute")), name)
        if name in _SHAPED:
            _check_shape((*args[leading + 1 :], *kwargs.values()))
        return _counted(function(*args, **kwargs), given)

    return wrapped


def _text_for(name: str, given: Any) -> str:
    text = meter.text_of(given)
    if name in _WORDY:
        if len(text) > MAX_WORDY:
            raise LimitError(f"its filter {name} takes at most {MAX_WORDY:,} characters")
        meter.current.charge(len(text) // 4)
    if name in _CASING:
        methods.check_casing(text)
    meter.current.made(text)
    return text


def _spread(given: Any) -> None:
    """Account for the items of what a filter takes one by one."""
    if isinstance(given, str):
        meter.current.charge(2 * len(given))
    elif isinstance(given, Sized):
        meter.current.charge(1 + len(given) // 4)


def _check_attributes(values: tuple[Any, ...], name: str) -> None:
    """Refuse a way through the items that has very many steps."""
    for value in values[:1] + values[-1:] if name.endswith("attr") else values:
        if isinstance(value, str) and value.count(".") + value.count(",") > MAX_STEPS:
            raise LimitError(f"it looks up more than {MAX_STEPS} names in one another")


def _check_shape(values: Iterable[Any]) -> None:
    for value in values:
        if isinstance(value, int):
            methods.check_width(value)
            meter.current.charge(abs(value) // 4)


def _counted(result: Any, given: Any) -> Any:
    if isinstance(result, str):
        meter.current.made(result)
    elif isinstance(result, Iterator):
        chain = given.chain if isinstance(given, meter.Rounds) else 0
        return meter.Rounds(cast("Iterator[Any]", result), chain + 1)
    elif isinstance(result, list):
        meter.current.charge(len(cast("list[Any]", result)) // 8)
    return cast("Any", result)


# ---- numbers -------------------------------------------------------------------------------


def _numeral(value: Any) -> Any:
    if isinstance(value, str | bytes) and len(value) > MAX_NUMERAL:
        raise LimitError(f"it reads a number of more than {MAX_NUMERAL:,} characters")
    meter.current.charge(16)
    return value


def _int(value: Any, default: Any = 0, base: int = 10) -> Any:
    found = _FILTERS["int"](_numeral(value), default, base)
    if isinstance(found, int):
        methods.check_bits(found.bit_length())
    return found


def _float(value: Any, default: Any = 0.0) -> Any:
    return _FILTERS["float"](_numeral(value), default)


def _absolute(value: Any) -> Any:
    return abs(value)


def _round(value: Any, precision: int = 0, method: Any = "common") -> Any:
    if abs(precision) > MAX_PLACES:
        raise LimitError(f"it rounds to more than {MAX_PLACES} places")
    return _FILTERS["round"](value, precision, method)


def _file_size(value: Any, binary: bool = False) -> str:
    return _FILTERS["filesizeformat"](_numeral(value), binary)


@pass_environment
def _sum(environment: Environment, iterable: Iterable[Any], attribute: Any = None, start: Any = 0) -> Any:
    values = iterable
    if attribute is not None:
        values = (environment.getitem(item, attribute) for item in iterable)
    total = start
    for value in values:
        methods.check_binop("+", total, value)
        total = total + value
    return total


# ---- texts ---------------------------------------------------------------------------------


def _center(value: Any, width: int = 80) -> str:
    methods.check_width(width)
    text = meter.text_of(value)
    meter.current.text(max(width, len(text)), 4)
    return text.center(width)


def _escape(value: Any) -> str:
    text = meter.text_of(value)
    for sign, name in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("'", "&#39;"), ('"', "&#34;")):
        text = _replace(text, sign, name)
    return text


def _format(value: Any, *args: Any, **kwargs: Any) -> str:
    if args and kwargs:
        raise ValueError("format takes values by their order or by their names, not both")
    layout, values = meter.text_of(value), kwargs or args
    methods.check_percent(layout, values)
    text = layout % values
    meter.current.made(text)
    return text


def _indent(value: Any, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    """jinja2's `indent`, refused before it multiplies a text by its margin."""
    if not isinstance(width, str):
        methods.check_width(width)
    text = meter.text_of(value)
    margin = width if isinstance(width, str) else " " * width
    count = len(text.splitlines()) if len(text) <= MAX_WORDY else len(text)
    meter.current.text(len(text) + len(margin) * (count + 1), 4)
    meter.current.charge(4 * count)
    lines = text.splitlines(keepends=True)
    shifted = [margin + line if (index or first) and (blank or line.strip()) else line
               for index, line in enumerate(lines)]  # fmt: skip
    return "".join(shifted)


def _replace(value: Any, old: Any, new: Any, count: int | None = None) -> str:
    text, gone, come = meter.text_of(value), meter.text_of(old), meter.text_of(new)
    methods.check_replace(text, gone, come)
    return text.replace(gone, come, -1 if count is None else count)


def _join(value: Iterable[Any], d: Any = "", attribute: str | None = None) -> str:
    values = value
    if attribute is not None:
        values = (
            cast("dict[str, Any]", item).get(attribute, "") if isinstance(item, dict) else ""
            for item in value
        )
    return meter.joined(values, meter.text_of(d))


# ---- JSON ----------------------------------------------------------------------------------


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as published templates expect it: neither HTML- nor ASCII-escaped, generators as lists."""
    width = None if indent is None else max(0, min(int(indent), 16))
    between = sum(len(str(part)) for part in separators) if separators else 2
    writer = meter.json_writer(ensure_ascii)

    def plain(item: object) -> object:
        if isinstance(item, Iterator):
            items: list[object] = list(meter.Rounds(cast("Iterator[object]", item)))
            meter.written_size(items, writer, between=between, indent=width or 0)
            return items
        name = "an undefined value" if isinstance(item, Undefined) else f"a {type(item).__name__}"
        raise TypeError(f"{name} cannot be written as JSON")

    meter.written_size(value, writer, between=between, indent=width or 0)
    text = json.dumps(
        value, ensure_ascii=ensure_ascii, indent=width, separators=separators, sort_keys=sort_keys,
        default=plain,
    )  # fmt: skip
    meter.current.made(text)
    return text


def _from_json(value: str) -> Any:
    text = meter.text_of(value)
    meter.current.made(text)
    # What JSON's brackets become takes far more memory than they do.
    for sign, units in (("{", 4), ("[", 2), (",", 1), (":", 1)):
        meter.current.charge(units * text.count(sign))
    return json.loads(text)

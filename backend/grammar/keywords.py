"""Tells the keywords of a schema that no grammar rule holds to, and those that are mistakes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backend.grammar.document import Form, SchemaError
from backend.grammar.pattern import MalformedPattern, UnsupportedPattern
from backend.grammar.plain import as_object, short
from backend.grammar.rulebook import Rulebook, SchemaPlace
from backend.grammar.strings import found
from backend.grammar.validate import count, is_number, type_names

_UNENFORCED = (
    "not if then else contains minContains maxContains uniqueItems multipleOf dependentRequired "
    "dependentSchemas dependencies unevaluatedItems unevaluatedProperties $dynamicRef $recursiveRef"
).split()
TYPE_OF_KEYWORD = {
    "object": "properties patternProperties additionalProperties required propertyNames minProperties "
    "maxProperties",
    "array": "items prefixItems additionalItems minItems maxItems uniqueItems contains",
    "string": "pattern format minLength maxLength",
    "number": "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf",
}
_EXPECTED: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("properties", "patternProperties"), (dict,)),
    **dict.fromkeys(("required", "enum", "prefixItems", "allOf", "anyOf", "oneOf"), (list,)),
    **dict.fromkeys(("additionalProperties", "propertyNames"), (dict, bool)),
    **dict.fromkeys(("pattern", "format"), (str,)),
    "items": (dict, bool, list),
}
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")


def report(form: Form, place: SchemaPlace, book: Rulebook) -> None:
    """Tell what of a form no rule holds to, and what of it is a mistake."""
    for part in form:
        for keyword in _UNENFORCED:
            if keyword in part and not (keyword == "unevaluatedProperties" and part[keyword] is False):
                book.drop(place, keyword, "no grammar rule expresses it")
        for keyword, expected in _EXPECTED.items():
            if keyword in part and not isinstance(part[keyword], expected):
                tell = book.mistake if keyword == "pattern" else book.drop
                tell(place, keyword, f"{short(part[keyword])} is malformed")
        for keyword in _COUNTS:
            if keyword in part and count(part, keyword) is None:
                book.drop(place, keyword, f"{short(part[keyword])} is not a count")
        if "type" in part and type_names(part) is None:
            book.mistake(place, "type", f"{short(part['type'])} is not a JSON type")
        check_patterns(part, place, book)
        for keyword in TYPE_OF_KEYWORD["number"].split():
            if keyword in part and not is_number(part[keyword]) and not isinstance(part[keyword], bool):
                book.drop(place, keyword, f"{short(part[keyword])} is not a number")


def check_patterns(part: Mapping[str, Any], place: SchemaPlace, book: Rulebook) -> None:
    """What is a regular expression but not one of ours is refused where the rules are strict; else it is
    dropped where its texts are compiled."""
    if not book.strict:
        return
    named = [("patternProperties", name) for name in as_object(part.get("patternProperties"))]
    for keyword, text in (("pattern", part.get("pattern")), *named):
        if not isinstance(text, str):
            continue
        try:
            found(text, "")
        except MalformedPattern as err:
            book.mistake(place, keyword, f"{short(text)} is not a regular expression: {err}")
        except UnsupportedPattern as err:
            raise SchemaError(
                f"The schema has a pattern at {place.path} that cannot be checked: {err} "
                f"('{keyword}' {short(text)}). Write it another way, or leave it out."
            ) from err

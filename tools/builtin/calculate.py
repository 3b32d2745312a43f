"""The tool that works out arithmetic, without evaluating code and with bounded numbers."""

from __future__ import annotations

import ast
import math
import warnings
from collections.abc import Callable
from decimal import Context, Decimal, DecimalException, localcontext
from typing import TypeAlias

from tools.definition import ToolError, tool

Number: TypeAlias = int | Decimal

_LONGEST = 1000
_DEEPEST = 60
_MOST_DIGITS = 1000
_MOST_BITS = 3322
_SHOWN_DIGITS = 15
_PRECISION = 40
_LARGEST_EXPONENT = _MOST_DIGITS
"""Of a number with a fraction, too: made whole, one of 1e99999 would take half a second."""
_LARGEST_FACTORIAL = 400
_SIGNS = str.maketrans({"\u00d7": "*", "\u00f7": "/", "\u2212": "-", "\u00b7": "*", "^": "§"})


@tool(does="nothing")
def calculate(expression: str) -> str:
    """Work out an arithmetic expression exactly.

    Args:
        expression: Numbers with + - * / // % ** and brackets, the functions sqrt, cbrt, exp, ln, log,
            log2, log10, sin, cos, tan, asin, acos, atan, degrees, radians, abs, round, floor, ceil, min,
            max, sum, gcd, lcm, factorial, comb, perm, and the constants pi, e and tau.
    """
    if len(expression) > _LONGEST:
        raise ToolError(f"The expression is longer than {_LONGEST:,} characters.")
    text = expression.strip().rstrip("=").translate(_SIGNS).replace("§", "**")
    context = Context(prec=_PRECISION, Emax=_LARGEST_EXPONENT, Emin=-_LARGEST_EXPONENT)
    try:
        tree = _parsed(text.strip())
        with localcontext(context):
            return _shown(_value(tree.body, text.strip(), 0))
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError) as err:
        raise ToolError(f"{expression[:200]!r} is not arithmetic: {_first_line(err)}.") from err
    except (ZeroDivisionError, DecimalException, OverflowError) as err:
        raise ToolError(f"{expression[:200]!r} has no value that can be shown: {_why(err)}.") from err


def _parsed(text: str) -> ast.Expression:
    """The expression; what Python would warn of on the terminal is an error. Raises SyntaxError."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return ast.parse(text, mode="eval")


def _value(node: ast.expr, text: str, depth: int) -> Number:
    if depth > _DEEPEST:
        raise ValueError(f"it is nested more than {_DEEPEST} levels deep")
    match node:
        case ast.Constant(value=bool()):
            raise ValueError("it contains something that is not a number")
        case ast.Constant(value=int() as number):
            return _bounded(number)
        case ast.Constant(value=float()):
            # Its value as a float is rounded, and infinite from 1e309 on.
            return +Decimal(ast.get_source_segment(text, node) or "")
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, text, depth + 1)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand, text, depth + 1)
        case ast.BinOp(left=left, op=op, right=right):
            return _bounded(_binary(op, _value(left, text, depth + 1), _value(right, text, depth + 1)))
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            return _bounded(_FUNCTIONS[name](*(_value(argument, text, depth + 1) for argument in arguments)))
        case _:
            raise ValueError(f"{ast.unparse(node)[:60]!r} is not understood")


def _binary(op: ast.operator, left: Number, right: Number) -> Number:
    match op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.Div():
            exact = isinstance(left, int) and isinstance(right, int) and right and left % right == 0
            return left // right if exact else Decimal(left) / Decimal(right)
        case ast.FloorDiv():
            return left // right if isinstance(left, int) and isinstance(right, int) else _floor(left, right)
        case ast.Mod():
            if isinstance(left, int) and isinstance(right, int):
                return left % right
            return Decimal(left) - Decimal(right) * _floor(left, right)
        case ast.Pow():
            return _power(left, right)
        case _:
            raise ValueError("it uses an operator that is not understood")


def _floor(left: Number, right: Number) -> int:
    return math.floor(Decimal(left) / Decimal(right))


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, int) and isinstance(exponent, int) and exponent >= 0:
        if base.bit_length() * exponent > _MOST_BITS and abs(base) > 1:
            raise OverflowError(f"the power has more than {_MOST_DIGITS:,} digits")
        return base**exponent
    return Decimal(base) ** Decimal(exponent)


def _bounded(number: Number) -> Number:
    if isinstance(number, int) and number.bit_length() > _MOST_BITS:
        raise OverflowError(f"a number has more than {_MOST_DIGITS:,} digits")
    if isinstance(number, Decimal) and not number.is_finite():
        raise OverflowError("a number is not finite")
    return number


def _by_float(function: Callable[[float], float]) -> Callable[[Number], Number]:
    def call(number: Number) -> Number:
        return Decimal(repr(function(float(number))))

    return call


def _whole(number: Number, most: int) -> int:
    if number != int(number) or not 0 <= number <= most:
        raise ValueError(f"a whole number from 0 to {most} is needed")
    return int(number)


def _integers(numbers: tuple[Number, ...]) -> list[int]:
    if any(number != int(number) for number in numbers):
        raise ValueError("whole numbers are needed")
    return [int(number) for number in numbers]


def _round(number: Number, digits: Number = 0) -> Number:
    places = _whole(digits, 30)
    return round(number) if places == 0 else round(Decimal(number), places)


def _sqrt(number: Number) -> Number:
    if isinstance(number, int) and number >= 0 and math.isqrt(number) ** 2 == number:
        return math.isqrt(number)
    return Decimal(number).sqrt()


def _logarithm(number: Number, base: Number | None = None) -> Number:
    found = Decimal(number).ln()
    return found if base is None else found / Decimal(base).ln()


def _exp(number: Number) -> Number:
    return Decimal(number).exp()


def _log2(number: Number) -> Number:
    return _logarithm(number, 2)


def _log10(number: Number) -> Number:
    return Decimal(number).log10()


def _sum(*numbers: Number) -> Number:
    return sum(numbers)


def _gcd(*numbers: Number) -> Number:
    return math.gcd(*_integers(numbers))


def _lcm(*numbers: Number) -> Number:
    found = 1
    for number in _integers(numbers):
        found = math.lcm(found, number)
        _bounded(found)
    return found


def _factorial(number: Number) -> Number:
    return math.factorial(_whole(number, _LARGEST_FACTORIAL))


def _choose(function: Callable[[int, int], int]) -> Callable[[Number, Number], Number]:
    def call(count: Number, chosen: Number) -> Number:
        return function(_whole(count, 10 * _LARGEST_FACTORIAL), _whole(chosen, _LARGEST_FACTORIAL))

    return call


_CONSTANTS: dict[str, Decimal] = {
    "pi": Decimal("3.1415926535897932384626433832795028841972"),
    "e": Decimal("2.7182818284590452353602874713526624977572"),
    "tau": Decimal("6.2831853071795864769252867665590057683943"),
}

_FUNCTIONS: dict[str, Callable[..., Number]] = {
    "sqrt": _sqrt,
    "cbrt": _by_float(math.cbrt),
    "exp": _exp,
    "ln": _logarithm,
    "log": _logarithm,
    "log2": _log2,
    "log10": _log10,
    "sin": _by_float(math.sin),
    "cos": _by_float(math.cos),
    "tan": _by_float(math.tan),
    "asin": _by_float(math.asin),
    "acos": _by_float(math.acos),
    "atan": _by_float(math.atan),
    "degrees": _by_float(math.degrees),
    "radians": _by_float(math.radians),
    "abs": abs,
    "round": _round,
    "floor": math.floor,
    "ceil": math.ceil,
    "min": min,
    "max": max,
    "sum": _sum,
    "gcd": _gcd,
    "lcm": _lcm,
    "factorial": _factorial,
    "comb": _choose(math.comb),
    "perm": _choose(math.perm),
}


def _shown(number: Number) -> str:
    if isinstance(number, int):
        return str(number)
    rounded = Context(prec=_SHOWN_DIGITS, Emax=_LARGEST_EXPONENT, Emin=-_LARGEST_EXPONENT).plus(number)
    if rounded == 0:
        return "0"
    plain = -7 <= rounded.adjusted() <= 20
    return f"{rounded.normalize():f}" if plain else f"{rounded.normalize():E}"


def _first_line(err: BaseException) -> str:
    text = str(err.msg if isinstance(err, SyntaxError) else err).partition("\n")[0]
    return text or "it is too deeply nested"


def _why(err: Exception) -> str:
    match err:
        case ZeroDivisionError():
            return "it divides by zero"
        case DecimalException():
            return "it is undefined or out of range"
        case _:
            return str(err)

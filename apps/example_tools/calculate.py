"""A calculator that walks the expression's syntax tree: nothing is evaluated as Python."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable
from typing import Annotated, Any

from langchain_core.tools import tool

MAX_CHARS = 500
MAX_DEPTH = 60
MAX_BITS = 4096
"""Of an exact integer: about 1,200 digits."""
MAX_ROUND_DIGITS = 100

Number = int | float

_SIGNS = str.maketrans({"×": "*", "÷": "/", "−": "-", "^": "**", "（": "(", "）": ")"})
_OTHER_CHARACTERS = re.compile(r"[^0-9A-Za-z_.,+\-*/%()\s]")
_GLUED = re.compile(r"[0-9.](?![eE][-+]?[0-9])[A-Za-z_]")

_CONSTANTS: dict[str, Number] = {"pi": math.pi, "e": math.e}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Number]] = {ast.USub: operator.neg, ast.UAdd: operator.pos}


@tool
def calculate(
    expression: Annotated[str, "For example: 17 * 23, (1 + 2) ** 10 / 3, sqrt(2) * pi, round(10 / 3, 2)"],
) -> str:
    """Work out an arithmetic expression exactly.

    Knows + - * / // % ** (also × ÷ − ^), parentheses, pi, e, and the functions sqrt, abs, round, min, max,
    floor and ceil. Numbers are written without thousands separators or units.
    """
    return evaluate(expression)


def evaluate(expression: str) -> str:
    """The result of an expression as text.

    Raises:
        ValueError: It is no arithmetic, has no real result, or is too large; the text says which.
    """
    try:
        return _text(_value(_parsed(expression), 0))
    except ZeroDivisionError:
        raise ValueError("division by zero") from None
    except OverflowError:
        raise ValueError("a number in it is too large") from None


def _parsed(expression: str) -> ast.expr:
    text = expression.strip()
    if not text:
        raise ValueError("the expression is empty; give one such as 17 * 23")
    if len(text) > MAX_CHARS:
        raise ValueError(f"the expression has {len(text)} characters; at most {MAX_CHARS} are accepted")
    text = text.translate(_SIGNS)
    strange = _OTHER_CHARACTERS.search(text)
    if strange:
        raise ValueError(f"{strange[0]!r} is not part of arithmetic; give numbers, operators and functions")
    glued = _GLUED.search(text)
    if glued:
        raise ValueError(f"{glued[0]!r} is unclear; write 2 * pi for 2pi, and decimal numbers only")
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"not an expression: {error.msg}") from None
    except (MemoryError, RecursionError):
        raise ValueError("the expression is nested too deeply") from None


def _value(node: ast.expr, depth: int) -> Number:
    if depth > MAX_DEPTH:
        raise ValueError(f"the expression is nested more than {MAX_DEPTH} deep")
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _bounded(number)
        case ast.Name(id=name) if name.lower() in _CONSTANTS:
            return _CONSTANTS[name.lower()]
        case ast.UnaryOp(op=sign, operand=operand) if type(sign) in _UNARY:
            return _UNARY[type(sign)](_value(operand, depth + 1))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _BINARY:
            return _bounded(_BINARY[type(sign)](_value(left, depth + 1), _value(right, depth + 1)))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name.lower() in _FUNCTIONS:
            return _called(name.lower(), [_value(arg, depth + 1) for arg in args])
        case ast.Name(id=name) | ast.Call(func=ast.Name(id=name)):
            known = ", ".join([*_CONSTANTS, *_FUNCTIONS])
            raise ValueError(f"{name!r} is not known or used otherwise than it can be; known are {known}")
    raise ValueError(f"{ast.unparse(node)!r} is not arithmetic; give one expression such as (1 + 2) * 3")


def _called(name: str, args: list[Number]) -> Number:
    try:
        return _bounded(_FUNCTIONS[name](*args))
    except TypeError:
        raise ValueError(f"{name} does not take these arguments: {', '.join(map(_text, args))}") from None
    except ValueError as error:
        raise ValueError(f"{name}({', '.join(map(_text, args))}): {error}") from None


def _bounded(number: Any) -> Number:
    if isinstance(number, complex):
        raise ValueError("the result is not a real number")
    if isinstance(number, int):
        if number.bit_length() > MAX_BITS:
            raise OverflowError
        return number
    if not math.isfinite(number):
        raise OverflowError
    return float(number)


def _divide(left: Number, right: Number) -> Number:
    """Exact where the result is whole."""
    if isinstance(left, int) and isinstance(right, int) and right and left % right == 0:
        return left // right
    return left / right


def _power(base: Number, exponent: Number) -> Any:
    """Refuses before it computes: `9**9**9` would take for ever."""
    if (
        isinstance(base, int)
        and isinstance(exponent, int)
        and (abs(base).bit_length() - 1) * exponent > MAX_BITS
    ):
        raise OverflowError
    return base**exponent


def _round(number: Number, digits: Number = 0) -> Number:
    if not isinstance(digits, int) or abs(digits) > MAX_ROUND_DIGITS:
        raise ValueError(f"round to a whole number of digits, at most {MAX_ROUND_DIGITS}")
    return round(number, digits) if digits else round(number)


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _divide,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sqrt": math.sqrt,
    "abs": abs,
    "round": _round,
    "min": min,
    "max": max,
    "floor": math.floor,
    "ceil": math.ceil,
}


def _text(number: Number) -> str:
    """Shortest text that reads back as the number; whole ones without a point."""
    return str(number) if isinstance(number, int) else repr(number + 0.0).removesuffix(".0")

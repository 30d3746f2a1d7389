"""The inside of a block of call markup: which calls it holds. Pure."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Literal

from turnflow.graph.strict_json import read_object
from turnflow.graph.text_call import TextCall

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_NAME = 128
"""Characters of a name that stands in markup, or that is made out in a body which cannot be read."""

_MAX_MENDED_CHARS = 20_000
"""Characters of bodies that may be mended in a reply: to mend takes a hundred times longer than to read."""

BlockKind = Literal["hermes", "dsml_calls", "dsml_invoke", "token_calls", "token_call"]
"""What a block of call markup is: `dsml_calls` and `token_calls` hold items, which may also stand alone
(`dsml_invoke`, `token_call`)."""


class Mender:
    """Says what of one reply may be mended, so that the time a reply takes stays short."""

    def __init__(self) -> None:
        self._left = _MAX_MENDED_CHARS

    def may_mend(self, body: str) -> bool:
        """Say whether a body may be mended, and count it if so."""
        if len(body) > self._left:
            return False
        self._left -= len(body)
        return True


Units = tuple[str, ...]
"""A mark as patterns that match one after the other; the first matches `<`, and each matches one character
or a run in which every beginning matches too, so that the first part of a mark can be told."""


def units(mark: str) -> Units:
    """A DeepSeek mark's patterns: bars may be fullwidth or ASCII, a `▁` also `_` or a space."""
    return tuple({"|": "[|｜]", "▁": "[▁_ ]"}.get(char, re.escape(char)) for char in mark)


_NAME = rf'[^"<>`\\\n]{{1,{MAX_NAME}}}'
INVOKE: Units = (*units('<|DSML|invoke name="'), _NAME, '"', ">")
INVOKE_CLOSER: Units = units("</|DSML|invoke>")
PARAMETER: Units = (*units('<|DSML|parameter name="'), _NAME, '"', ">")
PARAMETER_AS: Units = (*PARAMETER[:-1], *units(' string="'), "[a-z]{1,5}", '"', ">")
PARAMETER_CLOSER: Units = units("</|DSML|parameter>")
TOKEN_CALL: Units = units("<|tool▁call▁begin|>")
TOKEN_CALL_CLOSER: Units = units("<|tool▁call▁end|>")

STRING = r'"(?:[^"\\]|\\.)*+"?'
"""A JSON string, whose end may be missing."""
_CLOSER = "".join(PARAMETER_CLOSER)
_VALUE = rf"[^<]*+(?:<(?!{_CLOSER[1:]})[^<]*+)*+"
_PARAMETER_HEAD = rf'{"".join(PARAMETER[:-3])}({_NAME})"(?: string="([a-z]{{1,5}})")?>'
_PARAMETER = re.compile(rf"\s*{_PARAMETER_HEAD}({_VALUE}){_CLOSER}\s*", re.DOTALL)

_INVOKE = re.compile("".join(INVOKE).replace(_NAME, f"({_NAME})"))
_INVOKE_END = re.compile(
    rf"(?P<end>{''.join(INVOKE_CLOSER)})|{STRING}|{''.join(PARAMETER_AS)}{_VALUE}|{''.join(PARAMETER)}{_VALUE}",
    re.DOTALL,
)
_TOKEN_CALL = re.compile("".join(TOKEN_CALL))
_TOKEN_CALL_END = re.compile(rf"(?P<end>{''.join(TOKEN_CALL_CLOSER)})|{STRING}", re.DOTALL)
_SEPARATOR = re.compile("".join(units("<|tool▁sep|>")))

_NAME_IN_JSON = re.compile(rf'"name"\s*:\s*"([^"\\\n]{{1,{MAX_NAME}}})"')
_BLANKS = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder(strict=False, parse_int=float)
"""Finds where a value ends; numbers are not read, only passed over."""


def read_block(kind: BlockKind, opener: str, body: str, mender: Mender) -> list[TextCall] | None:
    """The calls of a block that was closed, or None if no name can be made out: then it is text.

    Args:
        kind: What the block is.
        opener: The markup that opened it.
        body: What stands between that and the closer.
        mender: The reply's.
    """
    match kind:
        case "hermes":
            calls = _hermes(opener, body, mender)
        case "dsml_calls":
            calls = [_invoke(name, content) for name, content in _invokes(body)]
        case "dsml_invoke":
            calls = [_invoke(_invoke_name(opener), body)]
        case "token_calls":
            calls = [_token_call(content) for content in _token_calls(body)]
        case "token_call":
            calls = [_token_call(body)]
    return calls if any(call["name"] for call in calls) else None


def cut_off_call(kind: BlockKind, opener: str, body: str) -> TextCall:
    """What stands for a block in which the reply was cut off: one call, by the block's first name."""
    match kind:
        case "hermes":
            name = _name_in(body)
        case "dsml_calls":
            name = _invoke_name(body)
        case "dsml_invoke":
            name = _invoke_name(opener)
        case "token_calls":
            name = next((_token_name(content, cut_off=True) for content in _token_calls(body)), "")
        case "token_call":
            name = _token_name(body, cut_off=True)
    return {"name": name or _name_in(body), "arguments": body, "complete": False}


def members(text: str, at: int) -> tuple[dict[str, str], int]:
    """The members of the JSON object that begins at a place, as they are written, and the object's end.

    Raises:
        ValueError: No JSON object begins there, or a key is given twice.
        RecursionError: It is nested too deeply.
    """
    if text[at : at + 1] != "{":
        raise ValueError("no object begins here")
    found: dict[str, str] = {}
    at = _past_blanks(text, at + 1)
    if text[at : at + 1] == "}":
        return found, at + 1
    while True:
        key, at = _DECODER.raw_decode(text, at)
        at = _past_blanks(text, at)
        if not isinstance(key, str) or key in found or text[at : at + 1] != ":":
            raise ValueError("a key is no text, is given twice or has no value")
        begin = _past_blanks(text, at + 1)
        _, end = _DECODER.raw_decode(text, begin)
        found[key] = text[begin:end]
        at = _past_blanks(text, end)
        mark = text[at : at + 1]
        if mark == "}":
            return found, at + 1
        if mark != ",":
            raise ValueError("a member ends in neither a comma nor a bracket")
        at = _past_blanks(text, at + 1)


def call_in(written: dict[str, str]) -> TextCall:
    """The call that an object's members are.

    Raises:
        ValueError: They name no tool, or have arguments twice.
    """
    name = json.loads(written.get("name", "null"), strict=False, parse_int=float)
    if not isinstance(name, str) or not name.strip():
        raise ValueError("the object names no tool")
    name.encode()  # half of a surrogate pair can be neither stored nor sent
    if "arguments" in written and "parameters" in written:
        raise ValueError("the object has arguments twice")
    arguments = written.get("arguments", written.get("parameters", "null"))
    if arguments.startswith('"'):
        arguments = str(json.loads(arguments, strict=False))
    return _whole(name, "" if arguments == "null" else arguments)


def _whole(name: str, arguments: str) -> TextCall:
    return {"name": name.strip(), "arguments": arguments if arguments.strip() else "{}", "complete": True}


def _hermes(opener: str, body: str, mender: Mender) -> list[TextCall]:
    # What cannot be read must not be taken for the arguments by a reader that mends it: the opener bars that.
    unreadable = opener + body
    try:
        written = list(_objects(body))
    except (ValueError, RecursionError):
        written = []
        if mender.may_mend(body):
            try:
                mended = json.dumps(read_object(body), ensure_ascii=False)
            except (ValueError, RecursionError):
                unreadable = body
            else:
                written = [members(mended, 0)[0]]
    try:
        calls = [call_in(one) for one in written]
    except (ValueError, RecursionError):
        calls = []
    return calls or [_whole(_name_in(body), unreadable)]


def _objects(body: str) -> Iterator[dict[str, str]]:
    """The members of objects that stand one after the other, or in one list.

    Raises:
        ValueError: Something else stands there, or too much.
        RecursionError: An object is nested too deeply.
    """
    at = _past_blanks(body, 0)
    end, in_list = len(body.rstrip(" \t\r\n")), body.startswith("[", at)
    if in_list:
        at, end = _past_blanks(body, at + 1), end - 1
        if body[end] != "]":
            raise ValueError("the list has no end")
    while True:
        written, at = members(body, at)
        yield written
        at = _past_blanks(body, at)
        if at >= end:
            return
        if in_list:
            if body[at] != ",":
                raise ValueError("the list has no comma")
            at = _past_blanks(body, at + 1)


def _invokes(body: str) -> Iterator[tuple[str, str]]:
    """Each invoke's name and content."""
    for opener, content in _items(body, _INVOKE, _INVOKE_END):
        yield _invoke_name(opener), content


def _token_calls(body: str) -> Iterator[str]:
    """Each call's content."""
    for _, content in _items(body, _TOKEN_CALL, _TOKEN_CALL_END):
        yield content


def _items(body: str, opener: re.Pattern[str], inside: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Each item's opener and content, in one pass; an item that is not closed goes on to the end."""
    at = 0
    while head := opener.search(body, at):
        ends = (mark for mark in inside.finditer(body, head.end()) if mark.lastgroup)
        end = next(ends, None)
        yield head[0], body[head.end() : end.start() if end else len(body)]
        at = end.end() if end else len(body)


def _invoke_name(text: str) -> str:
    found = _INVOKE.search(text)
    return found[1].strip() if found else ""


def _invoke(name: str, content: str) -> TextCall:
    """Read parameters, or JSON, which is taken as it is: it is read when the call is run."""
    parameters: dict[str, str] = {}
    at = 0
    while parameter := _PARAMETER.match(content, at):
        key, is_text, value = parameter.groups()
        if key in parameters:
            return _whole(name, content)
        parameters[key] = json.dumps(value, ensure_ascii=False) if is_text == "true" else _as_json(value)
        at = parameter.end()
    if not parameters:
        return _whole(name, content.strip())
    if at < len(content):
        return _whole(name, content)
    written = (f"{json.dumps(key, ensure_ascii=False)}: {value}" for key, value in parameters.items())
    return _whole(name, f"{{{', '.join(written)}}}")


def _as_json(value: str) -> str:
    """The JSON that a parameter's text is; if it is none, a JSON string that holds the text."""
    try:
        json.loads(value, strict=False, parse_int=float)
    except RecursionError:
        pass
    except ValueError:
        return json.dumps(value, ensure_ascii=False)
    return value.strip()


def _token_call(content: str) -> TextCall:
    """Read `NAME<sep>{…}` or `function<sep>NAME`, a line's end and the arguments in a fence."""
    name = _token_name(content)
    if not name:
        return _whole(_name_in(content), content)
    head, arguments = _split(content)
    if _is_type(head, arguments):
        arguments = arguments.lstrip().partition("\n")[2]
    return _whole(name, _without_fence(arguments.strip()))


def _token_name(content: str, *, cut_off: bool = False) -> str:
    """The name of the call, or "" if there is none or, in a call that was cut off, only a part of it."""
    if not _SEPARATOR.search(content):
        return ""
    head, rest = _split(content)
    if _is_type(head, rest):
        line, newline, _ = rest.lstrip().partition("\n")
        head = "" if cut_off and not newline else line
    name = head.strip()
    return name if re.fullmatch(_NAME, name) else ""


def _split(content: str) -> tuple[str, str]:
    head, *rest = _SEPARATOR.split(content, maxsplit=1)
    return head, "".join(rest)


def _is_type(head: str, rest: str) -> bool:
    """Say whether a call begins with its type, so that its name is still to come."""
    return head.strip() == "function" and not rest.lstrip().startswith(("{", "`"))


def _without_fence(text: str) -> str:
    fence, _, inner = text.partition("\n")
    is_fenced = fence.startswith("```") and inner.endswith("```")
    return inner.removesuffix("```").strip() if is_fenced else text


def _name_in(body: str) -> str:
    """The name that a body which cannot be read gives first, or ""."""
    found = _NAME_IN_JSON.search(body)
    return found[1].strip() if found else ""


def _past_blanks(text: str, at: int) -> int:
    return _BLANKS.match(text, at).end()  # type: ignore[union-attr]  # it matches the empty text too

"""Tool calls written as text, the way the model is to write them. The reverse of reading them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from turnflow.graph.profile import Dialect


def write_calls(calls: Sequence[Mapping[str, Any]], dialect: Dialect) -> str:
    """The calls (`name` and `args`) as text in a dialect."""
    return _WRITERS[dialect]([(str(call["name"]), dict(call["args"])) for call in calls])


def call_example(dialect: Dialect, name: str, argument: str, value: str) -> str:
    """A call with placeholders, to show to the model."""
    return write_calls([{"name": name, "args": {argument: value}}], dialect)


_Calls = Sequence[tuple[str, dict[str, Any]]]


def _hermes(calls: _Calls) -> str:
    return "\n".join(
        f"<tool_call>\n{_json({'name': name, 'arguments': args})}\n</tool_call>" for name, args in calls
    )


def _deepseek(calls: _Calls) -> str:
    lines = ["<｜DSML｜function_calls>"]
    for name, args in calls:
        lines.append(f'<｜DSML｜invoke name="{name}">')
        for key, value in args.items():
            is_text = isinstance(value, str)
            text = value if is_text else _json(value)
            flag = "true" if is_text else "false"
            lines.append(f'<｜DSML｜parameter name="{key}" string="{flag}">{text}</｜DSML｜parameter>')
        lines.append("</｜DSML｜invoke>")
    return "\n".join([*lines, "</｜DSML｜function_calls>"])


def _deepseek_tokens(calls: _Calls) -> str:
    written = (
        f"<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{_json(args)}<｜tool▁call▁end｜>" for name, args in calls
    )
    return f"<｜tool▁calls▁begin｜>{''.join(written)}<｜tool▁calls▁end｜>"


def _lone_json(calls: _Calls) -> str:
    return "\n".join(_json({"name": name, "arguments": args}) for name, args in calls)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


_WRITERS = {
    "hermes": _hermes,
    "deepseek": _deepseek,
    "deepseek_tokens": _deepseek_tokens,
    "json": _lone_json,
}

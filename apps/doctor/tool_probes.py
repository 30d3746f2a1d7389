"""The probes about tool calls and what a conversation with tool calls may look like."""

from __future__ import annotations

from typing import Any

from turnflow.apps.doctor.call_style import call_count, call_names, call_styles
from turnflow.apps.doctor.probe import Asking, Found, Probe
from turnflow.apps.doctor.reply import Reply, shortened
from turnflow.graph.profile import Dialect

TOOL_NAME = "add"
TOOL = {
    "type": "function",
    "function": {
        "name": TOOL_NAME,
        "description": "Adds two numbers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
    },
}
ONE_CALL = "Use the tool add to work out 17 + 25. Call the tool, do not calculate yourself."
TWO_CALLS = "Use the tool add twice, both calls in one reply: once for 17 + 25 and once for 40 + 2."
TOOL_TOKENS = 128

ANY_ID, SHORT_ID = "call_turnflow_0001", "turnflow1"
"""An id as most providers make them, and one of nine letters and digits."""

_WRITTEN: tuple[tuple[Dialect, str], ...] = (
    ("hermes", "<tool_call>"),
    ("deepseek", "｜DSML｜"),
    ("deepseek_tokens", "<｜tool▁call"),
)
"""What a call looks like in the text of a model, by dialect."""
_ROUND_WORDS = ("tool_call", "tool call", "role", "template", "content", "message")


async def native_tools(asking: Asking) -> Found:
    """Whether the model calls a tool when it is plainly asked to, and when it is made to."""
    reply = asking.endpoint.kept["native_tools"] = await _call(asking, ONE_CALL)
    taken = reply.taken(("tool", "function"))
    if taken and reply.call_deltas:
        return Found(True, _called(reply))
    if taken and (dialect := dialect_in(reply.text)):
        return Found(False, f"the calls come as text ({dialect}): nothing reads them")
    return await _made_to_call(asking, reply) if taken else Found(taken, reply.told)


async def _made_to_call(asking: Asking, plain: Reply) -> Found:
    """Whether a model calls that did not when it was plainly asked to."""
    choices: tuple[Any, ...] = ({"type": "function", "function": {"name": TOOL_NAME}}, "required")
    forced = plain
    for choice in choices:
        forced = await _call(asking, ONE_CALL, tool_choice=choice)
        if forced.call_deltas:
            return Found(True, f"only when made to: {_called(forced)}")
        if forced.taken():
            break
    if not forced.taken():
        return Found(None, f"asked plainly, it does not call; made to, {forced.told}")
    if any(reply.is_cut_off or reply.ending == "late" for reply in (plain, forced)):
        return Found(None, "the replies ended before a call")
    return Found(False, f"tools are taken and not called; it said {shortened(forced.text)!r}")


async def text_dialect(asking: Asking) -> Found:
    """How the model writes calls where the server does not read them."""
    reply = asking.endpoint.kept.get("native_tools") or Reply()
    if not reply.taken():
        return Found(None, "no reply to read")
    dialect = dialect_in(reply.text)
    return Found(dialect or False, shortened(reply.text) if dialect else "no call stood in the text")


async def parallel_calls(asking: Asking) -> Found:
    """Whether two calls come in one reply."""
    reply = asking.endpoint.kept["parallel_calls"] = await _call(asking, TWO_CALLS)
    count = call_count(reply.call_deltas)
    if not count:
        return Found(None, "no call came" if reply.taken() else reply.told)
    return Found(
        count > 1, f"{count} calls in one reply" if count > 1 else "one call, though two were asked for"
    )


async def call_deltas(asking: Asking) -> Found:
    """How the deltas of calls depart from OpenAI's way."""
    kept = asking.endpoint.kept
    reply = max(
        (kept[name] for name in ("parallel_calls", "native_tools") if name in kept),
        key=_calls_in,
        default=Reply(),
    )
    if not reply.call_deltas:
        return Found(None, "no call came")
    styles = call_styles(reply.call_deltas)
    count = call_count(reply.call_deltas)
    deltas = sum(map(len, reply.call_deltas))
    seen = f"{deltas} {'delta' if deltas == 1 else 'deltas'} for {count} {'call' if count == 1 else 'calls'}"
    return Found(styles, seen if styles else f"{seen}, as OpenAI sends them")


async def parallel_parameter(asking: Asking) -> Found:
    """Whether `parallel_tool_calls` is taken."""
    return await asking.takes(ONE_CALL, tools=[TOOL], parallel_tool_calls=True, words=("parallel",))


async def call_ids(asking: Asking) -> Found:
    """Which ids of calls are taken back; finds out what a conversation with calls needs besides."""
    ways = asking.endpoint.ways
    field = _reasoning_field(asking)
    needed: list[dict[str, Any]] = [{}, *([{field: "I add."}] if field else [])]
    refusals = []
    for call_id in (ANY_ID, SHORT_ID):
        for fields in needed:
            ways.call_id, ways.call_fields = call_id, fields
            found = await asking.takes(_round(asking), tools=[TOOL], words=_ROUND_WORDS)
            if found.value:
                besides = f" with {field}, not without" if fields else ""
                told = f"{call_id} is taken" + besides
                return Found("alnum9" if call_id == SHORT_ID else "any", told)
            refusals.append(found)
    if any(found.value is None for found in refusals):
        return Found(None, refusals[0].evidence)
    return Found(None, f"a conversation with a call is refused in any form: {refusals[0].evidence}")


async def null_content(asking: Asking) -> Found:
    """Whether a message with calls may go without text."""
    return await asking.takes(_round(asking, content=None), tools=[TOOL], words=_ROUND_WORDS)


async def user_after_tool(asking: Asking) -> Found:
    """Whether the user may speak directly behind a result."""
    messages = [*_round(asking), {"role": "user", "content": "Go on."}]
    return await asking.takes(messages, tools=[TOOL], words=_ROUND_WORDS)


async def reasoning_back(asking: Asking) -> Found:
    """Whether a message with calls may carry the thoughts that came before them."""
    field = _reasoning_field(asking)
    if field is None:
        return Found(None, "no field with thoughts came")
    return await asking.takes(_round(asking, **{field: "I add."}), tools=[TOOL], words=(field, "reasoning"))


def dialect_in(text: str) -> Dialect | None:
    """The dialect of a call that stands in a text."""
    return next((dialect for dialect, mark in _WRITTEN if mark in text), None)


async def _call(asking: Asking, prompt: str, **parameters: Any) -> Reply:
    return await asking.chat(prompt, tokens=TOOL_TOKENS, tools=[TOOL], **parameters)


def _round(asking: Asking, **fields: Any) -> list[dict[str, Any]]:
    """A question, a call, its result."""
    ways = asking.endpoint.ways
    function = {"name": TOOL_NAME, "arguments": '{"a": 17, "b": 25}'}
    call = {"id": ways.call_id, "type": "function", "function": function}
    said = {"role": "assistant", "content": "Let me add.", "tool_calls": [call], **ways.call_fields, **fields}
    result = {"role": "tool", "tool_call_id": ways.call_id, "content": "42"}
    return [{"role": "user", "content": ONE_CALL}, said, result]


def _reasoning_field(asking: Asking) -> str | None:
    finding = asking.findings.get("reasoning")
    return finding.value or None if finding is not None else None


def _calls_in(reply: Reply) -> int:
    return call_count(reply.call_deltas)


def _called(reply: Reply) -> str:
    names = ", ".join(call_names(reply.call_deltas))
    return f"called {shortened(names)}"


PROBES = (
    Probe("native_tools", "a tool, and a plain request to call it", native_tools),
    Probe("text_dialect", "the same, read as text", text_dialect, after=("native_tools",)),
    Probe("parallel_calls", "two calls at once", parallel_calls, needs=("native_tools",)),
    Probe("call_deltas", "how calls are streamed", call_deltas, after=("native_tools", "parallel_calls")),
    Probe("call_ids", "a call and its result", call_ids, needs=("native_tools",)),
    Probe("parallel_parameter", "parallel_tool_calls", parallel_parameter, needs=("native_tools",)),
    Probe("null_content", "a call without text", null_content, needs=("call_ids",)),
    Probe("user_after_tool", "the user behind a result", user_after_tool, needs=("call_ids",)),
    Probe("reasoning_back", "a call with its thoughts", reasoning_back, needs=("reasoning", "call_ids")),
)
"""The probes with tools, in the order in which they depend on each other."""

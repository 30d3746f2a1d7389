"""`dispatch_tools`: one task runs one tool call, or asks the user (docs/tools.md)."""

from __future__ import annotations

import time
from typing import Any

from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.types import interrupt
from typing_extensions import TypedDict

from turnflow.graph.batch import BatchCall
from turnflow.graph.events import Emitter
from turnflow.graph.flow import Body, NodeRun, Update
from turnflow.graph.langgraph_access import can_pause
from turnflow.graph.transcript import result_message
from turnflow.nodes.dispatch_tools.ask_user import answer_schema, question_value, render_answers
from turnflow.nodes.dispatch_tools.execute import ToolEnd, ToolRun
from turnflow.nodes.dispatch_tools.injection import inject
from turnflow.nodes.dispatch_tools.parallel import Slot
from turnflow.nodes.dispatch_tools.results import Rendered, plain_json, render, render_failure


class Dispatched(TypedDict):
    """What a task is sent: one call, and the names of what it belongs to."""

    call: BatchCall
    turn: dict[str, Any]
    batch_id: str


def dispatch_tools(sent: Dispatched, run: NodeRun) -> Body[Update]:
    """Run the call; gives its tool message and its report for the join."""
    call, turn = sent["call"], sent["turn"]
    emitter = run.emitter(turn)
    started = time.monotonic()
    if call["asks"]:
        status, rendered = _ask(call, emitter, run)
    else:
        status, rendered = yield from _run_tool(call, turn, sent["batch_id"], run)
    message = result_message(turn["id"], call["id"], call["name"], rendered.content, ok=rendered.ok)
    message.artifact = rendered.artifact
    fields = {"tool_call_id": call["id"], "name": call["name"], "status": status, "content": rendered.content}
    emitter.emit("tool.result", duration=round(time.monotonic() - started, 6), **fields)
    said = yield from run.hook("on_tool_result", turn, **fields)
    # The arguments stand in the transcript; the batch is carried along in each later checkpoint.
    report = {"done": True, "args": {}, "directives": said, **rendered.report}
    update: Update = {"messages": [message], "batch": {"id": sent["batch_id"], "calls": {call["id"]: report}}}
    # A question stands alone in its superstep: its task may take back what announced the pause.
    return {**update, "answer": "", "outcome": {}} if call["asks"] and status == "ok" else update


def _ask(call: BatchCall, emitter: Emitter, run: NodeRun) -> tuple[str, Rendered]:
    """Ask the user. The interrupt comes first: a resumed task starts again from its top."""
    questions = call["args"]["questions"]
    if not can_pause(run.config):
        return "asked", Rendered(run.resources.prompts.text("result", "asked"), report={"asked": True})
    answer = interrupt(question_value(call["id"], questions), response_schema=answer_schema(questions))
    emitter.emit("resumed", tool_call_id=call["id"])
    resources = run.resources
    text = render_answers(questions, answer, resources.prompts)
    return "ok", render(text, max_chars=resources.settings.max_result_chars, prompts=resources.prompts)


def _run_tool(
    call: BatchCall, turn: dict[str, Any], batch_id: str, run: NodeRun
) -> Body[tuple[str, Rendered]]:
    resources, emitter = run.resources, run.emitter(turn)
    registered = resources.registry.find(call["name"])
    if registered is None:  # it vanished between the reply and now
        nearest = ", ".join(resources.registry.nearest(call["name"]))
        text = resources.prompts.text("result", "unknown_tool", name=call["name"], nearest=nearest)
        return "error", Rendered(text, ok=False)
    timeout = registered.policy.timeout or resources.settings.tool_timeout
    max_chars = registered.policy.max_result_chars or resources.settings.max_result_chars
    try:
        arguments = {**call["args"], **inject(registered, call["id"], run, emitter)}
    except Exception as error:  # noqa: BLE001 - a tool's annotations can raise anything
        return _ended(ToolEnd(error=error), timeout, max_chars, run)
    request = {"type": "tool_call", "id": call["id"], "name": registered.name, "args": arguments}
    slot = Slot(_wave_key(batch_id, turn, run), resources.settings.max_parallel_tools)
    yield slot
    try:
        if resources.cancelled:
            return "cancelled", Rendered(resources.prompts.text("result", "cancelled"), ok=False)
        emitter.emit("tool.started", tool_call_id=call["id"], name=call["name"])
        end = yield ToolRun(registered.tool, request, run.config, timeout=timeout, cancel=resources.cancel)
    finally:
        slot.release()
    if isinstance(end.error, GraphInterrupt) and not can_pause(run.config):
        end = ToolEnd(error=RuntimeError("it asks for input, which needs a graph with a checkpointer"))
    if isinstance(end.error, GraphInterrupt):  # the tool interrupted the graph itself
        values = [plain_json(interrupt.value) for interrupt in end.error.args[0]]
        emitter.emit("paused", tool_call_id=call["id"], values=values)
        yield from run.hook("on_pause", turn, tool_call_id=call["id"], values=values)
    return _ended(end, timeout, max_chars, run)


def _ended(end: ToolEnd, timeout: float, max_chars: int, run: NodeRun) -> tuple[str, Rendered]:
    prompts = run.resources.prompts
    if end.given_up is not None:
        if end.given_up.cancelled:
            return "cancelled", Rendered(prompts.text("result", "cancelled"), ok=False)
        return "timeout", Rendered(prompts.text("result", "timeout", seconds=timeout), ok=False)
    if isinstance(end.error, GraphBubbleUp):
        raise end.error
    if end.error is not None:
        return "error", render_failure(end.error, prompts)
    rendered = render(end.value, max_chars=max_chars, prompts=prompts)
    return "ok" if rendered.ok else "error", rendered


def _wave_key(batch_id: str, turn: dict[str, Any], run: NodeRun) -> str:
    """Names the batch among all that run: a turn inside a tool or another thread has its own places."""
    info = run.runtime.execution_info
    namespace = info.checkpoint_ns.rpartition("|")[0] if info else ""
    return f"{namespace}/{turn['session_id']}/{batch_id}"

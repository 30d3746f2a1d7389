"""Runs one tool call: with its permission, at most once, within its time, its result kept whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from langgraph.errors import GraphBubbleUp, GraphInterrupt

from turnflow.graph.batch import BatchCall
from turnflow.graph.effects import EffectFound, FindEffects, StartEffect, WithdrawEffect, keeps_journal
from turnflow.graph.flow import Body, NodeRun
from turnflow.graph.langgraph_access import can_pause, read_state
from turnflow.graph.permissions import Permission, permitted
from turnflow.graph.result_shelf import KeepResult, result_handle
from turnflow.graph.session import check_size, with_session
from turnflow.graph.shown import shown_json
from turnflow.graph.text import plain_json
from turnflow.graph.tool_names import READ_RESULT
from turnflow.graph.tool_registry import RegisteredTool
from turnflow.nodes.dispatch_tools.batch import call_key
from turnflow.nodes.dispatch_tools.ending import Ended
from turnflow.nodes.dispatch_tools.execute import ToolEnd, ToolRun
from turnflow.nodes.dispatch_tools.injection import inject
from turnflow.nodes.dispatch_tools.parallel import Slot
from turnflow.nodes.dispatch_tools.results import Rendered, RenderResult, render_failure
from turnflow.nodes.dispatch_tools.tool_values import with_values

_MAX_ARGUMENTS = 1000
"""Characters of changed arguments that the model is shown before the result."""


def run_tool(
    registered: RegisteredTool, call: BatchCall, turn: dict[str, Any], batch_id: str, run: NodeRun
) -> Body[Ended]:
    """Run the tool, unless the call has run or begun before."""
    resources, emitter = run.resources, run.emitter(turn)
    slot = Slot(_wave_key(batch_id, turn, run), resources.settings.max_parallel_tools)
    yield slot
    try:
        if resources.cancelled:
            return (yield from _cancelled(registered, call, batch_id, run))
        try:
            arguments = {**call["args"], **inject(registered, call["id"], run, emitter)}
        except Exception as error:  # noqa: BLE001 - a tool's annotations can raise anything
            return Ended("error", render_failure(error, resources.prompts))
        if not registered.policy.read_only:
            found: EffectFound = yield StartEffect(
                run,
                batch_id=batch_id,
                call_id=call["id"],
                name=registered.name,
                key=call_key(registered.name, call["args"]),
                again=registered.policy.idempotent,
            )
            if found.state != "new":
                return _known(found, run)
        emitter.emit("tool.started", tool_call_id=call["id"], name=call["name"], arguments=call["args"])
        request = {"type": "tool_call", "id": call["id"], "name": registered.name, "args": arguments}
        with permitted(_permission(call)):
            end = yield ToolRun(
                with_values(registered.tool),
                request,
                run.config,
                timeout=_seconds(registered, run),
                cancel=resources.cancel,
            )
    finally:
        slot.release()
    if isinstance(end.error, GraphInterrupt):
        end = yield from _interrupted(end.error, call, turn, batch_id, run)
    return (yield from _ended(end, registered, call, batch_id, run))


def _seconds(registered: RegisteredTool, run: NodeRun) -> float:
    """How long a call may take, and then its result to be rendered."""
    return registered.policy.timeout or run.resources.settings.tool_timeout


def _permission(call: BatchCall) -> Permission:
    """What the call runs under."""
    is_approved = call.get("approval") == "approved"
    return Permission("allow", "user" if is_approved else call.get("policy", "default"))


def _cancelled(registered: RegisteredTool, call: BatchCall, batch_id: str, run: NodeRun) -> Body[Ended]:
    """The turn was cancelled before the call ran, or while it did."""
    prompts = run.resources.prompts
    found: EffectFound | None = (yield FindEffects(run, batch_id=batch_id)).get(call["id"])
    if found is None:
        key = "not_run_cancelled" if registered.policy.read_only or keeps_journal(run) else "cancelled"
        return Ended("cancelled", Rendered(prompts.text("result", key), ok=False))
    if found.state == "done":
        return _known(found, run)
    text = prompts.text("result", "cancelled")
    return Ended("cancelled", Rendered(text, ok=False, report={"uncertain": True}))


def _known(found: EffectFound, run: NodeRun) -> Ended:
    """The end of a call that the journal of effects knows: it is not run again."""
    prompts = run.resources.prompts
    if found.result is not None:
        is_ok = found.result.status != "error"
        rendered = Rendered(
            found.result.content, ok=is_ok, artifact=found.result.artifact, report=found.report
        )
        return Ended("ok" if is_ok else "error", rendered)
    if found.state == "done":
        return Ended("indeterminate", Rendered(prompts.text("result", "lost"), ok=False))
    text = prompts.text("result", "indeterminate")
    return Ended("indeterminate", Rendered(text, ok=False, report={"uncertain": True}))


def _interrupted(
    error: GraphInterrupt, call: BatchCall, turn: dict[str, Any], batch_id: str, run: NodeRun
) -> Body[ToolEnd]:
    """The tool interrupted the graph itself: the turn pauses, if it can."""
    if not can_pause(run.config):
        return ToolEnd(error=RuntimeError("it asks for input, which needs a graph with a checkpointer"))
    values = [plain_json(interrupt.value) for interrupt in error.args[0]]
    run.emitter(turn).emit("paused", tool_call_id=call["id"], values=values)
    yield from run.hook("on_pause", turn, tool_call_id=call["id"], values=values)
    yield WithdrawEffect(run, batch_id=batch_id, call_id=call["id"])
    return ToolEnd(error=error)


def _ended(
    end: ToolEnd, registered: RegisteredTool, call: BatchCall, batch_id: str, run: NodeRun
) -> Body[Ended]:
    prompts = run.resources.prompts
    if end.given_up is not None:
        report = {} if registered.policy.read_only else {"uncertain": True}
        if end.given_up.cancelled:
            return Ended("cancelled", Rendered(prompts.text("result", "cancelled"), ok=False, report=report))
        text = prompts.text("result", "timeout", seconds=_seconds(registered, run))
        return Ended("timeout", Rendered(text, ok=False, report=report))
    if isinstance(end.error, GraphBubbleUp):
        raise end.error
    if end.error is not None:
        rendered = render_failure(end.error, prompts)
    else:
        rendered = yield from _kept(end.value, registered, call, batch_id, run)
    if call.get("edited") and not rendered.report.get("terminate"):  # else the user reads it
        rendered = replace(rendered, content=_noted(rendered.content, call, run))
    return Ended("ok" if rendered.ok else "error", rendered)


def _kept(
    value: Any, registered: RegisteredTool, call: BatchCall, batch_id: str, run: NodeRun
) -> Body[Rendered]:
    """The value as the model reads it; where that is not all of it, the whole is kept for `read_result`."""
    settings, prompts = run.resources.settings, run.resources.prompts
    max_chars = registered.policy.max_result_chars or settings.max_result_chars
    has_reader = run.resources.registry.has_built_in(READ_RESULT)
    handle = result_handle(batch_id, call["id"]) if has_reader else None
    rendered: Rendered = yield RenderResult(
        value,
        max_chars=max_chars,
        prompts=prompts,
        handle=handle,
        timeout=_seconds(registered, run),
        cancel=run.resources.cancel,
    )
    if problem := _too_large(rendered, run):
        return render_failure(problem, prompts)
    if rendered.whole is not None and handle and not (yield KeepResult(run, handle, rendered.whole)):
        return rendered.without_whole()
    return rendered


def _too_large(rendered: Rendered, run: NodeRun) -> ValueError | None:
    """Why the session has no room for the variables that a result sets; None if it has, or it sets none."""
    if not rendered.report.get("variables"):
        return None
    try:
        check_size(with_session(read_state(run.config))["session"], {"vars": rendered.report["variables"]})
    except ValueError as error:
        return error
    return None


def _noted(content: str | list[Any], call: BatchCall, run: NodeRun) -> str | list[Any]:
    """A result behind a note that the call is not the model's own any more."""
    arguments = shown_json(call["args"], _MAX_ARGUMENTS)
    note = run.resources.prompts.text("result", "edited", name=call["name"], arguments=arguments)
    if isinstance(content, str):
        return f"{note}\n{content}"
    return [{"type": "text", "text": note}, *content]


def _wave_key(batch_id: str, turn: dict[str, Any], run: NodeRun) -> str:
    """Names the batch among all that run: a turn inside a tool or another thread has its own places."""
    info = run.runtime.execution_info
    namespace = info.checkpoint_ns.rpartition("|")[0] if info else ""
    return f"{namespace}/{turn['session_id']}/{batch_id}"

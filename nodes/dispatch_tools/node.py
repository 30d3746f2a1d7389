"""`dispatch_tools`: one task runs a call, asks the user, or asks about all calls that need approval."""

from __future__ import annotations

import time
from typing import Any, NotRequired

from typing_extensions import TypedDict

from turnflow.graph.batch import BatchCall
from turnflow.graph.events import Emitter
from turnflow.graph.flow import Body, NodeRun, Update
from turnflow.graph.langgraph_access import read_state
from turnflow.nodes.dispatch_tools.ask_user import ask
from turnflow.nodes.dispatch_tools.ending import Ended, tell_end
from turnflow.nodes.dispatch_tools.read_result import ReadResultTool, read_on
from turnflow.nodes.dispatch_tools.results import Rendered
from turnflow.nodes.dispatch_tools.review import review
from turnflow.nodes.dispatch_tools.run_tool import run_tool
from turnflow.nodes.dispatch_tools.search_tools import SearchToolsTool, search


class Dispatched(TypedDict):
    """What a task is sent: one call or those that wait for approval, and the names of what they belong to."""

    call: NotRequired[BatchCall]
    approve: NotRequired[bool]
    """Instead of a call: a person is asked about those that wait for approval."""
    turn: dict[str, Any]
    batch_id: str


def dispatch_tools(sent: Dispatched, run: NodeRun) -> Body[Update]:
    """Do what the task was sent for; gives tool messages and a report for the join."""
    if "approve" in sent:
        return (yield from review(sent["turn"], run))
    call, turn = sent["call"], sent["turn"]
    emitter = run.emitter(turn)
    started = time.monotonic()
    ended = yield from _run(call, turn, sent["batch_id"], run, emitter)
    duration = round(time.monotonic() - started, 6)
    message, said = yield from tell_end(call, ended, turn, run, duration=duration)
    # The arguments stand in the transcript; the batch is carried along in each later checkpoint.
    report = {**said, "done": True, "args": {}}
    update: Update = {"messages": [message], "batch": {"id": sent["batch_id"], "calls": {call["id"]: report}}}
    # A question stands alone in its superstep: its task may take back what announced the pause.
    return {**update, "answer": "", "outcome": {}} if call["asks"] and ended.status == "ok" else update


def _run(call: BatchCall, turn: dict[str, Any], batch_id: str, run: NodeRun, emitter: Emitter) -> Body[Ended]:
    if call["asks"]:
        return ask(call, emitter, run)
    registered = run.resources.registry.find(call["name"])
    if registered is None:  # it vanished between the reply and now
        offered = run.resources.tools_in(read_state(run.config)["turn"])
        nearest = ", ".join(offered.nearest(call["name"]))
        text = run.resources.prompts.text("result", "unknown_tool", name=call["name"], nearest=nearest)
        return Ended("error", Rendered(text, ok=False))
    if isinstance(registered.tool, ReadResultTool):
        return (yield from read_on(call["args"], run))
    if isinstance(registered.tool, SearchToolsTool):
        unavailable = read_state(run.config)["turn"]["unavailable"]
        return search(call["args"], run, unavailable=unavailable)
    return (yield from run_tool(registered, call, turn, batch_id, run))

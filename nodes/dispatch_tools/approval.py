"""What a person is asked about calls that need approval, and what follows from the answer. Pure.

Question and answer have the shape that LangChain's front ends draw (docs/permissions.md).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Literal, NotRequired, Union, cast

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Discriminator, with_config
from typing_extensions import TypedDict

from turnflow.graph.batch import BatchCall
from turnflow.graph.builtin_tool import BuiltinTool
from turnflow.graph.permissions import Permission, PermissionRequest
from turnflow.graph.shown import shown, shown_json
from turnflow.graph.similar import shortened
from turnflow.graph.text import storable
from turnflow.graph.tool_policy import ReviewDecision, ToolPolicy
from turnflow.graph.tool_registry import RegisteredTool, ToolRegistry
from turnflow.nodes.dispatch_tools.arguments import read_arguments
from turnflow.nodes.dispatch_tools.batch import call_key, denial, permission_request, wave_call
from turnflow.nodes.dispatch_tools.ending import Ended
from turnflow.nodes.dispatch_tools.problems import describe_problems
from turnflow.nodes.dispatch_tools.results import Rendered, render
from turnflow.nodes.dispatch_tools.waves import plan_waves
from turnflow.prompts import Prompts

USER = "user"
"""Name of the policy under which a call runs that a person approved."""

_MAX_ARGUMENTS = 500
_MAX_MESSAGE = 2000


def in_review(waiting: Sequence[BatchCall]) -> list[BatchCall]:
    """Those of a batch's calls about which a person is asked, in the model's order."""
    return [call for call in waiting if call.get("approval") == "asked"]


def approval_value(
    waiting: Sequence[BatchCall],
    registry: ToolRegistry,
    prompts: Prompts,
) -> dict[str, Any]:
    """The interrupt's value: `{"type": "approval", "action_requests": [...], "review_configs": [...]}`.

    Both lists have one entry for each call in review, in the model's order: `{"name", "args",
    "description", "tool_call_id"}` and `{"action_name", "allowed_decisions"}`.

    Args:
        waiting: Calls of the batch that have not run.
        registry: The tools.
        prompts: The texts.
    """
    asked = in_review(waiting)
    return {
        "type": "approval",
        "action_requests": [
            {
                "name": call["name"],
                "args": call["args"],
                "description": _description(call, registry, prompts),
                "tool_call_id": call["id"],
            }
            for call in asked
        ],
        "review_configs": [
            {"action_name": call["name"], "allowed_decisions": list(_allowed(call, registry))}
            for call in asked
        ],
    }


def _description(call: BatchCall, registry: ToolRegistry, prompts: Prompts) -> str:
    """What the call would do, in words; the arguments on one line, so that they look like nothing else."""
    tool = registry.find(call["name"])
    arguments = shown_json(call["args"], _MAX_ARGUMENTS)
    action = prompts.text("pause", "action", name=call["name"], arguments=arguments).removeprefix("- ")
    about = tool.tool.description.strip() if tool else ""
    return "\n\n".join(part for part in (action, about, call.get("reason")) if part)


def _allowed(call: BatchCall, registry: ToolRegistry) -> tuple[ReviewDecision, ...]:
    tool = registry.find(call["name"])
    return (tool.policy if tool else ToolPolicy()).review


_strict = with_config(ConfigDict(extra="forbid"))


@_strict
class ApproveDecision(TypedDict):
    """The call runs as it is."""

    type: Literal["approve"]
    scope: NotRequired[Literal["once", "session"]]
    """`session`: no later call of this tool in this thread is asked about."""


@_strict
class RejectDecision(TypedDict):
    """The call does not run; the model reads why, if the person says so."""

    type: Literal["reject"]
    message: NotRequired[str]


@_strict
class RespondDecision(TypedDict):
    """The call does not run; the model reads the message as its result."""

    type: Literal["respond"]
    message: str


@_strict
class EditedAction(TypedDict):
    """The call that runs instead."""

    name: str
    args: dict[str, Any]


def decision_schema(waiting: Sequence[BatchCall], registry: ToolRegistry) -> Any:
    """What an answer must be: `{"decisions": [...]}`, one for each call in review, in order.

    Each decision is one that the call's tool allows; an edited call is checked against the schema of its
    tool. What `interrupt` gives is plain JSON, with the tool's own name and its arguments in an edit.
    """
    edit = _edit_decision(registry)
    allowed = [_allowed(call, registry) for call in in_review(waiting)]
    by_kind = {kind: _one_of(kind, edit) for kind in allowed}
    one_each: Any = cast("Any", tuple)[tuple(by_kind[kind] for kind in allowed)]
    counted = BeforeValidator(partial(_counted, count=len(allowed)))
    decisions: Any = Annotated[one_each, counted, AfterValidator(list)]
    return _strict_dict("ApprovalAnswer", {"decisions": decisions})


def _edit_decision(registry: ToolRegistry) -> Any:
    action = Annotated[EditedAction, AfterValidator(partial(_checked, registry=registry))]
    return _strict_dict("EditDecision", {"type": Literal["edit"], "edited_action": action})


def _counted(given: object, count: int) -> object:
    """What was given as decisions.

    Raises:
        ValueError: It is no list of so many.
    """
    if not isinstance(given, list | tuple) or len(given) != count:
        have = len(given) if isinstance(given, list | tuple) else shown(given)
        raise ValueError(f"a list of {count}, one for each action in order; this is {have}")
    return given


def _strict_dict(name: str, fields: dict[str, Any]) -> Any:
    return _strict(cast("Any", TypedDict)(name, fields))


def _one_of(allowed: Sequence[ReviewDecision], edit: Any) -> Any:
    """One of the allowed decisions; an answer is judged as the one that its `type` names."""
    by_type = {
        "approve": ApproveDecision,
        "edit": edit,
        "reject": RejectDecision,
        "respond": RespondDecision,
    }
    members = tuple(by_type[kind] for kind in dict.fromkeys(allowed))
    if len(members) == 1:
        return members[0]
    return Annotated[Union[members], Discriminator("type")]  # noqa: UP007 - built at run time


def _checked(action: EditedAction, registry: ToolRegistry) -> EditedAction:
    """The edited call, its tool called by its own name.

    Raises:
        ValueError: It cannot run; the text says where it is wrong, and what would be right.
    """
    tool = registry.find(action["name"])
    if tool is None or isinstance(tool.tool, BuiltinTool):
        names = ", ".join(each.name for each in registry if not isinstance(each.tool, BuiltinTool))
        raise ValueError(f"name: no tool {shown(action['name'])} can be called; accepted: {names}")
    try:
        text = json.dumps(action["args"])
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"args: they are plain JSON; {error}") from error
    read = read_arguments(text, tool.parameters, tool.host_only)
    if read.given is None or read.arguments is None:
        raise ValueError(f"args: {read.unparseable}")
    if hidden := [name for name in read.given if name not in read.arguments]:
        raise ValueError(f"args: {shown(hidden[0])} is set by the host alone; leave it out")
    if tool.policy.needs_approval and not {"approve", "edit"}.intersection(tool.policy.review):
        raise ValueError(f"name: a person may not let {tool.name!r} run; choose another tool")
    if read.problems:
        raise ValueError(f"args: {'; '.join(describe_problems(read.problems).splitlines())}")
    return {"name": tool.name, "args": read.arguments}


def review_requests(
    waiting: Sequence[BatchCall],
    decisions: Sequence[Mapping[str, Any]],
    registry: ToolRegistry,
    turn: Mapping[str, Any],
    grants: Mapping[str, Any],
    context: Any,
) -> dict[str, PermissionRequest]:
    """What the permission policies are asked about calls that a person let through, by call id.

    A person who may approve calls is not one who may do what is denied, and what was asked about may be
    denied by now.
    """
    requests: dict[str, PermissionRequest] = {}
    for call, decision in zip(in_review(waiting), decisions, strict=True):
        if decision["type"] in {"approve", "edit"}:
            action: Any = decision["edited_action"] if decision["type"] == "edit" else call
            if tool := registry.find(action["name"]):
                request = permission_request(call["id"], tool, action["args"], turn, grants, context)
                requests[call["id"]] = request
    return requests


@dataclass(frozen=True)
class Settled:
    """What follows from the decisions of a person.

    Attributes:
        calls: Fields of the batch's calls that change, by id.
        results: The ends of the calls that do not run, by id in the model's order.
        grants: What is granted for the session, by tool name.
    """

    calls: dict[str, dict[str, Any]]
    results: dict[str, Ended]
    grants: dict[str, dict[str, Any]] = field(default_factory=dict)


def settle(
    waiting: Sequence[BatchCall],
    decisions: Sequence[Mapping[str, Any]],
    registry: ToolRegistry,
    prompts: Prompts,
    *,
    permissions: Mapping[str, Permission],
    turn_id: str,
    max_chars: int,
) -> Settled:
    """What becomes of the calls that have not run, once a person has decided.

    What stands behind the first rejected call in the model's order does not run either, unless that person
    let it through by name.

    Args:
        waiting: Calls of the batch that have not run, in the model's order.
        decisions: What `decision_schema` let through: one for each call in review, in order.
        registry: The tools.
        prompts: The texts.
        permissions: What the policies say of the requests of `review_requests`, by call id.
        turn_id: Id of the turn, for the grants.
        max_chars: Longest text that the model reads of a person's answer.

    Raises:
        KeyError: A permission is missing.
        ValueError: There are more or fewer decisions than calls.
    """
    decided = dict(zip((call["id"] for call in in_review(waiting)), decisions, strict=True))
    changes: dict[str, dict[str, Any]] = {}
    results: dict[str, Ended] = {}
    is_rejected = False
    for call in waiting:
        decision = decided.get(call["id"])
        if decision is None:
            if is_rejected:
                text = prompts.text("result", "after_rejection")
                results[call["id"]] = Ended("rejected", Rendered(text, ok=False))
            continue
        is_rejected = is_rejected or decision["type"] == "reject"
        ended = _ended(call, decision, permissions, registry, prompts, max_chars)
        if ended:
            results[call["id"]] = ended
        else:
            changes[call["id"]] = _approved(call, decision)
    changes |= {call["id"]: _done(call) for call in waiting if call["id"] in results}
    for call_id, wave in _waves(waiting, changes, registry).items():
        changes[call_id] = {**changes.get(call_id, {}), "wave": wave}
    return Settled(changes, results, _grants(waiting, decided, turn_id))


def _ended(
    call: BatchCall,
    decision: Mapping[str, Any],
    permissions: Mapping[str, Permission],
    registry: ToolRegistry,
    prompts: Prompts,
    max_chars: int,
) -> Ended | None:
    """The end of a call by decision; None if it runs."""
    match decision["type"]:
        case "respond":
            return Ended("ok", render(decision["message"], max_chars=max_chars, prompts=prompts))
        case "reject":
            message = storable(decision.get("message", "").strip())[:_MAX_MESSAGE]
            key = "rejected_because" if message else "rejected"
            return Ended("rejected", Rendered(prompts.text("result", key, message=message), ok=False))
        case "approve" if not _is_same_tool(call, registry):
            # What the person saw is not what would run.
            return _refused(prompts.text("result", "tool_changed", name=call["name"]))
        case _ if (permission := permissions[call["id"]]).verdict == "deny":
            return _refused(denial(permission, prompts))
        case _:
            return None


def _is_same_tool(call: BatchCall, registry: ToolRegistry) -> bool:
    """Whether the tool of a call is the one that it was when a person was asked."""
    tool = registry.find(call["name"])
    return tool is not None and tool.fingerprint == call.get("tool")


def _refused(text: str) -> Ended:
    return Ended("refused", Rendered(text, ok=False))


def _is_changed(call: BatchCall, decision: Mapping[str, Any]) -> bool:
    """Whether an edit changes anything."""
    action = decision["edited_action"]
    return call_key(action["name"], action["args"]) != call_key(call["name"], call["args"])


def _approved(call: BatchCall, decision: Mapping[str, Any]) -> dict[str, Any]:
    if decision["type"] == "approve" or not _is_changed(call, decision):
        return {"approval": "approved"}
    action = decision["edited_action"]
    key = call_key(action["name"], action["args"])
    return {
        "approval": "approved",
        "name": action["name"],
        "args": action["args"],
        "key": key,
        "edited": True,
    }


def _done(call: BatchCall) -> dict[str, Any]:
    """A call that does not run; the turn has to forget a question that is not asked after all."""
    done: dict[str, Any] = {"done": True, "args": {}}
    if call["asks"]:
        done["unasked"] = [shortened(question["prompt"]) for question in call["args"]["questions"]]
    return done


def _waves(
    waiting: Sequence[BatchCall], changes: Mapping[str, Mapping[str, Any]], registry: ToolRegistry
) -> dict[str, int]:
    """The waves that change: another tool may be one that runs alone, and places have become free."""
    left = [cast("BatchCall", {**call, **changes.get(call["id"], {})}) for call in waiting]
    left = [call for call in left if not call["done"]]
    first = min((call["wave"] for call in waiting), default=0)
    waves, _ = plan_waves([wave_call(call, _tool(call, registry)) for call in left])
    return {call["id"]: wave for call in left if (wave := first + waves[call["id"]]) != call["wave"]}


def _tool(call: BatchCall, registry: ToolRegistry) -> RegisteredTool | None:
    return registry.find(call["name"])


def _grants(
    waiting: Sequence[BatchCall], decided: Mapping[str, Mapping[str, Any]], turn_id: str
) -> dict[str, dict[str, Any]]:
    return {
        call["name"]: {"policy": USER, "turn_id": turn_id, "tool": call.get("tool")}
        for call in waiting
        if decided.get(call["id"], {}).get("scope") == "session"
    }

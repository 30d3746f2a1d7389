"""Plans a reply's calls before any runs: names, arguments, limits, permissions (docs/tools.md). Pure.

It has two stages, since policies may have to be waited for: `read_batch` says which calls could run, the
policies are asked about those (`permission_requests`), and `plan_batch` takes their answers in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.messages import ToolCall, ToolMessage

from turnflow.graph.batch import Batch, BatchCall, PlannedBatch
from turnflow.graph.builtin_tool import BuiltinTool
from turnflow.graph.loop_guard import CALLS_KEPT, digest
from turnflow.graph.permissions import Default, Permission, PermissionRequest, needs_approval
from turnflow.graph.settings import TurnSettings
from turnflow.graph.similar import near_duplicate, shortened
from turnflow.graph.text import canonical
from turnflow.graph.tool_names import safe_tool_name
from turnflow.graph.tool_registry import RegisteredTool, ToolRegistry
from turnflow.graph.transcript import result_message
from turnflow.nodes.dispatch_tools.arguments import read_arguments
from turnflow.nodes.dispatch_tools.ask_user import AskUserTool
from turnflow.nodes.dispatch_tools.problems import describe_problems
from turnflow.nodes.dispatch_tools.waves import WaveCall, plan_waves
from turnflow.prompts import Prompts

UNPARSED = "__unparsed__"
"""Argument under which the transcript keeps text that could not be read: the model sees what it wrote."""

DEFAULT_POLICY = Default.name
"""Name of the policy that nobody has to be told of."""

_MAX_UNPARSED = 2000
_MAX_NAME = 100


@dataclass(frozen=True)
class ReadCall:
    """One call, read: what stands in the transcript, and what runs or why it does not."""

    id: str
    name: str
    """The tool's own name; of an unknown one what the model wrote, as providers take it."""
    shown_args: dict[str, Any]
    """The arguments as the transcript keeps them."""
    identity: str
    """The same for calls that are the same: name and valid arguments, else name and the text of them."""
    tool: RegisteredTool | None = None
    args: dict[str, Any] = field(default_factory=dict)
    """What the tool gets."""
    refusal: str = ""
    """What the model reads if it does not run, else blank."""
    primary: str = ""
    """Id of the earlier call of the reply that it repeats, if it does."""

    @property
    def key(self) -> str:
        """What the loop guard knows the call by."""
        return digest(self.identity)

    @property
    def asks(self) -> bool:
        """Whether the call asks the user."""
        return self.tool is not None and isinstance(self.tool.tool, AskUserTool)

    @property
    def prompts(self) -> list[str]:
        """The questions of a call that asks the user."""
        return [question["prompt"] for question in self.args["questions"]]


@dataclass(frozen=True)
class ReadBatch:
    """A reply's calls, read, with those refused that no policy has to be asked about.

    Attributes:
        message_id: Id of the assistant message.
        turn: The `turn` channel as it was.
        calls: All calls, in the model's order.
        asked: Questions of the turn so far, each cut.
        changes: Fields of the turn that change beside its counters.
    """

    message_id: str
    turn: Mapping[str, Any]
    calls: tuple[ReadCall, ...]
    asked: tuple[str, ...] = ()
    changes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def in_question(self) -> list[ReadCall]:
        """The calls that permission policies decide about: all that could run, but for built-in tools."""
        return [
            call
            for call in self.calls
            if not call.refusal and call.tool and not isinstance(call.tool.tool, BuiltinTool)
        ]


def call_key(name: str, args: Mapping[str, Any]) -> str:
    """A short name for a call that is the same for equal calls: of the tool's own name and its arguments."""
    return digest(_identity(name, args))


def _identity(name: str, args: Mapping[str, Any]) -> str:
    return canonical([name, dict(args)])


def read_batch(
    step: Mapping[str, Any],
    turn: Mapping[str, Any],
    registry: ToolRegistry,
    settings: TurnSettings,
    prompts: Prompts,
    *,
    asked: Sequence[str] = (),
) -> ReadBatch:
    """Read the calls of a reply, and refuse what cannot run: what is wrong, said twice, or over a limit.

    Args:
        step: The reply: `message_id`, and `calls` as `{"id", "name", "arguments", "complete"}`.
        turn: The `turn` channel.
        registry: The tools that can be called.
        settings: The limits.
        prompts: The texts.
        asked: What the user was asked in this turn already.
    """
    calls = [_read(call, registry, prompts) for call in step["calls"]]
    calls = _once(_not_again(calls, asked, prompts), prompts)
    calls = _limit_questions(calls, turn, settings, prompts)
    calls = _limit_batch(calls, settings, prompts)
    calls, changes = _limit_turn(calls, turn, settings, prompts)
    return ReadBatch(step["message_id"], turn, tuple(calls), tuple(asked), changes)


def permission_requests(
    read: ReadBatch, grants: Mapping[str, Any], context: Any
) -> dict[str, PermissionRequest]:
    """What the permission policies are asked, by call id in the model's order.

    Args:
        read: The calls.
        grants: What a person allowed for the session, by tool name.
        context: The run's `TurnContext`.
    """
    return {
        call.id: permission_request(call.id, call.tool, call.args, read.turn, grants, context)
        for call in read.in_question
        if call.tool
    }


def permission_request(
    call_id: str,
    tool: RegisteredTool,
    args: Mapping[str, Any],
    turn: Mapping[str, Any],
    grants: Mapping[str, Any],
    context: Any,
) -> PermissionRequest:
    """What the permission policies are asked about one call: its arguments as the tool will have them."""
    whole = deepcopy(tool.with_defaults(args))
    # Another tool under the name of one that a person has allowed was allowed by nobody.
    grant = grants.get(tool.name)
    is_granted = isinstance(grant, dict) and grant.get("tool", tool.fingerprint) == tool.fingerprint
    return PermissionRequest(
        name=tool.name,
        args=whole,
        tool_call_id=call_id,
        session_id=turn.get("session_id") or "",
        turn_id=turn["id"],
        user_id=getattr(context, "user_id", None),
        read_only=tool.policy.read_only,
        needs_approval=needs_approval(tool.policy.needs_approval, whole),
        grants={tool.name: grant} if is_granted else {},
        uncertain=call_key(tool.name, args) in turn.get("uncertain", ()),
        context=context,
    )


def plan_batch(
    read: ReadBatch, permissions: Mapping[str, Permission], prompts: Prompts, *, can_pause: bool
) -> PlannedBatch:
    """What becomes of each call: it runs in some wave, or is answered with the reason why not.

    Args:
        read: The calls.
        permissions: What the policies say of each call of `read.in_question`, by id.
        prompts: The texts.
        can_pause: Whether a person can be asked.

    Raises:
        KeyError: A permission is missing.
    """
    verdicts = {call.id: permissions[call.id] for call in read.in_question}
    calls = [_permitted(call, verdicts.get(call.id), prompts, can_pause=can_pause) for call in read.calls]
    runs = [call for call in calls if not call.refusal]
    questions = [call for call in runs if call.asks]
    asked = [shortened(prompt) for call in questions for prompt in call.prompts]
    refusals = [_refusal(call, runs, read.turn["id"]) for call in calls if call.refusal]
    return PlannedBatch(
        calls=[ToolCall(type="tool_call", id=c.id, name=c.name, args=c.shown_args) for c in calls],
        batch=_batch(read.message_id, calls, verdicts),
        refusals=refusals,
        turn={
            "tool_calls": read.turn["tool_calls"] + len(runs),
            "asks": read.turn["asks"] + len(questions),
            **({"asked": [*read.asked, *asked]} if asked else {}),
            **read.changes,
        },
        permissions=verdicts,
    )


def wave_call(call: BatchCall, tool: RegisteredTool | None) -> WaveCall:
    """What of a call the order of the waves depends on; one whose tool is gone runs alone."""
    return WaveCall(
        call["id"],
        is_alone=tool is None or not tool.policy.parallel_safe,
        asks=call["asks"],
        needs_approval=call.get("approval") == "asked",
    )


def denial(permission: Permission, prompts: Prompts) -> str:
    """What the model reads of a call that is denied."""
    policy, reason = permission.policy, permission.reason
    if not reason:
        return prompts.text("result", "denied", policy=policy)
    return prompts.text("result", "denied_because", policy=policy, reason=reason)


def _read(call: Mapping[str, Any], registry: ToolRegistry, prompts: Prompts) -> ReadCall:
    written, text = call["name"], call["arguments"]
    tool = registry.find(written)
    name = tool.name if tool else safe_tool_name(written)
    schema, host_only = (tool.parameters, tool.host_only) if tool else ({}, frozenset[str]())
    arguments = read_arguments(text, schema, host_only)
    shown = arguments.given if arguments.given is not None else {UNPARSED: text[:_MAX_UNPARSED]}
    refusal = ""
    if not call["complete"]:
        refusal = prompts.text("result", "cut_off")
    elif tool is None:
        key = "unknown_tool" if registry.names else "no_tools"
        nearest = ", ".join(registry.nearest(written))
        refusal = prompts.text("result", key, name=written[:_MAX_NAME], nearest=nearest)
    elif arguments.given is None:
        refusal = prompts.text("result", "unparseable", reason=arguments.unparseable)
    elif arguments.problems:
        refusal = prompts.text("result", "invalid", problems=describe_problems(arguments.problems))
    args = arguments.arguments or {}
    identity = f"{name}\n{text}" if refusal else _identity(name, args)
    return ReadCall(call["id"], name, shown, identity, tool, args, refusal)


def _not_again(calls: Sequence[ReadCall], asked: Sequence[str], prompts: Prompts) -> list[ReadCall]:
    """Refuse what asks the user nothing but what was much the same before in this turn."""
    text, kept = prompts.text("result", "near_question"), []
    for call in calls:
        is_question = call.asks and not call.refusal
        before = [near_duplicate(shortened(prompt), asked) for prompt in call.prompts] if is_question else []
        if before and None not in before:
            # However it is worded, for the loop guard it is the question that was asked first.
            identity = _identity(call.name, {"asked_before": before})
            kept.append(replace(call, refusal=text, identity=identity))
        else:
            kept.append(call)
    return kept


def _once(calls: Sequence[ReadCall], prompts: Prompts) -> list[ReadCall]:
    """Refuse what repeats an earlier call of the reply; of questions to the user, all but the first."""
    first: dict[str, str] = {}
    kept = []
    for call in calls:
        if call.refusal:
            kept.append(call)
            continue
        primary = first.setdefault("question" if call.asks else call.identity, call.id)
        if primary == call.id:
            kept.append(call)
        else:
            key = "second_question" if call.asks else "duplicate"
            text = prompts.text("result", key, primary=primary)
            kept.append(replace(call, refusal=text, primary=primary))
    return kept


def _limit_questions(
    calls: Sequence[ReadCall], turn: Mapping[str, Any], settings: TurnSettings, prompts: Prompts
) -> list[ReadCall]:
    if turn["asks"] < settings.max_asks:
        return list(calls)
    text = prompts.text("result", "ask_limit", limit=settings.max_asks)
    return _refuse(calls, lambda call: call.asks, text)


def _limit_batch(calls: Sequence[ReadCall], settings: TurnSettings, prompts: Prompts) -> list[ReadCall]:
    limit = settings.max_calls_per_batch
    over = {call.id for call in [call for call in calls if not call.refusal][limit:]}
    return _refuse(calls, lambda call: call.id in over, prompts.text("result", "batch_limit", limit=limit))


def _limit_turn(
    calls: Sequence[ReadCall], turn: Mapping[str, Any], settings: TurnSettings, prompts: Prompts
) -> tuple[list[ReadCall], dict[str, Any]]:
    """Refuse the whole batch where it would exceed the turn's limit; gives what changes in the turn too."""
    limit = settings.max_tool_calls
    if turn["tool_calls"] + sum(not call.refusal for call in calls) <= limit:
        return list(calls), {}
    refused = _refuse(calls, lambda _: True, prompts.text("result", "turn_limit", limit=limit))
    return refused, {"phase": "finish", "finish_cause": "call_limit"}


def _refuse(calls: Sequence[ReadCall], which: Callable[[ReadCall], bool], text: str) -> list[ReadCall]:
    """The calls, with some of those refused that are not yet."""
    return [replace(call, refusal=text) if not call.refusal and which(call) else call for call in calls]


def _permitted(
    call: ReadCall, permission: Permission | None, prompts: Prompts, *, can_pause: bool
) -> ReadCall:
    if permission is None or permission.verdict == "allow":
        return call
    if permission.verdict == "deny":
        return replace(call, refusal=denial(permission, prompts))
    return call if can_pause else replace(call, refusal=prompts.text("result", "nobody"))


def _refusal(call: ReadCall, runs: Sequence[ReadCall], turn_id: str) -> ToolMessage:
    """The result of a call that does not run; one that shares the result of another has not failed."""
    is_shared = not call.asks and any(call.primary == other.id for other in runs)
    return result_message(turn_id, call.id, call.name, call.refusal, ok=is_shared)


def _batch(message_id: str, calls: Sequence[ReadCall], permissions: Mapping[str, Permission]) -> Batch:
    """The batch of the calls that run."""
    planned = [_planned(call, permissions.get(call.id)) for call in calls if not call.refusal]
    tools = {call.id: call.tool for call in calls}
    waves, approval = plan_waves([wave_call(call, tools[call["id"]]) for call in planned])
    batch: Batch = {
        "id": message_id,
        "calls": {call["id"]: {**call, "wave": waves[call["id"]]} for call in planned},
        "joined": False,
        "folded": False,
    }
    if approval is not None:
        batch["approval"] = {"wave": approval, "done": False}
    refused = [[call.key, digest(call.refusal)] for call in calls if call.refusal and not call.primary]
    if refused:
        batch["refused"] = refused[-CALLS_KEPT:]
    return batch


def _planned(call: ReadCall, permission: Permission | None) -> BatchCall:
    """A call that runs, in no wave yet."""
    planned: BatchCall = {
        "id": call.id,
        "name": call.name,
        "args": call.args,
        "wave": 0,
        "asks": call.asks,
        "done": False,
        "key": call.key,
    }
    if permission is None:
        return planned
    if permission.verdict == "ask" and call.tool:
        planned |= {
            "approval": "asked",
            "args": call.tool.with_defaults(call.args),
            "tool": call.tool.fingerprint,
        }
        if permission.reason:
            planned["reason"] = permission.reason
    elif permission.policy != DEFAULT_POLICY:
        planned["policy"] = permission.policy
    return planned

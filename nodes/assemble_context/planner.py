"""Plans what the model is shown: pure, and the only place that decides it (docs/context.md)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from typing_extensions import TypedDict

from turnflow.graph.folds import effective_messages
from turnflow.graph.protocol import JsonProtocol, Protocol
from turnflow.graph.reply_form import ReplyForm
from turnflow.nodes.assemble_context.projection import SEPARATOR, project
from turnflow.nodes.assemble_context.written import WORDING, Draft, Wording, written

_NATIVE = ReplyForm(None, native_tools=True, dialects=())


@dataclass(frozen=True)
class PlanInput:
    """All that a request is planned from.

    Attributes:
        messages: The transcript.
        system: The system prompt.
        folds: Ranges of the transcript that a summary stands for (docs/folding.md).
        tools: Names of the tools that are offered.
        directives: Key and text of what this request alone is told.
        continuing: Whether the last reply was cut off and shall go on; the directives then stand in a user
            message of their own behind it.
        draft: Text of a reply that was not accepted; the model sees it, with the directives behind it.
        form: How the model and the turn speak to each other.
        prompt_version: Version of the texts, for the manifest.
        behaviour: Name and version of the behaviour, for the manifest.
        fold_text: Fence of a fold's summary, with `{text}`.
        wording: Texts around results, and what stands where a message is wanted and there is none.
    """

    messages: Sequence[BaseMessage]
    system: str = ""
    folds: Sequence[dict[str, Any]] = ()
    tools: Sequence[str] = ()
    directives: Sequence[dict[str, str]] = ()
    continuing: bool = False
    draft: str = ""
    form: ReplyForm = _NATIVE
    prompt_version: str = ""
    behaviour: str = ""
    fold_text: str = "{text}"
    wording: Wording = WORDING


class Manifest(TypedDict):
    """Why the request looks as it does."""

    message_ids: list[str]
    """Ids of the transcript's messages that are shown, in order."""
    folded_ids: list[str]
    """Ids of those that a fold stands for."""
    tools: list[str]
    directives: list[str]
    """Keys of the directives."""
    protocol: str
    """`native`, `json`, or the labels."""
    behaviour: str
    """Name and version of the behaviour, as `chat/1`."""
    prompt_version: str
    prompt_hash: str
    """First 16 hex digits of the SHA-256 of the system prompt."""


def plan_context(plan: PlanInput) -> tuple[list[BaseMessage], Manifest]:
    """The messages of a request, and the manifest that says why they are there.

    Directives are merged into the last user message, so that roles alternate as strict providers want it.
    """
    shown = effective_messages(plan.messages, plan.folds, plan.fold_text)
    system = [SystemMessage(content=plan.system)] if plan.system else []
    said = written([*shown, *_draft(plan.draft)], plan.form, plan.wording)
    request = project([*system, *said], plan.wording.fillers)
    told = SEPARATOR.join(directive["text"] for directive in plan.directives)
    ends_with_reply = bool(request) and _is_plain_reply(request[-1])
    apart = ends_with_reply and (plan.continuing or bool(plan.draft.strip()))
    if ends_with_reply and not (apart and told):
        request.append(HumanMessage(content=plan.wording.fillers.go_on))
    if told:
        _tell(request, told, apart=apart)
    shown_ids = {message.id for message in shown}
    manifest: Manifest = {
        "message_ids": [m.id for m in plan.messages if m.id and m.id in shown_ids],
        "folded_ids": [m.id for m in plan.messages if m.id and m.id not in shown_ids],
        "tools": list(plan.tools),
        "directives": [directive["key"] for directive in plan.directives],
        "protocol": _named(plan.form.protocol),
        "behaviour": plan.behaviour,
        "prompt_version": plan.prompt_version,
        "prompt_hash": hashlib.sha256(plan.system.encode()).hexdigest()[:16],
    }
    return request, manifest


def _draft(text: str) -> list[BaseMessage]:
    """The draft as a message that goes back as it is, under whatever protocol."""
    return [Draft(content=text)] if text.strip() else []


def _named(protocol: Protocol) -> str:
    if protocol is None:
        return "native"
    return "json" if isinstance(protocol, JsonProtocol) else " ".join(protocol.allowed)


def _is_plain_reply(message: BaseMessage) -> bool:
    return isinstance(message, AIMessage) and not message.tool_calls


def _tell(request: list[BaseMessage], text: str, *, apart: bool) -> None:
    """Put a directive into the last user message, or `apart` behind everything."""
    if not apart:
        for index in range(len(request) - 1, -1, -1):
            message = request[index]
            if isinstance(message, HumanMessage):
                joined = project([message, HumanMessage(content=text)])
                request[index] = joined[0]
                return
    request.append(HumanMessage(content=text))

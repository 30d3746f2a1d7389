"""Plans what the model is shown: pure, and the only place that decides it (docs/context.md)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from typing_extensions import TypedDict

from turnflow.graph.folds import effective_messages
from turnflow.nodes.assemble_context.projection import FILLERS, SEPARATOR, Fillers, project


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
        prompt_version: Version of the texts, for the manifest.
        fold_text: Fence of a fold's summary, with `{text}`.
        fillers: What stands where a strict provider wants a message and the transcript has none.
    """

    messages: Sequence[BaseMessage]
    system: str = ""
    folds: Sequence[dict[str, Any]] = ()
    tools: Sequence[str] = ()
    directives: Sequence[dict[str, str]] = ()
    continuing: bool = False
    prompt_version: str = ""
    fold_text: str = "{text}"
    fillers: Fillers = FILLERS


class Manifest(TypedDict):
    """Why the request looks as it does."""

    message_ids: list[str]
    """Ids of the transcript's messages that are shown, in order."""
    folded_ids: list[str]
    """Ids of those that a fold stands for."""
    tools: list[str]
    directives: list[str]
    """Keys of the directives."""
    prompt_version: str
    prompt_hash: str
    """First 16 hex digits of the SHA-256 of the system prompt."""


def plan_context(plan: PlanInput) -> tuple[list[BaseMessage], Manifest]:
    """The messages of a request, and the manifest that says why they are there.

    Directives are merged into the last user message, so that roles alternate as strict providers want it.
    """
    shown = effective_messages(plan.messages, plan.folds, plan.fold_text)
    system = [SystemMessage(content=plan.system)] if plan.system else []
    request = project([*system, *shown], plan.fillers)
    told = SEPARATOR.join(directive["text"] for directive in plan.directives)
    if not plan.continuing and request and _is_plain_reply(request[-1]):
        request.append(HumanMessage(content=plan.fillers.go_on))
    if told:
        _tell(request, told, apart=plan.continuing)
    shown_ids = {message.id for message in shown}
    manifest: Manifest = {
        "message_ids": [m.id for m in plan.messages if m.id and m.id in shown_ids],
        "folded_ids": [m.id for m in plan.messages if m.id and m.id not in shown_ids],
        "tools": list(plan.tools),
        "directives": [directive["key"] for directive in plan.directives],
        "prompt_version": plan.prompt_version,
        "prompt_hash": hashlib.sha256(plan.system.encode()).hexdigest()[:16],
    }
    return request, manifest


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

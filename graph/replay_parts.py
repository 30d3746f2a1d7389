"""What takes the place of the model, the tools and the policies when a recorded turn is played again."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from pydantic import ConfigDict, Field

from turnflow.graph.message_form import load_messages
from turnflow.graph.permissions import Permission, PermissionRequest
from turnflow.graph.tool_policy import ToolOutput
from turnflow.graph.transcript import is_steering

Fact = Mapping[str, Any]

_ERRORS: dict[str, dict[str, Any]] = {
    "context_too_long": {"code": "context_length_exceeded"},
    "content_filter": {"code": "content_filter"},
    "tools_refused": {"param": "tools", "message": "tools are not supported"},
}
"""The body of the error that has the recorded meaning."""


class RecordedError(Exception):
    """Stands for a failure of the recorded request."""

    def __init__(self, stop: str, error: Mapping[str, Any]) -> None:
        super().__init__(str(error.get("message", "")))
        if stop in _ERRORS:
            self.status_code, self.body = 400, _ERRORS[stop]


class RecordOverError(Exception):
    """A reply was asked for, and there is none on record any more."""


class RecordedModel(BaseChatModel):
    """Says what the model said, reply by reply."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    model_name: str = ""
    openai_api_base: str = Field(default_factory=lambda: f"replay:{uuid.uuid4()}")
    """Stands for an endpoint of which nothing else is known."""
    replies: list[Any]
    """`model.replied` facts that are still to come; shared by copies."""

    @property
    def _llm_type(self) -> str:
        return "turnflow-recorded"

    def bind_tools(self, tools: Any, **_: Any) -> Any:  # noqa: ARG002 (LangChain's signature)
        """Tools change nothing of what was said."""
        return self

    def _stream(self, *_: Any, **__: Any) -> Iterator[ChatGenerationChunk]:
        reply = self._next()
        yield from (ChatGenerationChunk(message=chunk) for chunk in chunks_of(reply))
        if reply.get("stop"):
            raise RecordedError(reply["stop"], reply.get("error") or {})

    async def _astream(self, *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in self._stream():
            yield chunk

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        message: Any = AIMessageChunk(content="")
        for chunk in self._stream():
            message += chunk.message
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _next(self) -> Fact:
        if not self.replies:
            raise RecordOverError("no further reply is on record")
        reply: Fact = self.replies.pop(0)
        return reply


def chunks_of(reply: Fact) -> list[AIMessageChunk]:
    """A reply as the chunks of a stream."""
    chunks = []
    if reasoning := reply.get("reasoning"):
        chunks.append(AIMessageChunk(content="", additional_kwargs={"reasoning_content": reasoning}))
    if raw := reply.get("raw"):
        chunks.append(AIMessageChunk(content=raw))
    if not reply.get("calls_in_text"):
        for index, call in enumerate(reply.get("calls", ())):
            delta = tool_call_chunk(name=call["name"], args=call["arguments"], id=call["id"], index=index)
            chunks.append(AIMessageChunk(content="", tool_call_chunks=[delta]))
    if reply.get("stop") and not chunks:
        return []
    usage = reply.get("usage") or {}
    counted: Any = {
        "input_tokens": usage.get("input", 0),
        "output_tokens": usage.get("output", 0),
        "total_tokens": usage.get("input", 0) + usage.get("output", 0),
        "input_token_details": {"cache_read": usage.get("cached", 0)},
        "output_token_details": {"reasoning": usage.get("reasoning", 0)},
    }
    finish = {"finish_reason": reply["finish_reason"]} if reply["finish_reason"] else {}
    return [*chunks, AIMessageChunk(content="", response_metadata=finish, usage_metadata=counted)]


class RecordedSummariser(BaseChatModel):
    """Says what the summariser said, reply by reply."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    replies: list[Any]
    """`summariser.replied` facts that are still to come."""

    @property
    def _llm_type(self) -> str:
        return "turnflow-recorded"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:  # noqa: ARG002
        if not self.replies:
            raise RecordOverError("no further summary is on record")
        reply: Fact = self.replies.pop(0)
        if reply["failed"]:
            raise RecordedError("", {})
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content=reply["text"]))])


class RecordedTool(BaseTool):
    """Gives what the tool gave, call by call, without running anything."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    results: dict[str, tuple[dict[str, Any], dict[str, Any]]]
    """By call id: the tool message as the record holds it, and what else the tool said."""
    func: Any = None
    """Nothing calls it; its parameters are what only the host may set."""

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:  # noqa: A002, ARG002
        """The recorded result."""
        call_id = input["id"]
        if call_id not in self.results:
            raise RecordOverError(f"no result of call {call_id!r} is on record")
        form, said = self.results[call_id]
        if said:
            return ToolOutput(form["content"], **said)
        return ToolMessage(
            content=form["content"],
            tool_call_id=call_id,
            name=self.name,
            status=form.get("status", "success"),
            artifact=form.get("artifact"),
        )

    def _run(self, *_: Any, **__: Any) -> Any:
        raise RecordOverError("a recorded tool is not run")


class RecordedInbox:
    """Gives what came while the turn ran, once the model has replied as often as it had by then.

    Args:
        facts: The facts of the turn.
        model: The model of the replay, with its replies still to come.
    """

    def __init__(self, facts: Sequence[Fact], model: RecordedModel) -> None:
        self._model = model
        self._replies = len(model.replies)
        self._items: list[tuple[int, HumanMessage]] = []
        replied = 0
        for fact in facts:
            replied += fact["type"] == "model.replied"
            for message in load_messages(fact["messages"]) if fact["type"] == "messages" else ():
                if isinstance(message, HumanMessage) and is_steering(message):
                    self._items.append((replied, message))
            if fact["type"] == "decision" and fact["key"] == "pending_input":
                self._items.append((replied, HumanMessage("(not of this turn)", id="pending")))

    def pending(self) -> list[HumanMessage]:
        """What had come by now."""
        replied = self._replies - len(self._model.replies)
        return [message for number, message in self._items if number <= replied]

    def acknowledge(self, ids: Iterable[str]) -> None:
        """Nothing is taken out: the conversation knows what it holds."""


def taking(names: Sequence[str]) -> Any:
    """A function with parameters of these names."""

    def nothing(**_: Any) -> None:
        raise RecordOverError("a recorded tool is not run")

    kind = inspect.Parameter.KEYWORD_ONLY
    signature = inspect.Signature([inspect.Parameter(name, kind, default=None) for name in names])
    nothing.__signature__ = signature  # type: ignore[attr-defined]
    return nothing


class RecordedVerdicts:
    """The permission policy that says what was said of each call."""

    name = "recorded"

    def __init__(self, calls: Sequence[Fact]) -> None:
        self._verdicts: dict[str, list[Fact]] = {}
        for call in calls:
            if "permission" in call:
                self._verdicts.setdefault(call["tool_call_id"], []).append(call)

    def __call__(self, request: PermissionRequest) -> Permission:
        """What was said; what nobody was asked about may run."""
        left = self._verdicts.get(request.tool_call_id)
        if not left:
            return Permission("allow", "default")
        said = left.pop(0)
        return Permission(said["permission"], said["policy"], said.get("reason", ""))

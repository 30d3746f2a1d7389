"""A chat model in the process that answers by a function of the request, and keeps the requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field

Request = list[BaseMessage]


class Spoken(BaseChatModel):
    """Answers each request by `answer(request)`, which gives a text or an assistant message."""

    answer: Callable[[Request], str | AIMessage]
    requests: list[Request] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "spoken"

    def bind_tools(self, tools: Any, **_: Any) -> Spoken:
        return self

    def _generate(self, messages: Request, *_: Any, **__: Any) -> ChatResult:
        self.requests.append(list(messages))
        said = self.answer(messages)
        message = AIMessage(content=said) if isinstance(said, str) else said
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(self, messages: Request, *_: Any, **__: Any) -> ChatResult:
        return self._generate(messages)


def question_of(request: Sequence[BaseMessage]) -> str:
    """The text of the last user message."""
    user = next(m for m in reversed(request) if isinstance(m, HumanMessage))
    return user.text


def texts(request: Sequence[BaseMessage]) -> str:
    """All texts of a request."""
    return "\n".join(message.text for message in request)

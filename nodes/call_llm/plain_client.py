"""OpenAI's client of chat completions as LangChain uses it, with chunks and refusals that it takes calmly."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Any, NoReturn, Self

import openai

from turnflow.nodes.call_llm.line import note_response

_WARNED_OF = (
    "'response_format' of type 'json_schema' is not supported with this model",
    "Invalid schema for response_format",
)
"""Refusals about which LangChain warns a caller who never asked for what the warning is about."""


class _Wrapped:
    """What stands around a resource of OpenAI's client, and gives all of it that it does not change.

    Args:
        completions: The resource, or its raw one.
    """

    def __init__(self, completions: Any) -> None:
        self._completions = completions

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.__dict__["_completions"], name)

    @property
    def with_raw_response(self) -> Self:
        """The same, with the response around what it gives."""
        return type(self)(self._completions.with_raw_response)


class PlainClient(_Wrapped):
    """A blocking client whose streams give plain dicts.

    LangChain would have pydantic write each chunk out, which warns of each value of another type.
    """

    def create(self, **parameters: Any) -> Any:
        """Ask for a reply."""
        try:
            reply = self._completions.create(**parameters)
        except openai.BadRequestError as error:
            _raise_calmly(error)
        if not isinstance(reply, openai.Stream):
            return reply
        note_response(reply.response)
        return _PlainStream(reply)


class AsyncPlainClient(_Wrapped):
    """The same for an awaiting client."""

    async def create(self, **parameters: Any) -> Any:
        """Ask for a reply."""
        try:
            reply = await self._completions.create(**parameters)
        except openai.BadRequestError as error:
            _raise_calmly(error)
        return _AsyncPlainStream(reply) if isinstance(reply, openai.AsyncStream) else reply


class _PlainStream:
    def __init__(self, stream: openai.Stream[Any]) -> None:
        self._stream = stream

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.__exit__(kind, error, trace)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for chunk in self._stream:
            yield plain_body(chunk)


class _AsyncPlainStream:
    def __init__(self, stream: openai.AsyncStream[Any]) -> None:
        self._stream = stream

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stream.__aexit__(kind, error, trace)

    async def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        async for chunk in self._stream:
            yield plain_body(chunk)


def plain_body(value: Any) -> dict[str, Any]:
    """What an endpoint sent as a dict; an empty one where it was no JSON object."""
    if isinstance(value, openai.BaseModel):
        value = value.model_dump(warnings=False)
    return value if isinstance(value, dict) else {}


def _raise_calmly(error: openai.BadRequestError) -> NoReturn:
    """Raise the refusal; one that LangChain would warn about in a form that it passes on."""
    if any(words in error.message for words in _WARNED_OF):
        raise openai.APIStatusError(error.message, response=error.response, body=error.body) from error
    raise error

"""A reply that comes whole, in one body: read, or refused in the endpoint's own words."""

from __future__ import annotations

import json
import re
from typing import Any

import openai
from langchain_core.messages import AIMessage
from langchain_core.messages.tool import invalid_tool_call, tool_call

from turnflow.graph.base_url import version_hint
from turnflow.nodes.call_llm.clean_chunks import clean_reply
from turnflow.nodes.call_llm.errors.classify import PrematureEndError
from turnflow.nodes.call_llm.plain_client import plain_body

_MOST_READ = 20_000
_MOST_QUOTED = 200
_UNSEEN = re.compile(r"<(script|style)\b.*?</\1\s*>|<!--.*?-->", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(r"<[^<>]{0,2000}>")
_NO_REQUEST: Any = None
_TOLD = ("message", "msg", "detail", "error_msg", "error_message", "code", "error_code")


class UnexpectedReplyError(Exception):
    """The endpoint answered with something that is no reply of a chat model."""


def whole_reply(response: Any, base_url: str) -> dict[str, Any]:
    """A response's body in the shape that LangChain reads.

    Args:
        response: What OpenAI's client made of it: an object, or text where it was no JSON.
        base_url: The endpoint's address, for the hint at what is wrong.

    Raises:
        openai.APIError: It is an error.
        PrematureEndError: It holds no reply.
        UnexpectedReplyError: It is anything else.
    """
    if isinstance(response, str | bytes):
        text = response if isinstance(response, str) else response.decode("utf-8", "replace")
        raise UnexpectedReplyError(_no_reply(text, base_url))
    # OpenAI's client adds the fields that it misses.
    body = {name: value for name, value in plain_body(response).items() if value is not None}
    error = body.get("error")
    if not error and "choices" not in body and any(body.get(name) for name in _TOLD):
        error = body
    if error:
        raise openai.APIError(_told(error), request=_NO_REQUEST, body=error)
    if reply := clean_reply(body):
        return reply
    if "choices" in body:
        raise PrematureEndError("the reply has no choices")
    raise UnexpectedReplyError(_no_reply(json.dumps(body, ensure_ascii=False, default=str), base_url))


def with_calls(message: AIMessage, calls: list[dict[str, Any]]) -> AIMessage:
    """A whole message with calls of tools; those whose arguments are no JSON object are invalid ones."""
    valid, invalid = [], []
    for call in calls:
        name, written = call["function"]["name"], call["function"]["arguments"]
        arguments = _arguments(written)
        if arguments is None:
            invalid.append(invalid_tool_call(name=name, args=written, id=call["id"], error=None))
        else:
            valid.append(tool_call(name=name or "", args=arguments, id=call["id"]))
    return message.model_copy(update={"tool_calls": valid, "invalid_tool_calls": invalid})


def _arguments(written: str | None) -> dict[str, Any] | None:
    try:
        arguments = json.loads(written or "{}")
    except (ValueError, RecursionError):
        return None
    return arguments if isinstance(arguments, dict) else None


def _told(error: Any) -> str:
    """What an error says in words."""
    if isinstance(error, dict):
        for name in _TOLD:
            if isinstance(said := error.get(name), str) and said.strip():
                return said
    return error if isinstance(error, str) else json.dumps(error, ensure_ascii=False, default=str)


def _no_reply(text: str, base_url: str) -> str:
    text = text[:_MOST_READ]
    is_page = text.lstrip()[:1] == "<"
    said = " ".join((_TAG.sub(" ", _UNSEEN.sub(" ", text)) if is_page else text).split())
    said = said if len(said) <= _MOST_QUOTED else f"{said[:_MOST_QUOTED]}…"
    what = "a web page" if is_page else "something else" if said else "nothing"
    quoted = f": {said!r}" if said else ""
    return f"the endpoint answered with {what} in place of a reply{quoted}{version_hint(base_url)}"

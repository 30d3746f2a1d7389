"""Errors as clients raise them for what a provider sends."""

from __future__ import annotations

from typing import Any

import httpx2
import openai

REQUEST: Any = httpx2.Request("POST", "http://127.0.0.1/v1/chat/completions")
CLIENT = openai.OpenAI(api_key="k", base_url="http://127.0.0.1/v1", http_client=httpx2.Client())


def raised(status: int | None, body: Any, headers: dict[str, str] | None = None) -> openai.APIError:
    """The error that OpenAI's client raises for a response, or for an error inside a stream."""
    if status is None:
        told = body.get("message") if isinstance(body, dict) else None
        message = told if isinstance(told, str) and told else "An error occurred during streaming"
        return openai.APIError(message, REQUEST, body=body)
    whole = {"error": body} if isinstance(body, dict) and "message" in body else body
    sent: Any = {"content": b""} if body is None else {"json": whole}
    if isinstance(body, str):
        sent = {"text": body}
    response = httpx2.Response(status, request=REQUEST, headers=headers or {}, **sent)
    return CLIENT._make_status_error_from_response(response)


class OtherModelError(Exception):
    """As another LangChain model raises: attributes, and the body in the text."""

    def __init__(self, status: int | None, body: Any) -> None:
        super().__init__(f"Error code: {status} - {body}")
        if status is not None:
            self.status_code = status
        self.body = {"error": body}

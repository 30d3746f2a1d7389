"""Endpoints of a few lines, for what a script cannot say."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx

from turnflow.apps.doctor import Examination, examine

Answer = Callable[[dict[str, Any]], httpx.Response]


def says(text: str | None = "42", **fields: Any) -> httpx.Response:
    """A whole reply in one stream."""
    frames = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": text, **fields}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}},
    ]
    return streams(*(json.dumps(frame) for frame in frames), "[DONE]")


def streams(*events: str) -> httpx.Response:
    body = "".join(f"data: {event}\n\n" for event in events)
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, text=body)


def refuses(status: int, message: str = "no", **fields: Any) -> httpx.Response:
    return httpx.Response(status, json={"error": {"message": message, **fields}})


def doctor_of(
    answer: Answer,
    pages: dict[str, Any] | None = None,
    *,
    base_url: str = "http://endpoint/v1",
    model: str | None = "m",
    **options: Any,
) -> Examination:
    """Examine an endpoint.

    Args:
        answer: Gives the answer to a request for a completion.
        pages: JSON of other pages, or a whole answer, by path.
        base_url: Its address.
        model: The model asked for.
        options: Further arguments of `examine`.
    """

    def handle(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/chat/completions"):
            return answer(json.loads(request.content))
        page = (pages or {}).get(request.url.path)
        if page is None:
            return httpx.Response(404, text="not found")
        return page if isinstance(page, httpx.Response) else httpx.Response(200, json=page)

    return asyncio.run(examine(base_url, model, transport=httpx.MockTransport(handle), **options))

"""Asking a fake provider over real HTTP, as a client library would and byte by byte."""

from __future__ import annotations

import json
import socket
import ssl
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx

if TYPE_CHECKING:
    from turnflow.apps.fake_provider import FakeProvider

# Made once: reading the certificates takes longer than any request here, and none of them is used.
_TLS = ssl.create_default_context()

USER = {"role": "user", "content": "hello"}


def request_body(**fields: Any) -> dict[str, Any]:
    """A minimal request with further or other fields."""
    return {"model": "m", "messages": [USER], **fields}


def new_client() -> httpx.Client:
    """A client that goes to the provider and nowhere else."""
    return httpx.Client(trust_env=False, verify=_TLS)


def ask(provider: FakeProvider, **fields: Any) -> httpx.Response:
    """Send a request and read the whole response."""
    with new_client() as client:
        return client.post(f"{provider.base_url}/chat/completions", json=request_body(**fields))


def writes(provider: FakeProvider, **fields: Any) -> list[bytes]:
    """Send a streaming request; the bodies of the HTTP chunks that come."""
    return read_until_broken(provider, **fields)[0]


def read_until_broken(provider: FakeProvider, **fields: Any) -> tuple[list[bytes], httpx.HTTPError | None]:
    """Send a streaming request; the HTTP chunks that come and the error that ends them, if one does."""
    chunks: list[bytes] = []
    body = request_body(stream=True, **fields)
    try:
        with (
            new_client() as client,
            client.stream("POST", f"{provider.base_url}/chat/completions", json=body) as response,
        ):
            chunks.extend(response.iter_raw())
    except httpx.HTTPError as error:
        return chunks, error
    return chunks, None


def events(provider: FakeProvider, **fields: Any) -> list[dict[str, Any]]:
    """Send a streaming request; the JSON objects of its events, `[DONE]` left out."""
    return parsed(b"".join(writes(provider, **fields)))


def parsed(body: bytes) -> list[dict[str, Any]]:
    """The JSON objects of an event stream."""
    data = [line.removeprefix("data: ") for line in body.decode().splitlines() if line.startswith("data: ")]
    return [json.loads(text) for text in data if text != "[DONE]"]


def deltas(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The deltas that are not empty, without the first, which names the role."""
    found = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    return [delta for delta in found if delta and "role" not in delta]


def connect(provider: FakeProvider) -> socket.socket:
    """A raw connection to the provider."""
    url = urlsplit(provider.base_url)
    return socket.create_connection((str(url.hostname), url.port or 80), timeout=5)


def raw_request(**fields: Any) -> bytes:
    """A request as bytes."""
    body = json.dumps(request_body(**fields)).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: fake\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def receive_all(connection: socket.socket, *, into: bytearray | None = None) -> bytes:
    """What comes until the other side ends the connection, also kept in `into`.

    Raises:
        ConnectionResetError: It was reset; `into` has what came before.
    """
    received = bytearray() if into is None else into
    while data := connection.recv(65_536):
        received += data
    return bytes(received)

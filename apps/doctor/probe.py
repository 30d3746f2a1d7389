"""A probe and what it found, as data."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from turnflow.apps.doctor.http import THINKING_TOKENS, Endpoint
from turnflow.apps.doctor.reply import Reply


class Found(NamedTuple):
    """What a probe found."""

    value: Any
    """True, False, a text, a number, a list of texts; None if it is not known."""
    evidence: str
    """What was seen, in a few words; may quote the endpoint."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a probe found, and what it took."""

    name: str
    tried: str
    value: Any
    evidence: str
    seconds: float = 0.0
    requests: int = 0


Findings = Mapping[str, Finding]


class Asking:
    """Asks an endpoint for one probe, in the way that the endpoint is spoken to, and counts."""

    def __init__(self, endpoint: Endpoint, findings: Findings) -> None:
        self.endpoint = endpoint
        self.findings = findings
        self.requests = 0
        self.seconds = 0.0
        """What the endpoint took, without what requests waited for each other."""

    async def chat(
        self,
        messages: list[dict[str, Any]] | str,
        *,
        tokens: int = 32,
        whole: bool = True,
        limit_parameter: str | None = None,
        **parameters: Any,
    ) -> Reply:
        """Ask for a completion.

        Args:
            messages: The messages, or the text of a user.
            tokens: Room for the reply, of a model that does not think first.
            whole: Read the reply to its end; else leave at its first words.
            limit_parameter: How the limit of its tokens is named; None: as the endpoint takes it.
            parameters: Further parameters of the request.

        Raises:
            OutOfTimeError: There is no time left.
        """
        self.requests += 1
        ways = self.endpoint.ways
        limit = limit_parameter or ways.limit_parameter
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        body = {"model": self.endpoint.model, "messages": messages, "stream": ways.streams, **parameters}
        if limit:
            body[limit] = THINKING_TOKENS if ways.thinks else tokens
        reply = await self.endpoint.ask(body, whole=whole)
        self.seconds += reply.seconds
        return reply

    async def fetch(self, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        """Read a page of the server; see `Endpoint.fetch`."""
        self.requests += 1
        begun = time.monotonic()
        try:
            return await self.endpoint.fetch(self.endpoint.root + path, body)
        finally:
            self.seconds += time.monotonic() - begun

    async def takes(
        self,
        messages: list[dict[str, Any]] | str,
        *,
        words: tuple[str, ...] = (),
        limit_parameter: str | None = None,
        **parameters: Any,
    ) -> Found:
        """Whether the endpoint takes a request; see `Reply.taken`."""
        reply = await self.chat(messages, whole=False, limit_parameter=limit_parameter, **parameters)
        is_taken = reply.taken(words)
        return Found(is_taken, "taken" if is_taken else reply.told)


@dataclass(frozen=True, slots=True)
class Probe:
    """One question to an endpoint."""

    name: str
    tried: str
    """What is sent, in a few words."""
    run: Callable[[Asking], Awaitable[Found]]
    needs: tuple[str, ...] = ()
    """Probes that must have found something first: what they found counts as true."""
    after: tuple[str, ...] = ()
    """Probes that must be over first, whatever they found."""

"""Examining an endpoint: the first requests one by one, then all probes, some at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import httpx

from turnflow.apps.doctor import probes, tool_probes
from turnflow.apps.doctor.contact import DoctorError, first_contact, list_models, named
from turnflow.apps.doctor.http import Endpoint, OutOfTimeError
from turnflow.apps.doctor.probe import Asking, Finding, Found, Probe
from turnflow.apps.doctor.verdict import profile_of
from turnflow.apps.doctor.window import listed_models
from turnflow.graph.profile import ProviderProfile
from turnflow.graph.redaction import REDACTED, redact

ALL_PROBES: tuple[Probe, ...] = (*tool_probes.PROBES, *probes.PROBES)
"""All probes in the order in which they ask: the others with tools hang on the first of them."""

_LONGEST_NAME = 300
"""Characters of a model's name that is taken from a list."""

_SHORTEST_KEY = 6
"""Characters; a shorter one may stand in a text by chance."""

TIME_OVER = "the time was over"
"""Evidence of a probe that was not reached in time."""

OnFinding = Callable[[Finding], None]


@dataclass(frozen=True)
class Examination:
    """What was found out about an endpoint."""

    base_url: str
    model: str
    findings: dict[str, Finding] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def profile(self) -> ProviderProfile:
        """The profile that the findings ask for."""
        return profile_of(self.findings, self.base_url)

    @property
    def requests(self) -> int:
        """How many requests were sent."""
        return sum(finding.requests for finding in self.findings.values())


async def examine(
    base_url: str,
    model: str | None = None,
    *,
    api_key: str | None = None,
    key_name: str = "OPENAI_API_KEY",
    timeout: float = 60.0,  # noqa: ASYNC109 - bounds the whole examination, and what was found by then counts
    on_finding: OnFinding | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
) -> Examination:
    """Examine an endpoint.

    Args:
        base_url: The API's address, as clients take it.
        model: The model; None takes the one that the endpoint lists, if it is the only one.
        api_key: The key, if it wants one.
        key_name: The environment variable that errors name.
        timeout: Seconds for all of it. What was not reached by then is not known.
        on_finding: Told of each finding as it comes.
        transport: Stands in for the network.

    Raises:
        DoctorError: The endpoint does not answer a plain question.
    """
    begun = time.monotonic()
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    found: dict[str, Finding] = {}

    def tell(finding: Finding) -> None:
        found[finding.name] = replace(finding, evidence=_without_key(finding.evidence, api_key))
        if on_finding is not None:
            on_finding(found[finding.name])

    async with httpx.AsyncClient(headers=headers, transport=transport, follow_redirects=True) as client:
        endpoint = Endpoint(client, base_url.rstrip("/"), model or "", begun + timeout)
        try:
            await list_models(endpoint, key_name)
            endpoint.model = model or _only_model(endpoint)
            for finding in await first_contact(endpoint, key_name):
                tell(finding)
        except OutOfTimeError as error:
            raise DoctorError(f"{endpoint.address} did not answer within {timeout:g} s") from error
        except DoctorError as error:
            raise DoctorError(_without_key(str(error), api_key)) from error
        order = [*found, *(probe.name for probe in (*probes.PROBES, *tool_probes.PROBES))]
        await _run_all(endpoint, found, tell)
    findings = {name: found[name] for name in order}
    return Examination(endpoint.address, endpoint.model, findings, time.monotonic() - begun)


async def _run_all(endpoint: Endpoint, found: dict[str, Finding], tell: OnFinding) -> None:
    over = {probe.name: asyncio.Event() for probe in ALL_PROBES}

    async def run(probe: Probe) -> None:
        for name in (*probe.needs, *probe.after):
            if name in over:
                await over[name].wait()
        tell(await _run(probe, endpoint, found))
        over[probe.name].set()

    async with asyncio.TaskGroup() as group:
        for probe in ALL_PROBES:
            group.create_task(run(probe))


async def _run(probe: Probe, endpoint: Endpoint, found: dict[str, Finding]) -> Finding:
    for name in probe.needs:
        if not found[name].value:
            what = "not known" if found[name].value is None else "no"
            return Finding(probe.name, probe.tried, None, f"skipped: {name} is {what}")
    asking = Asking(endpoint, found)
    try:
        result = await probe.run(asking)
    except OutOfTimeError:
        result = Found(None, TIME_OVER)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        result = Found(None, str(error) or type(error).__name__)
    value, evidence = result
    return Finding(probe.name, probe.tried, value, evidence, asking.seconds, asking.requests)


def _without_key(text: str, key: str | None) -> str:
    """A text without the key, which an endpoint may quote, and without what looks like a secret."""
    if key and len(key) >= _SHORTEST_KEY:
        text = text.replace(key, REDACTED)
    return str(redact(text))


def _only_model(endpoint: Endpoint) -> str:
    models = listed_models(endpoint.listed)
    if len(models) == 1 and len(models[0]) <= _LONGEST_NAME:
        return models[0]
    listed = f"; it lists: {named(models)}" if models else ""
    raise DoctorError(f"name the model of {endpoint.address} with --model{listed}")

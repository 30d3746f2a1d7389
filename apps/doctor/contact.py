"""The first requests: whether the endpoint answers at all, and how it is spoken to."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx

from turnflow.apps.doctor.http import FIRST_SECONDS, REQUEST_SECONDS, SLOW_SECONDS, THINKING_SECONDS, Endpoint
from turnflow.apps.doctor.probe import Asking, Finding
from turnflow.apps.doctor.reply import OK, Reply, shortened
from turnflow.apps.doctor.thoughts import thought_in
from turnflow.apps.doctor.window import listed_models
from turnflow.graph.base_url import check_base_url, version_hint
from turnflow.graph.shown import cut

QUESTION = "What is 17 + 25? Answer with the number only."
"""The plainest request; a model that thinks does so about it."""
FIRST_TOKENS = 512
"""Room for the first reply: enough for a short thought, as it is not known yet whether the model thinks."""

MAX_LISTED = 12
"""Models that are named where one does not exist."""

_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _TOO_MANY = 401, 403, 404, 429
_NO_MODEL = re.compile(
    r"model.{0,120}(not (be )?(found|exist|available)|does ?n.t exist|unknown|invalid)"
    r"|(unknown|invalid|no such) model"
)
_FORMS: tuple[tuple[bool, str | None], ...] = (
    (True, "max_tokens"),
    (True, "max_completion_tokens"),
    (True, None),
    (False, "max_tokens"),
    (False, None),
)
"""Whether the reply is streamed and how its limit is named, the usual form first."""


class DoctorError(Exception):
    """The endpoint cannot be examined; the text is one line that says what to do."""


async def list_models(endpoint: Endpoint, key_name: str) -> None:
    """Read `/models`, which also shows whether there is a server; one without this page is fine.

    Raises:
        DoctorError: The address is none, no server answers, or it wants another key.
    """
    url = f"{endpoint.base_url}/models"
    try:
        check_base_url(endpoint.base_url)
    except ValueError as error:
        raise DoctorError(str(error)) from error
    try:
        status, listing = await endpoint.fetch(url)
    except httpx.TimeoutException as error:
        raise DoctorError(f"{endpoint.address} does not answer: no response in time") from error
    except httpx.UnsupportedProtocol as error:
        raise DoctorError(f"{endpoint.address} is no address: it begins with http:// or https://") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise DoctorError(f"{endpoint.address} cannot be reached: {_why(error)}") from error
    if status == _UNAUTHORIZED:
        raise DoctorError(_no_key(endpoint, key_name, status))
    endpoint.listed = listing if status == OK else None


async def first_contact(endpoint: Endpoint, key_name: str) -> list[Finding]:
    """Ask the plainest question, in the first form that the endpoint takes, and read what comes.

    Raises:
        DoctorError: It takes none.
    """
    asking = Asking(endpoint, {})
    refused: list[Reply] = []
    for streams, limit in _FORMS:
        endpoint.ways.streams, endpoint.ways.limit_parameter = streams, limit
        reply = await asking.chat(QUESTION, tokens=FIRST_TOKENS)
        if reply.taken():
            break
        if problem := _problem(endpoint, reply, key_name):
            raise DoctorError(problem)
        refused.append(reply)
    else:
        first = refused[0].told
        raise DoctorError(f"{endpoint.address} refuses the plainest request: {first}")
    is_unsaid = reply.is_cut_off and not thought_in(reply.text).rest.strip()
    endpoint.ways.thinks = is_unsaid or _thinks(reply)
    usual = THINKING_SECONDS if endpoint.ways.thinks else REQUEST_SECONDS
    endpoint.ways.seconds = max(usual, min(2 * reply.seconds, FIRST_SECONDS))
    endpoint.one_at_a_time = endpoint.one_at_a_time or reply.seconds > SLOW_SECONDS
    if is_unsaid:
        again = await asking.chat(QUESTION)
        reply = again if again.taken() else reply
    return list(_findings(reply, asking, refused))


def _findings(reply: Reply, asking: Asking, refused: list[Reply]) -> Iterator[Finding]:
    ways = asking.endpoint.ways
    is_streamed = reply.streamed and ways.streams
    first = "" if reply.first is None else f"first words after {reply.first:.2f} s"
    if not ways.streams:
        first = refused[0].told
    elif not reply.streamed:
        first = "the reply came whole, in one JSON body"
    yield Finding("streaming", "a plain question", is_streamed, first, reply.seconds, asking.requests)
    yield Finding("stream_end", "the same", *_ending(reply))
    field = reply.reasoning_field
    quoted = next((text for d in reply.deltas if (text := d.get(field or "")) and isinstance(text, str)), "")
    if field:
        yield Finding("reasoning", "the same", field, f"it begins {shortened(quoted)!r}")
    elif reply.unseen_thought:
        told = f"{reply.unseen_thought} tokens of thought were counted and not shown"
        yield Finding("reasoning", "the same", False, told)
    else:
        yield Finding("reasoning", "the same", False, "no field with thoughts came")
    thought = thought_in(reply.text)
    yield Finding("think_tags", "the same", thought.tag or False, _tags(reply.text))
    is_orphan = bool(thought.tag) and not thought.is_opened
    told = "a closer came without its opener" if is_orphan else "no closer came without its opener"
    yield Finding("starts_thinking", "the same", is_orphan, told)


def _ending(reply: Reply) -> tuple[str | None, str]:
    comments = f"; {reply.comments} comments in between" if reply.comments else ""
    told = {
        "complete": "in good order",
        "no_done": "without [DONE]",
        "held": "the connection was held open after the finish reason",
    }.get(reply.ending)
    if told is None:
        return None, reply.told
    reason = reply.finish_reason
    return reply.ending, told + (f", finish reason {reason!r}" if reason else ", no finish reason") + comments


def _tags(text: str) -> str:
    thought = thought_in(text)
    if not thought.tag:
        return f"the content is {shortened(text)!r}"
    parts = ["opened" if thought.is_opened else "not opened", "closed" if thought.is_closed else "not closed"]
    return f"<{thought.tag}>: {', '.join(parts)}"


def _thinks(reply: Reply) -> bool:
    return bool(reply.reasoning_field or reply.unseen_thought or thought_in(reply.text).tag)


def _problem(endpoint: Endpoint, reply: Reply, key_name: str) -> str:
    """Why the endpoint cannot be examined, or nothing if a request of another form may do."""
    status = reply.status if reply.refusal is None else reply.refusal.status
    models = listed_models(endpoint.listed)
    if status in {_UNAUTHORIZED, _FORBIDDEN}:
        return _no_key(endpoint, key_name, status, reply.told)
    said = reply.refusal.message.lower() if reply.refusal else ""
    code = reply.refusal.code if reply.refusal else ""
    is_unlisted = bool(models) and endpoint.model not in models
    if code == "model_not_found" or _NO_MODEL.search(said) or (status == _NOT_FOUND and is_unlisted):
        return _no_model(endpoint, models)
    if status == _NOT_FOUND:
        return f"404: there is no {endpoint.address}/chat/completions{version_hint(endpoint.base_url)}"
    if status == _TOO_MANY:
        return f"{endpoint.address} takes no more requests now: {reply.told}"
    if reply.taken() is None:
        hint = version_hint(endpoint.base_url) if reply.status == OK and reply.refusal is None else ""
        return f"{endpoint.address} gives no reply: {reply.told}{hint}"
    return ""


def _no_model(endpoint: Endpoint, models: list[str]) -> str:
    there = f"; it has: {named(models)}" if models else ""
    return f"there is no model {endpoint.model!r:.80} at {endpoint.address}{there}"


def named(models: list[str]) -> str:
    """The first of an endpoint's models, each in short, and how many more there are."""
    shown = ", ".join(cut(model) for model in models[:MAX_LISTED])
    return f"{shown} and {len(models) - MAX_LISTED} more" if len(models) > MAX_LISTED else shown


def _no_key(endpoint: Endpoint, key_name: str, status: int, told: str = "") -> str:
    said = f" ({told})" if told else ""
    mend = f"set {key_name}, or name another variable with --api-key-env"
    return f"{status}: {endpoint.address} refuses the key{said}: {mend}"


def _why(error: Exception) -> str:
    text = str(error)
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ConnectionRefusedError):
            return "the connection was refused; is the server running?"
        cause = cause.__cause__ or cause.__context__
    if "refused" in text.lower() or "all connection attempts failed" in text.lower():
        return "the connection was refused; is the server running?"
    if "name or service not known" in text.lower() or "nodename nor servname" in text.lower():
        return "there is no such host"
    return text or type(error).__name__

"""The probes about requests and replies without tools."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from turnflow.apps.doctor.probe import Asking, Found, Probe
from turnflow.apps.doctor.reply import Reply, choice_of, shortened
from turnflow.apps.doctor.thoughts import thought_in
from turnflow.apps.doctor.window import (
    Hint,
    listed_window,
    loaded_window,
    props_window,
    shown_window,
)
from turnflow.graph.degradation import OUTPUT_LIMITS

GREETING = "Say hello in one word."
"""What is asked where it only matters whether the request is taken."""
WORD = "zinc-blue"
"""A word that no model answers a greeting with, unless it is held to it."""
PIXEL = (
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mNgYGAAAAAEAAHI6uv5AAAAAElFTkSuQmCC"
)
"""A picture of one black pixel."""

PARAMETERS: dict[str, Any] = {"temperature": 0.2, "top_p": 0.9, "reasoning_effort": "low"}
"""Parameters that some models refuse, with a usual value."""
SCHEMA = {
    "type": "object",
    "properties": {"colour": {"type": "string", "enum": [WORD]}},
    "required": ["colour"],
    "additionalProperties": False,
}

_FOUND = 200


async def usage(asking: Asking) -> Found:
    """Whether usage can be asked for in a stream, and where it comes."""
    reply = await asking.chat(GREETING, stream_options={"include_usage": True})
    taken = reply.taken(("stream_options",))
    if not taken:
        return Found("refused" if taken is False else None, reply.told)
    if not reply.usage_frames:
        if reply.ending in {"complete", "no_done", "held"}:
            return Found("none", "asked for, and none came")
        return Found(None, reply.told)
    last = reply.usage_frames[-1]
    counted = last["usage"]
    told = f"{counted.get('prompt_tokens')} tokens in, {counted.get('completion_tokens')} out"
    if len(reply.usage_frames) > 1:
        told += f"; in {len(reply.usage_frames)} chunks"
    return Found("own_chunk" if choice_of(last) is None else "with_choices", told)


async def token_limit(asking: Asking) -> Found:
    """Which names of the limit of output tokens are taken."""
    ways = asking.endpoint.ways
    known = ways.limit_parameter
    if known != OUTPUT_LIMITS[0]:  # the first requests tried them in order
        taken = [known] if known else []
        return Found(taken, f"{' and '.join(OUTPUT_LIMITS[: 2 - len(taken)])} refused")
    other = await asking.takes(GREETING, limit_parameter=OUTPUT_LIMITS[1])
    if other.value:
        return Found(list(OUTPUT_LIMITS), "both taken")
    return Found([OUTPUT_LIMITS[0]], f"{OUTPUT_LIMITS[1]}: {other.evidence}")


async def refused_parameters(asking: Asking) -> Found:
    """Which of the usual parameters are refused: together first, one by one if that is refused."""
    together = await asking.takes(GREETING, **PARAMETERS)
    if together.value is not False:
        return Found([] if together.value else None, together.evidence)
    refused, told = [], []
    for name, value in PARAMETERS.items():
        alone = await asking.takes(GREETING, **{name: value})
        if alone.value is False:
            refused.append(name)
        told.append(f"{name} {'taken' if alone.value else alone.evidence}")
    return Found(refused, "; ".join(told))


async def unknown_parameter(asking: Asking) -> Found:
    """Whether a parameter that no API has is taken."""
    return await asking.takes(GREETING, turnflow_probe=True)


async def system_role(asking: Asking) -> Found:
    """Whether a system message is taken."""
    messages = [_said("system", "Answer briefly."), _said("user", GREETING)]
    return await asking.takes(messages, words=("system", "role"))


async def system_after_user(asking: Asking) -> Found:
    """Whether a system message may stand behind others."""
    middle = [_said("user", "Hi."), _said("assistant", "Hi."), _said("system", "Answer briefly.")]
    return await asking.takes(
        [_said("system", "Be kind."), *middle, _said("user", GREETING)], words=("system", "role")
    )


async def consecutive_users(asking: Asking) -> Found:
    """Whether two messages of the user may follow each other."""
    return await asking.takes([_said("user", "Hi."), _said("user", GREETING)], words=("role", "alternate"))


async def empty_content(asking: Asking) -> Found:
    """Whether a message of the assistant may be empty."""
    messages = [_said("user", "Hi."), _said("assistant", ""), _said("user", GREETING)]
    return await asking.takes(messages, words=("content", "empty"))


async def name_fields(asking: Asking) -> Found:
    """Whether a message may carry a name."""
    return await asking.takes([{**_said("user", GREETING), "name": "ada"}], words=("name",))


async def images(asking: Asking) -> Found:
    """Whether a picture is taken."""
    parts = [
        {"type": "text", "text": "Which colour is this? One word."},
        {"type": "image_url", "image_url": {"url": PIXEL}},
    ]
    words = ("image", "vision", "multimodal", "mmproj", "content")
    return await asking.takes([{"role": "user", "content": parts}], words=words)


async def json_schema(asking: Asking) -> Found:
    """Whether a reply is held to a JSON schema: by a word that no model would say of itself."""
    form = {"name": "probe", "schema": SCHEMA, "strict": True}
    parameter = {"type": "json_schema", "json_schema": form}
    reply = await asking.chat(GREETING, tokens=64, response_format=parameter)
    return _held_to(reply, lambda text: _as_json(text) == {"colour": WORD})


async def grammar(asking: Asking) -> Found:
    """Whether a reply is held to a grammar in llama.cpp's form."""
    reply = await asking.chat(GREETING, grammar=f'root ::= "{WORD}"')
    return _held_to(reply, lambda text: text == WORD)


async def window(asking: Asking) -> Found:
    """What the server tells about its context window; nothing is sent to find out."""
    endpoint = asking.endpoint
    if hint := listed_window(endpoint.listed, endpoint.model):
        return _hinted(hint, "/models")
    pages = (
        ("/props", None, props_window),
        ("/api/ps", None, lambda page: loaded_window(page, endpoint.model)),
        ("/api/show", {"model": endpoint.model}, shown_window),
        (
            f"/api/v0/models/{quote(endpoint.model, safe='')}",
            None,
            lambda page: listed_window([page], endpoint.model),
        ),
    )
    for path, body, read in pages:
        status, page = await asking.fetch(path, body)
        if status == _FOUND and (hint := read(page)):
            return _hinted(hint, path)
    return Found(None, "no page of the server tells it")


def _held_to(reply: Reply, keeps: Any) -> Found:
    taken = reply.taken(("response_format", "grammar"))
    if not taken:
        return Found(taken, reply.told)
    text = thought_in(reply.text).rest.strip()
    if keeps(text):
        return Found(True, f"answered {shortened(text)!r}")
    if not text or reply.is_cut_off:
        return Found(None, f"the reply ended early: {reply.finish_reason or reply.ending}")
    return Found(False, f"ignored: answered {shortened(text)!r}")


def _as_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _hinted(hint: Hint, path: str) -> Found:
    return Found(hint.tokens, f"{hint.field} in {path}")


def _said(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "content": content}


PROBES = (
    Probe("usage", "stream_options", usage, needs=("streaming",)),
    Probe("system_role", "a system message", system_role),
    Probe("images", "a picture of one pixel", images),
    Probe("window", "pages of the server", window),
    Probe("json_schema", "response_format with a schema", json_schema),
    Probe("token_limit", "the other name of the limit", token_limit),
    Probe("refused_parameters", ", ".join(PARAMETERS), refused_parameters),
    Probe("grammar", "a grammar of one word", grammar),
    Probe("name_fields", "a message with a name", name_fields),
    Probe("consecutive_users", "two user messages in a row", consecutive_users),
    Probe("empty_content", "an assistant message without text", empty_content),
    Probe("system_after_user", "a system message further down", system_after_user, needs=("system_role",)),
    Probe("unknown_parameter", "a parameter that no API has", unknown_parameter),
)
"""The probes without tools, what matters most first."""

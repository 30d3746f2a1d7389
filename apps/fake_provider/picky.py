"""Rules that only some providers have, off unless a script asks for them (docs/fake-provider.md).

They are written as those of strict mode are, and the texts are the providers' own where these are known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from turnflow.apps.fake_provider.script import PickyRule, Strictness
from turnflow.apps.fake_provider.violation import (
    SYSTEM_ROLES,
    Check,
    Request,
    Violation,
    call_ids,
    says_nothing,
)

_SHORT_ID = re.compile(r"[a-zA-Z0-9]{9}")
_MEDIA = ("image_url", "input_audio", "file")


def system_role(request: Request, _: Strictness) -> Iterator[Violation]:
    """A system message, for a model whose template has no place for one."""
    for at, message in enumerate(request["messages"]):
        if message["role"] in SYSTEM_ROLES:
            text = "System role is not supported by this model."
            yield Violation("system_role", f"messages[{at}].role", text)


def alternation(request: Request, _: Strictness) -> Iterator[Violation]:
    """Roles other than the user's and the assistant's in turn, behind a system message or none."""
    messages = request["messages"]
    start = 1 if messages[0]["role"] in SYSTEM_ROLES else 0
    for at, message in enumerate(messages[start:]):
        if message["role"] != ("assistant" if at % 2 else "user"):
            text = "Conversation roles must alternate user/assistant/user/assistant/..."
            yield Violation("alternation", f"messages[{at + start}].role", text)
            return


def silent_calls(request: Request, _: Strictness) -> Iterator[Violation]:
    """An assistant message that calls tools and says nothing."""
    for at, message in enumerate(request["messages"]):
        if (
            message["role"] == "assistant"
            and message.get("tool_calls")
            and says_nothing(message.get("content"))
        ):
            text = "Invalid value for 'content': expected a string, got null."
            yield Violation("silent_calls", f"messages[{at}].content", text)


def names(request: Request, _: Strictness) -> Iterator[Violation]:
    """A message with a `name`."""
    for at, message in enumerate(request["messages"]):
        if "name" in message:
            text = f"Extra inputs are not permitted: 'name' on a message from '{message['role']}'."
            yield Violation("names", f"messages[{at}].name", text)


def short_call_ids(request: Request, _: Strictness) -> Iterator[Violation]:
    """Ids of calls and results that are not nine letters and digits, as Mistral wants them."""
    for at, message in enumerate(request["messages"]):
        answered = [str(message.get("tool_call_id"))] if message["role"] == "tool" else []
        for call_id in [*call_ids(message), *answered]:
            if not _SHORT_ID.fullmatch(call_id):
                text = f"Tool call id was {call_id} but must be a-z, A-Z, 0-9, with a length of 9."
                yield Violation("call_ids", f"messages[{at}]", text)


def images(request: Request, _: Strictness) -> Iterator[Violation]:
    """An image, a sound or a file, for a model that takes text only."""
    for at, message in enumerate(request["messages"]):
        for number, part in enumerate(_parts(message)):
            if isinstance(part, dict) and part.get("type") in _MEDIA:
                text = "This model does not support image input."
                yield Violation("images", f"messages[{at}].content[{number}]", text)


def text_blocks(request: Request, _: Strictness) -> Iterator[Violation]:
    """A list of parts where a plain text would do."""
    for at, message in enumerate(request["messages"]):
        parts = _parts(message)
        if parts and all(isinstance(part, dict) and part.get("type") == "text" for part in parts):
            text = f"messages[{at}].content: invalid type: sequence, expected a string"
            yield Violation("text_blocks", f"messages[{at}].content", text)


def _parts(message: dict[str, object]) -> list[object]:
    content = message.get("content")
    return content if isinstance(content, list) else []


PICKY: dict[PickyRule, Check] = {
    "system_role": system_role,
    "alternation": alternation,
    "silent_calls": silent_calls,
    "names": names,
    "call_ids": short_call_ids,
    "images": images,
    "text_blocks": text_blocks,
}
"""Every such rule by its name, in the order in which they are checked."""

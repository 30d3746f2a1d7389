"""The laws of the reply reader under every protocol and dialect (docs/replies.md)."""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from types import NoneType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.linear_time import is_linear
from tests.nodes.call_llm.test_reader_laws import CODE, NEAR_TAGS, TAGS, WHITE_SPACE, cuts, merged
from turnflow import JsonProtocol, LabelProtocol, ProviderProfile, ReplyReader
from turnflow.graph.profile import Dialect
from turnflow.graph.protocol import LABELS, UNKNOWN, Protocol
from turnflow.nodes.call_llm.reply_events import Reply, ReplyEvent

EXAMPLES = int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "800"))
FUZZ = settings(max_examples=EXAMPLES, deadline=None)
"""For each of the eight forms, so that each law is tried on more than 5,000 replies."""

SOLVE = LabelProtocol(
    allowed=("RE", "RE-PLAN", "FINISH", "THINK", "TOOL"),
    terminal=("FINISH", "RE-PLAN"),
    intermediate=("THINK", "RE"),
    final=("FINISH", "RE"),
    tool="TOOL",
)


def spoken(*dialects: Dialect) -> ProviderProfile:
    return ProviderProfile(text_dialects=dialects)


FORMS: dict[str, tuple[Protocol, ProviderProfile]] = {
    "label": (SOLVE, spoken()),
    "label, streaming": (replace(SOLVE, stream_final=True), spoken()),
    "label with hermes": (replace(LABELS, stream_final=True), spoken("hermes", "json")),
    "json": (JsonProtocol(), spoken()),
    "hermes": (None, spoken("hermes")),
    "deepseek": (None, spoken("deepseek")),
    "deepseek tokens": (None, spoken("deepseek_tokens")),
    "lone json": (None, spoken("json")),
}

LABEL_PIECES = [
    "``FINISH``",
    "FINISH",
    "`TOOL`\n",
    "**THINK**",
    "RE-PLAN",
    "RE",
    ": ",
    " — ",
    "\n``THINK``\n",
]
CALL = json.dumps({"name": "add", "arguments": {"a": 1, "s": "é🙂</tool_call>"}}, ensure_ascii=False)
CALL_PIECES = [
    "<tool_call>",
    "</tool_call>",
    f"<tool_call>{CALL}</tool_call>",
    CALL,
    "<tool_",
    "call>",
    "<｜DSML｜function_calls>",
    '<｜DSML｜invoke name="add">',
    '<｜DSML｜parameter name="a" string="false">1</｜DSML｜parameter>',
    "</｜DSML｜invoke>",
    "</｜DSML｜function_calls>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>add<｜tool▁sep｜>{}<｜tool▁call▁end｜>",
    "<｜tool▁calls▁end｜>",
    "<｜",
    "｜>",
]
JSON_PIECES = [
    '{"thought": "',
    '", "action": "reply", "action_input": "',
    '", "action": "call_tool", "action_input": {"tool_name": "add", "parameters": {"a": 1}}}',
    '{"thought": "Hm.", "action": "clarify", "action_input": "Why?"}',
    '"}',
    "{",
    "}",
    '"',
    "\\",
    "\\n",
    "\\ud83d",
    "\\ude00",
    ",",
    ":",
    "'",
]
WORDS = ["Hi", "1", "。", "你好", "🙂", "é", "- 5", "4.\n"]
PIECES = [TAGS, NEAR_TAGS, CODE, WHITE_SPACE, LABEL_PIECES, CALL_PIECES, JSON_PIECES, WORDS]
# Half of the replies begin the way that their protocol wants it.
BEGINNINGS = ["", "", "", "``FINISH``\n", "``TOOL``\n", "``THINK``\n", '{"thought": "Hm.', "<think>"]
REPLIES = st.builds(
    lambda start, pieces: start + "".join(pieces),
    st.sampled_from(BEGINNINGS),
    st.lists(st.one_of(*(st.sampled_from(pieces) for pieces in PIECES)), max_size=20),
)


def read(form: str, chunks: Sequence[str], *, cut_off: bool = False) -> tuple[list[ReplyEvent], Reply]:
    """The events and the reply."""
    return read_all(form, chunks, cut_off=cut_off)[:2]


def read_all(
    form: str, chunks: Sequence[str], *, cut_off: bool = False
) -> tuple[list[ReplyEvent], Reply, str]:
    """The same, and the body."""
    protocol, profile = FORMS[form]
    reader = ReplyReader(protocol, profile=profile, tool_names=["add"])
    events = [event for chunk in chunks for event in reader.feed(chunk)]
    events += reader.close(cut_off=cut_off)
    return events, reader.reply, reader.body


@pytest.mark.parametrize("form", FORMS)
@FUZZ
@given(data=st.data(), reply=REPLIES, cut_off=st.booleans())
def test_any_way_of_cutting_gives_the_same_events(
    form: str, data: st.DataObject, reply: str, cut_off: Any
) -> None:
    events, whole = read(form, [reply], cut_off=cut_off)
    for chunks in (list(reply), data.draw(cuts(reply))):
        cut_events, cut = read(form, chunks, cut_off=cut_off)
        assert cut == whole
        assert merged(cut_events) == merged(events)


@pytest.mark.parametrize("form", FORMS)
@FUZZ
@given(data=st.data(), reply=REPLIES)
def test_what_was_shown_is_what_is_stored(form: str, data: st.DataObject, reply: str) -> None:
    events, stored = read(form, data.draw(cuts(reply)))
    shown = thinking = ""
    label: str | None = None
    for event in events:
        assert event["text"] or event["kind"] == "call"
        match event["kind"]:
            case "content":
                shown += event["text"]
            case "thinking":
                thinking += event["text"]
            case "retract":
                assert shown == event["text"]
                shown = ""
            case "label":
                label = event["text"]
    assert (shown, thinking) == (stored["text"], stored["thinking"])
    if stored["label"] not in {None, UNKNOWN}:
        assert label == stored["label"]
    if not isinstance(FORMS[form][0], JsonProtocol):
        assert len([e for e in events if e["kind"] == "call"]) == len(stored["calls"])


@pytest.mark.parametrize("form", [name for name in FORMS if name != "json"])
@FUZZ
@given(reply=REPLIES)
def test_no_text_is_lost_unless_it_became_something_else(form: str, reply: str) -> None:
    events, stored, body = read_all(form, [reply])
    assert stored["raw"] == reply
    lost = Counter(reply)
    lost.subtract(stored["thinking"] + (stored["text"] or body))
    retracted = any(event["kind"] == "retract" for event in events)
    if not retracted and isinstance(FORMS[form][0], NoneType):
        assert min(lost.values(), default=0) >= 0, "something was made up"
    # Words stand in no tag, label or wrapper; calls take only what stands inside their markup.
    in_tags = "".join(re.findall(r"<[a-z]+[\s/][^<>]*>", reply, re.IGNORECASE))
    if not stored["calls"]:
        for word in "你好é":
            assert lost[word] <= in_tags.count(word), "text was lost"


HOSTILE = {
    "labels": "``FINISH``\n",
    "colons": "TOOL: a\n",
    "ticks": "`",
    "blanks": " ",
    "openers": "<tool_call>",
    "openers in strings": '<tool_call>"',
    "empty calls": "<tool_call>{}</tool_call>",
    "calls": f"<tool_call>{CALL}</tool_call>",
    "half openers": "<tool_call",
    "bars": "<｜",
    "invokes": '<｜DSML｜invoke name="a">',
    "calls of tokens": "<｜tool▁call▁begin｜>add<｜tool▁sep｜>{}",
    "braces": "{",
    "objects": '{"name": "add", "arguments": {}}',
    "thoughts in JSON": '{"thought": "a", "action": ',
    "escapes": "\\ud83d",
    "quotes": '"',
    "brackets": "[",
    "think tags": "<think>a</think>",
    "fences": "```\n",
    "angles": "<a ",
}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("form", FORMS)
def test_time_is_linear(form: str, hostile: str) -> None:
    """A megabyte takes at most five times as long as a quarter of it; so do many small pieces."""

    def seconds(length: int, feed: Callable[[str], Sequence[str]]) -> float:
        chunks = feed(hostile * (length // len(hostile)))
        start = time.thread_time()
        read(form, chunks)
        return time.thread_time() - start

    for size, feed in ((1_000_000, _whole), (40_000, list)):
        assert is_linear(partial(seconds, feed=feed), size)


def _whole(text: str) -> Sequence[str]:
    return [text]

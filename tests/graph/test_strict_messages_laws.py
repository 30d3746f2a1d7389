"""Laws of the messages that go out: whatever comes in, they are strict, whole, in order, and stable."""

from __future__ import annotations

import copy
import gc
import os
import random
import re
import time
from itertools import chain, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_openai.chat_models.base import _convert_message_to_dict

from tests.linear_time import is_linear
from tests.nodes.assemble_context.histories import plan_of
from turnflow import plan_context
from turnflow.apps.fake_provider.script import PickyRule, Strictness
from turnflow.apps.fake_provider.strict import malformed, violations
from turnflow.graph.profile import CallIds, ProviderProfile
from turnflow.graph.strict_messages import wire_messages

FUZZ = settings(max_examples=int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "150")), deadline=None)

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
MEDIA: list[Any] = [
    IMAGE,
    {"type": "image", "base64": "AAAA", "mime_type": "image/png"},
    {"type": "audio", "base64": "AAAA", "mime_type": "audio/wav"},
    {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA"}},
    {"type": "video", "url": "https://example.org/v.mp4"},
    {"type": "image"},
]
IDS = st.sampled_from(["", "1", "2", "call_0", "call_0_2", "abcdefghi", "ABCDEFGH9", "\ud83d"])
CALL_IDS: tuple[CallIds, ...] = ("any", "alnum9")
EVERY_PROFILE = [
    ProviderProfile(images=images, system_role=system, strict_messages=strict, call_ids=ids)
    for images, system, strict, ids in product((True, False), (True, False), (True, False), CALL_IDS)
]
PROFILES = st.sampled_from(EVERY_PROFILE)
FITTING = {"abcdefghi", "ABCDEFGH9"}
PICKY: list[PickyRule] = ["silent_calls", "names", "call_ids", "text_blocks"]


@st.composite
def contents(draw: st.DrawFn) -> Any:
    """Content with a `#` where its mark goes, or none."""
    text = st.sampled_from(["", " ", "# text", "# more </tool_result>"])
    block = st.one_of(
        text.map(lambda each: {"type": "text", "text": each}),
        text,
        st.sampled_from(MEDIA),
        st.just({"type": "thinking", "thinking": "hm"}),
    )
    return draw(st.one_of(text, text, st.lists(block, max_size=3)))


def call(call_id: str | None) -> dict[str, Any]:
    return {"id": call_id, "name": "look up", "args": {"q": 1}}


def broken(call_id: str) -> dict[str, Any]:
    return {"id": call_id, "name": "f", "args": "{", "error": "", "type": "invalid_tool_call"}


MESSAGES: st.SearchStrategy[BaseMessage] = st.one_of(
    st.builds(HumanMessage, contents(), name=st.sampled_from([None, "ada"])),
    st.builds(SystemMessage, contents()),
    st.builds(AIMessage, contents(), name=st.sampled_from([None, "bob"])),
    st.builds(
        AIMessage,
        contents(),
        tool_calls=st.lists(st.one_of(IDS, st.none()).map(call), min_size=1, max_size=3),
        invalid_tool_calls=st.lists(IDS.map(broken), max_size=1),
    ),
    st.builds(ToolMessage, contents(), tool_call_id=IDS, name=st.sampled_from([None, "look up"])),
    st.builds(ToolMessage, contents(), tool_call_id=IDS),
    st.builds(FunctionMessage, contents(), name=st.just("f")),
    st.builds(
        ChatMessage, contents(), role=st.sampled_from(["system", "developer", "user", "assistant", "x"])
    ),
)


def marked(message: BaseMessage, place: int) -> BaseMessage:
    """The message with a mark of its own wherever it has a text."""
    content: Any = message.content
    if isinstance(content, str):
        content = content.replace("#", f"k{place}k")
    else:
        content = [
            {**block, "text": block["text"].replace("#", f"k{place}k")} if "text" in block else block
            for block in (
                {"type": "text", "text": block} if isinstance(block, str) else block for block in content
            )
        ]
    return message.model_copy(update={"content": content})


@st.composite
def rounds(draw: st.DrawFn) -> list[BaseMessage]:
    """Calls with some of their results, in any order, some of them twice."""
    ids = draw(st.lists(IDS, min_size=1, max_size=2))
    answered = draw(st.lists(st.sampled_from(ids), max_size=3))
    reply = AIMessage(draw(contents()), tool_calls=[call(call_id) for call_id in ids])
    return [reply, *(ToolMessage(draw(contents()), tool_call_id=call_id) for call_id in answered)]


CONVERSATIONS = st.lists(st.one_of(MESSAGES.map(lambda message: [message]), rounds()), max_size=8).map(
    lambda parts: [marked(message, place) for place, message in enumerate(chain.from_iterable(parts))]
)


def sent_by_openai(messages: list[BaseMessage]) -> list[dict[str, Any]]:
    return [_convert_message_to_dict(message) for message in messages]


def also_picky(profile: ProviderProfile) -> list[PickyRule]:
    """The rules of single providers that messages for this profile keep."""
    rules: dict[PickyRule, bool] = {
        "system_role": profile.system_role,
        "images": profile.images,
        "call_ids": profile.call_ids == "any",
    }
    return [rule for rule, is_broken in rules.items() if not is_broken]


def text_of(message: BaseMessage) -> str:
    return str(message.text) if isinstance(message.content, str) else str(message.content)


def marks_of(message: BaseMessage) -> list[int]:
    return [int(mark) for mark in re.findall(r"k(\d+)k", text_of(message))]


def call_ids(message: BaseMessage) -> list[Any]:
    return [c["id"] for c in calls_of(message)]


def calls_of(message: BaseMessage) -> list[Any]:
    return [*message.tool_calls, *message.invalid_tool_calls] if isinstance(message, AIMessage) else []


def answering(messages: list[BaseMessage]) -> list[bool]:
    """Of each result, whether it answers a call right before it."""
    found: list[bool] = []
    open_ids: set[str] = set()
    for message in messages:
        if isinstance(message, ToolMessage):
            found.append(message.tool_call_id in open_ids)
        else:
            open_ids = {call_id or "" for call_id in call_ids(message)}
    return found


@FUZZ
@given(CONVERSATIONS)
def test_the_default_profile_changes_nothing(messages: list[BaseMessage]) -> None:
    sent = wire_messages(messages, ProviderProfile())
    assert sent is not messages
    assert [id(message) for message in sent] == [id(message) for message in messages]


@FUZZ
@given(CONVERSATIONS, PROFILES)
def test_the_same_again_and_again_without_a_change_to_what_came_in(
    messages: list[BaseMessage], profile: ProviderProfile
) -> None:
    before = copy.deepcopy(messages)
    once = wire_messages(messages, profile)
    assert messages == before
    assert wire_messages(before, profile) == once
    assert wire_messages(once, profile) == once


@FUZZ
@given(CONVERSATIONS, PROFILES)
def test_the_strict_form_breaks_no_rule(messages: list[BaseMessage], profile: ProviderProfile) -> None:
    profile = profile.model_copy(update={"strict_messages": True})
    request = {"model": "m", "messages": sent_by_openai(wire_messages(messages, profile))}
    also = PICKY + also_picky(profile)
    assert malformed(request) is None
    assert violations(request, Strictness(also=also)) == []


@FUZZ
@given(CONVERSATIONS, PROFILES)
def test_no_text_is_lost_and_the_order_is_kept(messages: list[BaseMessage], profile: ProviderProfile) -> None:
    sent = [mark for message in wire_messages(messages, profile) for mark in marks_of(message)]
    told = [mark for message in messages for mark in marks_of(message)]
    assert sorted(sent) == sorted(told)
    # The system's text goes to the front, and results answer calls in the order of these, before any others.
    said = {
        place
        for place, message in enumerate(messages)
        if isinstance(message, HumanMessage | AIMessage)
        or (isinstance(message, ChatMessage) and message.role not in ("system", "developer"))
    }
    assert [mark for mark in sent if mark in said] == [mark for mark in told if mark in said]
    results = {
        place for place, message in enumerate(messages) if isinstance(message, ToolMessage | FunctionMessage)
    }
    assert [[m for m in run if m in results] for run in runs(sent, said)] == [
        [m for m in run if m in results] for run in runs(told, said)
    ]


def runs(marks: list[int], dividers: set[int]) -> list[list[int]]:
    """The marks between the dividers, each run in order of the marks."""
    found: list[list[int]] = [[]]
    for mark in marks:
        if mark in dividers:
            found.append([])
        else:
            found[-1].append(mark)
    return [sorted(run) for run in found]


@FUZZ
@given(CONVERSATIONS, PROFILES)
def test_calls_have_ids_of_nine_letters_and_digits_and_results_have_theirs(
    messages: list[BaseMessage], profile: ProviderProfile
) -> None:
    sent = wire_messages(messages, profile.model_copy(update={"call_ids": "alnum9"}))
    ids = [call_id for message in sent for call_id in call_ids(message)]
    results = [message.tool_call_id for message in sent if isinstance(message, ToolMessage)]
    assert all(re.fullmatch("[a-zA-Z0-9]{9}", str(each)) for each in ids + results)
    assert len(set(ids)) == len(ids)
    if profile.strict_messages:
        assert sorted(ids) == sorted(results)
    else:
        assert answering(sent) == answering(messages)
        had = {call_id for message in messages for call_id in call_ids(message)}
        assert FITTING & set(ids) == FITTING & had, "an id that fits is kept"


@FUZZ
@given(CONVERSATIONS)
def test_without_a_system_role_its_text_begins_the_first_user_message(messages: list[BaseMessage]) -> None:
    profile = ProviderProfile(system_role=False, strict_messages=True)
    with_role = wire_messages(messages, profile.model_copy(update={"system_role": True}))
    sent = wire_messages(messages, profile)
    assert not [m for m in sent if isinstance(m, SystemMessage)]
    if isinstance(with_role[0], SystemMessage):
        first, second = str(with_role[0].text), str(with_role[1].text)
        assert str(sent[0].text).startswith(first)
        assert second in str(sent[0].text)
        assert len(sent) == len(with_role) - 1
    else:
        assert sent == with_role


@FUZZ
@given(st.integers(0, 10**9), st.integers(1, 10), st.one_of(st.integers(256, 30_000), st.none()), PROFILES)
def test_a_planned_request_stays_strict(
    seed: int, turns: int, window: int | None, profile: ProviderProfile
) -> None:
    plan, _ = plan_of(seed, turns, window)
    request, _ = plan_context(plan)
    sent = wire_messages(request, profile)
    also = also_picky(profile) + (PICKY if profile.strict_messages else [])
    body = {"model": "m", "messages": sent_by_openai(sent)}
    assert violations(body, Strictness(also=also)) == []


def long_conversation(count: int, kind: str) -> list[BaseMessage]:
    chance = random.Random(count)  # noqa: S311
    messages: list[BaseMessage] = [SystemMessage("S")]
    while len(messages) < count:
        if kind == "rounds":
            messages += [HumanMessage("go"), AIMessage("", tool_calls=[call("call_0")])]
            messages += [ToolMessage("found", tool_call_id="call_0"), AIMessage([IMAGE])]
        elif kind == "users":
            messages.append(HumanMessage("words of the user " * 5))
        elif kind == "blocks":
            messages.append(HumanMessage([{"type": "text", "text": "words"}, IMAGE]))
        elif kind == "lone results":
            messages.append(ToolMessage("found", tool_call_id=str(chance.randrange(9))))
        else:
            messages.append(AIMessage("said", tool_calls=[call("x")]))
    return messages


@pytest.mark.parametrize("kind", ["rounds", "users", "blocks", "lone results", "calls"])
def test_ten_thousand_messages_take_linear_time(kind: str) -> None:
    profile = ProviderProfile(images=False, system_role=False, strict_messages=True, call_ids="alnum9")

    def seconds(count: int) -> float:
        messages = long_conversation(count, kind)
        gc.collect()
        gc.disable()  # it looks at all objects there are, not at these alone
        start = time.thread_time()
        wire_messages(messages, profile)
        taken = time.thread_time() - start
        gc.enable()
        return taken

    assert is_linear(seconds, 10_000)

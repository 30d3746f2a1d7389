"""The laws of the reply reader: chunk invariance, live = stored, nothing is lost, linear time."""

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.linear_time import is_linear
from turnflow.graph.profile import ProviderProfile
from turnflow.nodes.call_llm.reader import ReplyReader
from turnflow.nodes.call_llm.reply_events import Reply, ReplyEvent

FUZZ = settings(max_examples=int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "2000")), deadline=None)

TAGS = [
    "<think>",
    "</think>",
    "<Thinking>",
    "</THOUGHT>",
    "<think/>",
    "</think \n>",
    '<reasoning a="b">',
    "<think\n>",
]
NEAR_TAGS = [
    "<",
    "</",
    "<thi",
    "nk>",
    "<think",
    "</think",
    ">",
    "/",
    "<think-tank>",
    "<thinker>",
    "< think>",
    "<b>",
]
CODE = ["`", "``", "```", "````", "~~~", "~~~~", "```py\n", "\n```\n", "\n~~~\n", "~"]
WHITE_SPACE = ["\n", "\n\n", "\r\n", " ", "   ", "    ", "\t", "\n \n"]
# What cannot be a part of a tag: all of it has to come through.
PAYLOAD = ["1", "23", "。", "你好", "🙂", "é", "4.\n", "- 5"]

REPLIES = st.lists(
    st.one_of(
        *(st.sampled_from(fragments) for fragments in (TAGS, TAGS, NEAR_TAGS, CODE, WHITE_SPACE, PAYLOAD)),
        st.text(alphabet="<>/`~\n think1", max_size=4),
    ),
    max_size=24,
).map("".join)

PROFILES = st.sampled_from([ProviderProfile(), ProviderProfile(starts_thinking=True)])
SHOWN_BEFORE = st.sampled_from(["", "", "", "1", "1\n", "`", "```\n", "~~~\n2", "1 ``"])


@st.composite
def cuts(draw: st.DrawFn, reply: str) -> list[str]:
    """Cut a reply into chunks somehow."""
    places = sorted(draw(st.lists(st.integers(0, len(reply)), max_size=8)))
    return [reply[start:end] for start, end in zip([0, *places], [*places, len(reply)], strict=True)]


def read(
    chunks: Sequence[str], *, profile: ProviderProfile | None = None, after: str = ""
) -> tuple[list[ReplyEvent], Reply]:
    reader = ReplyReader(profile=profile, after=after)
    events = [event for chunk in chunks for event in reader.feed(chunk)]
    events += reader.close()
    return events, reader.reply


def merged(events: Sequence[ReplyEvent]) -> list[tuple[str, str]]:
    """Make one of neighbours of one kind."""
    return [
        (kind, "".join(event["text"] for event in same))
        for kind, same in groupby(events, key=lambda event: event["kind"])
    ]


def is_subsequence(part: str, whole: str) -> bool:
    rest = iter(whole)
    return all(char in rest for char in part)


@FUZZ
@given(data=st.data(), reply=REPLIES, profile=PROFILES, after=SHOWN_BEFORE)
def test_any_way_of_cutting_gives_the_same_events(
    data: st.DataObject, reply: str, profile: ProviderProfile, after: str
) -> None:
    events, whole = read([reply], profile=profile, after=after)
    for chunks in (list(reply), data.draw(cuts(reply))):
        cut_events, cut = read(chunks, profile=profile, after=after)
        assert cut == whole
        assert merged(cut_events) == merged(events)


@FUZZ
@given(data=st.data(), reply=REPLIES, profile=PROFILES, after=SHOWN_BEFORE)
def test_what_was_shown_is_what_is_stored(
    data: st.DataObject, reply: str, profile: ProviderProfile, after: str
) -> None:
    events, stored = read(data.draw(cuts(reply)), profile=profile, after=after)
    shown = thinking = ""
    for event in events:
        assert event["text"]
        match event["kind"]:
            case "content":
                shown += event["text"]
            case "thinking":
                thinking += event["text"]
            case "retract":
                assert shown.endswith(event["text"])
                shown = shown.removesuffix(event["text"])
            case kind:
                pytest.fail(f"unexpected {kind}")
    assert (shown, thinking) == (stored["text"], stored["thinking"])


@FUZZ
@given(reply=REPLIES, profile=PROFILES, after=SHOWN_BEFORE)
def test_nothing_is_lost_but_tags_and_blank_lines(reply: str, profile: ProviderProfile, after: str) -> None:
    events, stored = read([reply], profile=profile, after=after)
    assert stored["raw"] == reply
    assert is_subsequence(stored["text"], reply)
    if not any(event["kind"] == "retract" for event in events):
        assert is_subsequence(stored["thinking"], reply)

    kept = Counter(stored["text"] + stored["thinking"])
    lost = Counter(reply)
    lost.subtract(kept)
    assert min(lost.values(), default=0) >= 0, "something was made up"
    tags = re.findall(r"</?(?:think|thinking|thought|reasoning|analysis)\b[^<>]*>", reply, re.IGNORECASE)
    for char, times in Counter("".join(tags)).items():
        if char.strip():
            assert lost[char] <= times
            lost[char] = 0
    assert not "".join(lost.elements()).strip(), "text was lost that is no tag"
    if not tags:
        assert (stored["thinking"] if profile.starts_thinking else stored["text"]) == reply


HOSTILE = {
    "other tags": "<a ",
    "signs": "<",
    "half tags": "<think ",
    "half tags with long attributes": "<think " + "a" * 250,
    "half closers": "</think ",
    "openers": "<think>",
    "closers": "</think>",
    "thoughts": "<think>a</think>\n\n",
    "thoughts with openers": "<think><think>a</think>",
    "orphans": "a</think>",
    "backticks": "`",
    "spans": "`a`` <think>",
    "fences": "```\n<think>\n```\n",
    "tildes": "~~~\n",
    "lines": "a\n",
    "blank lines": " \n",
    "blanks after a closer": " ",
}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize(
    ("feed", "length"), [(lambda text: [text], 1_000_000), (list, 40_000)], ids=["whole", "by character"]
)
def test_time_is_linear(hostile: str, feed: Callable[[str], Sequence[str]], length: int) -> None:
    def seconds(length: int) -> float:
        chunks = feed("<think>a</think>" + hostile * (length // len(hostile)))
        start = time.thread_time()
        read(chunks)
        return time.thread_time() - start

    assert is_linear(seconds, length)


def test_a_megabyte_of_nested_thoughts_is_read_in_linear_time() -> None:
    def seconds(length: int) -> float:
        depth = length // 15
        chunks = ["<think>" * depth + "</think>" * depth + "a"]
        start = time.thread_time()
        _, reply = read(chunks)
        assert reply["text"] == "a"
        return time.thread_time() - start

    assert is_linear(seconds, 1_000_000)

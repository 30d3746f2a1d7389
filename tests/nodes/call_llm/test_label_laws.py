"""The laws of the label reader: chunk invariance, one body, nothing is lost, linear time."""

import os
import re
import time
from collections.abc import Callable, Sequence
from itertools import groupby

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.linear_time import is_linear
from turnflow.graph.label_grammar import WINDOW, classify_label
from turnflow.graph.protocol import UNKNOWN
from turnflow.nodes.call_llm.label_reader import LabelPiece, LabelReader

FUZZ = settings(max_examples=int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "2000")), deadline=None)

ALLOWED = ("RE", "FINISH", "TOOL", "RE-PLAN", "LABEL")

LABELS = ["FINISH", "finish", "TOOL", "RE", "RE-PLAN", "``FINISH``", "`TOOL`", "**FINISH**", "[RE]", "LABEL"]
MARKS = ["`", "``", "*", "**", "_", "[", "]", "【", "】", '"', "“", "”", "(", ")", "#", "# ", "> ", "Label:"]
ENDS = [":", "：", "—", ".", "。", "!", "-", ": ", " — "]
WHITE_SPACE = ["\n", "\n", "\r\n", "\r", " ", "  ", "\t", "\u00a0", "\u200b", "\ufeff", " " * 50, "\n" * 30]
TEXT = ["Hi", "Sure!\n", "a" * 40, "你好", "- ", "ED", "1", "```py\n"]

BLANKS = " \t\r\n\u00a0\u200b\ufeff"

REPLIES = st.one_of(
    st.lists(
        st.one_of(*(st.sampled_from(fragments) for fragments in (LABELS, MARKS, ENDS, WHITE_SPACE, TEXT))),
        max_size=12,
    ),
    st.tuples(
        st.sampled_from(["", "\n ", "Sure!\n", "Sure!\n\n", "a" * 53 + "\n"]),
        st.sampled_from(["", "# ", "> ", "Label: ", "**Label:** "]),
        st.sampled_from(["", *MARKS]),
        st.sampled_from(LABELS),
        st.sampled_from(["", *MARKS]),
        st.sampled_from(["", *ENDS, *WHITE_SPACE]),
        st.sampled_from(["", *WHITE_SPACE]),
        st.sampled_from(["", *ENDS, *WHITE_SPACE, *TEXT]),
        st.sampled_from(["", *LABELS, *TEXT]),
    ),
).map("".join)


@st.composite
def cuts(draw: st.DrawFn, reply: str) -> list[str]:
    """Cut a reply into chunks somehow."""
    places = sorted(draw(st.lists(st.integers(0, len(reply)), max_size=8)))
    return [reply[start:end] for start, end in zip([0, *places], [*places, len(reply)], strict=True)]


def read(chunks: Sequence[str], *, close: bool = True) -> list[LabelPiece]:
    """What a reader gives, with one made of neighbours of one kind."""
    reader = LabelReader(ALLOWED)
    pieces = [piece for chunk in chunks for piece in reader.feed(chunk)]
    pieces += reader.close() if close else []
    assert all(text for _, text in pieces)
    return [
        (kind, "".join(text for _, text in same))
        for kind, same in groupby(pieces, key=lambda piece: piece[0])
    ]


def told_apart(pieces: Sequence[LabelPiece]) -> tuple[str, str, str]:
    """The line passed over, the label and the body."""
    kinds = [kind for kind, _ in pieces]
    assert kinds in (
        ["label"],
        ["label", "body"],
        ["passed", "label"],
        ["passed", "label", "body"],
    )
    parts = dict(pieces)
    return parts.get("passed", ""), parts["label"], parts.get("body", "")


@FUZZ
@given(data=st.data(), reply=REPLIES)
def test_any_way_of_cutting_gives_the_same(data: st.DataObject, reply: str) -> None:
    whole = read([reply])
    assert read(list(reply)) == whole
    assert read(data.draw(cuts(reply))) == whole


@FUZZ
@given(data=st.data(), reply=REPLIES)
def test_what_is_given_early_depends_on_the_text_alone(data: st.DataObject, reply: str) -> None:
    beginning = reply[: data.draw(st.integers(0, len(reply)))]
    early = read([beginning], close=False)
    assert read(list(beginning), close=False) == early
    assert read(data.draw(cuts(beginning)), close=False) == early


@FUZZ
@given(data=st.data(), reply=REPLIES)
def test_the_body_is_that_of_the_whole_text(data: st.DataObject, reply: str) -> None:
    _, label, body = told_apart(read(data.draw(cuts(reply))))
    assert (label, body) == classify_label(reply, ALLOWED, final=True)


@FUZZ
@given(reply=REPLIES, more=REPLIES)
def test_a_decision_stands(reply: str, more: str) -> None:
    decided = classify_label(reply, ALLOWED)
    later = classify_label(reply + more, ALLOWED, final=True)
    assert later is not None
    if decided is not None:
        assert later[0] == decided[0]
        assert later[1].startswith(decided[1])
        assert classify_label(reply, ALLOWED, final=True) == decided
    else:
        complete = reply.split("\n")[:-1]
        assert len(reply.lstrip(BLANKS)) < WINDOW
        assert sum(bool(line.strip(BLANKS)) for line in complete) <= 1


@FUZZ
@given(data=st.data(), reply=REPLIES)
def test_the_order_of_labels_is_of_no_account(data: st.DataObject, reply: str) -> None:
    order = data.draw(st.permutations(ALLOWED))
    assert classify_label(reply, order, final=True) == classify_label(reply, ALLOWED, final=True)


WRAPPER = re.escape('`*_"“”[]()【】#>' + BLANKS)
REMOVED = re.compile(
    rf"[{WRAPPER}]*(?:Label[{WRAPPER}]*[:：][{WRAPPER}]*)?"
    rf"(?P<label>{'|'.join(sorted(ALLOWED, reverse=True))})"
    rf"(?P<after>[{WRAPPER}:：—.。!]*)",
    re.IGNORECASE,
)


@FUZZ
@given(reply=REPLIES)
@example("Sure!\r\n\r\n``FINISH``: \r\nHi")
@example("**Label:** LABEL.\nHi")
def test_nothing_is_lost_but_the_label(reply: str) -> None:
    passed, label, body = told_apart(read([reply]))
    if label == UNKNOWN:
        assert (passed, body) == ("", reply)
        return
    assert reply.endswith(body)
    head = reply.removesuffix(body)
    if passed:
        head = head.lstrip(BLANKS)
        assert head.startswith(passed)
        assert passed.index("\n") == len(passed) - 1
        head = head.removeprefix(passed)
    removed = REMOVED.fullmatch(head)
    assert removed, "text was lost that does not belong to the label"
    assert removed["label"].upper() == label
    after = removed["after"]
    assert "\n" not in after[:-1]
    assert sum(after.count(char) for char in ":：—") <= 1
    assert sum(after.count(char) for char in ".。!") <= 1


HOSTILE = {
    "backticks": "`",
    "blanks": " ",
    "zero width": "\u200b",
    "newlines": "\n",
    "blank lines": " \r\n",
    "colons": ":",
    "em dashes": "— ",
    "stars": "*",
    "brackets": "[",
    "labels": "FINISH",
    "labels and blanks": "FINISH ",
    "wrapped labels": "``FINISH``",
    "label lines": "FINISH: ",
    "label lines with newlines": "FINISH:\n",
    "word": "Label:",
    "prose": "A sentence of prose. ",
}


@pytest.mark.parametrize("start", ["", "``FINISH``", "FINISH:\n", "Sure!\n"])
@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize(
    ("feed", "length"), [(lambda text: [text], 1_000_000), (list, 40_000)], ids=["whole", "by character"]
)
def test_time_is_linear(start: str, hostile: str, feed: Callable[[str], Sequence[str]], length: int) -> None:
    def seconds(length: int) -> float:
        chunks = feed(start + hostile * (length // len(hostile)))
        reader = LabelReader(ALLOWED)
        begin = time.thread_time()
        for chunk in chunks:
            reader.feed(chunk)
        reader.close()
        return time.thread_time() - begin

    assert is_linear(seconds, length)


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_a_whole_text_is_classified_in_linear_time(hostile: str) -> None:
    def seconds(length: int) -> float:
        text = hostile * (length // len(hostile))
        begin = time.thread_time()
        classify_label(text, ALLOWED, final=True)
        return time.thread_time() - begin

    assert is_linear(seconds, 1_000_000)

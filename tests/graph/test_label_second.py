"""A further label in the body of a labelled reply."""

import os
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.linear_time import is_linear
from turnflow.graph.label_grammar import find_second_label

FUZZ = settings(max_examples=int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "2000")), deadline=None)

ALLOWED = ("RE", "FINISH", "TOOL", "THINK", "PAUSE", "RE-PLAN")

SECOND = {
    "wrapped, alone": ("a\n``TOOL``\nb", "TOOL"),
    "wrapped, alone, first line": ("``TOOL``\nb", "TOOL"),
    "wrapped, alone, last line": ("a\n``TOOL``", "TOOL"),
    "wrapped, alone, nothing else": ("``TOOL``", "TOOL"),
    "wrapped, alone, any case": ("a\n`tool`\nb", "TOOL"),
    "wrapped, alone, unequal": ("a\n``TOOL`\nb", "TOOL"),
    "wrapped in three": ("a\n```TOOL```\nb", "TOOL"),
    "wrapped in four": ("a\n````TOOL````\nb", "TOOL"),
    "wrapped, alone, blanks around": ("a\n  ``TOOL``  \nb", "TOOL"),
    "wrapped, alone, blanks inside": ("a\n`` TOOL ``\nb", "TOOL"),
    "wrapped, alone, CRLF": ("a\r\n``TOOL``\r\nb", "TOOL"),
    "wrapped, colon": ("a\n``TOOL``: b", "TOOL"),
    "wrapped, blank and colon": ("a\n`TOOL` : b", "TOOL"),
    "wrapped, fullwidth colon": ("a\n``TOOL``：b", "TOOL"),
    "wrapped, colon inside": ("a\n`TOOL:` b", "TOOL"),
    "wrapped, colon, no body": ("a\n``TOOL``:\nb", "TOOL"),
    "bare, colon": ("a\nTOOL: b", "TOOL"),
    "bare, colon, first line": ("TOOL: b", "TOOL"),
    "bare, fullwidth colon": ("a\nTOOL：b", "TOOL"),
    "bare, blank and colon": ("a\nTOOL : b", "TOOL"),
    "bare, colon, glued": ("a\nTOOL:b", "TOOL"),
    "bare, colon, indented by three": ("a\n   TOOL: b", "TOOL"),
    "the same label again": ("a\n``FINISH``\nb", "FINISH"),
    "the first of two": ("a\nTHINK: b\n``TOOL``", "THINK"),
    "prefix": ("a\nRE: b", "RE"),
    "longer than a prefix": ("a\nRE-PLAN: b", "RE-PLAN"),
    "longer than a prefix, wrapped": ("a\n`re-plan`\nb", "RE-PLAN"),
    "after a fence": ("```\nx\n```\n``TOOL``", "TOOL"),
    "after a fence closed by a longer run": ("```\nx\n`````\n``TOOL``", "TOOL"),
    "after a fence of tildes": ("~~~ `a`\nx\n~~~ \n``TOOL``", "TOOL"),
    "after a fence closed by CRLF": ("```\r\nx\r\n```\r\nTOOL: a", "TOOL"),
    "after ticks that are no fence": ("```a``` b\n``TOOL``", "TOOL"),
    "after a run within a line": ("a ```\n``TOOL``", "TOOL"),
    "after a fence indented by four": ("    ```\n``TOOL``", "TOOL"),
    "after two tildes": ("~~\n``TOOL``", "TOOL"),
    "between fences": ("```\nx\n```\nTOOL: a\n```\ny\n```", "TOOL"),
}

NO_SECOND = {
    "nothing": "",
    "prose": "TOOL use is good",
    "prose, wrapped": "``TOOL`` use is good",
    "a sentence with one": "I used `TOOL` for it.\nThen `FINISH`.",
    "a sentence with one and a colon": "I used `TOOL`: it is good.",
    "a sentence with a bare one and a colon": "Use TOOL: it is good.",
    "bare, alone": "a\nTOOL\nb",
    "bare, any case, colon": "a\nTool: hammer\nb",
    "wrapped, any case, colon": "a\n`tool`: hammer\nb",
    "wrapped, full stop": "a\n`TOOL`.\nb",
    "bare, em dash": "a\nTOOL — b",
    "longer word": "a\nTOOLS: b",
    "longer word, wrapped": "a\n``TOOLS``\nb",
    "hyphen": "a\nTOOL-based: b",
    "bullet": "- `TOOL`: calls\n- FINISH: ends\n* `TOOL`",
    "number": "1. `TOOL`",
    "heading": "# TOOL: b",
    "bold": "**TOOL**\n**TOOL:** b",
    "brackets": "[TOOL]\n[TOOL]: b",
    "quote": "> ``TOOL``\n> TOOL: b",
    "indented code": "a\n\n    ``TOOL``\n    TOOL: b",
    "no right side": "a\n``TOOL\nb",
    "no left side": "a\nTOOL``\nb",
    "five ticks": "a\n`````TOOL`````\nb",
    "five ticks after a colon": "a\n``TOOL:````` b",
    "two wrapped": "`TOOL` `FINISH`",
    "over two lines": "TOOL\n: b\n`TOOL\n`",
    "in a fence": "```\n``TOOL``\nTOOL: a\n```",
    "in a fence with info": "```yaml\nTOOL: a\n```\nb",
    "in a fence of tildes": "~~~\n``TOOL``\n~~~",
    "in a fence indented by three": "   ```\nTOOL: a\n   ```",
    "in a fence that a shorter run does not close": "````\n```\n``TOOL``\n````",
    "in a fence that the other run does not close": "```\n~~~\n``TOOL``\n```",
    "in a fence that text after the run does not close": "~~~\n~~~ a\n``TOOL``\n~~~",
    "in a fence that an indented run does not close": "```\n    ```\n``TOOL``\n```",
    "in a fence that is never closed": "a\n```\n``TOOL``",
    "in a fence whose info is a label": "```TOOL\nTOOL: a\n```",
}


@pytest.mark.parametrize(("body", "label"), SECOND.values(), ids=SECOND)
def test_second_label(body: str, label: str) -> None:
    assert find_second_label(body, ALLOWED) == label
    assert find_second_label(body, ALLOWED[::-1]) == label


@pytest.mark.parametrize("body", NO_SECOND.values(), ids=NO_SECOND)
def test_no_second_label(body: str) -> None:
    assert find_second_label(body, ALLOWED) is None


def test_without_labels_there_is_none() -> None:
    assert find_second_label("``TOOL``\n: a\n````", ()) is None


BODIES = st.lists(
    st.one_of(
        st.sampled_from(["TOOL", "FINISH", "RE", "RE-PLAN", "tool", "``TOOL``", "`FINISH`", "TOOL: ", "A"]),
        st.sampled_from(["\n", "\n", "\r", " ", "    ", "`", "```", "````", "~~~", ":", "：", "-", "\u200b"]),
    ),
    max_size=16,
).map("".join)


@FUZZ
@given(body=BODIES)
def test_crlf_ends_a_line_as_lf_does(body: str) -> None:
    found = find_second_label(body, ALLOWED)
    assert found is None or found in ALLOWED
    assert find_second_label(body.replace("\n", "\r\n"), ALLOWED) == found


@FUZZ
@given(before=BODIES, after=BODIES)
def test_the_first_lines_decide(before: str, after: str) -> None:
    found = find_second_label(before + "\n", ALLOWED)
    if found is not None:
        assert find_second_label(before + "\n" + after, ALLOWED) == found


@FUZZ
@given(body=BODIES)
def test_nothing_in_a_fence_is_a_label(body: str) -> None:
    fence = "~" * (body.count("~") + 3)
    assert find_second_label(f"{fence}\n{body}\n{fence}\n", ALLOWED) is None
    assert find_second_label(f"{fence}\n{body}\n{fence}\nTOOL: a", ALLOWED) == "TOOL"


HOSTILE = {
    "backticks": "`",
    "backticks in lines": "````\n",
    "blanks": " ",
    "zero width": "\u200b",
    "newlines": "\n",
    "blank lines": " \n",
    "CRLF": "\r\n",
    "label": "TOOL",
    "labels": "TOOL ",
    "label lines": "TOOL\n",
    "half wrapped": "``TOOL",
    "half wrapped lines": "``TOOL\n",
    "wrapped": "``TOOL`` ",
    "wrapped and prose": "``TOOL`` a\n",
    "lower case and colon": "tool:\n",
    "tildes": "~",
    "fences": "```\nTOOL: a\n```\n",
    "info strings": "``` a",
    "colons": ":",
    "prose": "A sentence of prose. ",
}


@pytest.mark.parametrize("start", ["", "````", "``TOOL", "~~~\n"])
@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_time_is_linear(start: str, hostile: str) -> None:
    def seconds(length: int) -> float:
        body = start + hostile * (length // len(hostile))
        begin = time.thread_time()
        find_second_label(body, ALLOWED)
        return time.thread_time() - begin

    assert is_linear(seconds, 1_000_000)


def test_label_lines_in_an_open_fence_take_linear_time() -> None:
    def seconds(length: int) -> float:
        body = "```\n" + "FINISH: a\n" * (length // 10)
        begin = time.thread_time()
        assert find_second_label(body, ALLOWED) is None
        return time.thread_time() - begin

    assert is_linear(seconds, 1_000_000)

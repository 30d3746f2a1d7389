"""Text made safe for a terminal, and text of which nothing may be hidden."""

from __future__ import annotations

import json
import logging
import sys
import unicodedata

import pytest

from turnflow.apps.command_line.plain import PlainFormatter, json_line, plain, visible

NOTHING_TO_SEE = [
    *("\u034f", "\u115f", "\u1160", "\u17b4", "\u17b5", "\u180b", "\u180e", "\u180f", "\u200b", "\u200d"),
    *("\u2060", "\u2800", "\u3164", "\ufe00", "\ufe0f", "\ufeff", "\uffa0", "\U0001d159", "\U000e0041"),
    *("\U000e0100", "\U000e01ef", "\xad", "\x9b", "\x1b", "\u202e", "\u2028", "\ud800"),
]
"""What shows nothing, or does something; some of it counts as printable, as a letter even."""
BLANKS = ["\xa0", "\u1680", "\u2003", "\u3000"]
MARKS = ["\u0301", "\u0338", "\u20dd", "\u3099", "\u0e48", "\u0941"]


def escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


@pytest.mark.parametrize("char", [*NOTHING_TO_SEE, *BLANKS, *MARKS], ids=escaped)
def test_what_shows_nothing_is_written_out(char: str) -> None:
    assert visible(f"a{char}b") == f"a{escaped(char)}b"
    assert visible(char) == escaped(char)
    assert visible(f"你{char}") == f"你{escaped(char)}"


@pytest.mark.parametrize(
    "text", ["rm -rf ~", "é ß 你好 🙂 한국어 ひらがな", "ที่นี่", "हिन्दी में", "שָׁלוֹם", "مُحَمَّد", "→ … ░ ½"]
)
def test_what_can_be_read_stays(text: str) -> None:
    assert visible(text) == text


def test_marks_of_another_script_or_piled_up_are_written_out() -> None:
    assert visible("ท\u0941") == r"ท\u0941"
    assert visible("e\u0301") == r"e\u0301"
    assert visible("ท" + "\u0e48" * 5) == "ท" + "\u0e48" * 3 + r"\u0e48" * 2


def test_of_all_characters_only_visible_ones_are_left() -> None:
    hidden = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Mn", "Me"}
    for number in range(sys.maxunicode + 1):
        char = chr(number)
        if unicodedata.category(char) in hidden:
            assert char not in visible(f"a{char}")


def test_json_stays_what_it_was() -> None:
    value = {"a\x9b": ["\x1b]0;t\x07", "\u202e", "\U000e0041", "\ud800", "é 🙂", 1.5, None]}
    line = json_line(value)
    assert line == plain(line)
    assert "\n" not in line
    assert "é 🙂" in line
    assert json.loads(line) == value


def test_a_log_record_is_plain() -> None:
    record = logging.LogRecord("x", logging.WARNING, "", 0, "failed: %s", ("\x1b]0;t\x07\x9b a\nb",), None)
    assert PlainFormatter().format(record) == "failed: ]0;t a\nb"

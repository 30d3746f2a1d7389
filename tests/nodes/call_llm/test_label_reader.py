"""What the label reader gives, and when."""

import pytest

from turnflow.graph.protocol import UNKNOWN
from turnflow.nodes.call_llm.label_reader import LabelPiece, LabelReader

ALLOWED = ("FINISH", "TOOL", "RE", "RE-PLAN")

# name: (chunks, what each gives, what the end gives)
CASES: dict[str, tuple[list[str], list[list[LabelPiece]], list[LabelPiece]]] = {
    "at once": (["FINISH\nHi"], [[("label", "FINISH"), ("body", "Hi")]], []),
    "held back until the line ends": (
        ["FIN", "ISH", "\n", "Hi"],
        [[], [], [("label", "FINISH")], [("body", "Hi")]],
        [],
    ),
    "body on the label's line is held back too": (
        ["``FINISH``", " Hi", " there", "\nyou"],
        [[], [], [], [("label", "FINISH"), ("body", "Hi there\nyou")]],
        [],
    ),
    "decided at the 64th character": (
        ["FINISH: " + "a" * 55, "b", "c"],
        [[], [("label", "FINISH"), ("body", "a" * 55 + "b")], [("body", "c")]],
        [],
    ),
    "decided at the end": (["FINISH"], [[]], [("label", "FINISH")]),
    "decided at the end, with a body": (
        ["FINISH:", " Hi"],
        [[], []],
        [("label", "FINISH"), ("body", "Hi")],
    ),
    "one newline, in the next chunk": (
        ["FINISH\r", "\n", "\n", "Hi"],
        [[], [("label", "FINISH")], [("body", "\n")], [("body", "Hi")]],
        [],
    ),
    "what ends the line comes after the decision": (
        ["``FINISH``" + " " * 60, "  ", ":", " ", "\r", "\n", " Hi"],
        [[("label", "FINISH")], [], [], [], [], [], [("body", " Hi")]],
        [],
    ),
    "a second colon after the decision": (
        ["``FINISH``" + " " * 60, ":", ":", "Hi"],
        [[("label", "FINISH")], [], [("body", ":")], [("body", "Hi")]],
        [],
    ),
    "a colon in the wrapper and one after the decision": (
        ["``FINISH:``" + " " * 60, ":", "Hi"],
        [[("label", "FINISH")], [("body", ":")], [("body", "Hi")]],
        [],
    ),
    "a blank after the decision and the newline": (
        ["FINISH\n", " ", "\n"],
        [[("label", "FINISH")], [("body", " ")], [("body", "\n")]],
        [],
    ),
    "a line passed over": (
        ["Sure", "!\r\n", "\r\n", "``FINISH``", "\n", "Hi"],
        [[], [], [], [], [("passed", "Sure!\r\n"), ("label", "FINISH")], [("body", "Hi")]],
        [],
    ),
    "a line passed over, at the end": (
        ["\n Sure!\n``FINISH`` Hi"],
        [[]],
        [("passed", "Sure!\n"), ("label", "FINISH"), ("body", "Hi")],
    ),
    "no label": (
        ["Hello,\n", "world.\n", "a"],
        [[], [("label", UNKNOWN), ("body", "Hello,\nworld.\n")], [("body", "a")]],
        [],
    ),
    "no label, blanks before": (
        [" \n", "\t", "Hel", "lo"],
        [[], [], [], []],
        [("label", UNKNOWN), ("body", " \n\tHello")],
    ),
    "no label, at the 64th character": (
        ["\n" + "a" * 63, "a", "a"],
        [[], [("label", UNKNOWN), ("body", "\n" + "a" * 64)], [("body", "a")]],
        [],
    ),
    "empty": ([], [], [("label", UNKNOWN)]),
    "empty chunks": (["", ""], [[], []], [("label", UNKNOWN)]),
    "blanks only": ([" ", "\n"], [[], []], [("label", UNKNOWN), ("body", " \n")]),
    "prefix": (["RE", "-PLAN", "\nx"], [[], [], [("label", "RE-PLAN"), ("body", "x")]], []),
}


@pytest.mark.parametrize(("chunks", "given", "at_end"), CASES.values(), ids=CASES)
def test_what_is_given(chunks: list[str], given: list[list[LabelPiece]], at_end: list[LabelPiece]) -> None:
    reader = LabelReader(ALLOWED)
    assert [reader.feed(chunk) for chunk in chunks] == given
    assert reader.close() == at_end


def test_the_label_is_known_once_it_is_decided() -> None:
    reader = LabelReader(ALLOWED)
    assert (reader.label, reader.decided) == (None, False)
    reader.feed("finish")
    assert (reader.label, reader.decided) == (None, False)
    reader.feed("\n")
    assert (reader.label, reader.decided) == ("FINISH", True)
    reader.feed("``TOOL``\n")
    reader.close()
    assert (reader.label, reader.decided) == ("FINISH", True)


def test_unknown_is_decided_too() -> None:
    reader = LabelReader(ALLOWED)
    reader.close()
    assert (reader.label, reader.decided) == (UNKNOWN, True)


def test_closing_again_gives_nothing() -> None:
    reader = LabelReader(ALLOWED)
    reader.feed("FINISH: Hi")
    assert reader.close()
    assert reader.close() == []


def test_a_closed_reader_takes_no_text() -> None:
    reader = LabelReader(ALLOWED)
    reader.close()
    with pytest.raises(RuntimeError, match="closed"):
        reader.feed("a")

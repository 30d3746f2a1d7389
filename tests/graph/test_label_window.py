"""When the label is decided: its line is complete, or 64 characters came, or the text ends."""

import pytest

from turnflow.graph.label_grammar import WINDOW, classify_label
from turnflow.graph.protocol import UNKNOWN

ALLOWED = ("FINISH", "FIN", "TOOL")


def decided_at(reply: str) -> int | None:
    """How many characters decide the label, without the end of the text."""
    lengths = (length for length in range(len(reply) + 1) if classify_label(reply[:length], ALLOWED))
    return next(lengths, None)


@pytest.mark.parametrize(
    "beginning",
    ["", " \n", "F", "FIN", "FINISH", "FINISH:", "FINISH: Hi", "``FINISH``", "``FINISH`` Hi", "# ", "Hello",
     "Hello\n", "Hello\n\n ", "Hello\n``FIN", "Hello\n``FINISH``", "Hello\n``FINISH`` Hi", "Hello\nworld",
     " " * 1000, "\n" * 1000, "\u200b" * 1000 + "a" * 63],
)  # fmt: skip
def test_undecided(beginning: str) -> None:
    assert classify_label(beginning, ALLOWED) is None
    assert classify_label(beginning, ALLOWED, final=True) is not None


@pytest.mark.parametrize(
    ("reply", "length"),
    [
        ("FINISH\nHi", 7),
        ("FINISH: Hi\nthere", 11),
        ("\n\n ``FINISH`` Hi\n", 17),
        ("``FINISH``\r\nHi", 12),
        ("Sure!\n``FINISH``\nHi", 17),
        ("Sure!\n\n``FINISH`` Hi\nHi", 21),
        ("Sure!\nFINISH\nHi", 13),
        ("Sure!\n" + "a" * 100, 64),
        ("a" * 100, 64),
        (" \n" * 50 + "a" * 100, 164),
        ("FINISH: " + "a" * 100, 64),
        ("Sure!" + "\n" * 100, 64),
        ("FINISH", None),
    ],
)
def test_the_shortest_beginning_that_decides(reply: str, length: int | None) -> None:
    assert decided_at(reply) == length


@pytest.mark.parametrize("lead", ["", " ", "\n" * 70, "\ufeff" + " " * 64])
@pytest.mark.parametrize("final", [False, True])
def test_a_bare_label_that_ends_its_line_at_the_border(lead: str, *, final: bool) -> None:
    at_63 = lead + "FINISH".ljust(WINDOW - 2) + "\n"
    at_64 = lead + "FINISH".ljust(WINDOW - 1) + "\n"
    at_65 = lead + "FINISH".ljust(WINDOW) + "\n"
    assert classify_label(at_63, ALLOWED, final=final) == ("FINISH", "")
    assert classify_label(at_64, ALLOWED, final=final) == ("FINISH", "")
    assert classify_label(at_65, ALLOWED, final=final) == (UNKNOWN, at_65)


@pytest.mark.parametrize("final", [False, True])
def test_a_bare_label_with_a_colon_at_the_border(*, final: bool) -> None:
    within, beyond = "FINISH".ljust(WINDOW - 1) + ":a", "FINISH".ljust(WINDOW) + ":a"
    assert classify_label(within, ALLOWED, final=final) == ("FINISH", "a")
    assert classify_label(beyond, ALLOWED, final=final) == (UNKNOWN, beyond)


def test_the_end_counts_before_the_border_only() -> None:
    assert classify_label("FINISH".ljust(63), ALLOWED) is None
    assert classify_label("FINISH".ljust(63), ALLOWED, final=True) == ("FINISH", "")
    for length in (64, 65):
        reply = "FINISH".ljust(length)
        for final in (False, True):
            assert classify_label(reply, ALLOWED, final=final) == (UNKNOWN, reply)


def test_a_full_stop_needs_the_end_of_its_line() -> None:
    for length, label in ((63, "FINISH"), (64, UNKNOWN)):
        assert classify_label("FINISH.".ljust(length) + "\nHi", ALLOWED, final=True) == (
            label,
            "Hi" if label == "FINISH" else "FINISH.".ljust(length) + "\nHi",
        )


def test_a_wrapped_label_needs_no_end_of_its_line() -> None:
    for length in (64, 65, 1000):
        assert classify_label("``FINISH``" + " " * (length - 10), ALLOWED) == ("FINISH", "")
        assert classify_label("``FINISH``" + "a" * (length - 10), ALLOWED) == ("FINISH", "a" * (length - 10))


def test_what_ends_the_line_is_removed_beyond_the_border_too() -> None:
    assert classify_label("``FINISH``" + " " * 100 + ":" + " " * 100 + "\r\n\na", ALLOWED) == (
        "FINISH",
        "\na",
    )


def test_a_label_cut_by_the_border_is_none() -> None:
    for inside in range(6):
        reply = "Label:".ljust(WINDOW - inside) + "FINISH:"
        assert classify_label(reply, ALLOWED, final=True) == (UNKNOWN, reply)


@pytest.mark.parametrize("label", ["``FINISH``", "**`FINISH`**", "**FINISH:**", "[FINISH]", "__FINISH__"])
def test_a_wrapper_cut_by_the_border_is_none(label: str) -> None:
    reply = "Label:".ljust(WINDOW - len(label)) + label + "\nHi"
    assert classify_label(reply, ALLOWED, final=True) == ("FINISH", "Hi")
    cut = reply.replace(label, " " + label)
    assert classify_label(cut, ALLOWED, final=True) == (UNKNOWN, cut)


def test_a_label_that_is_a_part_of_another_at_the_border() -> None:
    reply = "Label:".ljust(WINDOW - 3) + "FINISH\nHi"
    assert classify_label(reply, ALLOWED, final=True) == (UNKNOWN, reply)


@pytest.mark.parametrize("lead", ["", "\n \n", " " * 100])
@pytest.mark.parametrize(
    ("line", "expected"),
    [(WINDOW - 11, "FINISH"), (WINDOW - 10, UNKNOWN), (WINDOW - 1, UNKNOWN), (WINDOW, UNKNOWN),
     (WINDOW + 1, UNKNOWN)],
)  # fmt: skip
def test_a_line_is_passed_over_if_the_label_ends_within_the_window(
    lead: str, line: int, expected: str
) -> None:
    reply = lead + "a" * line + "\n``FINISH``\nHi"
    for text, final in ((reply, True), (reply, False), (reply[:-3], False)):
        decision = classify_label(text, ALLOWED, final=final)
        body = text.partition("``\n")[2] if expected == "FINISH" else text
        assert decision == ((expected, body) if len(text) >= len(lead) + WINDOW else None)


def test_a_first_line_of_the_border_length() -> None:
    for length, decided in ((63, False), (64, True), (65, True)):
        reply = "a" * length
        assert classify_label(reply, ALLOWED) == ((UNKNOWN, reply) if decided else None)
        assert classify_label(reply + "\n", ALLOWED) == (UNKNOWN, reply + "\n")


def test_blank_lines_count_within_the_window() -> None:
    near, far = "Sure!" + "\n" * 49 + "``FINISH``", "Sure!" + "\n" * 50 + "``FINISH``"
    assert classify_label(near, ALLOWED) == ("FINISH", "")
    assert classify_label(far, ALLOWED) == (UNKNOWN, far)

import pytest

from turnflow.apps.local_model.arithmetic import (
    MAX_QUESTION_CHARS,
    asks_for_sum,
    call_grammar,
    with_signs,
)


@pytest.mark.parametrize(
    "question",
    [
        "What is 17 * 23?",
        "what's 12+30",
        "(3 + 4) * 5",
        "2.5 × 4 = ?",
        "6 x 7",
        "2^10",
        "3**4",
        "what is 9 plus 10",
        "18 divided by 6",
        "Please multiply 6 by 7",
        "Add 19 and 23",
        "Subtract 15 from 40",
        "5 * -3",
        "17乘以23是多少？",
        "40减2等于多少",
    ],
)
def test_the_calculator_is_offered_for_a_sum(question: str) -> None:
    assert asks_for_sum(question)


@pytest.mark.parametrize(
    "question",
    [
        "",
        "Hello!",
        "Who are you?",
        "I have 3 apples and buy 4 more. How many apples?",
        "Between 10 and 20 people came",
        "It is 2026-11-30 today",
        "Let us meet at 12:30 + 1 day",
        "What is C++ 17?",
        "Tell me about route 66",
        "Summarise this: 2 + 2 " + "x" * MAX_QUESTION_CHARS,
    ],
)
def test_it_is_not_offered_otherwise(question: str) -> None:
    assert not asks_for_sum(question)


def test_the_grammar_holds_the_numbers_of_the_question_and_no_others() -> None:
    grammar = call_grammar("What is 17 * 23, or 17 * 2.5?")

    assert 'number ::= "17" | "23" | "2.5"' in grammar


def test_brackets_and_powers_are_allowed_only_where_the_question_has_them() -> None:
    plain = call_grammar("6 times 7")
    rich = call_grammar("(2 + 1) ^ 8")

    assert '"**"' not in plain
    assert '"(" expression' not in plain
    assert '"**"' in rich
    assert '"(" expression ")"' in rich


def test_without_numbers_any_number_may_be_written() -> None:
    assert "[0-9]" in call_grammar("six times seven")


def test_chinese_operator_words_become_signs() -> None:
    assert with_signs("17乘以23加1") == "17 * 23 + 1"

"""A question that was asked before is known again; one that differs in the word that matters is another."""

from __future__ import annotations

import os
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnflow.graph.similar import MAX_CHARS, MAX_EARLIER, near_duplicate, shortened

FUZZ = settings(max_examples=int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "500")), deadline=None)

SAME = [
    ("Which port for staging?", "which port for  staging"),
    ("Which port for staging?", "Please, which port should I use for staging?"),
    ("Which port for staging?", "What is the staging port?"),
    ("Which port for staging?", "What's the port for staging, please?"),
    ("Which port for staging?", "For staging, which port?"),
    ("Which port for staging?", "Could you tell me the port for staging?"),
    ("Which port for staging?", "WHICH PORT FOR STAGING?!"),
    ("Which colour do you want?", "What color would you like?"),
    ("Which colour do you want for the fence?", "Which colour should the fence be?"),
    ("Do you want me to delete the file a.txt?", "Should I delete file a.txt?"),
    ("Should I delete the file?", "May I delete the files, please?"),
    ("Let me know if I should delete it all.", "Should I delete it all?"),
    ("Please say which port.", "Which port?"),
    ("WHICH port for staging?", "Which port for staging?"),
    ("Should I NOT delete it OR do it?", "Should I not delete it or do it?"),
    ("Red or blue?", "Blue or red?"),
    ("Should I deploy to staging or production?", "Should I deploy to production or to staging?"),
    ("What is your e-mail address?", "What's your email address?"),
    ("Which time zone?", "Which timezone?"),
    ("Which enviroment should I deploy to?", "Which environment should I deploy to?"),
    ("Which environment?", "Which enviornment?"),
    ("Ｗｈｉｃｈ ｐｏｒｔ？", "which port"),
    ("测试环境用哪个端口？", "请问测试环境应该使用哪一个端口呢？"),
    ("测试环境用哪个端口？", "测试环境的端口是哪个?"),
    ("要不要删除文件？", "需要我删除文件吗？"),
    ("您想要什么颜色？", "你喜欢什么颜色"),
    ("请告诉我端口", "端口是什么？"),
    ("红色还是蓝色？", "蓝色，还是红色？"),
]

OTHER = [
    ("Which port for staging?", "Which port for production?"),
    ("Which port for staging?", "Which host for staging?"),
    ("Which port for staging?", "Which port for the staging database?"),
    ("Delete file a.txt?", "Delete file b.txt?"),
    ("question 1", "question 2"),
    ("question 12", "question 1 2"),
    ("Should I delete it all?", "Should I not delete it all?"),
    ("Should I delete it all?", "Shouldn't I delete it all?"),
    ("Copy from staging to production?", "Copy from production to staging?"),
    ("Does Ann manage Bob?", "Does Bob manage Ann?"),
    ("If production stops, should staging fail?", "If staging fails, should production stop?"),
    ("Did you delete the files?", "Should I delete the files?"),
    ("Will you restart the server?", "Shall I restart the server?"),
    ("When should I deploy?", "Where should I deploy?"),
    ("Deploy before lunch?", "Deploy after lunch?"),
    ("Do you need sugar?", "Do you like sugar?"),
    ("Plan A?", "Plan B?"),
    ("Plan A?", "Plan?"),
    ("Use the US region?", "Use the EU region?"),
    ("Is x > 5?", "Is x < 5?"),
    ("Is it $5?", "Is it €5?"),
    ("C++ or C?", "C# or C?"),
    ("Use v1.2?", "Use v12?"),
    ("Set it to -5?", "Set it to 5?"),
    ("Is the name Johnson?", "Is the name Johnston?"),
    ("Is it synchronous?", "Is it asynchronous?"),
    ("Which county?", "Which country?"),
    ("Delete one file?", "Delete two files?"),
    ("Delete 🍎?", "Delete 🍌?"),
    ("किताब कहाँ है", "कुतब कहाँ है"),
    ("测试环境用哪个端口？", "生产环境用哪个端口？"),
    ("从测试到生产吗", "从生产到测试吗"),
    ("张三欠李四多少", "李四欠张三多少"),
    ("要蜜蜂吗？", "要蜂蜜吗？"),
    ("删除甲吗", "删除乙吗"),
    ("不删除吗", "删除吗"),
    ("什么时候部署", "在哪里部署"),
    ("是我的密钥吗", "是你的密钥吗"),
    ("?", "!"),
    ("", "please"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_question_in_other_words(one: str, other: str) -> None:
    assert near_duplicate(one, [other]) == other
    assert near_duplicate(other, [one]) == one


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_another_question_in_much_the_same_words(one: str, other: str) -> None:
    assert near_duplicate(one, [other]) is None
    assert near_duplicate(other, [one]) is None


def test_the_first_that_fits_is_given_and_others_are_passed_over() -> None:
    earlier = ["Which host?", "Which port, please?", "Which port?"]
    assert near_duplicate("which port", earlier) == "Which port, please?"
    assert near_duplicate("Which user?", earlier) is None
    assert near_duplicate("Which port?", []) is None


def test_only_the_last_ones_are_looked_at() -> None:
    earlier = ["Which port?", *(f"Which host of {n}?" for n in range(MAX_EARLIER))]
    assert near_duplicate("which port", earlier) is None
    assert near_duplicate("which port", earlier[:-1]) == "Which port?"


def test_one_word_counts_in_a_long_text_too() -> None:
    long = "I have read the logs and found the cause of the failure in the settings. " * 4
    assert near_duplicate(f"{long}Mend it on staging?", [f"{long}Mend it on production?"]) is None
    assert near_duplicate(f"{long}Mend it on staging?", [f"{long}Please mend it on staging."]) is not None


def test_what_stands_behind_the_limit_must_be_equal() -> None:
    long = "Which port? " + "x" * MAX_CHARS
    assert near_duplicate(f"{long} for staging", [f"{long} for production"]) is None
    assert near_duplicate(f"{long} for staging", [f"which{long[5:]} for staging"]) is not None


def test_long_texts_are_known_again_when_they_were_shortened() -> None:
    long = "Which port? " + "x" * 10 * MAX_CHARS
    staging, production = shortened(f"{long} for staging"), shortened(f"{long} for production")
    assert len(staging) < MAX_CHARS + 20
    assert near_duplicate(staging, [production]) is None
    assert near_duplicate(shortened(f"WHICH{long[5:]} for staging"), [production, staging]) == staging
    assert shortened("Which port?") == "Which port?"


WORDS = st.sampled_from(
    [
        *("Which", "what", "port", "for", "staging", "not", "I", "you", "to", "from", "or", "a", "A", "if"),
        *("Please", "delete", "US", "want", "tell", "b.txt", "5", "-3", "?", ", ", "🙂"),
        *("环境", "哪个", "请问", "要不要"),
    ]
)
TEXTS = st.one_of(st.lists(WORDS, max_size=8).map(" ".join), st.text(max_size=40))


@FUZZ
@given(text=TEXTS, earlier=st.lists(TEXTS, max_size=4))
def test_what_is_given_is_one_of_the_earlier(text: str, earlier: list[str]) -> None:
    found = near_duplicate(text, earlier)
    assert found is None or found in earlier
    assert near_duplicate(text, [*earlier, text]) is not None


@FUZZ
@given(one=TEXTS, other=TEXTS)
def test_it_goes_both_ways(one: str, other: str) -> None:
    assert (near_duplicate(one, [other]) is None) == (near_duplicate(other, [one]) is None)


@FUZZ
@given(
    words=st.lists(WORDS, max_size=8),
    numbers=st.lists(st.integers(0, 99), min_size=2, max_size=2, unique=True),
)
def test_numbers_are_never_mixed_up(words: list[str], numbers: list[int]) -> None:
    one, other = (" ".join([*words, "number", str(number)]) for number in numbers)
    assert near_duplicate(one, [other]) is None


@pytest.mark.parametrize(
    "unit", ["a ", "you ", "A不A", "or b ", "a.", "\ud800", "ﷺ", "to x ", "端口", "'", "--1"]
)
def test_hostile_texts_cost_little(unit: str) -> None:
    text = unit * 100_000
    earlier = [f"{text[: MAX_CHARS - n]}{n}{text}" for n in range(MAX_EARLIER)]
    started = time.thread_time()
    assert near_duplicate(text, earlier) is None
    assert time.thread_time() - started < 2

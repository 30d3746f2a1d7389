"""When the embedded model is offered the calculator, and what it may then write.

A model of 135 million parameters chooses badly between tools, and between calling one and not. So the choice
is made here, by a plain rule, and the model does what it can do: write the call. Its words are held to a
grammar (llama.cpp's GBNF), so that what it writes is a call whatever happens.
"""

import re

MAX_QUESTION_CHARS = 200
"""A longer message is not a sum to work out, even when it holds one."""

CALL_PREFIX = 'calculate("'
CALL_SUFFIX = '")'

_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_DATE_OR_TIME = re.compile(r"\d{4}-\d{2}-\d{2}|\d{2}/\d{2}/\d{4}|\d{1,2}:\d{2}")
_OPERATOR = r"(?:\*\*|[-+*/^×÷x]|plus|minus|times|multiplied by|divided by|by|and|from)"
_SUM = re.compile(rf"{_NUMBER}\s*\)*\s*{_OPERATOR}\s*\(*\s*-?\s*{_NUMBER}", re.IGNORECASE)
_JOINING_WORDS = re.compile(rf"{_NUMBER}\s+(?:by|and|from)\s+{_NUMBER}", re.IGNORECASE)
_VERB = re.compile(r"\b(?:multiply|divide|add|sum|subtract|take)\b", re.IGNORECASE)
_POWER = re.compile(r"\*\*|\^")

_CHINESE_OPERATORS = (("乘以", " * "), ("除以", " / "), ("乘", " * "), ("加", " + "), ("减", " - "))


def with_signs(question: str) -> str:
    """Put signs for Chinese operator words: the model knows its sums, but hardly any Chinese."""
    for word, sign in _CHINESE_OPERATORS:
        question = question.replace(word, sign)
    return question


def asks_for_sum(question: str) -> bool:
    """Say whether a message asks for a calculation, which is when the calculator is offered.

    It does if it is short and holds two numbers with an operator between them, as a sign or as a word. The
    words "by", "and" and "from" count only beside a verb such as "multiply".
    """
    if len(question) > MAX_QUESTION_CHARS or _DATE_OR_TIME.search(question):
        return False
    found = _SUM.search(with_signs(question))
    if found is None:
        return False
    return not _JOINING_WORDS.fullmatch(found[0]) or _VERB.search(question) is not None


def call_grammar(question: str) -> str:
    """Return the grammar of a call for this question.

    The expression may use the numbers of the question and no others, and brackets and powers only if the
    question has them: what the grammar leaves out, a small model cannot get wrong. Which numbers, in which
    order, with which operators and how many of them is the model's own doing.
    """
    numbers = dict.fromkeys(re.findall(_NUMBER, question))
    number = " | ".join(f'"{digits}"' for digits in numbers) or '[0-9]{1,12} ("." [0-9]{1,8})?'
    operators = ['"+"', '"-"', '"*"', '"/"', *(['"**"'] if _POWER.search(question) else [])]
    terms = ['"-"? number', *(['"(" expression ")"'] if "(" in question else [])]
    return "\n".join(
        (
            r'root ::= "calculate(\"" expression "\")"',
            'expression ::= term (" " operator " " term){1,8}',
            f"term ::= {' | '.join(terms)}",
            f"operator ::= {' | '.join(operators)}",
            f"number ::= {number}",
        )
    )

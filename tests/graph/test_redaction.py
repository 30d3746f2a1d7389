"""Secrets never reach a log, whatever they stand in."""

from __future__ import annotations

import json
import os
import re
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.linear_time import is_linear
from turnflow.graph.redaction import REDACTED, as_patterns, is_secret, redact

LAWS = settings(max_examples=int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "200")), deadline=None)

NAMES = ["api_key", "apiKey", "API_KEY", "x-api-key", "token", "accessToken", "password", "Authorization"]
HIDDEN = "q7Zr4kTw9LmX2bVn"
SHAPES = [
    f"Bearer {HIDDEN}",
    f"bearer  {HIDDEN}",
    f"sk-{HIDDEN}",
    f"sk-proj-{HIDDEN}",
    f"ghp_{HIDDEN}",
    f"api_key={HIDDEN}",
    f"password: {HIDDEN}",
    f'{{"token": "{HIDDEN}"}}',
    f"https://me:{HIDDEN}@example.org/",
    f"eyJhbGciOi.{HIDDEN}.{HIDDEN}",
]

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)


def within(secret: Any) -> st.SearchStrategy[Any]:
    """Values that hold this one somewhere."""
    return st.recursive(
        st.just(secret),
        lambda inner: (
            st.tuples(st.lists(plain, max_size=2), inner).map(lambda pair: [*pair[0], pair[1]])
            | st.tuples(plain, inner).map(lambda pair: {"before": pair[0], "inside": pair[1]})
        ),
        max_leaves=3,
    )


@LAWS
@given(st.sampled_from(SHAPES), st.text(max_size=30), st.text(max_size=30), st.data())
def test_a_secret_in_a_text_is_taken_out_at_any_depth(
    shape: str, before: str, after: str, data: st.DataObject
) -> None:
    value = data.draw(within(f"{before} {shape} {after}"))
    assert HIDDEN not in json.dumps(redact(value))


@LAWS
@given(st.sampled_from(NAMES), plain.filter(lambda value: value is not None), st.data())
def test_a_field_with_the_name_of_a_secret_is_taken_out(name: str, secret: Any, data: st.DataObject) -> None:
    def values(redacted: Any) -> Any:
        if isinstance(redacted, dict):
            for key, item in redacted.items():
                yield from [item] if key == name else values(item)
        elif isinstance(redacted, list):
            for item in redacted:
                yield from values(item)

    found = list(values(redact(data.draw(within({name: secret})))))
    assert found
    assert set(found) == {REDACTED}


@pytest.mark.parametrize("name", ["tokens_before", "usage", "input", "key", "author", "max_tokens", "city"])
def test_other_names_are_no_secrets(name: str) -> None:
    assert not is_secret(name)
    assert redact({name: "North"}) == {name: "North"}


@pytest.mark.parametrize(
    "text", ["I ask the sky.", "task-12345678", "a:b", "https://example.org/a?b=c", "skin"]
)
def test_other_texts_stay(text: str) -> None:
    assert redact(text) == text


def test_patterns_of_ones_own() -> None:
    assert redact("case 12-34", as_patterns([r"\d\d-\d\d"])) == f"case {REDACTED}"
    with pytest.raises(ValueError, match="no regular expression"):
        as_patterns(["("])
    assert as_patterns([re.compile("a")]) == [re.compile("a")]


@pytest.mark.parametrize("piece", ["a", "sk-", "token", "token=", "Bearer ", "://a:", "eyJ", "a-", " = "])
def test_takes_time_that_grows_with_the_text(piece: str) -> None:
    def seconds(size: int) -> float:
        text = piece * (size // len(piece))
        started = time.thread_time()
        redact(text)
        return time.thread_time() - started

    assert is_linear(seconds, 1_000_000)

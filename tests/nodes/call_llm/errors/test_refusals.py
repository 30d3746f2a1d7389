"""What is refused by words, and what words say of a server alone."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.nodes.call_llm.errors.provider_sayings import SENT, error
from tests.nodes.call_llm.errors.raised import raised
from turnflow.nodes.call_llm.errors.classify import classify_error
from turnflow.nodes.call_llm.errors.failure import Failure

FUZZ = settings(max_examples=int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "300")), deadline=None)


@pytest.mark.parametrize(
    "text",
    [
        "Invalid image: could not process image",
        "messages.1.content.0.image.source.base64: image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes",
        "Failed to download image from https://127.0.0.1/cat.png",
    ],
)
def test_one_bad_image_says_nothing_of_others(text: str) -> None:
    assert classify_error(raised(400, error(text)), SENT) == Failure("refused", "images", lasting=False)
    assert classify_error(raised(400, error(text)), SENT - {"images"}).refusal != "images"


@pytest.mark.parametrize("body", ["413 Request Entity Too Large", error("Payload too large"), None])
def test_a_request_too_large_is_blamed_on_its_images_before_its_length(body: Any) -> None:
    assert classify_error(raised(413, body), SENT) == Failure("refused", "images", lasting=False)
    assert classify_error(raised(413, body), SENT - {"images"}) == Failure("context_too_long")


@pytest.mark.parametrize(
    "told", [error("no", param="provider"), "[{'loc': ('body', 'provider'), 'msg': 'no'}]"]
)
def test_a_preference_is_left_out_where_it_is_named(told: Any) -> None:
    assert classify_error(raised(400, told), SENT | {"provider"}) == Failure("refused", "provider")


WISHES = frozenset(
    {"provider", "models", "route", "transforms", "data_collection", "metadata", "user", "safety_identifier"}
    | {"store", "service_tier"}
)


@pytest.mark.parametrize("name", sorted(WISHES))
@pytest.mark.parametrize(
    "words",
    [
        "{} returned error: invalid input",
        "The {} is not supported",
        "unknown field: {}",
        "invalid request parameter: {} returned error",
        "'{}' is not allowed here",
        "`{}` must be an object",
        "{}: unexpected option",
        "Unrecognized request argument supplied: {}",
    ],
)
def test_a_preference_is_never_left_out_for_words(name: str, words: str) -> None:
    said = {"message": "Provider returned error", "code": 400, "metadata": {"raw": words.format(name)}}
    for status in (400, 422, 500, None):
        for body in (said, error(words.format(name))):
            assert classify_error(raised(status, body), SENT | WISHES).kind != "refused"


@pytest.mark.parametrize(
    "words",
    [
        "Invalid input: busy",
        "the stop was unexpected: invalid field",
        "reasoning failed: unknown key",
        "thinking is an unknown option here",
        "invalid input for n items",
        "unsupported option, verbosity of the log is 3",
        "bad argument: stop it",
    ],
)
def test_a_word_of_prose_is_no_parameter(words: str) -> None:
    sent = SENT | {"reasoning", "thinking", "n", "verbosity"}
    for status in (400, 422, 500, None):
        assert classify_error(raised(status, error(words)), sent).kind != "refused"


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("Unsupported parameter: verbosity", "verbosity"),
        ("unknown option `verbosity`", "verbosity"),
        ("'reasoning' is not supported", "reasoning"),
        ("Unrecognized request argument supplied: n", "n"),
        ("The parameter n must be 1", "n"),
        ("the thinking parameter is not supported", "thinking"),
        ('json: unknown field "thinking"', "thinking"),
        ("extra fields not permitted: verbosity", "verbosity"),
        ("n: Extra inputs are not permitted", "n"),
    ],
)
def test_a_word_that_is_marked_as_a_parameter_is_one(words: str, name: str) -> None:
    sent = SENT | {"reasoning", "thinking", "n", "verbosity"}
    assert classify_error(raised(400, error(words)), sent) == Failure("refused", name)


@FUZZ
@given(
    what=st.sampled_from(
        ["function", "tool", "image", "message", "system role", "content", "prompt", "temperature"]
    ),
    trouble=st.sampled_from(
        ["is temporarily unavailable", "timed out, try again", "is busy", "is overloaded", "crashed"]
    ),
    status=st.sampled_from([None, 500, 502, 503, 504]),
    kind=st.sampled_from(["server_error", "upstream_error", "invalid_request_error"]),
    more=st.lists(
        st.sampled_from(["upstream", "worker", "not supported", "unsupported", "empty"]), max_size=4
    ),
)
def test_a_server_in_trouble_refuses_nothing(
    what: str, trouble: str, status: int | None, kind: str, more: list[str]
) -> None:
    said = {"message": " ".join(["the", what, *more, trouble]), "type": kind}
    assert classify_error(raised(status, said), SENT).kind == "transient"

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

NAMES = [
    *("api_key", "apiKey", "API_KEY", "x-api-key", "token", "accessToken", "password", "Authorization"),
    *(
        "pass_word",
        "passWord",
        "ｐａｓｓｗｏｒｄ",
        "ＡＰＩ＿ＫＥＹ",
        "ApiKeys",
        "apikeys",
        "tokens",
        "Tokens",
    ),
    *("access_tokens", "passwords", "p-a-s-s-w-o-r-d", "pass", "db_pass", "ssh_key", "sshKeys", "secrets"),
    *("encryption_key", "connection_string", "ConnectionString", "dsn", "DATABASE_DSN", "otp", "otp_code"),
    *("secretkey", "Set-Cookie", "cookies", "credentials", "passphrase"),
]
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
    f'{{\\"password\\": \\"{HIDDEN}\\"}}',
    f'{{\\\\\\"token\\\\\\": \\\\\\"{HIDDEN}\\\\\\"}}',
    f"secret_key = '{HIDDEN}'",
    f'password = "two words {HIDDEN}"',
    f'password = "a \\"quoted\\" {HIDDEN}"',
    f"connection_string: {HIDDEN}",
    f"redis://:{HIDDEN}@cache:6379/0",
    f"postgres://me:a@{HIDDEN}@db/shop",
    f"-----BEGIN PRIVATE KEY-----\n{HIDDEN}\n-----END PRIVATE KEY-----",
    f"-----BEGIN RSA PRIVATE KEY-----\\n{HIDDEN}\\n",
    f"-----BEGIN OPENSSH PRIVATE KEY-----\n{HIDDEN}",
    f"Cookie: theme=dark; session={HIDDEN}",
    f"set-cookie: session={HIDDEN}; Path=/",
    f'"Cookie": "session={HIDDEN}"',
    f"Authorization: Token {HIDDEN}",
    f"login --password {HIDDEN}",
    f"login --db-password '{HIDDEN}'",
    f"--api-key  {HIDDEN}",
    f"curl -u bob:{HIDDEN} https://example.org",
    f'curl --user "bob:with space {HIDDEN}"',
    f"npm_{HIDDEN}{HIDDEN}aB3d",
    f"https://example.org/v1?key={HIDDEN}",
    f"https://example.org/v1?a=b&signature={HIDDEN}&c=d",
    f"Incorrect API key provided: {HIDDEN}.",
    f"Invalid api key: '{HIDDEN}'",
    f"tokens: {HIDDEN}",
    f"access_tokens={HIDDEN}",
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


@pytest.mark.parametrize(
    "name",
    [
        *("tokens_before", "usage", "input", "key", "author", "max_tokens", "city", "passport", "compass"),
        *("less", "input_tokens", "pass_rate", "sshd", "keys", "string", "passes"),
    ],
)
def test_other_names_are_no_secrets(name: str) -> None:
    assert not is_secret(name)
    assert redact({name: "North"}) == {name: "North"}


@pytest.mark.parametrize(
    "text",
    [
        *("I ask the sky.", "task-12345678", "a:b", "https://example.org/a?b=c", "skin", "max_tokens_: 5"),
        *("max_tokens: 100000 is too large", "'max_tokens': must be at most 4096", "total tokens: 9000"),
        *("Invalid API key: check your settings", "https://example.org/a?monkey=b"),
        *("-----BEGIN PUBLIC KEY-----\nabc", "npm_config_registry", "sort -u names", "https://[::1]:80/"),
    ],
)
def test_other_texts_stay(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("name", ["name", "key", "Header"])
def test_a_value_beside_the_name_of_a_secret_is_taken_out(name: str) -> None:
    fields = [{name: "X-Api-Key", "value": HIDDEN}, {name: "city", "value": "North"}]
    assert redact({"fields": fields}) == {
        "fields": [{name: "X-Api-Key", "value": REDACTED}, {name: "city", "value": "North"}]
    }


def test_patterns_of_ones_own() -> None:
    assert redact("case 12-34", as_patterns([r"\d\d-\d\d"])) == f"case {REDACTED}"
    with pytest.raises(ValueError, match="no regular expression"):
        as_patterns(["("])
    assert as_patterns([re.compile("a")]) == [re.compile("a")]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("abc", r"patterns is a list of regular expressions, not 'abc'; give \['abc'\]"),
        (5, "patterns is a list of regular expressions, not 5"),
        ([5], "patterns holds 5, which is no regular expression"),
        ([re.compile(b"a")], "which is no regular expression for texts"),
        (["x*"], r"'x\*' matches the empty text"),
        ([""], "'' matches the empty text"),
    ],
)
def test_wrong_patterns_are_refused(given: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        as_patterns(given)


@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "sk-",
        "token",
        "token=",
        "Bearer ",
        "://a:",
        "eyJ",
        "a-",
        " = ",
        "--",
        "-u a",
        '-u "',
        "://",
        "cookie:",
        'token="',
        'token=\\"',
        "tokens:",
        "api key: a",
        "api key a a:",
        "?key=",
        "\\",
    ],
)
def test_takes_time_that_grows_with_the_text(piece: str) -> None:
    def seconds(size: int) -> float:
        text = piece * (size // len(piece))
        started = time.thread_time()
        redact(text)
        return time.thread_time() - started

    assert is_linear(seconds, 1_000_000)

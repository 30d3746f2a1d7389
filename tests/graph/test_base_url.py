"""Addresses of endpoints: those that a request can be sent to, and those that are refused with the mend."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnflow import OpenAICompatibleChat
from turnflow.graph.base_url import check_base_url, version_hint

WRONG = {
    "http://a:port/v1": "port",
    "http://a:99999/v1": "port",
    "http://a:0/v1": "port",
    "http://[::1/v1": "host",
    "http://[v1.x]/v1": "IP address",
    "http://256.1.1.1/v1": "IP address",
    "http://a\x1b[31m/v1": "control character",
    "http://a/v1\nx": "control character",
    "http://": "names no host",
    "http:///v1": "names no host",
    "http://a b/v1": "blank",
    "http://a..b/v1": "part",
    f"http://{'a' * 64}/v1": "part",
    "http://☃.net/v1": "character that no host has",
    "http://a\\b/v1": "character that no host has",
    "localhost:8000/v1": "begins with http://",
    "ftp://a/v1": "begins with http://",
}


@pytest.mark.parametrize("url", WRONG)
def test_what_is_no_address_is_refused_in_one_plain_line(url: str) -> None:
    with pytest.raises(
        ValueError, match=f"^--base-url .* is no address: .*{WRONG[url]}.*; give one like"
    ) as caught:
        check_base_url(url, "--base-url")
    assert str(caught.value).isprintable()
    with pytest.raises(ValueError, match="is no address"):
        OpenAICompatibleChat(model="m", base_url=url, api_key="none")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8000/v1",
        "https://api.openai.com/v1",
        "HTTP://X:80",
        "http://[::1]:8000/v1",
        "http://ä.de/v1",
        "http://under_score/v1",
        "http://user:word@host:1/v1?x=1",
        "http://x./v1",
    ],
)
def test_an_address_is_taken_as_it_is(url: str) -> None:
    assert check_base_url(f" {url}\n") == url
    OpenAICompatibleChat(model="m", base_url=url, api_key="none")  # type: ignore[arg-type]


@pytest.mark.parametrize("url", ["http://me:pass/word@h:x/v1", "me:password@h", "http://me:password@/v1"])
def test_no_credentials_are_told(url: str) -> None:
    with pytest.raises(ValueError, match="is no address") as caught:
        OpenAICompatibleChat(model="m", base_url=url, api_key="key-1")  # type: ignore[arg-type]
    assert [part for part in ("me:", "word", "key-1") if part in str(caught.value)] == []


def test_the_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://a:port/v1")
    with pytest.raises(ValueError, match="OPENAI_BASE_URL http://a:port/v1 is no address"):
        OpenAICompatibleChat(model="m")


@settings(max_examples=int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "300")), deadline=None)
@given(st.text(max_size=30))
def test_what_is_taken_can_be_asked(rest: str) -> None:
    try:
        url = check_base_url(f"http://{rest}")
    except ValueError as error:
        told = str(error)
    else:
        told = ""
        OpenAICompatibleChat(model="m", base_url=url, api_key="none")  # type: ignore[arg-type]
    assert told.isprintable()


@pytest.mark.parametrize("url", ["http://x/v1", "http://x/v1/", "http://x/api/v1beta2", "https://x/paas/v4"])
def test_no_hint_where_there_is_a_version(url: str) -> None:
    assert version_hint(url) == ""
    assert "usually ends in /v1" in version_hint("http://x/api")

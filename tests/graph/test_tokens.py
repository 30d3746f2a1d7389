"""Counting tokens: everything that is sent counts, fast, and near what providers report once calibrated."""

from __future__ import annotations

import gc
import hashlib
import json
import math
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from turnflow.graph import tiktoken_counter as tiktoken_module
from turnflow.graph.identity_cache import IdentityCache
from turnflow.graph.tokens import (
    MAX_FACTOR,
    MIN_FACTOR,
    EstimatedCounter,
    TextCounter,
    calibrated,
    default_counter,
    is_counter_loaded,
    load_counter,
)

COUNTER = EstimatedCounter()
PROSE = "The order was sent on Monday, and it should arrive within three days. "
CODE = "def total(items):\n    return sum(item['price'] * item['count'] for item in items)\n"
CJK = "今天天气很好，我们去公园散步吧。"
ARGUMENTS = {"customer": "c-123", "items": [{"id": 17, "count": 2}], "note": "leave it at the door"}
CALL: Any = {"id": "c", "name": "place_order", "args": ARGUMENTS, "type": "tool_call"}
SCHEMA = {
    "type": "function",
    "function": {
        "name": "place_order",
        "description": "Place an order for a customer.",
        "parameters": {
            "type": "object",
            "properties": {"customer": {"type": "string"}},
            "required": ["customer"],
        },
    },
}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 100_000}}
AUDIO = {"type": "input_audio", "input_audio": {"data": "A" * 640_000, "format": "wav"}}
PDF = {
    "type": "file",
    "file": {"file_data": "data:application/pdf;base64," + "A" * 100_000, "filename": "a.pdf"},
}


@pytest.mark.parametrize(
    ("text", "tokens", "off"),
    [  # as cl100k_base counts them (OpenAI's cookbook, "How to count tokens with tiktoken")
        ("tiktoken is great!", 6, 0.4),
        ("antidisestablishmentarianism", 6, 0.4),
        ("お誕生日おめでとう", 9, 0.2),
    ],
)
def test_an_estimate_is_near_what_a_vocabulary_counts(text: str, tokens: int, off: float) -> None:
    assert COUNTER.text(text) == pytest.approx(tokens, rel=off)


def test_a_conversation_is_near_what_the_provider_counts() -> None:
    """The example of the same page; OpenAI counts 129 tokens for it, three of them for the reply's start."""
    rules = (
        "You are a helpful, pattern-following assistant that translates corporate jargon into plain English."
    )
    later = (
        "Let's circle back when we have more bandwidth to touch base on opportunities for increased leverage."
    )
    said = [
        (None, rules),
        ("example_user", "New synergies will help drive top-line growth."),
        ("example_assistant", "Things working well together will increase revenue."),
        ("example_user", later),
        ("example_assistant", "Let's talk later when we're less busy about how to do better."),
    ]
    messages: list[BaseMessage] = [SystemMessage(text, name=name) for name, text in said]
    messages.append(
        HumanMessage("This late pivot means we don't have time to boil the ocean for the client deliverable.")
    )
    assert sum(map(COUNTER.message, messages)) == pytest.approx(129, rel=0.15)


def test_an_ideograph_is_about_a_token() -> None:
    assert COUNTER.text(CJK * 20) == pytest.approx(len(CJK) * 20, rel=0.05)


def test_code_and_json_are_denser_than_prose() -> None:
    def per_character(text: str) -> float:
        return COUNTER.text(text) / len(text)

    prose = per_character(PROSE * 20)
    assert 0.2 < prose < 0.26
    assert per_character(CODE * 20) > 1.2 * prose
    assert per_character(json.dumps(ARGUMENTS) * 20) > 1.4 * prose


@pytest.mark.parametrize(
    "text", ["Здравствуй, мир. ", "안녕하세요 세계. ", "🙂👍🎉 ", "שלום עולם ", "नमस्ते दुनिया "]
)
def test_other_scripts_take_more_than_letters_do(text: str) -> None:
    assert COUNTER.text(text * 20) > 0.3 * len(text) * 20


@given(st.text())
def test_any_text_has_a_count(text: str) -> None:
    assert (COUNTER.text(text) > 0) == bool(text)
    assert COUNTER.text(text * 2) >= COUNTER.text(text)


def test_a_half_of_a_surrogate_pair_counts_too() -> None:
    assert COUNTER.text("\ud83d") > 0


@pytest.mark.parametrize(
    "richer",
    [
        AIMessage("Hi.", tool_calls=[CALL]),
        AIMessage("Hi.", additional_kwargs={"reasoning_content": PROSE}),
        AIMessage("Hi.", additional_kwargs={"turnflow": {"raw": f"<think>{PROSE}</think>Hi."}}),
        HumanMessage("Hi.", name="somebody"),
        HumanMessage([{"type": "text", "text": "Hi."}, {"type": "text", "text": PROSE}]),
        HumanMessage([{"type": "text", "text": "Hi."}, IMAGE]),
        HumanMessage([{"type": "text", "text": "Hi."}, {"type": "file", "file": {"file_id": "f"}}]),
        ToolMessage(["Hi.", {"type": "text", "text": PROSE}], tool_call_id="c"),
    ],
)
def test_everything_that_is_sent_counts(richer: BaseMessage) -> None:
    assert COUNTER.message(richer) > COUNTER.message(HumanMessage("Hi."))


def test_what_is_not_sent_does_not_count() -> None:
    thoughtful = AIMessage(
        "Hi.", additional_kwargs={"reasoning_content": PROSE, "turnflow": {"thinking": PROSE}}
    )
    plain = COUNTER.message(AIMessage("Hi."))
    assert EstimatedCounter(reasoning_fields=()).message(thoughtful) == plain
    assert COUNTER.message(AIMessage("Hi.", additional_kwargs={"turnflow": {"thinking": PROSE}})) == plain
    assert COUNTER.message(ToolMessage("Hi.", tool_call_id="c", artifact=PROSE)) == plain


def test_media_count_by_kind_and_size_and_never_as_text() -> None:
    low = {"type": "image_url", "image_url": {**IMAGE["image_url"], "detail": "low"}}  # type: ignore[dict-item]

    def tokens(*blocks: Any) -> int:
        return COUNTER.message(HumanMessage(list(blocks)))

    assert tokens(low) < 100 < tokens(IMAGE) < 1200
    assert tokens(IMAGE, IMAGE) > 1.9 * tokens(IMAGE)
    assert 80 < tokens(AUDIO) < 150
    assert 1000 < tokens(PDF) < 4000


def test_schemas_count_as_json() -> None:
    assert COUNTER.tools([SCHEMA]) >= COUNTER.text(json.dumps(SCHEMA))
    assert COUNTER.tools([SCHEMA, SCHEMA]) == 2 * COUNTER.tools([SCHEMA])
    assert COUNTER.tools([]) == 0


def test_a_factor_multiplies() -> None:
    half = EstimatedCounter(0.5)
    assert half.text(PROSE) == math.ceil(COUNTER.text(PROSE) / 2)
    assert half.message(HumanMessage(PROSE)) < COUNTER.message(HumanMessage(PROSE))
    assert EstimatedCounter(0.5) == half != COUNTER
    assert hash(EstimatedCounter(0.5)) == hash(half)


class Slow(TextCounter):
    """A counter of one's own: a token a character."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def count(self, text: str) -> int:
        self.asked.append(text)
        return len(text)


def test_a_counter_of_ones_own_counts_texts_and_keeps_the_counts() -> None:
    counter, message = Slow(), AIMessage("Hi.", tool_calls=[CALL])
    first = counter.message(message)
    asked = len(counter.asked)
    assert [counter.message(message) for _ in range(3)] == [first] * 3
    assert len(counter.asked) == asked == 3
    assert Slow().message(HumanMessage("abc")) == Slow().message(HumanMessage("ab")) + 1


def test_a_message_whose_content_was_replaced_is_counted_again() -> None:
    message = HumanMessage("Hi.")
    before = COUNTER.message(message)
    message.content = PROSE * 3
    assert COUNTER.message(message) > before + 30


def test_what_is_kept_goes_with_its_owner() -> None:
    cache: IdentityCache[int] = IdentityCache()
    owners: list[BaseMessage] = [HumanMessage(str(number)) for number in range(100)]
    for number, owner in enumerate(owners):
        cache.put(owner, number)
    cache.put(owners[7], 70)
    assert (cache.get(owners[7]), cache.get(owners[8]), len(cache)) == (70, 8, 100)
    assert cache.get(HumanMessage("7")) is None
    del owners[10:], owner
    gc.collect()
    assert len(cache) == 10
    assert cache.get(owners[7]) == 70


def test_counting_takes_linear_time_on_any_text() -> None:
    for text in (PROSE, CJK, "a", "=", "🙂"):
        whole = text * (1_000_000 // len(text))

        def seconds(size: int, whole: str = whole) -> float:
            start = time.thread_time()
            COUNTER.text(whole[:size])
            return time.thread_time() - start

        small = min(seconds(250_000) for _ in range(3))
        assert min(seconds(1_000_000) for _ in range(3)) <= 5 * small + 0.02


class Provider:
    """A model whose vocabulary is unlike what is estimated: it splits text after so many bytes."""

    def __init__(self, bytes_per_token: float, per_message: int, image: int) -> None:
        self.bytes_per_token = bytes_per_token
        self.per_message = per_message
        self.image = image

    def count(self, messages: list[BaseMessage], tools: list[Any]) -> int:
        total = sum(self._text(json.dumps(tool)) for tool in tools)
        for message in messages:
            content = message.content if isinstance(message.content, list) else [message.content]
            texts = [b if isinstance(b, str) else b.get("text", "") for b in content]
            images = sum(isinstance(b, dict) and b["type"] == "image_url" for b in content)
            calls = message.tool_calls if isinstance(message, AIMessage) else []
            texts += [json.dumps([call["name"], call["args"]]) for call in calls]
            total += self.per_message + self._text("".join(texts)) + images * self.image
        return total

    def _text(self, text: str) -> int:
        return math.ceil(len(text.encode()) / self.bytes_per_token)


KINDS: dict[str, tuple[list[BaseMessage], list[Any]]] = {
    "prose": ([HumanMessage(PROSE * 30)], []),
    "cjk": ([HumanMessage(CJK * 60)], []),
    "code": ([ToolMessage(CODE * 40, tool_call_id="c")], []),
    "arguments": ([AIMessage("", tool_calls=[CALL] * 20)], []),
    "schemas": ([HumanMessage("Hi.")], [SCHEMA] * 20),
    "images": ([HumanMessage([{"type": "text", "text": "What is this?"}, IMAGE])], []),
}
PROVIDERS = [Provider(3.0, 3, 765), Provider(4.6, 5, 1500), Provider(2.4, 8, 900)]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("kind", KINDS)
def test_three_reports_bring_the_estimate_within_a_twentieth(kind: str, provider: Provider) -> None:
    block, tools = KINDS[kind]
    factor, messages = 1.0, list(block)
    for _ in range(3):
        counter = EstimatedCounter(factor)
        estimated = sum(map(counter.message, messages)) + counter.tools(tools)
        factor = calibrated(factor, estimated, provider.count(messages, tools))
        messages = [*messages, *block]
    counter = EstimatedCounter(factor)
    estimated = sum(map(counter.message, messages)) + counter.tools(tools)
    assert estimated == pytest.approx(provider.count(messages, tools), rel=0.05)


NUMBERS = st.one_of(st.none(), st.integers(-(10**9), 10**9), st.floats())


@given(st.floats(), NUMBERS, NUMBERS)
def test_a_factor_stays_within_its_bounds(factor: float, estimated: Any, reported: Any) -> None:
    new = calibrated(factor, estimated, reported)
    assert MIN_FACTOR <= new <= MAX_FACTOR
    assert new == calibrated(factor, estimated, reported)


@pytest.mark.parametrize(
    ("estimated", "reported"),
    [
        (None, 100),
        (100, None),
        (0, 100),
        (100, 0),
        (100, -5),
        (1000, 40),
        (1000, 100_000),
        (5, 9),
        (True, 90),
    ],
)
def test_nonsense_changes_nothing(estimated: Any, reported: Any) -> None:
    assert calibrated(1.3, estimated, reported) == 1.3


def test_a_report_moves_the_factor_most_of_the_way() -> None:
    assert 1.5 < calibrated(1.0, 1000, 2000) < 2
    assert 0.5 < calibrated(1.0, 1000, 500) < 0.75
    assert calibrated(1.7, 1700, 1700) == pytest.approx(1.7)


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("counting reached for the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    tiktoken_module._found.clear()


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("held", [None, b"", b"not a vocabulary"])
def test_without_a_vocabulary_an_estimate_counts_and_nothing_is_fetched(
    held: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    files = []
    for name in ("o200k_base", "cl100k_base"):
        url = f"https://openaipublic.blob.core.windows.net/encodings/{name}.tiktoken"
        path = tmp_path / hashlib.sha1(url.encode()).hexdigest()  # noqa: S324
        if held is not None:
            path.write_bytes(held)
            files.append(path)
    for model in ("gpt-4o", "gpt-4", "qwen3", "", "gpt-3.5-turbo"):
        assert isinstance(default_counter(model, 1.5), EstimatedCounter)
    assert [path.read_bytes() for path in files] == [held] * len(files)


@pytest.mark.usefixtures("no_network")
def test_where_tiktoken_is_told_to_keep_nothing_it_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    assert isinstance(default_counter("gpt-4o"), EstimatedCounter)


@pytest.mark.usefixtures("no_network")
def test_a_vocabulary_on_this_disk_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small one of our own in the place of OpenAI's: single bytes, and one pair."""
    import base64

    ranks = [bytes([byte]) for byte in range(256)] + [b"he"]
    data = b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(ranks))
    url = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
    (tmp_path / hashlib.sha1(url.encode()).hexdigest()).write_bytes(data)  # noqa: S324
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    digest = hashlib.sha256(data).hexdigest()
    monkeypatch.setitem(tiktoken_module._VOCABULARIES, "o200k_base", ("o200k_base", digest))
    tiktoken = pytest.importorskip("tiktoken")
    encoding = tiktoken.Encoding(
        "small",
        pat_str=r"\S+|\s+",
        mergeable_ranks={token: rank for rank, token in enumerate(ranks)},
        special_tokens={},
    )
    monkeypatch.setattr(tiktoken, "get_encoding", lambda name: encoding)
    counter = default_counter("gpt-4o", 1.0)
    assert isinstance(counter, tiktoken_module.TiktokenCounter)
    assert counter.text("hehe x") == 4
    assert counter.text("<|endoftext|>") == 13
    assert counter.message(HumanMessage("he")) == counter.message(HumanMessage("hehe")) - 1
    assert default_counter("gpt-4o", 2.0).text("he") == 2
    assert default_counter("gpt-4o") == counter
    assert hash(default_counter("gpt-4o")) == hash(counter)
    tiktoken_module._found.clear()


@pytest.mark.usefixtures("no_network")
def test_a_counter_is_read_from_the_disk_once_and_can_be_read_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tiktoken")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    read: list[str] = []
    monkeypatch.setattr(tiktoken_module, "_read", lambda name, directory: read.append(name))
    load_counter("gpt-4o")
    assert read == ["o200k_base"]
    assert is_counter_loaded("gpt-4o")
    assert is_counter_loaded("gpt-4o-mini")  # the same vocabulary
    assert not is_counter_loaded("gpt-4")
    assert read == ["o200k_base"]  # asking reads nothing
    load_counter("gpt-4")
    assert is_counter_loaded("gpt-4")
    assert not is_counter_loaded("")  # any vocabulary will do, and one was not looked for yet
    default_counter("")
    assert is_counter_loaded("")
    assert is_counter_loaded("another-model")
    load_counter("gpt-4")
    assert sorted(read) == sorted({"o200k_base", "cl100k_base", "o200k_harmony"})
    tiktoken_module._found.clear()


@pytest.mark.usefixtures("no_network")
def test_a_counter_that_needs_no_vocabulary_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    assert is_counter_loaded("gpt-4o")

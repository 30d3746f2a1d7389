"""The conversation: the same texts in each run, and a chat model that speaks them at once."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolCall
from langchain_core.messages.tool import ToolCallChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool

TOOL = "look_up"
CALLS = 2
"""Tool rounds of a turn, of one call each; the answer is one round more."""

SPOKEN_CHARS = 300
"""Length of a question and of an answer."""
RESULT_CHARS = 2000
SUMMARY_CHARS = 400

_WORDS = 5000
_ONSETS = ["", *"bcdfghlmnprstvw", "br", "ch", "cl", "fr", "pl", "sh", "st", "th", "tr"]
_VOWELS = [*"aeiou", "ai", "ea", "ou"]
_ENDS = ["", "", "n", "r", "s", "t", "d", "l", "ng", "nt", "st"]


def passage(subject: str, chars: int) -> str:
    """A text of this length that is the same for the same subject.

    Its words are made up, and drawn as often as words of a language are (the n-th most frequent one with a
    weight of 1/n), so that it compresses about as well as prose does.
    """
    # Texts are drawn, not secrets.
    draw = random.Random(subject)  # noqa: S311
    words, weights = _vocabulary()
    sentences: list[str] = []
    length = 0
    while length <= chars:
        drawn = draw.choices(words, cum_weights=weights, k=draw.randint(6, 18))
        sentences.append(f"{' '.join(drawn).capitalize()}.")
        length += len(sentences[-1]) + 1
    return " ".join(sentences)[: chars - 1].rstrip(" .").ljust(chars, ".")


@lru_cache(maxsize=1)
def _vocabulary() -> tuple[list[str], list[float]]:
    """Words, shorter ones first, and the running sum of their weights."""
    draw = random.Random(0)  # noqa: S311
    words: dict[str, None] = {}
    while len(words) < _WORDS:
        syllables = draw.choices((1, 2, 3), (2, 3, 1))[0]
        words["".join(draw.choice(part) for part in (_ONSETS, _VOWELS, _ENDS) * syllables)] = None
    # Frequent words are short in every language, though not strictly.
    ordered = sorted(words, key=lambda word: len(word) + draw.random() * 4)
    return ordered, list(accumulate(1 / (rank + 3) for rank in range(_WORDS)))


@dataclass(frozen=True)
class Exchange:
    """The texts of one turn."""

    number: int
    """From 1."""
    question: str
    queries: tuple[str, ...]
    answer: str

    @property
    def results(self) -> tuple[str, ...]:
        """What the tool gives for each query."""
        return tuple(look_up(query) for query in self.queries)

    @property
    def text_bytes(self) -> int:
        """Length of the turn's messages in UTF-8: their texts and the arguments of their calls."""
        arguments = [json.dumps({"query": query}) for query in self.queries]
        return sum(len(text.encode()) for text in (self.question, *arguments, *self.results, self.answer))


@lru_cache(maxsize=4)
def exchange(number: int) -> Exchange:
    """The turn of that number."""
    return Exchange(
        number,
        passage(f"question {number}", SPOKEN_CHARS),
        tuple(passage(f"query {number} {call}", 40) for call in range(CALLS)),
        passage(f"answer {number}", SPOKEN_CHARS),
    )


@lru_cache(maxsize=4 * CALLS)
def look_up(query: str) -> str:
    """Look something up."""
    return passage(query, RESULT_CHARS)


@dataclass(repr=False)  # LangChain takes a model's `repr` with each request
class Stage:
    """Where a conversation stands: the runner moves it on by turns, the model by replies."""

    exchange: Exchange = field(default_factory=lambda: exchange(1))
    replies: int = 0
    """Replies of this turn so far."""
    summaries: int = 0
    """Summaries of the whole conversation so far."""
    request: Sequence[BaseMessage] = ()
    """What the model was sent last, requests for summaries aside."""

    def begin(self, number: int) -> Exchange:
        """Begin a turn; gives its texts, all of them made before they are asked for."""
        self.exchange, self.replies = exchange(number), 0
        _ = self.exchange.results
        return self.exchange


class ScriptedChat(BaseChatModel):
    """Calls the tool in the first replies of a turn, then answers; without tools bound, it sums up.

    It goes by the stage alone: what it is sent may be cut, summed up or reworded.
    """

    stage: Stage
    has_tools: bool = False

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        return ScriptedChat(stage=self.stage, has_tools=True)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        text, query = self._reply(messages)
        calls = [] if query is None else [ToolCall(name=TOOL, args={"query": query}, id=self._call_id())]
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content=text, tool_calls=calls))])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        text, query = self._reply(messages)
        arguments = json.dumps({"query": query})
        call = ToolCallChunk(type="tool_call_chunk", name=TOOL, args=arguments, id=self._call_id(), index=0)
        chunks = [] if query is None else [call]
        yield ChatGenerationChunk(message=AIMessageChunk(content=text, tool_call_chunks=chunks))

    def _reply(self, messages: list[BaseMessage]) -> tuple[str, str | None]:
        """The text of the next reply, and the query that it calls the tool with."""
        stage = self.stage
        if not self.has_tools:
            stage.summaries += 1
            return passage(f"summary {stage.summaries}", SUMMARY_CHARS), None
        stage.request = messages
        stage.replies += 1
        if stage.replies <= CALLS:
            return "", stage.exchange.queries[stage.replies - 1]
        return stage.exchange.answer, None

    def _call_id(self) -> str:
        return f"c{self.stage.exchange.number}-{self.stage.replies}"

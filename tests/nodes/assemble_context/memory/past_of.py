"""A conversation's past for tests, and embeddings whose vectors can be told beforehand."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence

from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage

from turnflow.graph.archive import Archive, ArchivedTurn, Scope
from turnflow.graph.archive_memory import MemoryArchive
from turnflow.graph.archive_turns import search_text
from turnflow.graph.past import Past

SCOPE = Scope("thread", "")
WORDS = re.compile(r"[\u4e00-\u9fff]|[^\W\d_\u4e00-\u9fff]{3,}|\d+")


class WordCounter:
    """Counts four characters as a token."""

    def text(self, text: str) -> int:
        return -(-len(text) // 4)

    def message(self, message: BaseMessage) -> int:
        return 4 + self.text(message.text)

    def tools(self, definitions: Sequence[object]) -> int:
        return sum(self.text(str(each)) for each in definitions)


class WordBags(Embeddings):
    """Texts that share words have like vectors; counts what it is asked."""

    def __init__(self, model: str = "bags", size: int = 256) -> None:
        self.model = model
        self.size = size
        self.embedded: list[str] = []
        self.batches: list[int] = []
        self.asked: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.embedded += texts
        self.batches.append(len(texts))
        return [self._vector(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        self.asked.append(text)
        return self._vector(text)

    def _vector(self, text: str) -> list[float]:
        counts = [0.0] * self.size
        for word in set(WORDS.findall(text.casefold())) - {"user", "assistant", "what", "the", "about"}:
            place = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big")
            counts[place % self.size] += 1.0
        length = math.sqrt(sum(count * count for count in counts)) or 1.0
        return [count / length for count in counts]


def turn(number: int, *said: str | AnyMessage, parent: str = "") -> ArchivedTurn:
    """The archived turn at a position; texts are said by the user and the assistant in turn."""
    messages: list[AnyMessage] = [
        (HumanMessage(each) if index % 2 == 0 else AIMessage(each)) if isinstance(each, str) else each
        for index, each in enumerate(said)
    ]
    return {
        "key": f"key-{number}",
        "turn_id": f"turn-{number}",
        "input_id": f"input-{number}",
        "parent": parent,
        "position": number,
        "status": "finished",
        "time": 1_700_000_000.0 + number,
        "message_count": len(messages),
        "messages": messages,
    }


def past_of(
    *turns: Sequence[str | AnyMessage],
    before: int | None = None,
    archive: Archive | None = None,
) -> Past:
    """The past of a conversation of these turns, of which those from `before` on are in the window."""
    archive = MemoryArchive() if archive is None else archive
    head = ""
    for number, said in enumerate(turns):
        kept = turn(number, *said, parent=head)
        archive.put_turn(SCOPE, kept, search_text(kept["messages"]))
        head = kept["key"]
    return Past(archive, SCOPE, head, len(turns) if before is None else before, WordCounter())


TOPICS = (
    "rivers",
    "bridges",
    "castles",
    "guitars",
    "tomatoes",
    "trains",
    "clocks",
    "cheese",
    "roses",
    "lamps",
)
DEEDS = ("paint", "repair", "compare", "measure", "describe", "clean", "photograph", "sell", "store", "draw")


def chatter(count: int) -> list[tuple[str, str]]:
    """Turns about nothing in particular, each about something else."""
    return [
        (
            f"How does one {deed} {topic}, as in chapter {number}?",
            f"One can {deed} {topic} with patience; chapter {number} has more.",
        )
        for number in range(count)
        for deed, topic in [(DEEDS[number // 10 % 10], TOPICS[number % 10])]
    ]

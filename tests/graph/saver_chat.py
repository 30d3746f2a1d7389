"""A small chat graph with a delta channel, and short ways to fill a saver and look into its file."""

import operator
import sqlite3
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import CheckpointMetadata, empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import _messages_delta_reducer
from langgraph.graph.state import CompiledStateGraph
from typing_extensions import TypedDict

SNAPSHOT_FREQUENCY = 4


@dataclass
class Note:
    """A type that strict msgpack mode reads back only if the graph's state names it."""

    text: str


class ChatState(TypedDict, total=False):
    messages: Annotated[
        list[AnyMessage], DeltaChannel(_messages_delta_reducer, snapshot_frequency=SNAPSHOT_FREQUENCY)
    ]
    count: Annotated[int, operator.add]
    note: Note
    anything: object


Graph = CompiledStateGraph[ChatState, None, ChatState, ChatState]


def build_chat(saver: SqliteSaver) -> Graph:
    """A graph that answers "n" with "re: n" and fails to be saved when it is told so."""

    def answer(state: ChatState) -> ChatState:
        asked = state["messages"][-1].text
        reply: ChatState = {"messages": [AIMessage(f"re: {asked}")], "count": 1, "note": Note(asked)}
        if asked == "unserialisable":
            reply["anything"] = sys
        return reply

    builder = StateGraph(ChatState)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    return builder.compile(checkpointer=saver)


def ask(text: str) -> ChatState:
    return {"messages": [HumanMessage(text)]}


def thread(name: str) -> RunnableConfig:
    return {"configurable": {"thread_id": name, "checkpoint_ns": ""}}


def texts(values: dict[str, Any]) -> list[str]:
    return [message.text for message in values["messages"]]


def conversation(questions: list[str]) -> list[str]:
    return [text for question in questions for text in (question, f"re: {question}")]


def put_checkpoints(saver: SqliteSaver, name: str, number: int) -> list[str]:
    """Store a chain of checkpoints and give their ids, oldest first."""
    config = thread(name)
    ids = []
    for step in range(number):
        checkpoint = empty_checkpoint()
        metadata: CheckpointMetadata = {"source": "loop", "step": step, "parents": {}}
        config = saver.put(config, checkpoint, metadata, {})
        saver.put_writes(config, [("channel", step)], f"task-{step}")
        ids.append(checkpoint["id"])
    return ids


def rows(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        query = f"SELECT count(*) FROM {table}"  # noqa: S608 (a name from the test)
        return int(connection.execute(query).fetchone()[0])


def assert_no_reader_is_open(path: Path) -> None:
    """The log can be emptied only while no transaction is open on the file."""
    with closing(sqlite3.connect(path, timeout=0)) as connection:
        assert connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0

"""The threads of a file: which there are, and what was said in one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.types import StateSnapshot
from rich.console import Console
from typing_extensions import TypedDict

from turnflow import TurnGraph, TurnSaver, build_turn_graph
from turnflow.apps.command_line.errors import DamagedError, damage_named
from turnflow.apps.command_line.plain import json_line, plain
from turnflow.graph.run import is_unfinished
from turnflow.graph.session import info_of
from turnflow.graph.transcript import is_input

MAX_SHOWN = 60


class ThreadInfo(TypedDict):
    """One thread, as `turnflow threads --json` prints it."""

    thread_id: str
    user: str | None
    """Who asked last, if the caller said so."""
    created: str | None
    """When its first turn began, ISO 8601 in UTC."""
    last_active: str | None
    """When its last turn began, or else the time of the newest checkpoint, ISO 8601 in UTC."""
    status: str
    """The last turn's status; `unfinished` for one without an outcome."""
    tags: dict[str, str]
    turns: int
    variables: int
    """How many session variables there are, in all namespaces."""
    messages: int
    last_user_message: str


def reading_graph(saver: TurnSaver) -> TurnGraph:
    """A graph that reads threads; it never calls a model."""
    return build_turn_graph("unused", checkpointer=saver)


def list_threads(saver: TurnSaver, limit: int, tags: Mapping[str, str] | None = None) -> Iterator[ThreadInfo]:
    """The threads of a file, the one that was active last first.

    Args:
        saver: The file.
        limit: How many at most.
        tags: Only threads that have all of these tags.

    Raises:
        DamagedError: At the end, if threads could not be read.
    """
    graph = reading_graph(saver)
    wanted = (tags or {}).items()
    damage: DamagedError | None = None
    for thread_id in saver.thread_ids(limit=None if wanted else limit):
        if limit <= 0:
            break
        try:
            with damage_named(saver, thread_id):
                thread = _thread_info(graph, thread_id)
        except DamagedError as error:
            damage = damage or error
            continue
        if wanted <= thread["tags"].items():
            limit -= 1
            yield thread
    if damage is not None:
        raise damage


def _thread_info(graph: TurnGraph, thread_id: str) -> ThreadInfo:
    snapshot = graph.get_state({"configurable": {"thread_id": thread_id}})
    messages = snapshot.values.get("messages") or []
    said = [m for m in messages if isinstance(m, HumanMessage)]
    info = info_of(snapshot.values.get("session"))
    meta, position = info["meta"], (snapshot.values.get("turn") or {}).get("position")
    return {
        "thread_id": thread_id,
        "user": meta["user"],
        "created": _iso(meta["created"]),
        "last_active": _iso(meta["last_active"]) or snapshot.created_at,
        "status": _status(snapshot),
        "tags": meta["tags"],
        # The state may hold the last turns alone.
        "turns": sum(map(is_input, said)) if position is None else position + 1,
        "variables": sum(len(entries) for entries in info["vars"].values()),
        "messages": len(messages),
        "last_user_message": str(said[-1].text) if said else "",
    }


def _iso(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat()


def parse_tags(given: Sequence[str]) -> dict[str, str]:
    """Tags as they are written on the command line, `name=value`.

    Raises:
        ValueError: One of them has no "=".
    """
    for tag in given:
        if not tag.partition("=")[0].strip() or "=" not in tag:
            raise ValueError(f"{tag!r} is no tag; write name=value, such as --tag team=north")
    return dict(tag.partition("=")[::2] for tag in given)


def checked_id(thread_id: str) -> str:
    """The id of a thread, as it was given.

    Raises:
        ValueError: It is blank, as an unset shell variable is, or no text.
    """
    if not thread_id.strip():
        raise ValueError("the thread's id is empty")
    try:
        thread_id.encode()
    except UnicodeEncodeError:
        raise ValueError("the thread's id is not UTF-8 text") from None
    return thread_id


def _status(snapshot: StateSnapshot) -> str:
    """The last turn's; its outcome may still be that of the turn before while the turn runs elsewhere."""
    status = (snapshot.values.get("outcome") or {}).get("status")
    return "unfinished" if not status or is_unfinished(snapshot) else str(status)


def last_thread(saver: TurnSaver) -> str:
    """The thread that was active last.

    Raises:
        ValueError: There is none.
    """
    newest = saver.thread_ids(limit=1)
    if not newest:
        raise ValueError("there is no thread yet to go on with; leave --last out")
    return newest[0]


def thread_state(saver: TurnSaver, thread_id: str) -> StateSnapshot:
    """The newest state of a thread.

    Raises:
        ValueError: There is no such thread.
        DamagedError: It cannot be read.
    """
    with damage_named(saver, thread_id):
        snapshot = reading_graph(saver).get_state({"configurable": {"thread_id": thread_id}})
    if snapshot.created_at is None:
        raise ValueError(f"there is no thread {thread_id!r}; `turnflow threads` lists those that there are")
    return snapshot


def print_threads(console: Console, threads: Iterator[ThreadInfo]) -> None:
    """A line for each thread; an id that does not fit on one is shown as a Python string."""
    for thread in threads:
        name = thread["thread_id"] if thread["thread_id"].isprintable() else repr(thread["thread_id"])
        about = [name, _minute(thread["last_active"]), *_details(thread), f"{thread['status']:<18}"]
        said = _short(thread["last_user_message"])
        console.print(plain(f"{'  '.join(about)} {said}"), markup=False, soft_wrap=True)


def _minute(when: str | None) -> str:
    return (when or "")[:19].replace("T", " ")


def _details(thread: ThreadInfo) -> list[str]:
    """What else there is to say about a thread: user, time of creation, tags, turns, variables."""
    tags = " ".join(f"{_short(name)}={_short(value)}" for name, value in thread["tags"].items())
    return [
        *([_short(thread["user"])] if thread["user"] else []),
        *([f"since {_minute(thread['created'])}"] if thread["created"] else []),
        f"{thread['turns']} turns" if thread["turns"] != 1 else "1 turn",
        *([f"{thread['variables']} variables"] if thread["variables"] else []),
        *([f"[{tags}]"] if tags else []),
    ]


def print_messages(console: Console, messages: list[BaseMessage]) -> None:
    """The transcript as `chat` would have shown it."""
    for message in messages:
        text = plain(str(message.text))
        if isinstance(message, HumanMessage):
            console.print(f"> {text}", style="bold", markup=False, soft_wrap=True)
        elif isinstance(message, ToolMessage):
            mark = "✗" if message.status == "error" else "✓"
            console.print(
                f"{mark} {plain(str(message.name))} → {_short(text)}",
                style="dim",
                markup=False,
                soft_wrap=True,
            )
        elif text.strip():
            console.print(text, markup=False, soft_wrap=True)


def message_as_json(message: BaseMessage) -> str:
    """One message as a line of JSON: `id`, `role`, `text`, and the calls or the call that it is about."""
    line: dict[str, Any] = {"id": message.id, "role": message.type, "text": str(message.text)}
    if isinstance(message, AIMessage) and message.tool_calls:
        line["tool_calls"] = [
            {key: call[key] for key in ("id", "name", "args")} for call in message.tool_calls
        ]
    if isinstance(message, ToolMessage):
        line |= {"tool_call_id": message.tool_call_id, "name": message.name, "status": message.status}
    return json_line(line)


def _short(said: object) -> str:
    """The beginning of a text, on one line; a file may hold other values where texts belong."""
    line = plain(" ".join(str(said).split()))
    return line if len(line) <= MAX_SHOWN else f"{line[: MAX_SHOWN - 1]}…"

"""Studio's server, the real one, asked as Studio asks it: schemas, streams, threads, time travel."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk.client import SyncLangGraphClient

from tests.apps.command_line.inside import turnflow
from tests.apps.command_line.test_commands import Shell
from tests.graph.studio_server import StudioServer, studio_server
from tests.test_packaging import ROOT
from tests.turns.scripted import asks, call, calls, says
from turnflow import OpenAICompatibleChat, TurnSettings, build_turn_graph, open_saver, run_turn
from turnflow.apps.example_tools import calculate
from turnflow.apps.fake_provider import FakeProvider

QUESTION: dict[str, Any] = {"prompt": "Which colour?", "options": ["red", "blue"]}
HELLO = "Hello, how do you do?"


@pytest.fixture(scope="module")
def provider() -> Iterator[FakeProvider]:
    """Asks back whoever wants something painted, and greets everyone else."""
    batch = calls(
        call("calculate", "c1", expression="6 * 7"),
        asks(QUESTION["prompt"], call_id="c2", options=QUESTION["options"]),
    )
    paint = {"when": {"last_role": "user", "last_contains": "Paint"}, **batch, "forever": True}
    painted = {"when": {"last_role": "tool"}, **says("Blue."), "forever": True}
    with FakeProvider({"steps": [paint, painted, {**says(HELLO), "forever": True}]}) as provider:
        yield provider
    # Where tests run in several processes, each has a provider of its own and plays a part of the steps.
    provider.allow("steps_left").assert_clean()


@pytest.fixture(scope="module")
def server(provider: FakeProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StudioServer]:
    with studio_server(tmp_path_factory.mktemp("studio"), provider) as server:
        yield server


@pytest.fixture
def client(server: StudioServer) -> Iterator[SyncLangGraphClient]:
    with server.client() as client:
        yield client


@pytest.fixture
def shell(provider: FakeProvider, tmp_path: Path) -> Shell:
    shell = Shell(tmp_path / "home")
    shell.use(provider)
    return shell


def saying(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def assistant_id(client: SyncLangGraphClient) -> str:
    (assistant,) = client.assistants.search()
    return assistant["assistant_id"]


def new_thread(client: SyncLangGraphClient) -> str:
    return client.threads.create()["thread_id"]


def run(client: SyncLangGraphClient, thread_id: str, **given: Any) -> dict[str, Any]:
    result: Any = client.runs.wait(thread_id, "chat", **given)
    return dict(result)


def register_threads(server: StudioServer) -> None:
    """Run the snippet of docs/studio.md that makes a file's threads known to the server."""
    page = (ROOT / "docs" / "studio.md").read_text(encoding="utf-8")
    (code,) = (code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "thread_ids" in code)
    code = code.replace("http://127.0.0.1:2024", server.url).replace("chat.db", str(server.database))
    exec(compile(code, "docs/studio.md", "exec"), {})  # noqa: S102 - the page is ours


# What Studio draws


def test_every_schema_is_there(client: SyncLangGraphClient) -> None:
    schemas: Any = client.assistants.get_schemas(assistant_id(client))
    shapes = {
        name: schemas[f"{name}_schema"]["properties"] for name in ("input", "output", "state", "context")
    }
    assert set(shapes["input"]) == {"messages"}
    assert set(shapes["output"]) == {"messages", "answer", "outcome"}
    assert {"messages", "turn", "batch", "answer", "outcome"} <= set(shapes["state"])
    named = {"model_name", "instructions", "behaviour", "protocol", "user_id", "locale", "settings", "memory"}
    assert set(shapes["context"]) == named


def test_every_field_of_the_form_says_what_it_is(client: SyncLangGraphClient) -> None:
    schemas: Any = client.assistants.get_schemas(assistant_id(client))
    fields = schemas["context_schema"]["properties"]
    settings = fields["settings"]["properties"]
    assert set(settings) == set(TurnSettings.model_fields)
    for name, field in {**fields, **settings}.items():
        assert field.get("description"), name
    assert [name for name, field in settings.items() if "default" not in field] == []


def test_the_graph_is_drawn(client: SyncLangGraphClient) -> None:
    graph: Any = client.assistants.get_graph(assistant_id(client), xray=True)
    nodes = {node["id"] for node in graph["nodes"]}
    assert {"__start__", "assemble_context", "call_llm", "dispatch_tools", "finalize", "__end__"} <= nodes
    edges = {(edge["source"], edge["target"]) for edge in graph["edges"]}
    assert {("__start__", "assemble_context"), ("dispatch_tools", "assemble_context")} <= edges


# Streams


def test_every_stream_mode_says_what_is_stored(client: SyncLangGraphClient) -> None:
    thread_id = new_thread(client)
    modes: Any = ["values", "updates", "messages-tuple", "custom", "debug"]
    parts: dict[str, list[Any]] = {}
    for part in client.runs.stream(thread_id, "chat", input=saying("Hello."), stream_mode=modes):
        parts.setdefault(part.event, []).append(part.data)
    assert "error" not in parts
    stored: Any = client.threads.get_state(thread_id)["values"]
    said = stored["messages"][-1]
    assert said["content"] == HELLO

    assert parts["values"][-1]["messages"] == stored["messages"]
    assert parts["values"][-1]["answer"] == HELLO
    assert [next(iter(update)) for update in parts["updates"]] == [
        "assemble_context",
        "call_llm",
        "classify_label",
        "finalize",
    ]
    pieces = [message for message, _ in parts["messages"]]
    assert len(pieces) > 1
    assert "".join(piece["content"] for piece in pieces) == HELLO
    assert {piece["id"] for piece in pieces} == {said["id"]}
    deltas = [event["text"] for event in parts["custom"] if event["type"] == "content.delta"]
    assert "".join(deltas) == HELLO
    assert parts["custom"][-1]["type"] == "turn.ended"
    assert {event["type"] for event in parts["debug"]} == {"checkpoint", "task", "task_result"}


# Threads


def test_a_context_reaches_the_turn(client: SyncLangGraphClient, provider: FakeProvider) -> None:
    context = {"instructions": "Be brief.", "settings": {"max_output_tokens": 77}}
    done = run(client, new_thread(client), input=saying("Hello with context."), context=context)
    assert done["outcome"]["status"] == "finished"
    (request,) = (r for r in provider.requests if "with context" in json.dumps(r))
    assert "Be brief." in request["messages"][0]["content"]
    assert 77 in request.values()


def test_a_turn_is_paused_and_answered(client: SyncLangGraphClient) -> None:
    thread_id = new_thread(client)
    assert run(client, thread_id, input=saying("Paint it."))["outcome"]["status"] == "paused"
    assert client.threads.get(thread_id)["status"] == "interrupted"
    done = run(client, thread_id, command={"resume": "blue"})
    assert (done["answer"], done["outcome"]["status"]) == ("Blue.", "finished")
    assert [m["type"] for m in done["messages"]] == ["human", "ai", "tool", "tool", "ai"]
    assert client.threads.get(thread_id)["status"] == "idle"


def test_a_thread_goes_on_from_an_older_checkpoint(client: SyncLangGraphClient) -> None:
    thread_id = new_thread(client)
    run(client, thread_id, input=saying("One."))
    run(client, thread_id, input=saying("Two."))
    history: Any = client.threads.get_history(thread_id, limit=100)
    assert len(history[0]["values"]["messages"]) == 4
    assert history[0]["next"] == []

    after_one = next(s for s in history[1:] if s["next"] == [])
    forked = run(client, thread_id, input=saying("Three."), checkpoint=after_one["checkpoint"])
    assert [m["content"] for m in forked["messages"]] == ["One.", HELLO, "Three.", HELLO]

    # Each step of the newest two turns is kept, on whatever branch they are.
    before_call = next(s for s in history if s["next"] == ["call_llm"])
    again = run(client, thread_id, input=None, checkpoint=before_call["checkpoint"])
    assert [m["content"] for m in again["messages"]] == ["One.", HELLO, "Two.", HELLO]
    assert again["outcome"]["status"] == "finished"


def test_a_state_is_edited(client: SyncLangGraphClient) -> None:
    thread_id = new_thread(client)
    answer = run(client, thread_id, input=saying("One."))["messages"][-1]
    edited = {**answer, "content": "Edited."}
    client.threads.update_state(thread_id, {"messages": [edited]})
    state: Any = client.threads.get_state(thread_id)["values"]
    assert [m["content"] for m in state["messages"]] == ["One.", "Edited."]
    done = run(client, thread_id, input=saying("Two."))
    assert [m["content"] for m in done["messages"]] == ["One.", "Edited.", "Two.", HELLO]


# The command line and the server on one file


def test_a_pause_of_one_is_answered_in_the_other(
    provider: FakeProvider, shell: Shell, tmp_path: Path
) -> None:
    file = ("--db", str(tmp_path / "studio.sqlite"))
    _, out, _ = shell.run("run", "Paint it.", "--json", *file)
    paused = json.loads(out)
    with studio_server(tmp_path, provider) as server, server.client() as client:
        theirs = new_thread(client)
        assert run(client, theirs, input=saying("Paint it."))["outcome"]["status"] == "paused"
        assert_answered_in_the_server(client, paused)
    thread = ("--thread", paused["thread_id"], *file)
    _, out, _ = turnflow("history", paused["thread_id"], *file)
    assert out.splitlines() == [
        "> Paint it.",
        "✓ calculate → 42",
        "✓ ask_user → Which colour? → blue",
        "Blue.",
    ]
    code, out, _ = shell.run("chat", *thread, given="Thanks.\n")
    assert (code, out.splitlines()[0]) == (0, HELLO)
    code, out, _ = shell.run("run", "--thread", theirs, "--answer", "blue", *file)
    assert (code, out.splitlines()[-1]) == (0, "Blue.")
    listed = [json.loads(line) for line in turnflow("threads", "--json", *file)[1].splitlines()]
    assert [(t["thread_id"], t["status"], t["messages"]) for t in listed] == [
        (theirs, "finished", 5),
        (paused["thread_id"], "finished", 7),
    ]


def assert_answered_in_the_server(client: SyncLangGraphClient, paused: dict[str, Any]) -> None:
    """Answer in the server what the command line, which printed this, left open."""
    thread_id = paused["thread_id"]
    assert client.threads.search(ids=[thread_id]) == []
    client.threads.create(thread_id=thread_id)
    assert client.threads.get_state(thread_id)["values"] == {}  # nothing says yet which graph's thread it is
    client.threads.update(thread_id, metadata={"graph_id": "chat"})
    state: Any = client.threads.get_state(thread_id)
    (asked,) = (asked for task in state["tasks"] for asked in task["interrupts"])
    assert {"id": asked["id"], "value": asked["value"]} == paused["interrupts"][0]
    assert asked["value"]["questions"] == [QUESTION]
    assert "answers" in json.dumps(asked["response_schema"])
    done = run(client, thread_id, command={"resume": {"answers": ["blue"]}})
    assert (done["answer"], done["outcome"]["status"]) == ("Blue.", "finished")
    assert [m["type"] for m in done["messages"]] == ["human", "ai", "tool", "tool", "ai"]


def test_the_page_s_snippet_makes_threads_of_the_file_known(
    server: StudioServer, client: SyncLangGraphClient, provider: FakeProvider
) -> None:
    thread_id = str(uuid.uuid4())
    with open_saver(server.database) as saver:
        model = OpenAICompatibleChat(model="fake", base_url=provider.base_url)
        graph = build_turn_graph(model, [calculate], checkpointer=saver)
        run_turn(graph, "Hello.", thread_id="not-a-uuid")
        run_turn(graph, "Paint it.", thread_id=thread_id)
    register_threads(server)
    register_threads(server)
    (known,) = client.threads.search(ids=[thread_id], metadata={"graph_id": "chat"})
    assert (known["status"], known["values"]) == ("idle", None)
    state: Any = client.threads.get_state(thread_id)
    assert state["values"]["outcome"]["status"] == "paused"
    assert state["next"] == ["dispatch_tools"]
    assert run(client, thread_id, command={"resume": "blue"})["answer"] == "Blue."
    values: Any = client.threads.get(thread_id)["values"]
    assert values["answer"] == "Blue."

"""The real `langgraph dev` server, offline: schemas, a turn with a pause, threads on our SQLite saver."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_sync_client

from tests.test_packaging import ROOT
from tests.turns.scripted import Start, asks, call, calls, says, script
from turnflow import build_turn_graph, open_saver
from turnflow.apps.fake_provider import FakeProvider

START_SECONDS = 60


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def provider(fake_provider: Start) -> FakeProvider:
    batch = calls(call("calculate", "c1", expression="6 * 7"), asks("Which colour?", call_id="c2"))
    return fake_provider(script(batch, says("Blue.")))


@pytest.fixture
def server(provider: FakeProvider, tmp_path: Path) -> Iterator[str]:
    url = f"http://127.0.0.1:{(port := free_port())}"
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("LANGSMITH")},
        "LANGGRAPH_CLI_NO_ANALYTICS": "1",
        "LANGGRAPH_NO_VERSION_CHECK": "true",
        "OPENAI_BASE_URL": provider.base_url,
        "TURNFLOW_MODEL": "fake",
        "TURNFLOW_STUDIO_DB": str(tmp_path / "studio.sqlite"),
    }
    command = [str(Path(sys.executable).with_name("langgraph")), "dev", "--no-browser", "--no-reload"]
    log = tmp_path / "log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [*command, "--port", str(port)], cwd=ROOT, env=environment, stdout=out, stderr=subprocess.STDOUT
        )
        try:
            wait_for(url, process, log)
            yield url
        finally:
            process.terminate()
            process.wait(timeout=30)
    assert "BlockingError" not in log.read_text()


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        try:
            if httpx.get(f"{url}/ok").status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            time.sleep(0.2)
    raise TimeoutError(log.read_text())


def test_a_turn_and_a_pause_through_the_server(server: str, tmp_path: Path) -> None:
    with get_sync_client(url=server) as client:
        (assistant,) = client.assistants.search()
        schemas: dict[str, Any] = dict(client.assistants.get_schemas(assistant["assistant_id"]))
        assert all(value is not None for value in schemas.values())
        assert "model_name" in schemas["context_schema"]["properties"]
        assert "cancel" not in schemas["context_schema"]["properties"]
        thread_id = client.threads.create()["thread_id"]
        given: Any = {"messages": [{"role": "user", "content": "Paint it."}]}
        paused: Any = client.runs.wait(thread_id, "chat", input=given)
        assert paused["outcome"]["status"] == "paused"
        done: Any = client.runs.wait(thread_id, "chat", command={"resume": "blue"})
        assert (done["answer"], done["outcome"]["status"]) == ("Blue.", "finished")
        assert [m["type"] for m in done["messages"]] == ["human", "ai", "tool", "tool", "ai"]
    with open_saver(tmp_path / "studio.sqlite") as saver:
        graph = build_turn_graph("unused", checkpointer=saver)
        stored = graph.get_state({"configurable": {"thread_id": thread_id}}).values
        assert stored["answer"] == "Blue."

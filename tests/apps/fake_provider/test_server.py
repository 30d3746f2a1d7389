from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.apps.fake_provider.asking import ask, connect, new_client, raw_request, request_body
from turnflow.apps.fake_provider import FakeProvider

if TYPE_CHECKING:
    from collections.abc import Callable

    Start = Callable[..., FakeProvider]

HELLO = {"reply": {"content": "x"}}


def test_one_connection_serves_many_requests(fake_provider: Start) -> None:
    provider = fake_provider({"steps": [HELLO, HELLO, {"error": {"status": 500}}, HELLO]})
    url = f"{provider.base_url}/chat/completions"
    statuses, ports = [], set()
    with new_client() as client:
        for stream in (True, False, True, False):
            response = client.post(url, json=request_body(stream=stream))
            statuses.append(response.status_code)
            ports.add(response.extensions["network_stream"].get_extra_info("client_addr")[1])
    assert statuses == [200, 200, 500, 200]
    assert len(ports) == 1


def test_models_are_listed(fake_provider: Start) -> None:
    provider = fake_provider({"models": ["a", "b"], "steps": []})
    with new_client() as client:
        models = client.get(f"{provider.base_url}/models").json()
    assert [model["id"] for model in models["data"]] == ["a", "b"]


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/chat/completions"), ("POST", "/models"), ("GET", "/nowhere")]
)
def test_other_paths_are_not_found(fake_provider: Start, method: str, path: str) -> None:
    provider = fake_provider({"steps": []})
    with new_client() as client:
        response = client.request(method, provider.base_url + path)
    assert response.status_code == 404
    assert path in response.json()["error"]["message"]


def test_what_is_not_http_gets_a_400(fake_provider: Start) -> None:
    provider = fake_provider({"steps": []})
    with connect(provider) as connection:
        connection.sendall(b"\x16\x03\x01 this is TLS\r\n\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 400 ")


def test_a_client_that_waits_for_continue_is_told_to(fake_provider: Start) -> None:
    provider = fake_provider({"steps": [HELLO]})
    head, _, body = raw_request().partition(b"\r\n\r\n")
    with connect(provider) as connection:
        connection.sendall(head + b"\r\nexpect: 100-continue\r\n\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 100 ")
        connection.sendall(body)
        assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")


def test_clients_that_leave_do_no_harm(fake_provider: Start) -> None:
    step = {"reply": {"content": "word " * 2_000}, "stream": {"chunk": 1}}
    provider = fake_provider({"steps": [step, HELLO]})
    with connect(provider) as connection:
        connection.sendall(raw_request(stream=True))
        connection.recv(1)
    with connect(provider):
        pass
    assert ask(provider).status_code == 200


def test_a_port_that_is_taken_is_an_error_at_the_start(fake_provider: Start) -> None:
    taken = httpx.URL(fake_provider({"steps": []}).base_url).port
    assert taken is not None
    with pytest.raises(OSError, match="in use"):
        FakeProvider({"steps": []}, port=taken).start()


def test_a_provider_can_be_stopped_twice_and_before_it_started() -> None:
    provider = FakeProvider({"steps": []})
    provider.stop()
    with provider:
        pass
    provider.stop()


SERVE = """
from turnflow.apps.fake_provider import serve
serve({"steps": [{"reply": {"content": "x"}, "fault": {"kind": "hang", "after": 0}}]},
      on_ready=lambda provider: print(provider.base_url, flush=True))
"""


def test_serve_runs_until_ctrl_c() -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", SERVE],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    ) as process:
        assert process.stdout is not None
        base_url = process.stdout.readline().decode().strip()
        body = request_body(stream=True)
        with (
            new_client() as client,
            client.stream("POST", f"{base_url}/chat/completions", json=body) as response,
        ):
            assert response.status_code == 200
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=10)
    assert (process.returncode, errors) == (0, b"")

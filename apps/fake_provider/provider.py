"""The fake provider as tests and the command line use it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, Self

from turnflow.apps.fake_provider.answers import Answer, error_answer
from turnflow.apps.fake_provider.loading import load_script, parse_script
from turnflow.apps.fake_provider.player import Player
from turnflow.apps.fake_provider.script import Script
from turnflow.apps.fake_provider.server import HttpRequest, Server

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Finding = Literal["violations", "errors", "steps_left"]


_SLICE_SECONDS = 0.25


class FakeProvider:
    """A provider on loopback that plays a script over real HTTP (docs/fake-provider.md).

    A context manager: it serves between `__enter__` and `__exit__`, from a thread of its own. What it saw
    can be asked for while it serves and afterwards.

    Args:
        script: A script, its fields as a dict, or the path of a YAML or JSON file.
        strict: Turns strict mode on or off against what the script says.
        host: The address to listen on.
        port: The port to listen on; 0 takes a free one.

    Raises:
        ScriptError: The script is not valid.
    """

    def __init__(
        self,
        script: Script | Mapping[str, Any] | str | Path,
        *,
        strict: bool | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self.script = _as_script(script)
        self._player = Player(self.script, strict=self.script.strict if strict is None else strict)
        self._server = Server(self._respond, host=host, port=port)
        self._host = f"[{host}]" if ":" in host else host
        self._allowed: set[Finding] = set()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin to serve.

        Raises:
            OSError: The address cannot be listened on.
        """
        self._server.start()

    def stop(self) -> None:
        """Stop serving at once, whatever hangs. Does nothing the second time."""
        self._server.stop()

    @property
    def base_url(self) -> str:
        """What clients take as `base_url`, `/v1` included."""
        return f"http://{self._host}:{self._server.port}/v1"

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The parsed bodies of all chat-completions requests so far, refused ones too, in order."""
        return self._player.requests

    @property
    def violations(self) -> list[str]:
        """What strict mode refused, one line each."""
        return self._player.violations

    @property
    def refusals(self) -> list[str]:
        """What was refused because the script `refuses` it, each by its name there."""
        return self._player.refusals

    @property
    def errors(self) -> list[str]:
        """Where the requests did not fit the script: no step left, an expectation that failed."""
        return self._player.errors

    @property
    def steps_left(self) -> int:
        """How many answers of the script are still to be given."""
        return self._player.steps_left

    def wait_for_requests(self, count: int, *, timeout: float = 5.0) -> None:
        """Wait until so many requests have arrived in all.

        Args:
            count: The number of requests.
            timeout: Seconds to wait.

        Raises:
            TimeoutError: They did not arrive in time.
        """
        if not self._player.wait_for_requests(count, timeout):
            raise TimeoutError(f"{len(self.requests)} of {count} requests arrived within {timeout} seconds")

    def allow(self, *findings: Finding) -> Self:
        """Keep `assert_clean` from complaining about these findings; gives the provider itself."""
        self._allowed.update(findings)
        return self

    def assert_clean(self) -> None:
        """Check that the script was played to its end, by requests that fit it.

        Raises:
            AssertionError: There are violations, errors or steps left, one line each, that were not allowed.
        """
        findings: dict[Finding, list[str]] = {
            "violations": self.violations,
            "errors": self.errors,
            "steps_left": self._player.unplayed,
        }
        lines = [
            f"  {line}" for kind, found in findings.items() if kind not in self._allowed for line in found
        ]
        if lines:
            title = f"fake provider ({self.script.note})" if self.script.note else "fake provider"
            raise AssertionError("\n".join([f"{title} after {len(self.requests)} requests:", *lines]))

    def _respond(self, request: HttpRequest) -> Answer:
        called = f"{request.method} {request.path}"
        if called == "POST /v1/chat/completions":
            return self._player.complete(request.body)
        if called == "GET /v1/models":
            return self._player.models()
        return error_answer(404, f"Invalid URL ({called})")


def serve(
    script: Script | Mapping[str, Any] | str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    on_ready: Callable[[FakeProvider], None] | None = None,
) -> None:
    """Serve a script until Ctrl-C.

    Args:
        script: A script, its fields as a dict, or the path of a YAML or JSON file.
        host: The address to listen on.
        port: The port to listen on; 0 takes a free one.
        on_ready: Called with the provider once it listens.

    Raises:
        ScriptError: The script is not valid.
        OSError: The address cannot be listened on.
    """
    with FakeProvider(script, host=host, port=port) as provider, suppress(KeyboardInterrupt):
        if on_ready is not None:
            on_ready(provider)
        forever = threading.Event()
        # In slices: a signal just before the wait begins would not end it.
        while not forever.wait(_SLICE_SECONDS):
            pass


def _as_script(script: Script | Mapping[str, Any] | str | Path) -> Script:
    if isinstance(script, Script):
        return script
    return parse_script(script) if isinstance(script, Mapping) else load_script(script)

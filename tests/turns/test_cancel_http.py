"""A web server whose client leaves in the middle of a turn, and a model whose own client is closed."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
import uvicorn
from openai import DefaultAsyncHttpxClient, DefaultHttpxClient
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from tests.turns import test_cancel_points as points
from tests.turns.scripted import Start, says, script
from tests.turns.stage import Mode, Stage, check_transcript
from tests.turns.test_cancel_points import CANCELLED, HANG, SOON, Scene
from turnflow import (
    CancelToken,
    OpenAICompatibleChat,
    TurnContext,
    TurnError,
    TurnResult,
    arun_turn,
    build_turn_graph,
    open_saver,
    run_turn,
)

Way = Literal["token", "task"]


def application(graph: Any, client: Any, way: Way, ended: threading.Event) -> Starlette:
    """The recipe of docs/cancelling.md, with either way to cancel; it closes the model's client."""
    turns: set[asyncio.Task[Any]] = set()
    locks: dict[str, asyncio.Lock] = {}

    async def chat(request: Request) -> StreamingResponse:
        thread_id = request.path_params["thread"]
        message = (await request.body()).decode()
        return StreamingResponse(stream(thread_id, message), media_type="text/event-stream")

    async def stream(thread_id: str, message: str) -> AsyncIterator[str]:
        events: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        token = CancelToken()

        async def run() -> None:
            try:
                async with locks.setdefault(thread_id, asyncio.Lock()):
                    context = TurnContext(cancel=token)
                    await arun_turn(
                        graph, message, thread_id=thread_id, context=context, on_event=events.put_nowait
                    )
            finally:
                events.put_nowait(None)

        task = asyncio.create_task(run())
        turns.add(task)
        task.add_done_callback(turns.discard)
        task.add_done_callback(lambda _: ended.set())
        try:
            while (event := await events.get()) is not None:
                yield f"data: {json.dumps(event)}\n\n"
        finally:
            if way == "token":
                token.cancel()
            else:
                task.cancel()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with client:
            yield

    return Starlette(routes=[Route("/chat/{thread}", chat, methods=["POST"])], lifespan=lifespan)


@contextmanager
def chatting(folder: Path, provider: Any, way: Way, tools: Any = ()) -> Iterator[Chatting]:
    """A server with a graph on a file of its own."""
    client, ended = DefaultAsyncHttpxClient(verify=False), threading.Event()
    with open_saver(folder / "threads.sqlite") as saver, DefaultHttpxClient(verify=False) as blocking:
        model = OpenAICompatibleChat(
            model="fake",
            base_url=provider.base_url,
            http_client=blocking,
            http_async_client=client,
        )
        graph = build_turn_graph(model, list(tools), checkpointer=saver)
        with served(application(graph, client, way, ended)) as url:
            yield Chatting(graph, f"{url}/chat/t", ended)


@dataclass(frozen=True)
class Chatting:
    """A graph, where it is served, and what is set once a turn has ended."""

    graph: Any
    url: str
    ended: threading.Event

    def values(self) -> dict[str, Any]:
        return dict(self.graph.get_state({"configurable": {"thread_id": "t"}}).values)


@contextmanager
def served(app: Starlette) -> Iterator[str]:
    """Serve an application on loopback; gives its address."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", loop="asyncio"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(HANG)


def read_events(url: str, message: str, until: str | None = None) -> list[dict[str, Any]]:
    """Send a message and read events, all or up to one of a type; then the connection is closed."""
    events: list[dict[str, Any]] = []
    with httpx.Client(timeout=HANG) as client, client.stream("POST", url, content=message) as response:
        for line in response.iter_lines():
            if line.startswith("data: "):
                events.append(json.loads(line[6:]))
                if events[-1]["type"] == until:
                    break
    return events


def in_the_text() -> tuple[Scene, str]:
    return points.in_the_text(), "content.delta"


def in_a_tool() -> tuple[Scene, str]:
    return points.in_a_coroutine_tool(), "tool.started"


@pytest.mark.parametrize("way", ["token", "task"])
@pytest.mark.parametrize("where", [in_the_text, in_a_tool])
def test_a_client_that_leaves_ends_the_turn(
    tmp_path: Path, fake_provider: Start, way: Way, where: Any
) -> None:
    scene, until = where()
    provider = fake_provider(script(*scene.steps, says("Hello again.")))
    with chatting(tmp_path, provider, way, scene.options.get("tools", ())) as chat:
        seen = read_events(chat.url, "Go.", until)
        left = time.monotonic()
        assert chat.ended.wait(HANG)
        assert time.monotonic() - left < SOON
        values = chat.values()
        assert values["outcome"]["status"] == "cancelled"
        assert values["answer"] == (scene.text or CANCELLED)
        check_transcript(values["messages"])
        shown = "".join(event["text"] for event in seen if event["type"] == "content.delta")
        assert shown == scene.text
        (*_, end) = read_events(chat.url, "Again.")
        assert (end["type"], end["answer"]) == ("turn.ended", "Hello again.")


@pytest.mark.parametrize("way", ["token", "task"])
def test_the_next_message_may_come_at_once(tmp_path: Path, fake_provider: Start, way: Way) -> None:
    scene = points.in_the_text()
    provider = fake_provider(script(*scene.steps, says("Hello again.")))
    with chatting(tmp_path, provider, way) as chat:
        read_events(chat.url, "Go.", "content.delta")
        (*_, end) = read_events(chat.url, "Again.")
        assert (end["type"], end["answer"]) == ("turn.ended", "Hello again.")
        contents = [message.content for message in chat.values()["messages"]]
        assert contents == ["Go.", scene.text, "Again.", "Hello again."]


@pytest.mark.parametrize("when", ["before", "headers", "text"])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_model_whose_client_is_closed(tmp_path: Path, fake_provider: Start, mode: Mode, when: str) -> None:
    """A typed end in any case; sockets that hang are given up once their time is over."""
    steps = {
        "before": [],
        "headers": points.before_headers().steps,
        "text": points.in_the_text().steps,
    }[when]
    provider = fake_provider(script(*steps)).allow("steps_left", "errors")
    stage = Stage(mode, "memory", tmp_path)
    sync, awaiting = DefaultHttpxClient(verify=False), DefaultAsyncHttpxClient(verify=False)
    model = OpenAICompatibleChat(
        model="fake",
        base_url=provider.base_url,
        http_client=sync,
        http_async_client=awaiting,
    )
    limits = {"first_token_timeout": 1.0, "idle_timeout": 1.0, "retries_per_round": 0, "max_continuations": 0}
    graph = build_turn_graph(model, checkpointer=stage.saver, settings=limits)
    closing: set[Any] = set()

    def close() -> None:
        if mode == "sync":
            sync.close()
        else:
            closing.add(asyncio.get_running_loop().create_task(awaiting.aclose()))

    def watch(event: dict[str, Any]) -> None:
        wanted = {"before": "turn.started", "headers": "context.assembled", "text": "content.delta"}[when]
        if event["type"] == wanted:
            if when == "headers" and mode == "sync":
                threading.Timer(0.3, close).start()
            elif when == "headers":
                asyncio.get_running_loop().call_later(0.3, close)
            else:
                close()

    at = time.monotonic()

    def play() -> TurnResult:
        if mode == "sync":
            return run_turn(graph, "Go.", thread_id="t", on_event=watch)
        return stage.run(arun_turn(graph, "Go.", thread_id="t", on_event=watch))

    if when == "text":
        result = play()
        assert (result.status, result.answer) == ("finished_degraded", "The answer ")
    else:
        with pytest.raises(TurnError) as raised:
            play()
        assert raised.value.outcome["status"] == "provider_error"
    assert time.monotonic() - at < HANG / 3
    check_transcript(stage.state(graph, {"configurable": {"thread_id": "t"}})["messages"])
    stage.close()

"""A token that is cancelled, wherever the turn is: settled promptly, what came kept, the thread goes on."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from langgraph.types import Command

from tests.nodes.fold_checkpoint.fold_stage import ScriptedSummariser
from tests.turns.scripted import Start, asks, call, calls, says, script
from tests.turns.stage import Played, Stage, check_laws
from turnflow import (
    CancelToken,
    Contributor,
    ToolOutput,
    TurnContext,
    TurnHooks,
    TurnResult,
    arun_turn,
    run_turn,
)
from turnflow.graph.protocol import LABELS

SOON = 2.0
"""Seconds in which a turn is settled here; what holds it up would take `HANG`."""
HANG = 30.0

CANCELLED = "The turn was cancelled."


@dataclass
class Scene:
    """A turn that hangs at some point.

    Attributes:
        steps: What the provider does, until it hangs or the turn does.
        options: Of the graph.
        event: Type of the event behind which the turn hangs; '' where `reached` says it.
        after: So many of these events.
        requests: So many requests have arrived by then.
        text: What is left of the last reply; '' for nothing.
        shape: The transcript behind the user's message.
        results: How the results of the calls begin.
        hooks: Of the turn.
        reached: Set once the turn is there.
    """

    steps: list[dict[str, Any]]
    text: str = ""
    event: str = ""
    after: int = 1
    requests: int = 0
    shape: list[str] = field(default_factory=list)
    results: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    hooks: TurnHooks | None = None
    reached: threading.Event = field(default_factory=threading.Event)


def hanging(reply: dict[str, Any], after: int | str, **stream: Any) -> dict[str, Any]:
    return {
        "reply": reply,
        "fault": {"kind": "hang", "after": after},
        **({"stream": stream} if stream else {}),
    }


def before_headers() -> Scene:
    return Scene([hanging({"content": "No."}, "request")], requests=1)


def before_the_first_token() -> Scene:
    return Scene([hanging({"content": "No."}, "headers")], requests=1)


def in_the_text() -> Scene:
    return Scene([hanging({"content": ["The answer ", "is"]}, 1)], "The answer ", "content.delta")


def in_a_thought() -> Scene:
    return Scene([hanging({"reasoning_content": ["Let me ", "see"]}, 1)], event="thinking.delta")


def in_a_think_tag() -> Scene:
    return Scene([hanging({"content": ["<think>Let me ", "see"]}, 1)], event="thinking.delta")


def between_thought_and_text() -> Scene:
    reply = {"reasoning_content": ["Let me see."], "content": ["The", " answer"]}
    return Scene([hanging(reply, 2)], "The", "content.delta")


def in_the_arguments() -> Scene:
    reply = {
        "content": ["I add."],
        "tool_calls": [{"name": "add", "id": "c1", "arguments": '{"a": 1, "b": 2}'}],
    }
    return Scene([hanging(reply, 3)], "I add.", "content.delta")


def behind_the_finish_reason() -> Scene:
    return Scene(
        [hanging({"content": ["All", " of it"]}, "finish")],
        "All of it",
        "content.delta",
        after=2,
        options={"settings": {"usage_timeout": HANG, "final_timeout": HANG}},
    )


def in_held_live_text() -> Scene:
    """The second piece waits to go out."""
    settings = {"coalesce_ms": 60_000}
    return Scene(
        [hanging({"content": ["The ", "answer ", "is"]}, 2)],
        "The answer ",
        "content.delta",
        options={"settings": settings},
    )


def in_a_continuation() -> Scene:
    first = {"reply": {"content": ["The first part, "], "finish_reason": "length"}}
    second = hanging({"content": ["and the second ", "one"]}, 1)
    return Scene([first, second], "The first part, and the second ", "content.delta", after=2)


def in_the_second_round() -> Scene:
    steps = [calls(call("echo", text="kept")), hanging({"content": ["It ", "says"]}, 1)]
    return Scene(steps, "It ", "content.delta", shape=["ai:echo", "tool"], results={"c1": "kept"})


def under_a_label() -> Scene:
    reply = hanging({"content": ["``FINISH``\n", "The answer ", "is"]}, 2)
    return Scene(
        [reply], "The answer ", "content.delta", options={"protocol": replace(LABELS, stream_final=True)}
    )


def under_a_label_whose_text_is_held() -> Scene:
    reply = hanging({"content": ["``FINISH``\n", "The answer ", "is"]}, 2)
    protocol = replace(LABELS, stream_final=False)
    return Scene([reply], "The answer ", "label", options={"protocol": protocol})


def before_a_label() -> Scene:
    return Scene([hanging({"content": ["``FIN", "ISH``"]}, 1)], requests=1, options={"protocol": "label"})


def in_a_json_decision() -> Scene:
    pieces = ['{"thought": "Hm.", "action": "reply", "action_input": "The answer ', 'is"}']
    return Scene(
        [hanging({"content": pieces}, 1)], "The answer ", "content.delta", options={"protocol": "json"}
    )


def in_the_pause_before_a_retry() -> Scene:
    error = {"error": {"status": 503, "message": "busy", "headers": {"Retry-After": "30"}}}
    return Scene([error], event="retry", options={"retries": 2})


def in_a_blocking_tool() -> Scene:
    scene = Scene(
        [calls(call("stuck"))],
        shape=["ai:stuck", "tool"],
        results={"c1": "Cancelled: the turn was cancelled"},
    )

    def stuck() -> str:
        """Hang."""
        scene.reached.set()
        time.sleep(HANG)
        return "late"

    scene.options["tools"] = [stuck]
    return scene


def in_a_coroutine_tool() -> Scene:
    scene = in_a_blocking_tool()

    async def stuck() -> str:
        """Hang."""
        scene.reached.set()
        await asyncio.sleep(HANG)
        return "late"

    scene.options["tools"] = [stuck]
    return scene


def in_a_coroutine_tool_that_goes_on() -> Scene:
    scene = in_a_blocking_tool()

    async def stuck() -> str:
        """Hang, whatever is said."""
        scene.reached.set()
        for _ in range(3):
            try:
                await asyncio.sleep(SOON)
            except asyncio.CancelledError:
                continue
        return "late"

    scene.options["tools"] = [stuck]
    return scene


def in_a_batch() -> Scene:
    """One call is done, one runs, one asks."""
    scene = in_a_blocking_tool()
    scene.steps = [calls(call("echo", "c0", text="kept"), call("stuck"), asks("Which?", call_id="c2"))]
    scene.shape = ["ai:echo,stuck,ask_user", "tool", "tool", "tool"]
    scene.results |= {"c0": "kept", "c2": "Cancelled: the turn was cancelled before this call was started"}
    (stuck,) = scene.options["tools"]
    done = threading.Event()

    def echo(text: str) -> str:
        """Give the text back."""
        done.set()
        return text

    def stuck_behind() -> str:
        """Hang once the other call is done."""
        done.wait(HANG)
        time.sleep(0.3)  # until its result is there
        return str(stuck())

    stuck_behind.__name__ = "stuck"
    scene.options["tools"] = [echo, stuck_behind]
    return scene


def between_waves() -> Scene:
    scene = in_a_blocking_tool()
    scene.steps = [calls(call("echo", "c0", text="kept"), call("stuck"))]
    scene.shape = ["ai:echo,stuck", "tool", "tool"]
    scene.results = {"c0": "kept", "c1": "Cancelled: the turn was cancelled before this call was started"}
    (stuck,) = scene.options["tools"]

    def echo(text: str) -> str:
        """Give the text back."""
        return text

    async def after(info: dict[str, Any]) -> None:
        scene.reached.set()
        await asyncio.sleep(HANG)

    scene.hooks = TurnHooks(on_tool_result=after)
    scene.options |= {
        "tools": [echo, stuck],
        "policies": {"echo": {"parallel_safe": False}, "stuck": {"parallel_safe": False}},
    }
    return scene


def in_a_hook() -> Scene:
    scene = Scene([])

    async def before(info: dict[str, Any]) -> None:
        scene.reached.set()
        await asyncio.sleep(HANG)

    scene.hooks = TurnHooks(before_round=before)
    return scene


def in_a_contributor() -> Scene:
    """Two of them hang, the first time that they are asked."""
    scene = Scene([])

    def give(query: Any) -> str:
        if query["text"] == "Go.":
            scene.reached.set()
            time.sleep(HANG)
        return "late"

    async def give_awaiting(query: Any) -> str:
        if query["text"] == "Go.":
            scene.reached.set()
            await asyncio.sleep(HANG)
        return "late"

    scene.options = {
        "contributors": [Contributor("blocking", give), Contributor("awaiting", give_awaiting)],
        "settings": {"contributor_timeout": HANG},
    }
    return scene


def in_a_permission_policy() -> Scene:
    scene = Scene([calls(call("echo", text="x"))], shape=["ai:echo", "tool"])

    async def judge(request: Any) -> str:
        scene.reached.set()
        await asyncio.sleep(HANG)
        return "allow"

    scene.options["permissions"] = [judge]
    return scene


POINTS: list[Callable[[], Scene]] = [
    before_headers,
    before_the_first_token,
    in_the_text,
    in_a_thought,
    in_a_think_tag,
    between_thought_and_text,
    in_the_arguments,
    behind_the_finish_reason,
    in_held_live_text,
    in_a_continuation,
    in_the_second_round,
    under_a_label,
    under_a_label_whose_text_is_held,
    before_a_label,
    in_a_json_decision,
    in_the_pause_before_a_retry,
    in_a_blocking_tool,
    in_a_coroutine_tool,
    in_a_coroutine_tool_that_goes_on,
    in_a_batch,
    between_waves,
    in_a_hook,
    in_a_contributor,
    in_a_permission_policy,
]


@dataclass
class Ran:
    """What a run under a token gave, and how long it took once the token was cancelled."""

    result: TurnResult
    events: list[dict[str, Any]]
    seconds: float

    def check(self, *, resumed: bool = False) -> Played:
        """Check the laws of every turn; gives the run as the stage does."""
        values = {"messages": self.result.messages, "answer": self.result.answer}
        played = Played(self.events, values={**values, "outcome": dict(self.result.outcome)})
        check_laws(played, resumed=resumed)
        return played


def run_until(stage: Stage, graph: Any, given: Any, scene: Scene, token: CancelToken, **context: Any) -> Ran:
    """Run a turn, and cancel it from another thread once it has reached its point."""
    events: list[dict[str, Any]] = []
    cancelled_at = [0.0]

    def watch(event: dict[str, Any]) -> None:
        events.append(event)
        if scene.event and [e["type"] for e in events].count(scene.event) == scene.after:
            scene.reached.set()

    def cancel() -> None:
        scene.reached.wait(HANG)
        time.sleep(0.15)  # what comes behind the event is there too
        cancelled_at[0] = time.monotonic()
        token.cancel()

    thread = threading.Thread(target=cancel, daemon=True)
    thread.start()
    options: Any = {
        "thread_id": "t",
        "context": TurnContext(cancel=token, hooks=scene.hooks, **context),
        "on_event": watch,
    }
    if stage.mode == "sync":
        result = run_turn(graph, given, **options)
    else:
        result = stage.run(arun_turn(graph, given, **options))
    ended = time.monotonic()
    thread.join(HANG)
    return Ran(result, events, ended - cancelled_at[0])


@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.__name__)
def test_wherever_it_is(stage: Stage, fake_provider: Start, point: Callable[[], Scene]) -> None:
    scene = point()
    provider = fake_provider(script(*scene.steps, says("Hello again.")))
    if scene.requests:
        threading.Thread(target=_tell, args=(provider, scene), daemon=True).start()
    graph = stage.graph(provider, **scene.options)
    ran = run_until(stage, graph, "Go.", scene, CancelToken())
    assert (ran.result.status, ran.result.outcome["stop_reason"]) == ("cancelled", "cancelled")
    assert ran.seconds < SOON
    played = ran.check()
    assert played.shape() == ["human", *scene.shape, "ai"]
    found = played.results()
    for call_id, beginning in scene.results.items():
        assert found[call_id].startswith(beginning)
    last = played.messages[-1]
    assert ran.result.answer == (scene.text or CANCELLED)
    assert ran.result.outcome["partial"] == bool(scene.text)
    if scene.text:
        assert last.additional_kwargs["turnflow"]["partial"]
    if stage.saver:
        again = stage.play(graph, "Again.", context=TurnContext(protocol="native"))
        assert (again.status, again.answer) == ("finished", "Hello again.")
        assert "Go." in str(provider.requests[-1]["messages"])


def _tell(provider: Any, scene: Scene) -> None:
    provider.wait_for_requests(scene.requests, timeout=HANG)
    scene.reached.set()


@pytest.mark.parametrize("when", ["before", "turn.started", "context.assembled"])
def test_before_anything_was_asked(stage: Stage, fake_provider: Start, when: str) -> None:
    graph = stage.graph(fake_provider(script(says("Hello again."))))
    scene, token = Scene([], event=when), CancelToken()
    events: list[dict[str, Any]] = []

    def watch(event: dict[str, Any]) -> None:
        events.append(event)
        if event["type"] == when:
            token.cancel()

    if when == "before":
        token.cancel()
    options: Any = {"thread_id": "t", "context": TurnContext(cancel=token), "on_event": watch}
    if stage.mode == "sync":
        result = run_turn(graph, "Go.", **options)
    else:
        result = stage.run(arun_turn(graph, "Go.", **options))
    assert scene.steps == []
    if when == "context.assembled" and result.status == "finished":
        pytest.fail("the request was sent")
    assert (result.status, result.answer) == ("cancelled", CANCELLED)
    Ran(result, events, 0.0).check()
    assert stage.play(graph, "Again.").answer == "Hello again."


def test_while_the_conversation_is_summed_up(stage: Stage, fake_provider: Start) -> None:
    words = "The boiler hums and the lamp is green. " * 40
    provider = fake_provider(script({**says(words), "stream": {"chunk": "whole"}, "forever": True}))
    scene, token = Scene([]), CancelToken()

    def hangs() -> str:
        scene.reached.set()
        time.sleep(HANG)
        return "late"

    settings = {"context_window": 4096, "ask_user": False, "read_results": False}
    graph = stage.graph(provider, tools=[], settings=settings, summariser=ScriptedSummariser(hangs))
    for number in range(12):
        if number >= 4:
            break
        stage.play(graph, f"Question {number}?")
    for number in range(4, 14):
        before = scene.reached.is_set()
        assert not before
        done = threading.Event()
        watcher = threading.Thread(target=_cancel_once, args=(scene, token, done), daemon=True)
        watcher.start()
        played = stage.play(graph, f"Question {number}?", context=TurnContext(cancel=token))
        done.set()
        if token.cancelled:
            break
    assert played.status == "cancelled"
    assert played.answer == CANCELLED
    scene.reached.clear()
    settings_now = {"fold_at": None}
    assert stage.play(graph, "And now?", context=TurnContext(settings=settings_now)).status == "finished"


def _cancel_once(scene: Scene, token: CancelToken, done: threading.Event) -> None:
    while not done.is_set():
        if scene.reached.wait(0.05):
            token.cancel()
            return


@pytest.mark.parametrize("asked", ["question", "approval"])
def test_a_pause_that_is_answered_under_a_cancelled_token(
    stage: Stage, fake_provider: Start, asked: str
) -> None:
    made = asks("Which?") if asked == "question" else call("echo", text="x")
    provider = fake_provider(script(calls(made), says("Hello again.")))
    options: dict[str, Any] = {"policies": {"echo": {"needs_approval": True}}} if asked == "approval" else {}
    graph = stage.graph(provider, **options)
    paused = stage.play(graph, "Go.")
    assert paused.status == "paused"
    token = CancelToken()
    token.cancel()
    answer: Any = {"answers": ["this"]} if asked == "question" else {"decisions": [{"type": "approve"}]}
    played = stage.play(graph, Command(resume=answer), context=TurnContext(cancel=token))
    assert played.status == "cancelled"
    if asked == "approval":
        assert played.results()["c1"].startswith("Cancelled")
    assert stage.play(graph, "Again.").answer == "Hello again."


def test_a_pause_that_is_cancelled_stays_open(stage: Stage, fake_provider: Start) -> None:
    """The run is over by then: there is nothing to cancel, and the question can still be answered."""
    graph = stage.graph(fake_provider(script(calls(asks("Which?")), says("Blue it is."))))
    token = CancelToken()
    assert stage.play(graph, "Go.", context=TurnContext(cancel=token)).status == "paused"
    token.cancel()
    played = stage.play(graph, Command(resume={"answers": ["blue"]}))
    assert (played.status, played.answer) == ("finished", "Blue it is.")


def test_once_the_answer_stands_it_is_too_late(stage: Stage, fake_provider: Start) -> None:
    token = CancelToken()

    def end(info: dict[str, Any]) -> None:
        token.cancel()

    graph = stage.graph(fake_provider(script(says("It is 42."), says("Hello again."))))
    context = TurnContext(cancel=token, hooks=TurnHooks(on_turn_end=end))
    played = stage.play(graph, "Go.", context=context)
    assert (played.status, played.answer) == ("finished", "It is 42.")
    assert stage.play(graph, "Again.").answer == "Hello again."


def test_the_end_of_a_cancelled_turn_is_told_to_its_hook(stage: Stage, fake_provider: Start) -> None:
    told: list[str] = []

    async def end(info: dict[str, Any]) -> None:
        await asyncio.sleep(0.05)
        told.append(info["outcome"]["status"])

    scene = in_the_text()
    graph = stage.graph(fake_provider(script(*scene.steps)))
    scene.hooks = TurnHooks(on_turn_end=end)
    ran = run_until(stage, graph, "Go.", scene, CancelToken())
    assert (ran.result.status, told) == ("cancelled", ["cancelled"])


def test_a_tool_may_go_by_the_token(stage: Stage, fake_provider: Start) -> None:
    """What a tool returned before the token was cancelled counts, whatever comes behind it."""
    token = CancelToken()

    def final() -> ToolOutput:
        """Say the final word."""
        return ToolOutput("that is all", sources=["a book"])

    def after(info: dict[str, Any]) -> None:
        token.cancel()

    graph = stage.graph(fake_provider(script(calls(call("final")))), tools=[final])
    context = TurnContext(cancel=token, hooks=TurnHooks(on_tool_result=after))
    played = stage.play(graph, "Go.", context=context)
    assert (played.status, played.outcome["sources"]) == ("cancelled", ["a book"])
    assert played.results() == {"c1": "that is all"}


def test_a_token_is_cancelled_by_another_task(stage: Stage, fake_provider: Start) -> None:
    if stage.mode == "sync":
        pytest.skip("a blocking run has no other tasks")
    hangs = {"reply": {"content": ["One ", "two."]}, "fault": {"kind": "hang", "after": 1}}
    graph = stage.graph(fake_provider(script(hangs, says("Hello again."))))
    token = CancelToken()

    async def both() -> TurnResult:
        shown = asyncio.Event()

        def watch(event: dict[str, Any]) -> None:
            if event["type"] == "content.delta":
                shown.set()

        async def cancel() -> None:
            await shown.wait()
            token.cancel()

        context = TurnContext(cancel=token)
        turn = arun_turn(graph, "Go.", thread_id="t", context=context, on_event=watch)
        result, _ = await asyncio.gather(turn, cancel())
        return result

    result = stage.run(both())
    assert (result.status, result.answer) == ("cancelled", "One ")
    assert stage.play(graph, "And now?").answer == "Hello again."

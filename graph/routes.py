"""Every conditional edge: pure functions of the state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Generic, Literal, TypeVar

from langgraph._internal._runnable import RunnableCallable
from langgraph.types import Send
from typing_extensions import TypedDict

from turnflow.graph.batch import batch_of, needs_fold, next_wave
from turnflow.graph.state import TurnState, merge_batch

T = TypeVar("T")


class RouteState(TypedDict, total=False):
    """The channels that routes look at; to read the transcript for each would cost its whole length."""

    turn: dict[str, Any]
    decision: dict[str, Any]
    batch: Annotated[dict[str, Any], merge_batch]


class Route(RunnableCallable, Generic[T]):
    """A conditional edge that waits for nothing: LangGraph runs a bare function in a thread when awaited."""

    def __init__(self, choose: Callable[[RouteState], T]) -> None:
        async def achoose(state: RouteState) -> T:
            return choose(state)

        super().__init__(choose, achoose, name=choose.__name__, trace=False)
        self._choose = choose

    def __call__(self, state: Any) -> T:
        """Where this state goes."""
        return self._choose(state)


AfterAssemble = Literal["call_llm", "dispatch_tools", "fold_checkpoint", "finalize"]
AfterClassify = Literal["dispatch_tools", "assemble_context", "repair", "fold_checkpoint", "finalize"]


@Route
def after_assemble(state: RouteState) -> AfterAssemble | Sequence[Send]:
    """Where a new turn, a round or the join of a wave goes on."""
    if ends(state):
        return "finalize"
    if sends := send_wave(state):
        return sends
    if needs_fold(batch_of(state)):
        return "fold_checkpoint"
    return "call_llm"


@Route
def after_classify(state: RouteState) -> AfterClassify | Sequence[Send]:
    """Where a reply goes."""
    if ends(state):
        return "finalize"
    kind = state["decision"]["kind"]
    if kind == "violation":
        return "repair"
    if kind == "overflow":
        return "fold_checkpoint"
    return send_wave(state) or "assemble_context"


def ends(state: RouteState | TurnState) -> bool:
    """Whether the turn ends here."""
    return (state.get("decision") or {}).get("kind") in {"terminal", "stop"}


def send_wave(state: RouteState) -> list[Send]:
    """One task for each call of the next wave."""
    batch = batch_of(state)
    turn = {key: state["turn"][key] for key in ("id", "session_id", "round")}
    return [
        Send("dispatch_tools", {"call": call, "turn": turn, "batch_id": batch["id"]})
        for call in next_wave(batch)
    ]

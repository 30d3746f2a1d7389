"""Every conditional edge: pure functions of the state."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Annotated, Any, Generic, Literal, TypeVar

from langgraph._internal._runnable import RunnableCallable
from langgraph.types import Send
from typing_extensions import TypedDict

from turnflow.graph.batch import awaiting_approval, batch_of, needs_fold, next_wave
from turnflow.graph.state import TurnState, merge_batch

T = TypeVar("T")


class RouteState(TypedDict, total=False):
    """The channels that routes look at; to read the transcript for each would cost its whole length."""

    turn: dict[str, Any]
    decision: dict[str, Any]
    batch: Annotated[dict[str, Any], merge_batch]


class Route(RunnableCallable, Generic[T]):
    """A conditional edge that waits for nothing: LangGraph runs a bare function in a thread when awaited.

    Args:
        choose: Gives the name of a node, or `Send`s.
        labels: What the drawing says on the way to each node.
    """

    def __init__(self, choose: Callable[[RouteState], T], labels: dict[str, str]) -> None:
        def labelled(state: RouteState) -> object:
            chosen = choose(state)
            return labels[chosen] if isinstance(chosen, str) else chosen

        async def alabelled(state: RouteState) -> object:
            return labelled(state)

        super().__init__(labelled, alabelled, name=choose.__name__, trace=False)
        self._choose = choose
        self.path_map: dict[Hashable, str] = {label: node for node, label in labels.items()}

    def __call__(self, state: Any) -> T:
        """Where this state goes."""
        return self._choose(state)


AfterAssemble = Literal["call_llm", "dispatch_tools", "fold_checkpoint", "finalize"]
AfterClassify = Literal["dispatch_tools", "assemble_context", "repair", "fold_checkpoint", "finalize"]


def _after_assemble(state: RouteState) -> AfterAssemble | Sequence[Send]:
    """Where a new turn, a round or the join of a wave goes on."""
    if ends(state):
        return "finalize"
    if sends := send_wave(state):
        return sends
    if needs_fold(batch_of(state)) or wants_fold(state):
        return "fold_checkpoint"
    return "call_llm"


def _after_classify(state: RouteState) -> AfterClassify | Sequence[Send]:
    """Where a reply goes."""
    if ends(state):
        return "finalize"
    kind = state["decision"]["kind"]
    if kind == "violation":
        return "repair"
    if kind == "overflow":
        return "fold_checkpoint"
    return send_wave(state) or "assemble_context"


after_assemble = Route(
    _after_assemble,
    {
        "call_llm": "next round",
        "dispatch_tools": "next wave",
        "fold_checkpoint": "fold",
        "finalize": "end",
    },
)
after_classify = Route(
    _after_classify,
    {
        "dispatch_tools": "tool calls",
        "assemble_context": "intermediate, continue",
        "repair": "violation",
        "fold_checkpoint": "overflow",
        "finalize": "terminal, stop",
    },
)


def ends(state: RouteState | TurnState) -> bool:
    """Whether the turn ends here."""
    return (state.get("decision") or {}).get("kind") in {"terminal", "stop"}


def wants_fold(state: RouteState | TurnState) -> bool:
    """Whether something is to be summed up before the next request."""
    return (state.get("decision") or {}).get("kind") == "fold"


def send_wave(state: RouteState) -> list[Send]:
    """One task for each call of the next wave, or one that asks about all that need approval."""
    batch = batch_of(state)
    turn = {key: state["turn"][key] for key in ("id", "session_id", "round")}
    if awaiting_approval(batch):
        return [Send("dispatch_tools", {"approve": True, "turn": turn, "batch_id": batch["id"]})]
    return [
        Send("dispatch_tools", {"call": call, "turn": turn, "batch_id": batch["id"]})
        for call in next_wave(batch)
    ]

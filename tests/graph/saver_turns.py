"""A small graph that looks like a turn graph to the saver, with turns of a few supersteps."""

from __future__ import annotations

from typing import Annotated, Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import END, START, StateGraph
from langgraph.types import Overwrite, interrupt
from typing_extensions import TypedDict

from turnflow.graph.state import LAYOUT
from turnflow.graph.transcript import merge_messages
from turnflow.graph.turns import last_turns

WINDOW = 3
"""Turns that stay in the state where it is trimmed."""


class Turns(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], DeltaChannel(merge_messages, snapshot_frequency=7)]
    turn: dict[str, Any]


def build_turns(saver: Any, *, trims: bool = True, rounds: int = 2) -> Any:
    """Each turn calls a tool `rounds` times, the second call of a turn about "ask" asks a question."""

    def assemble_context(state: Turns) -> dict[str, Any]:
        turn, user = state.get("turn") or {}, state["messages"][-1]
        if isinstance(user, HumanMessage) and turn.get("input_id") != user.id:
            turn = {"layout": LAYOUT, "id": f"turn-{user.id}", "input_id": user.id, "round": 0}
        return {"turn": turn}

    def call_llm(state: Turns) -> dict[str, Any]:
        turn = state["turn"]
        number = turn["round"] + 1
        said: dict[str, Any] = {"content": f"done {turn['id']}", "id": f"{turn['id']}-{number}"}
        if number <= rounds:
            said |= {"tool_calls": [{"name": "work", "id": f"{turn['id']}-call-{number}", "args": {}}]}
        return {"messages": [AIMessage(**said)], "turn": {**turn, "round": number}}

    def dispatch_tools(state: Turns) -> dict[str, Any]:
        called = state["messages"][-1]
        assert isinstance(called, AIMessage)
        asked = next(m for m in reversed(state["messages"]) if isinstance(m, HumanMessage))
        answer = interrupt("which?") if "ask" in asked.text and state["turn"]["round"] == rounds else "it"
        (call,) = called.tool_calls
        return {
            "messages": [ToolMessage(f"did {answer}", tool_call_id=call["id"], id=f"{call['id']}-result")]
        }

    def finalize(state: Turns) -> dict[str, Any]:
        kept = last_turns(state["messages"], WINDOW)
        return {"messages": Overwrite(kept)} if trims else {}

    def goes_on(state: Turns) -> str:
        called = state["messages"][-1]
        return "dispatch_tools" if isinstance(called, AIMessage) and called.tool_calls else "finalize"

    builder = StateGraph(Turns)
    for node in (assemble_context, call_llm, dispatch_tools, finalize):
        builder.add_node(node.__name__, node)
    builder.add_edge(START, "assemble_context")
    builder.add_edge("assemble_context", "call_llm")
    builder.add_conditional_edges("call_llm", goes_on, ["dispatch_tools", "finalize"])
    builder.add_edge("dispatch_tools", "assemble_context")
    builder.add_edge("finalize", END)
    return builder.compile(checkpointer=saver)


def said(text: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text, id=text)]}

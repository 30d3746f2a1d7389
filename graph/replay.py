"""Playing a recorded turn again through today's graph: does it still go the same way? (docs/record.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AnyMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import ValidationError

from turnflow.graph.build import TurnGraph, build_turn_graph
from turnflow.graph.context import TurnContext
from turnflow.graph.learned import forget_learned, learn_refusals
from turnflow.graph.memory import MEMORY_NAMES
from turnflow.graph.message_form import load_message
from turnflow.graph.outcome import TurnError
from turnflow.graph.protocol import JsonProtocol, LabelProtocol, Protocol
from turnflow.graph.record import Source, line_of, read_record, rebuild
from turnflow.graph.replay_parts import (
    Fact,
    RecordedInbox,
    RecordedModel,
    RecordedSummariser,
    RecordedTool,
    RecordedVerdicts,
    taking,
)
from turnflow.graph.replay_path import Difference, Step, first_difference, path_of, without_handle
from turnflow.graph.state import LAYOUT
from turnflow.graph.tool_names import READ_RESULT
from turnflow.graph.tool_policy import ToolPolicy
from turnflow.graph.transcript import own_fields
from turnflow.prompts import Prompts

_MEMORIES = frozenset(MEMORY_NAMES) - {"vector"}
"""Strategies that need nothing but what is on record."""

_THREAD: Any = {"configurable": {"thread_id": "replay"}}


@dataclass(frozen=True)
class Replayed:
    """What became of a replay.

    Attributes:
        turn_id: The turn.
        steps: How many steps of the record were compared.
        difference: The first difference; None where the turn went the same way.
        notes: What could not be played again, in words.
    """

    turn_id: str
    steps: int
    difference: Difference | None
    notes: tuple[str, ...] = ()


class _NotOnRecordError(ValueError):
    """Something that a replay needs is not on record."""


def turns_on_record(facts: Iterable[Fact]) -> list[str]:
    """The ids of the turns of a record, in the order in which they began."""
    starts = (str(fact["turn_id"]) for fact in line_of(facts) if fact["type"] == "turn.started")
    return list(dict.fromkeys(starts))


def replay(source: Source, thread_id: str, turn_id: str) -> Replayed:
    """Play a turn again: with the recorded replies, results and answers, through today's graph.

    No model is asked, no tool is run, and nothing is written. See `replay_facts`.

    Raises:
        ValueError: There is no such turn on record.
    """
    return replay_facts(read_record(source, thread_id), turn_id)


def replay_facts(facts: Sequence[Fact], turn_id: str) -> Replayed:
    """Play a turn of a record again.

    Args:
        facts: The facts of the thread, from its beginning.
        turn_id: The turn.

    Raises:
        ValueError: There is no such turn on record, it was recorded without its setup, or what is on record
            of it cannot be read.
    """
    try:
        recorded = _Recorded.of(line_of(facts), turn_id)
        before = path_of(recorded.facts)
        cut, notes = recorded.compared(before)
        graph, model = _graph(recorded)
    except _NotOnRecordError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"turn {turn_id!r} is damaged on record: {_damage(error)}") from error
    provider = type(model).__name__, model.openai_api_base, model.model_name
    learn_refusals(provider, recorded.start.get("refused", ()))
    try:
        after = path_of(_play(recorded, graph, model))
    finally:
        forget_learned(provider)
    if cut is None:
        difference = first_difference(before, after)
    else:
        difference = first_difference(before[:cut], after[:cut])
    return Replayed(turn_id, len(before) if cut is None else cut, difference, tuple(notes))


def _damage(error: Exception) -> str:
    """What is wrong with a fact, in one line."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{error.title}: {'.'.join(map(str, first['loc']))}: {first['msg']}"
    if isinstance(error, KeyError):
        return f"a fact has no {error}"
    return " ".join(str(error).split())


@dataclass(frozen=True)
class _Recorded:
    """A turn as it is on record, and what it started with."""

    facts: list[Fact]
    """Those of the turn."""
    setup: Fact
    start: Fact
    before: list[AnyMessage]
    given: AnyMessage
    session: dict[str, Any]
    summary: dict[str, Any]

    @classmethod
    def of(cls, facts: Sequence[Fact], turn_id: str) -> _Recorded:
        ours = [i for i, fact in enumerate(facts) if fact["turn_id"] == turn_id and "graph" not in fact]
        first = next((i for i in ours if facts[i]["type"] == "turn.started"), None)
        if first is None:
            raise _NotOnRecordError(f"no turn {turn_id!r} is on record")
        start = facts[first]
        setups = [fact for fact in facts if fact["type"] == "setup" and fact["setup"] == start.get("setup")]
        taken = next((i for i in ours if facts[i]["type"] == "messages" and "after" in facts[i]), None)
        if not setups or taken is None:
            raise _NotOnRecordError(f"turn {turn_id!r} was recorded before turns could be played again")
        state = rebuild(facts[: taken + 1])
        messages = state["messages"]
        at = next((i for i, message in enumerate(messages) if message.id == start["input_id"]), None)
        if at is None:
            raise _NotOnRecordError(f"the input of turn {turn_id!r} is not on record")
        before = _in_state(messages[: at + 1], start.get("begins"))[:-1]
        own = [facts[i] for i in ours if i >= first]
        return cls(own, setups[-1], start, before, messages[at], state["session"], state["summary"])

    def of_type(self, *types: str) -> list[Fact]:
        """The turn's facts of these types."""
        return [fact for fact in self.facts if fact["type"] in types]

    def compared(self, path: Sequence[Step]) -> tuple[int | None, list[str]]:
        """How many steps can be compared, None for all and the end with them; and what to say of it."""
        notes = []
        if functions := self.setup["protocol"].get("functions"):
            notes.append(f"functions of the protocol are not on record: {', '.join(functions)}")
        cancelled = {f["tool_call_id"] for f in self.of_type("tool.result") if f["status"] == "cancelled"}
        for index, step in enumerate(path):
            if (step.what == "decision" and step.said[1] == "cancelled") or (
                step.what == "result" and step.said[0] in cancelled
            ):
                notes.append(f"cancelled in round {step.round}: what came before is compared")
                return index, notes
        if not path or path[-1].what != "end":
            notes.append("the turn is not over: what there is of it is compared")
            return len(path), notes
        return None, notes


def _in_state(messages: list[AnyMessage], begins: str | None) -> list[AnyMessage]:
    """Those of the messages that the state had: from one on, and what is pinned of older turns."""
    first = next((i for i, message in enumerate(messages) if message.id == begins), 0)
    return [message for i, message in enumerate(messages) if i >= first or own_fields(message).get("pinned")]


def _play(recorded: _Recorded, graph: TurnGraph, model: RecordedModel) -> list[Fact]:
    """The facts of the turn, played again."""
    turn = {"layout": LAYOUT, "id": "before", "round": 0, "input_id": "", "phase": "ended"}
    learned = recorded.start.get("learned")
    values = {
        "messages": recorded.before,
        "session": recorded.session,
        "summary": recorded.summary,
        "turn": {**turn, **({"learned": learned} if learned else {})},
    }
    graph.update_state(_THREAD, values, as_node="finalize")
    answers = [fact["answer"] for fact in recorded.of_type("resumed") if "answer" in fact]
    given: Any = {"messages": [recorded.given]}
    context = TurnContext(inbox=RecordedInbox(recorded.facts, model))
    while True:
        left = len(model.replies)
        try:
            output = graph.invoke(given, _THREAD, context=context, version="v2")
        except TurnError:
            if not model.replies or len(model.replies) == left:
                break
            given = None  # as its caller did, who tried the round again
            continue
        if not output.interrupts or not answers:
            break
        given = Command(resume={output.interrupts[0].id: answers.pop(0)})
    turn_id = recorded.start["turn_id"]
    return [fact for fact in read_record(graph, "replay") if fact["turn_id"] == turn_id]


def _graph(recorded: _Recorded) -> tuple[TurnGraph, RecordedModel]:
    """Today's graph in the recorded setup."""
    setup = recorded.setup
    settings = dict(setup["settings"])
    if setup.get("window"):
        settings.setdefault("context_window", setup["window"])
    tools, policies = _tools(recorded)
    model = RecordedModel(
        model_name=setup.get("model") or "recorded", replies=recorded.of_type("model.replied")
    )
    graph = build_turn_graph(
        model,
        tools,
        policies=policies,
        permissions=RecordedVerdicts(recorded.of_type("tool.call", "judged")),
        protocol=_protocol(setup["protocol"]),
        behaviour=_behaviour(setup["behaviour"]),
        memory=_memory(recorded),
        summariser=RecordedSummariser(replies=recorded.of_type("summariser.replied")),
        provider_profile=setup["profile"],
        settings=settings,
        checkpointer=InMemorySaver(),
    )
    return graph, model


def _tools(recorded: _Recorded) -> tuple[list[RecordedTool], dict[str, ToolPolicy]]:
    """The tools as they were declared, with the results that they gave, and their policies."""
    said = {fact["tool_call_id"]: fact.get("said", {}) for fact in recorded.of_type("tool.result")}
    edited = {f["tool_call_id"] for f in recorded.of_type("permission") if f.get("decision") == "edit"}
    results = {}
    called = set()
    for fact in recorded.of_type("messages"):
        for form in fact["messages"]:
            if form["type"] == "tool":
                call_id = form["tool_call_id"]
                has_note = call_id in edited and not said.get(call_id, {}).get("terminate")
                plain = _without_note(form) if has_note else form
                results[call_id] = (
                    {**plain, "content": without_handle(load_message(plain))},
                    said.get(call_id, {}),
                )
                called.add(form.get("name"))
    tools, policies = [], {}
    for declared in recorded.setup["tools"]:
        function = declared["definition"]["function"]
        name = function["name"]
        if declared.get("built_in") and not (name == READ_RESULT and name in called):
            continue
        schema = {"title": name, "description": function["description"], "type": "object", "properties": {}}
        tools.append(
            RecordedTool(
                name=name,
                description=function["description"],
                args_schema={**schema, **(function.get("parameters") or {})},
                results=results,
                func=taking(declared.get("host_only", ())),
            )
        )
        policies[name] = _policy(declared["policy"])
    return tools, policies


def _without_note(form: Mapping[str, Any]) -> dict[str, Any]:
    """The result of an edited call without the note that it was edited: today's graph writes its own."""
    content = form["content"]
    if isinstance(content, str):
        return {**form, "content": content.partition("\n")[2]}
    return {**form, "content": content[1:]}


def _policy(said: Mapping[str, Any]) -> ToolPolicy:
    """The policy without its functions: what they said is on record."""
    functions = {"needs_approval", "available"}
    return ToolPolicy.model_validate({name: value for name, value in said.items() if name not in functions})


def _protocol(form: Mapping[str, Any]) -> Protocol | Any:
    fields = {name: value for name, value in form.items() if name not in {"name", "functions"}}
    if form["name"] == "label":
        return LabelProtocol(**fields)
    if form["name"] == "json":
        return JsonProtocol(**fields)
    if form["name"] != "native":
        raise TypeError(f"there is no protocol {form['name']!r}")
    return "native"


def _memory(recorded: _Recorded) -> str:
    """The strategy; without recall where nothing was recalled, as another archive may find something."""
    name = recorded.setup.get("memory")
    manifests = [fact["manifest"] for fact in recorded.of_type("context.assembled")]
    if name not in _MEMORIES:
        name = "hybrid"
    recalls = any(manifest.get("recalled") for manifest in manifests)
    return "summary" if name == "hybrid" and not recalls else str(name)


def _behaviour(name: str) -> str:
    """The behaviour, or the standard one where its file is gone: the replies are recorded in any case."""
    try:
        Prompts("en").behaviour(name)
    except (ValueError, OSError):
        return "chat"
    return name

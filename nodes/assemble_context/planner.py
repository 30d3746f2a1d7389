"""Plans what the model is shown: pure, and the only place that decides it (docs/context.md)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage, ToolMessage

from turnflow.graph.budget import Budget, budget_of
from turnflow.graph.contributions import Contribution
from turnflow.graph.folds import Anchor
from turnflow.graph.memory import Recalled
from turnflow.graph.protocol import JsonProtocol, Protocol
from turnflow.graph.reply_form import ReplyForm
from turnflow.graph.strict_projection import SEPARATOR
from turnflow.graph.tokens import EstimatedCounter, TokenCounter
from turnflow.graph.tool_names import READ_RESULT
from turnflow.nodes.assemble_context.cutting import Cutter, stub_of
from turnflow.nodes.assemble_context.extras import Extras
from turnflow.nodes.assemble_context.fences import CONTEXT_TEXTS, ContextTexts, summary_fence
from turnflow.nodes.assemble_context.manifest import Manifest
from turnflow.nodes.assemble_context.outline import Outline
from turnflow.nodes.assemble_context.planning import Composition, Parts, Planning
from turnflow.nodes.assemble_context.reasons import ranges_of
from turnflow.nodes.assemble_context.style import style_of
from turnflow.nodes.assemble_context.tightening import Tightening
from turnflow.nodes.assemble_context.written import WORDING, Wording

__all__ = ["Manifest", "PlanInput", "plan_context"]

_NATIVE = ReplyForm(None, native_tools=True, dialects=())


@dataclass(frozen=True)
class PlanInput:
    """All that a request is planned from.

    Attributes:
        messages: The transcript.
        system: The system prompt.
        folds: Ranges of the transcript that a summary stands for (docs/folding.md).
        tools: Names of the tools that are offered.
        directives: Key and text of what this request alone is told.
        continuing: Whether the last reply was cut off and shall go on; the directives then stand in a user
            message of their own behind it.
        draft: Text of a reply that was not accepted; the model sees it, with the directives behind it.
        form: How the model and the turn speak to each other.
        prompt_version: Version of the texts, for the manifest.
        behaviour: Name and version of the behaviour, for the manifest.
        fold_text: Fence of a fold's summary, with `{text}`.
        wording: Texts around results, and what stands where a message is wanted and there is none.
        window: Tokens that request and reply may take together; None: no limit.
        max_output: Tokens of output that are asked for; None: no limit is sent.
        counter: Counts tokens.
        tool_definitions: The tools that go with the request, in OpenAI's format.
        protected_turns: Last turns, the current one included, that are never left out as a whole.
        recent_turns: Turns before the current one that are shown word for word, as the memory wants it; None:
            all of them.
        input_id: Id of the user message that begins the current turn; '': the last one.
        anchor: The summary of the conversation's beginning.
        recalled: What the memory brought back. A turn that is in the window anyway is passed over, by the
            input's id in its key.
        contributions: What contributors gave.
        can_fetch: Whether the model can read a result again, by its handle.
        fetch_tool: Name of the tool for that.
        texts: Fences and notices.
    """

    messages: Sequence[BaseMessage]
    system: str = ""
    folds: Sequence[dict[str, Any]] = ()
    tools: Sequence[str] = ()
    directives: Sequence[dict[str, str]] = ()
    continuing: bool = False
    draft: str = ""
    form: ReplyForm = _NATIVE
    prompt_version: str = ""
    behaviour: str = ""
    fold_text: str = "{text}"
    wording: Wording = WORDING
    window: int | None = None
    max_output: int | None = None
    counter: TokenCounter = field(default_factory=EstimatedCounter)
    tool_definitions: Sequence[Mapping[str, Any]] = ()
    protected_turns: int = 2
    recent_turns: int | None = None
    input_id: str = ""
    anchor: Anchor | None = None
    recalled: Sequence[Recalled] = ()
    contributions: Sequence[Contribution] = ()
    can_fetch: bool = False
    fetch_tool: str = READ_RESULT
    texts: ContextTexts = CONTEXT_TEXTS


def plan_context(plan: PlanInput) -> tuple[list[BaseMessage], Manifest]:
    """The messages of a request, and the manifest that says why they are there.

    Directives are merged into the last user message, so that roles alternate as strict providers want it.
    Where nothing more can be left out and it still does not fit, the manifest's `fits` is False, and the
    request is the smallest that there is.
    """
    definitions = plan.counter.tools(plan.tool_definitions) if plan.tool_definitions else 0
    budget = budget_of(plan.window, plan.max_output, definitions)
    planning = _planning(plan)
    composed, fits = planning.solve(budget.room)
    return composed.messages, _manifest(plan, planning, composed, budget, fits=fits)


def _planning(plan: PlanInput) -> Planning:
    counter, style = plan.counter, style_of(plan.form, plan.wording)
    outline = Outline(
        plan.messages,
        input_id=plan.input_id,
        through_id=plan.anchor["through_id"] if plan.anchor else "",
        recent_turns=plan.recent_turns,
        protected_turns=plan.protected_turns,
        folds=plan.folds,
        fold_text=plan.fold_text,
    )
    shown_ids = {span.input_id for span in [*outline.turns[outline.first :], outline.current]} - {""}
    summary = summary_fence(plan.anchor["text"], plan.texts) if plan.anchor else ""
    parts = Parts(
        system=plan.system,
        summary=summary,
        left_out=plan.texts.left_out,
        notes_gap=plan.anchor is not None and not summary,
        told=SEPARATOR.join(directive["text"] for directive in plan.directives),
        draft=plan.draft,
        continuing=plan.continuing,
    )

    def stub(result: ToolMessage, batch_id: str) -> ToolMessage | None:
        return stub_of(result, batch_id, plan.texts.stub, plan.fetch_tool) if batch_id else None

    def tightening(front: Sequence[BaseMessage]) -> Tightening:
        return Tightening(
            outline,
            counter=counter,
            cutter=Cutter(counter, plan.texts.shortened, plan.form),
            stub_of=stub if plan.can_fetch else None,
            rounds_left_out=plan.texts.rounds_left_out,
            front=front,
        )

    extras = Extras(plan.contributions, plan.recalled, shown_ids, plan.texts, counter)
    return Planning(outline, parts, extras, style, counter, tightening)


def _manifest(
    plan: PlanInput, planning: Planning, composed: Composition, budget: Budget, *, fits: bool
) -> Manifest:
    dropped, extras = composed.choice.dropped, planning.extras
    total = composed.tokens + budget.tools
    ranges, history = ranges_of(planning, composed, plan.counter)
    definitions = json.dumps(list(plan.tool_definitions), ensure_ascii=False, sort_keys=True, default=str)
    return {
        "fits": fits,
        "window": budget.window,
        "usable": budget.usable,
        "max_output": budget.output(composed.tokens),
        # Recalled turns and contributions give way anyway.
        "fill": budget.fill(planning.demand() - extras.tokens(0)) if budget.usable is not None else 0.0,
        "tokens": total,
        "segments": _segments(plan, planning, composed, history, total, tools=budget.tools),
        "ranges": ranges,
        "recalled": extras.recalled_shown(dropped),
        "contributions": extras.contributions_shown(dropped),
        "tools": list(plan.tools),
        "tools_hash": _digest(definitions),
        "directives": [directive["key"] for directive in plan.directives],
        "protocol": _named(plan.form.protocol),
        "behaviour": plan.behaviour,
        "prompt_version": plan.prompt_version,
        "prompt_hash": _digest(composed.system),
    }


def _segments(
    plan: PlanInput, planning: Planning, composed: Composition, history: int, total: int, *, tools: int
) -> dict[str, int]:
    """What the parts of the request take; together, what it takes.

    Parts that were joined to others take a little less than by themselves, so each has at most what is left.
    """
    counter, parts, extras = plan.counter, planning.parts, planning.extras
    dropped = composed.choice.dropped
    taken = {
        "tools": tools,
        "system": counter.message(SystemMessage(content=composed.system)) if composed.system else 0,
        "summary": counter.message(HumanMessage(content=parts.summary)) if parts.summary else 0,
        "recalled": counter.text(extras.recalled(dropped)),
        "contributions": sum(map(counter.text, extras.told(dropped))),
        "directives": counter.text(parts.told),
        "history": history,
    }
    left = total
    segments: dict[str, int] = {}
    for name, tokens in taken.items():
        segments[name] = min(tokens, left)
        left -= segments[name]
    return {**segments, "turn": left}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _named(protocol: Protocol) -> str:
    if protocol is None:
        return "native"
    return "json" if isinstance(protocol, JsonProtocol) else " ".join(protocol.allowed)

"""The request that is planned from the state: what `call_llm` sends."""

from __future__ import annotations

from dataclasses import fields
from functools import lru_cache
from typing import Any

from turnflow.graph.constraint import request_constraint
from turnflow.graph.protocol import JsonProtocol, LabelProtocol
from turnflow.graph.repairs import repair_directive
from turnflow.graph.reply_form import TOOLS_REFUSED, ReplyForm
from turnflow.graph.resources import TurnResources
from turnflow.graph.tool_names import ASK_USER, READ_RESULT
from turnflow.graph.wire_texts import wire_texts
from turnflow.nodes.assemble_context.fences import ContextTexts
from turnflow.nodes.assemble_context.planner import PlanInput, plan_context
from turnflow.nodes.assemble_context.system_prompt import system_prompt
from turnflow.nodes.assemble_context.written import Wording
from turnflow.prompts import Prompts


def plan_view(
    state: Any, gathered: dict[str, Any], recent_turns: int | None, resources: TurnResources
) -> dict[str, Any]:
    """The `view` channel: the request's messages, the tools in it, what holds its reply, and the manifest.

    A function of the stored state and of what was gathered, so that it can be made again when a run is
    resumed.
    """
    turn = state["turn"]
    form, prompts = resources.form_in(turn), resources.prompts
    registry = resources.tools_in(turn)
    names = registry.names if turn["phase"] != "finish" and form.can_call else []
    # A JSON decision asks the user by an action of its own.
    as_json = isinstance(form.protocol, JsonProtocol)
    offered = [tool.definition for tool in registry if tool.name in names]
    described = [d for d in offered if not (as_json and d["function"]["name"] == ASK_USER)]
    behaviour, limit = resources.behaviour, resources.settings.max_output_tokens
    messages, manifest = plan_context(
        PlanInput(
            messages=state["messages"],
            system=system_prompt(
                behaviour.text,
                form,
                described,
                instructions=_instructions(state, resources),
                may_ask=ASK_USER in names,
                prompts=prompts,
            ),
            folds=(state.get("summary") or {}).get("folds", ()),
            tools=names,
            directives=_directives(turn, form, names, resources),
            continuing=turn["continuing"],
            draft=_draft(turn),
            form=form,
            prompt_version=prompts.version,
            behaviour=f"{behaviour.name}/{behaviour.version}",
            fold_text=prompts.template("context", "checkpoint"),
            window=resources.window_in(turn),
            max_output=None if limit is None else limit * turn["output_factor"],
            counter=resources.counter_in(turn),
            tool_definitions=described if form.native_tools else (),
            protected_turns=resources.settings.protected_turns,
            recent_turns=recent_turns,
            input_id=turn["input_id"],
            anchor=(state.get("summary") or {}).get("anchor"),
            recalled=gathered["recalled"],
            contributions=gathered["contributions"],
            can_fetch=READ_RESULT in names,
            texts=_texts(prompts),
            wording=Wording(
                results=prompts.template("context", "tool_results"),
                result=prompts.template("context", "tool_result"),
                fillers=wire_texts(prompts).projection,
            ),
        )
    )
    native = names if form.native_tools else []
    constraint: dict[str, Any] = {}
    if as_json or not turn["continuing"]:  # the rest of a text has no label, and no beginning
        constraint = request_constraint(
            form.protocol,
            resources.profile_in(turn),
            described,
            dialect=form.dialect,
            may_call=turn["phase"] != "finish",
            may_ask=ASK_USER in names,
            native_tools_offered=bool(native),
        )
    return {
        "messages": messages,
        "tools": native,
        "offered": names,
        "constraint": constraint,
        "manifest": manifest,
    }


@lru_cache(maxsize=8)
def _texts(prompts: Prompts) -> ContextTexts:
    return ContextTexts(
        **{each.name: prompts.template("context", each.name) for each in fields(ContextTexts)}
    )


def _instructions(state: Any, resources: TurnResources) -> str:
    """The caller's own, and those of what was loaded in this thread."""
    loaded = (state.get("session") or {}).get("instructions", {})
    return "\n\n".join(text.strip() for text in [resources.instructions, *loaded.values()] if text.strip())


def _draft(turn: dict[str, Any]) -> str:
    repair = turn.get("repair") or {}
    return str(repair.get("draft", "")) if repair.get("pending") else ""


def _directives(
    turn: dict[str, Any], form: ReplyForm, tools: list[str], resources: TurnResources
) -> list[dict[str, str]]:
    prompts = resources.prompts
    said = [*repair_directive(turn, form, tools, prompts), *turn["directives"]]
    if TOOLS_REFUSED in resources.refused_in(turn) and not form.can_call and turn["phase"] != "finish":
        said.append({"key": "no_tools", "text": prompts.text("directive", "no_tools")})
    if turn["continuing"]:
        said.append({"key": "continue", "text": prompts.text("directive", _continue_key(form))})
    if turn["phase"] in {"settle", "finish"}:
        said.append({"key": turn["phase"], "text": _phase_text(turn, form, resources)})
    return said


def _continue_key(form: ReplyForm) -> str:
    if form.protocol is None:
        return "continue"
    return "continue_json" if isinstance(form.protocol, JsonProtocol) else "continue_label"


def _phase_text(turn: dict[str, Any], form: ReplyForm, resources: TurnResources) -> str:
    prompts, protocol = resources.prompts, form.protocol
    if turn["phase"] == "settle":
        return prompts.text("directive", "settle")
    if own := turn.get("finish_text"):
        return str(own)
    if isinstance(protocol, LabelProtocol):
        return prompts.text("directive", "finish_label", label=protocol.answer_label)
    return prompts.text("directive", "finish_json" if isinstance(protocol, JsonProtocol) else "finish")

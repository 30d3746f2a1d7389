"""The request that is planned from the state: what `call_llm` sends."""

from __future__ import annotations

from typing import Any

from turnflow.graph.resources import TurnResources
from turnflow.nodes.assemble_context.planner import PlanInput, plan_context
from turnflow.nodes.assemble_context.projection import Fillers


def plan_view(state: Any, resources: TurnResources) -> dict[str, Any]:
    """The `view` channel: the request's messages, the names of the tools in it, and the manifest.

    A function of the stored state alone, so that it can be made again when a run is resumed.
    """
    turn = state["turn"]
    prompts = resources.prompts
    offers_tools = turn["phase"] != "finish" and resources.profile.native_tools
    tools = resources.tools_in(turn).names if offers_tools else []
    system = prompts.behaviour(resources.behaviour)
    if resources.instructions.strip():
        system = f"{system}\n\n{resources.instructions.strip()}"
    messages, manifest = plan_context(
        PlanInput(
            messages=state["messages"],
            system=system,
            folds=(state.get("summary") or {}).get("folds", ()),
            tools=tools,
            directives=_directives(turn, resources),
            continuing=turn["continuing"],
            prompt_version=prompts.version,
            fold_text=prompts.template("context", "checkpoint"),
            fillers=Fillers(
                opening=prompts.text("context", "opening"),
                bridge=prompts.text("context", "bridge"),
                go_on=prompts.text("context", "go_on"),
                no_output=prompts.text("result", "empty"),
            ),
        )
    )
    return {"messages": messages, "tools": tools, "manifest": manifest}


def _directives(turn: dict[str, Any], resources: TurnResources) -> list[dict[str, str]]:
    keys = ["continue"] if turn["continuing"] else []
    if turn["phase"] in {"settle", "finish"}:
        keys.append(turn["phase"])
    said = [{"key": key, "text": resources.prompts.text("directive", key)} for key in keys]
    return [*turn["directives"], *said]

"""`build_turn_graph`: the seven nodes, joined and compiled."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import openai
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore

from turnflow.graph.context import TurnContext, check_model
from turnflow.graph.contributions import Contributor, check_contributors
from turnflow.graph.flow import turn_node
from turnflow.graph.memory import Memory
from turnflow.graph.permissions import PermissionPolicy, Policy, as_permission_policy
from turnflow.graph.profile import ProviderProfile
from turnflow.graph.profiles import as_profile
from turnflow.graph.protocol import JsonProtocol, LabelProtocol, ProtocolName, as_protocol
from turnflow.graph.resources import ChatModel, Registries, Tool, TurnResources
from turnflow.graph.retrying import pause_before
from turnflow.graph.routes import after_assemble, after_classify
from turnflow.graph.settings import TurnSettings, as_settings
from turnflow.graph.state import TurnInput, TurnOutput, TurnState
from turnflow.graph.tokens import default_counter
from turnflow.graph.tool_policy import ToolPolicy
from turnflow.nodes.assemble_context import as_memory, assemble_context, plan_request
from turnflow.nodes.call_llm import SILENCE_SECONDS, CallLLM, OpenAICompatibleChat
from turnflow.nodes.call_llm.errors import classify_error
from turnflow.nodes.classify_label import ClassifyLabel
from turnflow.nodes.dispatch_tools import (
    ask_user_tool,
    dispatch_tools,
    plan_calls,
    read_result_tool,
    search_tools_tool,
)
from turnflow.nodes.finalize import finalize
from turnflow.nodes.fold_checkpoint import fold_checkpoint
from turnflow.nodes.repair import repair
from turnflow.prompts import Prompts

TurnGraph = CompiledStateGraph[TurnState, TurnContext, TurnInput, TurnOutput]


def build_turn_graph(
    model: ChatModel | str | None = None,
    tools: Sequence[Tool] = (),
    *,
    policies: Mapping[str, ToolPolicy | Mapping[str, Any]] | None = None,
    permissions: PermissionPolicy | Policy | Sequence[Policy] | None = None,
    protocol: ProtocolName | LabelProtocol | JsonProtocol | None = None,
    behaviour: str | Path = "chat",
    instructions: str = "",
    memory: str | Memory = "hybrid",
    embeddings: Embeddings | None = None,
    contributors: Sequence[Contributor] = (),
    summariser: ChatModel | str | None = None,
    provider_profile: ProviderProfile | Mapping[str, Any] | str | Path | None = None,
    settings: TurnSettings | Mapping[str, Any] | None = None,
    checkpointer: BaseCheckpointSaver[Any] | bool | None = None,
    store: BaseStore | None = None,
    name: str = "turnflow",
) -> TurnGraph:
    """Build the graph that runs one whole agent turn.

    Its input is `{"messages": [...]}`, ending with the user's message; its output has `messages` (the new
    ones included), `answer` (str) and `outcome` (dict, docs/outcomes.md). It works with `invoke`, `ainvoke`,
    `stream`, `astream`, each stream mode, and as a subgraph.

    Args:
        model: A LangChain chat model, or the name of a model at an OpenAI-compatible endpoint
            (`OPENAI_BASE_URL`, `OPENAI_API_KEY`). None: `TurnContext.model`, else `TURNFLOW_MODEL`.
        tools: LangChain tools, or typed functions with a docstring.
        policies: `ToolPolicy` (or its fields) by tool name.
        permissions: Who may call what (docs/permissions.md). None: what a tool's policy and grants say.
        protocol: How a reply says what it wants: `native` tool calls of the provider, a `label` on the first
            line, a `json` decision, or a protocol of one's own (docs/protocols.md). None: as the behaviour
            says.
        behaviour: Name of a behaviour in `prompts`, or the path of a file of one's own (docs/prompts.md); its
            text begins the system prompt.
        instructions: The caller's own instructions, in the system prompt behind the behaviour's text.
        memory: How the conversation before the last turns is remembered (docs/memory.md): `window`,
            `summary`, `vector`, `hybrid`, or an object with `recall`.
        embeddings: LangChain `Embeddings`, for `vector` and `hybrid`.
        contributors: What else goes into the requests (docs/context.md).
        summariser: The chat model that sums up what leaves the requests, or its name; None takes `model`.
        provider_profile: What the provider can do: a profile, its fields, the name of a known one or the path
            of a file (docs/profiles.md). None takes the model's own, else what is known of models of its name
            and endpoint.
        settings: Limits and switches.
        checkpointer: A saver; None inherits the parent's when the graph is embedded.
        store: A LangGraph store, handed to tools that ask for one.
        name: The graph's name in traces and in a parent's drawing.

    Raises:
        ValueError: An argument is wrong; the text names it and the mend.
    """
    if protocol is not None:
        as_protocol(protocol)
    _check(model, tools, policies, behaviour, instructions)
    check_model(summariser, "summariser")
    check_contributors(contributors)
    as_memory(memory, embeddings)
    default_counter()  # looks for a vocabulary on the disk, which an event loop should not wait for
    resources = TurnResources(
        make_model=_make_model,
        registries=Registries(_builtin_tools),
        retry_wait=_retry_wait,
        model=model,
        tools=list(tools),
        policies=dict(policies or {}),
        permissions=as_permission_policy(permissions),
        settings=as_settings(settings),
        given_profile=as_profile(provider_profile),
        behaviour_name=behaviour,
        given_protocol=protocol,
        instructions=instructions,
        memory_of=as_memory,
        given_memory=memory,
        embeddings=embeddings,
        contributors=list(contributors),
        given_summariser=summariser,
    )
    resources.prompts.behaviour(behaviour)  # refuses one that does not exist
    registry = resources.registries.of(resources.tools, resources.policies, resources.settings)
    registry.check_policies(resources.policies)
    return _joined(resources).compile(checkpointer=checkpointer, store=store, name=name)


def _check(model: object, tools: object, policies: object, behaviour: object, instructions: object) -> None:
    """Refuse arguments of a wrong kind before they break a turn.

    Raises:
        ValueError: The text names the argument and what it takes.
    """
    check_model(model, "model")
    if isinstance(tools, str | BaseTool) or not isinstance(tools, Iterable):
        raise ValueError(f"tools is a list of tools; give [{getattr(tools, 'name', tools)!r}]")
    if not isinstance(policies, Mapping | None):
        raise ValueError(f"policies is a dict from a tool's name to its ToolPolicy, not {policies!r}")
    if not isinstance(behaviour, str | Path):
        raise ValueError(f"behaviour is a name or the path of a file, not {behaviour!r}")
    if not isinstance(instructions, str):
        raise ValueError(f"instructions is a text, not {instructions!r}")


def _joined(resources: TurnResources) -> StateGraph[TurnState, TurnContext, TurnInput, TurnOutput]:
    graph = StateGraph(
        TurnState, context_schema=TurnContext, input_schema=TurnInput, output_schema=TurnOutput
    )
    bodies: dict[str, Callable[..., Any]] = {
        "assemble_context": assemble_context,
        "call_llm": CallLLM(plan_request),
        "classify_label": ClassifyLabel(plan_calls),
        "repair": repair,
        "dispatch_tools": dispatch_tools,
        "fold_checkpoint": fold_checkpoint,
        "finalize": finalize,
    }
    for node, body in bodies.items():
        graph.add_node(node, turn_node(node, body, resources))
    graph.add_edge(START, "assemble_context")
    graph.add_conditional_edges("assemble_context", after_assemble, after_assemble.path_map)
    graph.add_edge("call_llm", "classify_label")
    graph.add_conditional_edges("classify_label", after_classify, after_classify.path_map)
    graph.add_edge("repair", "assemble_context")
    # The join: a conditional edge out of parallel tasks would run once for each and see its writes alone.
    graph.add_edge("dispatch_tools", "assemble_context")
    graph.add_edge("fold_checkpoint", "assemble_context")
    graph.add_edge("finalize", END)
    return graph


def _retry_wait(error: BaseException, retry: int, settings: TurnSettings) -> float | None:
    failure = classify_error(error, ())
    return pause_before(retry, failure.retry_after, settings) if failure.kind == "transient" else None


def _builtin_tools(settings: TurnSettings) -> list[BaseTool]:
    prompts = Prompts(settings.locale)
    tools = [search_tools_tool(prompts)]
    if settings.read_results:
        tools.insert(0, read_result_tool(prompts))
    if settings.ask_user:
        tools.insert(0, ask_user_tool(prompts))
    return tools


_models: MutableMapping[asyncio.AbstractEventLoop, dict[Any, BaseChatModel]] = WeakKeyDictionary()
"""Models by name for each event loop: the connections of a loop cannot be used in another."""


def _make_model(name: str, profile: ProviderProfile) -> BaseChatModel:
    """The model of a name; made once, for it holds connections."""
    endpoint = (os.environ.get("OPENAI_BASE_URL"), os.environ.get("OPENAI_API_KEY"))
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return _blocking_model(name, profile.model_dump_json(), endpoint)
    models = _models.setdefault(loop, {})
    key = (name, profile.model_dump_json(), endpoint)
    if key not in models:
        client = openai.DefaultAsyncHttpxClient(timeout=SILENCE_SECONDS)
        models[key] = OpenAICompatibleChat(model=name, provider_profile=profile, http_async_client=client)
    return models[key]


@lru_cache(maxsize=32)
def _blocking_model(name: str, profile_json: str, _endpoint: tuple[str | None, ...]) -> BaseChatModel:
    return OpenAICompatibleChat(
        model=name, provider_profile=ProviderProfile.model_validate_json(profile_json)
    )

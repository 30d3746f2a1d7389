"""Arguments that LangGraph tools get from the host: runtime, state and store."""

from __future__ import annotations

from typing import Annotated, Any, get_args, get_origin

from langgraph.prebuilt import InjectedState, InjectedStore, ToolRuntime

from turnflow.graph.events import Emitter
from turnflow.graph.flow import NodeRun
from turnflow.graph.langgraph_access import read_state
from turnflow.graph.session import with_session
from turnflow.graph.text import plain_json
from turnflow.graph.tool_registry import RegisteredTool


def inject(tool: RegisteredTool, call_id: str, run: NodeRun, emitter: Emitter) -> dict[str, Any]:
    """The arguments that the host gives this tool.

    Raises:
        ValueError: The tool wants a store and the graph has none.
    """
    given: dict[str, Any] = {}
    for name, annotation in tool.annotations.items():
        marker = _marker(annotation)
        if marker is ToolRuntime:
            given[name] = _runtime(call_id, run, emitter)
        elif isinstance(marker, InjectedState):
            state = with_session(read_state(run.config))
            given[name] = state.get(marker.field) if marker.field else state
        elif isinstance(marker, InjectedStore):
            if run.runtime.store is None:
                raise ValueError("the tool needs a store: pass store= to build_turn_graph")
            given[name] = run.runtime.store
    return given


def _marker(annotation: Any) -> Any:
    if annotation is ToolRuntime or get_origin(annotation) is ToolRuntime:
        return ToolRuntime
    if get_origin(annotation) is not Annotated:
        return None
    for extra in get_args(annotation)[1:]:
        if isinstance(extra, InjectedState | InjectedStore):
            return extra
        if extra in {InjectedState, InjectedStore}:
            return extra()
    return None


def _tell(data: Any, call_id: str, emitter: Emitter) -> None:
    """Send on what a tool reports: its progress, or that it waits for a permission elsewhere.

    The latter is a dict with `type` "permission"; the rest of it is what is asked (docs/permissions.md).
    """
    if isinstance(data, dict) and data.get("type") == "permission":
        request = plain_json({key: value for key, value in data.items() if key != "type"})
        emitter.emit("permission", source="tool", tool_call_id=call_id, request=request)
    else:
        emitter.emit("tool.progress", tool_call_id=call_id, data=data)


def _runtime(call_id: str, run: NodeRun, emitter: Emitter) -> ToolRuntime[Any, Any]:
    return ToolRuntime(
        state=with_session(read_state(run.config)),
        context=run.runtime.context,
        config=run.config,
        stream_writer=lambda data: _tell(data, call_id, emitter),
        tool_call_id=call_id,
        store=run.runtime.store,
        tools=[registered.tool for registered in run.resources.registry],
        execution_info=run.runtime.execution_info,
        server_info=run.runtime.server_info,
    )

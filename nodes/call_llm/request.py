"""The request to the model: the planned messages, with the tools bound."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs
from langgraph.constants import TAG_NOSTREAM

from turnflow.graph.resources import TurnResources
from turnflow.nodes.call_llm.model_stream import ModelStream


def open_request(
    view: dict[str, Any],
    resources: TurnResources,
    config: RunnableConfig,
    due: Callable[[], float | None] | None,
) -> ModelStream:
    """The stream of a request.

    The model runs with the node's callbacks, so that tracing sees all that it said; the tag keeps LangGraph
    from sending its raw text to `stream_mode="messages"`, where the read text goes instead.
    """
    runnable: Any = resources.chat_model
    definitions = [tool.definition for tool in resources.registry if tool.name in set(view["tools"])]
    if definitions:
        runnable = _with_tools(runnable, definitions)
    options = _options(view)
    hidden = merge_configs(config, {"tags": [TAG_NOSTREAM]})

    def stream() -> Iterator[BaseMessage]:
        chunks: Iterator[BaseMessage] = runnable.stream(view["messages"], hidden, **options)
        return chunks

    def astream() -> AsyncIterator[BaseMessage]:
        chunks: AsyncIterator[BaseMessage] = runnable.astream(view["messages"], hidden, **options)
        return chunks

    return ModelStream(stream, astream, cancel=resources.cancel, due=due)


def _options(view: dict[str, Any]) -> dict[str, Any]:
    """Further parameters of the request.

    What holds the reply to its protocol goes into the body as it is: LangChain would read a reply to a
    `response_format` of its own by other means, and not chunk by chunk.
    """
    limit = view["manifest"]["max_output"]
    return {
        **({} if limit is None else {"max_tokens": limit}),
        **({"extra_body": view["constraint"]} if view["constraint"] else {}),
    }


def _with_tools(model: Any, definitions: list[dict[str, Any]]) -> Any:
    try:
        return model.bind_tools(definitions)
    except (AttributeError, NotImplementedError) as error:
        raise ValueError(
            f"model {type(model).__name__} takes no tools: give another model, no tools and "
            "settings={'ask_user': False}, or provider_profile={'native_tools': False}"
        ) from error

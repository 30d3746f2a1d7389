"""The model call: streams a reply, reads it and keeps it."""

from turnflow.nodes.call_llm.node import CallLLM
from turnflow.nodes.call_llm.openai_compatible import OpenAICompatibleChat
from turnflow.nodes.call_llm.reader import ReplyReader

__all__ = ["CallLLM", "OpenAICompatibleChat", "ReplyReader"]

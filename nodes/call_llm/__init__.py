"""The model call: streams a reply, reads it and keeps it."""

from turnflow.nodes.call_llm.node import CallLLM
from turnflow.nodes.call_llm.openai_compatible import SILENCE_SECONDS, OpenAICompatibleChat
from turnflow.nodes.call_llm.reader import ReplyReader

__all__ = ["SILENCE_SECONDS", "CallLLM", "OpenAICompatibleChat", "ReplyReader"]

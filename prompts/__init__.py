"""Texts that a model or a user reads, as files in English and Chinese (docs/prompts.md)."""

from turnflow.prompts.behaviour import Behaviour
from turnflow.prompts.loader import Prompts

__all__ = ["Behaviour", "Prompts"]

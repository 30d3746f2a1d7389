"""What a failed request means."""

from turnflow.nodes.call_llm.errors.classify import PrematureEndError, classify_error, describe_error
from turnflow.nodes.call_llm.errors.failure import Failure

__all__ = ["Failure", "PrematureEndError", "classify_error", "describe_error"]

"""What a reply took, in tokens: as the provider reports it, else estimated."""

from __future__ import annotations

from typing import Any

from turnflow.graph.outcome import Usage
from turnflow.graph.step import Step
from turnflow.graph.tokens import TokenCounter


def estimated(usage: Usage, step: Step, manifest: dict[str, Any], counter: TokenCounter) -> Usage:
    """The usage with our own count in place of what the provider did not report.

    A request that came to nothing took nothing that is known.
    """
    if usage["input"] or usage["output"] or not (step["raw"] or step["thinking"] or step["calls"]):
        return usage
    written = [step["raw"], step["reasoning"], *(call["arguments"] for call in step["calls"])]
    output = sum(counter.text(text) for text in written if text)
    return {**usage, "input": manifest["tokens"], "output": output, "estimated": 1}

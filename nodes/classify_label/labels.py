"""Deciding by the label on a reply's first line (docs/protocols.md). Pure."""

from __future__ import annotations

from typing import Any

from turnflow.graph.decision import decide, is_truncated
from turnflow.graph.label_grammar import find_second_label
from turnflow.graph.protocol import UNKNOWN, LabelProtocol
from turnflow.graph.repairs import NUDGES
from turnflow.graph.settings import TurnSettings
from turnflow.nodes.classify_label.endings import settled
from turnflow.nodes.classify_label.violations import refuse

_OWN_KEYS = frozenset({*NUDGES, "rounds", "call_limit", "provider_error", "tools_refused"})
"""Keys that mean something else; a caller's verdict of this name is told apart from them."""


def label_of(step: dict[str, Any], protocol: LabelProtocol) -> str:
    """The label; calls by themselves need none, they say what they are."""
    label = step["label"] or UNKNOWN
    if label == UNKNOWN and step["calls"] and not step["body"].strip() and protocol.tool:
        return protocol.tool
    return str(label)


def form_violation(
    step: dict[str, Any], text: str, label: str, protocol: LabelProtocol
) -> dict[str, Any] | None:
    """What is wrong with the form of a reply: `key` and what its directive needs; None if nothing is.

    Args:
        step: The reply.
        text: Its body, what an earlier, cut-off part said included.
        label: Its label.
        protocol: The labels.
    """
    if label == UNKNOWN:
        return {"key": "missing_label"}
    if second := find_second_label(text, protocol.allowed):
        return {"key": "multiple_labels", "label": label, "second": second}
    if label == protocol.tool and not step["calls"]:
        return {"key": "tool_without_calls", "label": label}
    if label != protocol.tool and step["calls"]:
        return {"key": f"{label.lower()}_with_tools", "label": label}
    return None


def content_violation(
    text: str, label: str, protocol: LabelProtocol, verdict: str = ""
) -> dict[str, Any] | None:
    """What is wrong with the content of a reply whose form is right.

    Args:
        text: The body, what an earlier, cut-off part said included.
        label: Its label.
        protocol: The labels.
        verdict: What the caller's `validate_terminal` said.
    """
    if verdict:
        return {"key": f"rejected:{verdict}" if verdict in _OWN_KEYS else verdict, "label": label}
    if (label in protocol.final or label in protocol.terminal) and not text.strip():
        return {"key": "empty_terminal", "label": label}
    if label not in {*protocol.terminal, *protocol.intermediate, protocol.tool}:
        return {"key": "unknown_action", "label": label}
    return None


def decide_label(
    step: dict[str, Any],
    turn: dict[str, Any],
    settings: TurnSettings,
    *,
    label: str,
    protocol: LabelProtocol,
    violation: dict[str, Any] | None,
) -> dict[str, Any]:
    """What a reply under a label asks for, once it is known what is wrong with it."""
    if violation:
        return refuse(violation, turn)
    if label == protocol.tool:
        return decide("tool", label=label)
    if label in protocol.terminal and label not in protocol.final:
        # Nobody waits for its text, so that it need not go on; what came is for the caller.
        cut_off = is_truncated(step["finish_reason"])
        return decide("terminal", "label", label=label, is_hidden=True, cut_off=cut_off)
    decision = settled(step, turn, settings, label)
    if label in protocol.terminal or (decision["kind"] == "continue" and label in protocol.final):
        return decision
    return decide("intermediate", label=label)


def decide_finish(step: dict[str, Any], turn: dict[str, Any], settings: TurnSettings) -> dict[str, Any]:
    """The turn ends with this reply, label or not: whatever it says is the answer."""
    if not step["text"].strip() and not turn["continuing"]:
        return decide("terminal", "thinking_only" if step["thinking"].strip() else "empty_reply")
    return settled(step, turn, settings)

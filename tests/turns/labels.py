"""Playing turns under labels: protocols, and what a run showed of one reply."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.turns.scripted import Start, script
from tests.turns.stage import Played, Stage
from turnflow import LabelProtocol
from turnflow.graph.protocol import LABELS

SOLVE = LabelProtocol(
    allowed=("FINISH", "REPLAN", "THINK", "TOOL"),
    terminal=("FINISH", "REPLAN"),
    intermediate=("THINK",),
    final=("FINISH",),
    tool="TOOL",
)
STREAMS = replace(LABELS, stream_final=True)


def play(stage: Stage, fake: Start, *steps: dict[str, Any], **options: Any) -> tuple[Played, Any]:
    provider = fake(script(*steps))
    options = {"protocol": "label", **options}
    return stage.play(stage.graph(provider, **options), "Go."), provider


def live_text(played: Played, message_id: str) -> str:
    return "".join(str(m.content) for m in played.live if m.id == message_id)


def reply_id(played: Played, number: int) -> str:
    return f"turn-{played.messages[0].id}-{number}"

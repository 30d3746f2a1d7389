"""The error of a failed turn."""

from __future__ import annotations

import pickle

from turnflow import TurnError
from turnflow.graph.outcome import NO_USAGE, make_outcome


def test_a_turn_error_survives_pickling() -> None:
    turn = {
        "id": "turn-1",
        "round": 1,
        "tool_calls": 0,
        "usage": dict(NO_USAGE),
        "degradations": [],
        "sources": [],
    }
    outcome = make_outcome(turn, "provider_error", "provider_error")
    error = TurnError("the model could not be called", outcome)
    loaded = pickle.loads(pickle.dumps(error))  # noqa: S301 - written by this very test
    assert isinstance(loaded, TurnError)
    assert str(loaded) == "the model could not be called"
    assert loaded.outcome == outcome

"""The fault suite: what providers do wrong, each played as a turn and the turn after it (docs/faults.md)."""

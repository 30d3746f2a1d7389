"""Replaces closed rounds by a checkpoint in what the model sees."""

from turnflow.nodes.fold_checkpoint.node import fold_checkpoint

__all__ = ["fold_checkpoint"]

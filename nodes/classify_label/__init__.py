"""Decides what a reply asks for, and stores the reply."""

from turnflow.nodes.classify_label.node import ClassifyLabel

__all__ = ["ClassifyLabel"]

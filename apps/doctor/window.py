"""Hints about the context window in what servers tell about a model. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

LEAST, MOST = 256, 100_000_000
"""Tokens; a number beyond is no window."""

_SERVED = (
    "max_model_len",  # vLLM, SGLang
    "loaded_context_length",  # LM Studio
    "context_length",  # OpenRouter, Together, Moonshot, Ollama's list of loaded models
    "context_window",  # Groq
    "max_context_length",  # Mistral
    "n_ctx",  # llama.cpp
)
_NUM_CTX = re.compile(r"^\s*num_ctx\s+(\d+)\s*$", re.MULTILINE)


class Hint(NamedTuple):
    """A window, and the field that told it."""

    tokens: int
    field: str


def listed_models(listing: Any) -> list[str]:
    """The ids in an answer of `/models`."""
    return [entry["id"] for entry in _entries(listing) if isinstance(entry.get("id"), str)]


def listed_window(listing: Any, model: str) -> Hint | None:
    """The window of a model in an answer of `/models`."""
    entries = list(_entries(listing))
    own = [entry for entry in entries if model in (entry.get("id"), entry.get("name"), entry.get("root"))]
    # llama.cpp serves one model and takes any name for it.
    for entry in own or entries[: len(entries) == 1]:
        for place in (entry, entry.get("meta"), entry.get("top_provider")):
            if hint := _served(place):
                return hint
    return None


def props_window(props: Any) -> Hint | None:
    """The window in llama.cpp's `/props`."""
    return _served(props.get("default_generation_settings")) if isinstance(props, dict) else None


def loaded_window(loaded: Any, model: str) -> Hint | None:
    """The window in Ollama's `/api/ps`, the list of models that are loaded."""
    entries = loaded.get("models") if isinstance(loaded, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and model in {entry.get("name"), entry.get("model")}:
            return _served(entry)
    return None


def shown_window(shown: Any) -> Hint | None:
    """The window in Ollama's `/api/show`: what the model is set to, not what it was trained with."""
    parameters = shown.get("parameters") if isinstance(shown, dict) else None
    found = _NUM_CTX.search(parameters) if isinstance(parameters, str) else None
    return Hint(int(found[1]), "num_ctx") if found and _is_window(int(found[1])) else None


def _served(place: Any) -> Hint | None:
    if not isinstance(place, dict):
        return None
    return next((Hint(place[name], name) for name in _SERVED if _is_window(place.get(name))), None)


def _entries(listing: Any) -> Iterator[dict[str, Any]]:
    data = listing.get("data") if isinstance(listing, dict) else listing
    return (entry for entry in (data if isinstance(data, list) else ()) if isinstance(entry, dict))


def _is_window(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and LEAST <= value <= MOST

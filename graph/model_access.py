"""What lies behind a chat model as it is given: the models themselves, what they are called, their profiles.

A model may be wrapped (`with_config`, `bind`, `with_retry`, `with_fallbacks`): what is to change about it is
changed within.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from langchain_core.runnables import RunnableWithFallbacks
from langchain_core.runnables.base import RunnableBindingBase
from langchain_openai.chat_models.base import BaseChatOpenAI

from turnflow.graph.profile import ProviderProfile
from turnflow.graph.profiles import OPENAI_URL, find_profile

_NAMES = ("model_name", "model", "model_id", "deployment_name", "repo_id")
_ENDPOINTS = (
    "openai_api_base",
    "azure_endpoint",
    "base_url",
    "anthropic_api_url",
    "endpoint_url",
    "endpoint",
)


def inner_models(model: Any) -> list[Any]:
    """The models behind a model: itself, what it wraps, or all those that it may fall back to."""
    if isinstance(model, RunnableBindingBase):
        return inner_models(model.bound)
    if isinstance(model, RunnableWithFallbacks):
        return [inner for each in (model.runnable, *model.fallbacks) for inner in inner_models(each)]
    return [model]


def with_profile(model: Any, profile: ProviderProfile) -> Any:
    """A model that heeds a profile: as a field of its own, or by the fields that it has for parameters."""
    return _changed(model, lambda inner: _heeding(inner, profile))


def name_of(model: Any) -> str:
    """What a model calls itself; '' where it does not say."""
    return _said(inner_models(model)[0], _NAMES)


def endpoint_of(model: Any) -> str:
    """The address that a model asks; '' where it does not say."""
    inner = inner_models(model)[0]
    said = _said(inner, _ENDPOINTS)
    if not said and isinstance(inner, BaseChatOpenAI):
        return os.environ.get("OPENAI_BASE_URL") or OPENAI_URL  # as its client does
    return said


def profile_of(model: Any) -> ProviderProfile:
    """What a model's provider can do: as the model says, else as is known of its name and its endpoint."""
    inner = inner_models(model)[0]
    own = getattr(inner, "provider_profile", None)
    is_open_ai = isinstance(inner, BaseChatOpenAI)
    if isinstance(own, ProviderProfile) and not (
        is_open_ai and "provider_profile" not in inner.model_fields_set
    ):
        return own
    return find_profile(name_of(inner), endpoint_of(inner)) if is_open_ai else ProviderProfile()


def _changed(model: Any, change: Callable[[Any], Any]) -> Any:
    """The model with each of those behind it changed; the same object where nothing does."""
    if isinstance(model, RunnableBindingBase):
        bound = _changed(model.bound, change)
        return model if bound is model.bound else model.model_copy(update={"bound": bound})
    if isinstance(model, RunnableWithFallbacks):
        before = [model.runnable, *model.fallbacks]
        first, *others = after = [_changed(each, change) for each in before]
        if all(old is new for old, new in zip(before, after, strict=True)):
            return model
        return model.model_copy(update={"runnable": first, "fallbacks": others})
    return change(model)


def _heeding(model: Any, profile: ProviderProfile) -> Any:
    fields = getattr(type(model), "model_fields", {})
    changed: dict[str, Any] = {}
    if not profile.streaming and getattr(model, "disable_streaming", True) is not True:
        changed["disable_streaming"] = True
    if isinstance(own := getattr(model, "provider_profile", None), ProviderProfile):
        if own != profile:
            changed["provider_profile"] = profile
        return model.model_copy(update=changed) if changed else model
    changed |= {name: None for name in profile.unsupported_parameters if name in fields}
    if not profile.stream_usage and "stream_usage" in fields:
        changed["stream_usage"] = False
    return model.model_copy(update=changed) if changed else model


def _said(model: Any, names: tuple[str, ...]) -> str:
    for name in names:
        value = getattr(model, name, None)
        if isinstance(value, str) and value:
            return value
    return ""

"""The embedded default model: a small real one, served on loopback."""

from turnflow.apps.local_model.chat import LocalChatModel, local_model
from turnflow.apps.local_model.notice import TOY_NOTICE, TOY_NOTICE_ZH
from turnflow.apps.local_model.server import (
    LocalModelError,
    LocalModelServer,
    find_weights,
    local_model_missing,
    local_server,
)

__all__ = [
    "TOY_NOTICE",
    "TOY_NOTICE_ZH",
    "LocalChatModel",
    "LocalModelError",
    "LocalModelServer",
    "find_weights",
    "local_model",
    "local_model_missing",
    "local_server",
]

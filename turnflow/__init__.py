"""turnflow: one whole agent turn as a compiled LangGraph graph, for any OpenAI-compatible model."""

from turnflow.graph.build import TurnGraph, build_turn_graph
from turnflow.graph.cancel import CancelToken
from turnflow.graph.context import TurnContext, TurnHooks
from turnflow.graph.effects import EffectFound
from turnflow.graph.label_grammar import classify_label
from turnflow.graph.outcome import Outcome, TurnError
from turnflow.graph.permissions import (
    AllowList,
    AskIfUncertain,
    Default,
    DenyList,
    Permission,
    PermissionPolicy,
    PermissionRequest,
    Policy,
    SessionGrants,
    ToolRisk,
    Verdict,
    current_permission,
)
from turnflow.graph.profile import ProviderProfile
from turnflow.graph.protocol import JsonProtocol, LabelProtocol
from turnflow.graph.run import TurnResult, arun_turn, run_turn
from turnflow.graph.saver import SaverError, TurnSaver, open_saver
from turnflow.graph.settings import TurnSettings
from turnflow.graph.tool_policy import ToolOutput, ToolPolicy
from turnflow.nodes.assemble_context import PlanInput, plan_context
from turnflow.nodes.call_llm import OpenAICompatibleChat, ReplyReader

__all__ = [
    "AllowList",
    "AskIfUncertain",
    "CancelToken",
    "Default",
    "DenyList",
    "EffectFound",
    "JsonProtocol",
    "LabelProtocol",
    "OpenAICompatibleChat",
    "Outcome",
    "Permission",
    "PermissionPolicy",
    "PermissionRequest",
    "PlanInput",
    "Policy",
    "ProviderProfile",
    "ReplyReader",
    "SaverError",
    "SessionGrants",
    "ToolOutput",
    "ToolPolicy",
    "ToolRisk",
    "TurnContext",
    "TurnError",
    "TurnGraph",
    "TurnHooks",
    "TurnResult",
    "TurnSaver",
    "TurnSettings",
    "Verdict",
    "arun_turn",
    "build_turn_graph",
    "classify_label",
    "current_permission",
    "open_saver",
    "plan_context",
    "run_turn",
]

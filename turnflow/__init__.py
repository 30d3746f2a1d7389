"""turnflow: one whole agent turn as a compiled LangGraph graph, for any OpenAI-compatible model."""

from turnflow.graph.as_node import as_node
from turnflow.graph.build import TurnGraph, build_turn_graph
from turnflow.graph.cancel import CancelToken
from turnflow.graph.context import TurnContext, TurnHooks
from turnflow.graph.contributions import Contribution, ContributionQuery, Contributor
from turnflow.graph.effects import EffectFound
from turnflow.graph.history import full_history, visible_history
from turnflow.graph.inbox import Inbox, InputSource
from turnflow.graph.label_grammar import classify_label
from turnflow.graph.learned import forget_learned
from turnflow.graph.logs import JsonLines, log_to
from turnflow.graph.memory import Memory, Recalled
from turnflow.graph.outcome import Outcome, TurnError
from turnflow.graph.past import Past
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
from turnflow.graph.profiles import find_profile, load_profile, named_profile
from turnflow.graph.protocol import JsonProtocol, LabelProtocol
from turnflow.graph.record import read_record, rebuild
from turnflow.graph.replay import replay
from turnflow.graph.run import TurnResult, arun_turn, run_turn
from turnflow.graph.saver import SaverError, TurnSaver, open_saver
from turnflow.graph.session import SessionInfo, SessionMeta, session_change
from turnflow.graph.session_access import (
    asession_of,
    aset_tags,
    aset_variables,
    session_of,
    set_tags,
    set_variables,
)
from turnflow.graph.settings import TurnSettings
from turnflow.graph.tokens import TokenCounter
from turnflow.graph.tool_policy import ToolOutput, ToolPolicy
from turnflow.graph.turns import pinned
from turnflow.nodes.assemble_context import Manifest, PlanInput, explain, plan_context
from turnflow.nodes.assemble_context.memory import HybridMemory, SummaryMemory, VectorMemory, WindowMemory
from turnflow.nodes.call_llm import OpenAICompatibleChat, ReplyReader

__all__ = [
    "AllowList",
    "AskIfUncertain",
    "CancelToken",
    "Contribution",
    "ContributionQuery",
    "Contributor",
    "Default",
    "DenyList",
    "EffectFound",
    "HybridMemory",
    "Inbox",
    "InputSource",
    "JsonLines",
    "JsonProtocol",
    "LabelProtocol",
    "Manifest",
    "Memory",
    "OpenAICompatibleChat",
    "Outcome",
    "Past",
    "Permission",
    "PermissionPolicy",
    "PermissionRequest",
    "PlanInput",
    "Policy",
    "ProviderProfile",
    "Recalled",
    "ReplyReader",
    "SaverError",
    "SessionGrants",
    "SessionInfo",
    "SessionMeta",
    "SummaryMemory",
    "TokenCounter",
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
    "VectorMemory",
    "Verdict",
    "WindowMemory",
    "arun_turn",
    "as_node",
    "asession_of",
    "aset_tags",
    "aset_variables",
    "build_turn_graph",
    "classify_label",
    "current_permission",
    "explain",
    "find_profile",
    "forget_learned",
    "full_history",
    "load_profile",
    "log_to",
    "named_profile",
    "open_saver",
    "pinned",
    "plan_context",
    "read_record",
    "rebuild",
    "replay",
    "run_turn",
    "session_change",
    "session_of",
    "set_tags",
    "set_variables",
    "visible_history",
]

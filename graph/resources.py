"""What a run works with: what `build_turn_graph` was given, overridden by the run's context."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool

from turnflow.graph.cancel import CancelToken
from turnflow.graph.context import TurnContext, TurnHooks
from turnflow.graph.contributions import Contributor
from turnflow.graph.degradation import degrade
from turnflow.graph.learned import ModelKey
from turnflow.graph.memory import Memory
from turnflow.graph.model_access import endpoint_of, name_of, profile_of, with_profile
from turnflow.graph.permissions import PermissionPolicy, as_permission_policy
from turnflow.graph.profile import ProviderProfile
from turnflow.graph.profiles import find_profile
from turnflow.graph.protocol import Protocol, as_protocol
from turnflow.graph.reply_form import TOOLS_REFUSED, ReplyForm, reply_form
from turnflow.graph.settings import TurnSettings, as_settings
from turnflow.graph.tokens import TokenCounter, default_counter
from turnflow.graph.tool_policy import ToolPolicy
from turnflow.graph.tool_registry import ToolRegistry, as_policy, hidden_tools
from turnflow.prompts import Behaviour, Prompts

ChatModel = BaseChatModel | Runnable[Any, Any]
Tool = BaseTool | Callable[..., Any]
Policies = Mapping[str, ToolPolicy | Mapping[str, Any]]

DEFAULT_WINDOW = 128_000
"""Tokens of a model of which nothing is known; an overflow teaches less."""

MIN_WINDOW = 256
"""Less than this is no window of a chat model."""


class Registries:
    """Builds the registry of a set of tools once, and again when the set has changed."""

    _KEPT = 16

    def __init__(self, builtin_tools: Callable[[TurnSettings], Sequence[BaseTool]]) -> None:
        self._builtin_tools = builtin_tools
        self._built: dict[tuple[Any, ...], tuple[Any, ToolRegistry]] = {}
        self._merged: dict[tuple[int, int], tuple[Any, Any, ToolPolicy]] = {}

    def of(self, tools: Sequence[Tool], policies: Policies, settings: TurnSettings) -> ToolRegistry:
        """The registry of these tools and the built-in ones that they do not replace."""
        key = (
            *(id(tool) for tool in tools),
            *((name, id(policy)) for name, policy in policies.items()),
            settings.ask_user,
            settings.read_results,
            settings.locale,
        )
        kept = self._built.get(key)
        if kept is None:
            own = {getattr(tool, "name", getattr(tool, "__name__", "")) for tool in tools}
            built_in = [tool for tool in self._builtin_tools(settings) if tool.name not in own]
            # The tools are kept beside the registry: an id stands for an object only while it lives.
            kept = ((list(tools), list(policies.values())), ToolRegistry([*tools, *built_in], policies))
            self._built = {**dict(list(self._built.items())[-self._KEPT + 1 :]), key: kept}
        return kept[1]

    def merged(self, name: str, own: ToolPolicy | Mapping[str, Any], policy: ToolPolicy) -> ToolPolicy:
        """A policy with the fields of another that are set over it; the same object for the same two."""
        key = (id(own), id(policy))
        kept = self._merged.get(key)
        if kept is None:
            changed = {field: getattr(policy, field) for field in policy.model_fields_set}
            # Both are kept beside it: an id stands for an object only while it lives.
            kept = (own, policy, as_policy(name, own).model_copy(update=changed))
            self._merged = {**dict(list(self._merged.items())[-self._KEPT + 1 :]), key: kept}
        return kept[2]


@dataclass(frozen=True)
class TurnResources:
    """All that nodes work with and that is never stored."""

    make_model: Callable[[str, ProviderProfile], BaseChatModel]
    registries: Registries
    retry_wait: Callable[[BaseException, int, TurnSettings], float | None] = lambda *_: None
    """Seconds to wait before a request that failed with this is sent again, by the number of the retry."""
    model: ChatModel | str | None = None
    tools: Sequence[Tool] = ()
    policies: Policies = field(default_factory=dict)
    permissions: PermissionPolicy = field(default_factory=PermissionPolicy)
    settings: TurnSettings = field(default_factory=TurnSettings)
    given_profile: ProviderProfile | None = None
    behaviour_name: str | Path = "chat"
    given_protocol: object = None
    instructions: str = ""
    memory_of: Callable[[Any, Any], Memory] | None = None
    given_memory: Any = "hybrid"
    embeddings: Any = None
    contributors: Sequence[Contributor] = ()
    given_summariser: Any = None
    context: TurnContext = field(default_factory=TurnContext)

    def for_run(self, context: object) -> TurnResources:
        """These resources with a run's context over them.

        A graph that is embedded is given its parent's context. Where that is no `TurnContext`, it may hold
        one, as a field or a key named `turn`.

        Raises:
            ValueError: A setting, tool or policy in the context is wrong; the text names it.
        """
        if not isinstance(context, TurnContext):
            context = context.get("turn") if isinstance(context, Mapping) else getattr(context, "turn", None)
        if not isinstance(context, TurnContext):
            return replace(
                self
            )  # what is derived, the model of the environment's name say, is derived afresh
        tools = self.tools if context.tools is None else _tools_now(context.tools)
        changed = {**context.settings, **({"locale": context.locale} if context.locale else {})}
        if context.policies:
            self.registries.of(tools, {}, self.settings).check_policies(context.policies)
        return replace(
            self,
            model=context.model if context.model is not None else context.model_name or self.model,
            tools=tools,
            policies={**self.policies, **self._overridden(context.policies or {})},
            permissions=self.permissions
            if context.permissions is None
            else as_permission_policy(context.permissions),
            settings=as_settings({**self.settings.model_dump(), **changed}, "TurnContext.settings")
            if changed
            else self.settings,
            behaviour_name=self.behaviour_name if context.behaviour is None else context.behaviour,
            given_protocol=self.given_protocol if context.protocol is None else context.protocol,
            instructions=self.instructions if context.instructions is None else context.instructions,
            given_memory=self.given_memory if context.memory is None else context.memory,
            embeddings=self.embeddings if context.embeddings is None else context.embeddings,
            contributors=self.contributors if context.contributors is None else list(context.contributors),
            given_summariser=self.given_summariser if context.summariser is None else context.summariser,
            context=context,
        )

    def _overridden(self, policies: Mapping[str, ToolPolicy]) -> dict[str, ToolPolicy]:
        """The policies of a context, over those that the graph has for the same tools."""
        return {
            name: self.registries.merged(name, self.policies[name], policy)
            if name in self.policies
            else policy
            for name, policy in policies.items()
        }

    @cached_property
    def registry(self) -> ToolRegistry:
        """All tools of this run, the built-in ones included."""
        return self.registries.of(self.tools, self.policies, self.settings)

    def tools_in(self, turn: dict[str, Any]) -> ToolRegistry:
        """The tools that exist in a turn as it stands.

        Which are available is decided when it starts, so that they do not flicker within it. Deferred ones
        come and go as they are loaded, and the built-in ones with what they are for.
        """
        return self.registry.without(
            hidden_tools(
                self.registry,
                unavailable=turn["unavailable"],
                loaded=turn.get("loaded", ()),
                has_handles=turn.get("has_handles", False),
            )
        )

    @cached_property
    def chat_model(self) -> ChatModel:
        """The model.

        Raises:
            ValueError: Nothing says which model to use.
        """
        model = self.model or os.environ.get("TURNFLOW_MODEL")
        if model is None:
            raise ValueError(
                "no model: pass model= to build_turn_graph or TurnContext, or set TURNFLOW_MODEL "
                "(with OPENAI_API_KEY, and OPENAI_BASE_URL for another endpoint than OpenAI's)"
            )
        if isinstance(model, str):
            return self.make_model(model, self.profile)
        return cast("ChatModel", with_profile(model, self.profile))

    def model_in(self, turn: dict[str, Any]) -> ChatModel:
        """The model, as it is to be spoken to as far as it is known in a turn what its provider refuses."""
        model: Any = self.chat_model
        profile = self.profile_in(turn)
        if profile != self.profile:
            model = with_profile(model, profile)
        return cast("ChatModel", model)

    @property
    def model_name(self) -> str:
        """What the model calls itself; '' where it does not say."""
        if isinstance(self.model, str):
            return self.model
        return name_of(self.chat_model)

    @cached_property
    def summariser_model(self) -> ChatModel:
        """The model that sums up what leaves the requests."""
        given = self.given_summariser
        if given is None:
            return self.chat_model
        return self.make_model(given, ProviderProfile()) if isinstance(given, str) else given

    def summariser_in(self, turn: dict[str, Any]) -> ChatModel:
        """The same, as it is to be spoken to as far as it is known in a turn what its provider refuses."""
        return self.model_in(turn) if self.given_summariser is None else self.summariser_model

    @cached_property
    def memory(self) -> Memory:
        """The memory strategy.

        Raises:
            ValueError: There is no such strategy, or it lacks something; the text names the mend.
        """
        if self.memory_of is None:
            raise ValueError("no memory strategies were given")
        return self.memory_of(self.given_memory, self.embeddings)

    def window_in(self, turn: dict[str, Any]) -> int:
        """Tokens that a request and its reply may take together, as it is known in a turn."""
        learned = self.learned_in(turn).get("window")
        window = self.settings.context_window or self.profile.context_window or self._model_window()
        return min(window, learned) if learned else window

    def _model_window(self) -> int:
        profile = getattr(self.chat_model, "profile", None)
        known = profile.get("max_input_tokens") if isinstance(profile, Mapping) else None
        return known if isinstance(known, int) and known >= MIN_WINDOW else DEFAULT_WINDOW

    def learned_in(self, turn: dict[str, Any]) -> dict[str, Any]:
        """What earlier requests of a conversation have taught about this model."""
        learned: dict[str, Any] = turn.get("learned") or {}
        return learned if learned.get("model") == self.model_name else {}

    def counter_in(self, turn: dict[str, Any]) -> TokenCounter:
        """Counts tokens as far as it is known in a turn how this model does."""
        factor, field = self.learned_in(turn).get("factor", 1.0), self.profile.reasoning_field
        return default_counter(self.model_name, factor, reasoning_fields=() if field is None else (field,))

    @cached_property
    def profile(self) -> ProviderProfile:
        """What the provider can do.

        As the graph was told, else as the model itself says, else as is known of models of its name and its
        endpoint.
        """
        if self.given_profile is not None:
            return self.given_profile
        model: Any = self.model or os.environ.get("TURNFLOW_MODEL")
        if isinstance(model, str):
            return find_profile(model, os.environ.get("OPENAI_BASE_URL"))
        return profile_of(model)

    def profile_in(self, turn: dict[str, Any]) -> ProviderProfile:
        """The same, as far as it is known in a turn what the provider refuses."""
        refused = self.refused_in(turn)
        return degrade(self.profile, refused) if refused else self.profile

    def refused_in(self, turn: dict[str, Any]) -> list[str]:
        """What the provider of this run's model is known to refuse, as far as it is known in a turn."""
        if "refused" not in turn:  # one that was stored before there was such a field says it otherwise
            return [each for each in turn["degradations"] if each == TOOLS_REFUSED]
        return list(turn["refused"]) if turn.get("refused_by") == self.model_mark else []

    def refusing(self, refused: Sequence[str]) -> dict[str, Any]:
        """Fields of the turn: what the provider of this run's model is known to refuse."""
        return {"refused": list(refused), "refused_by": self.model_mark}

    @cached_property
    def model_mark(self) -> str:
        """A digest of what tells the model and its endpoint from others."""
        told = [type(self.chat_model).__name__, endpoint_of(self.chat_model), self.model_name]
        return hashlib.blake2b("\n".join(told).encode(), digest_size=8).hexdigest()

    @property
    def model_key(self) -> ModelKey | None:
        """What stands for the model and its endpoint, for what a process learns; None if they do not say."""
        endpoint, name = endpoint_of(self.chat_model), self.model_name
        return (type(self.chat_model).__name__, endpoint, name) if endpoint and name else None

    @property
    def behaviour(self) -> Behaviour:
        """How the model is to go about the turn.

        Raises:
            ValueError: There is no such behaviour, or its file is wrong.
        """
        return self.prompts.behaviour(self.behaviour_name)

    @property
    def protocol(self) -> Protocol:
        """How replies say what they want: as the graph or the run was told, else as the behaviour says.

        Raises:
            ValueError: There is no such behaviour, or its file is wrong.
        """
        given = self.given_protocol
        return self.behaviour.protocol if given is None else as_protocol(given)

    def form_in(self, turn: dict[str, Any]) -> ReplyForm:
        """In what form the model and a turn speak to each other."""
        return reply_form(
            self.protocol,
            self.profile_in(turn),
            refused=TOOLS_REFUSED in self.refused_in(turn),
            is_plain=bool(turn["message_id"]) and turn.get("plain_part") == turn["message_id"],
        )

    @property
    def prompts(self) -> Prompts:
        """The texts, in the run's language."""
        return _prompts(self.settings.locale)

    @property
    def hooks(self) -> TurnHooks:
        """The run's hooks."""
        return self.context.hooks or TurnHooks()

    @property
    def cancel(self) -> CancelToken | None:
        """The run's cancel token."""
        token: CancelToken | None = self.context.cancel
        return token

    @property
    def cancelled(self) -> bool:
        """Whether the run was cancelled."""
        return self.cancel is not None and self.cancel.cancelled


def _tools_now(tools: Sequence[Tool] | Callable[[], Iterable[Tool]]) -> list[Tool]:
    """The tools of a context, asked for where it gives a function.

    Raises:
        ValueError: The function gives no list.
    """
    if not callable(tools):
        return list(tools)
    try:
        given = tools()
    except Exception as error:
        raise ValueError(f"TurnContext.tools raised {type(error).__name__}: {error}") from error
    if isinstance(given, str | BaseTool | Mapping) or not isinstance(given, Iterable):
        raise ValueError(f"TurnContext.tools must give a list of tools, not {given!r:.80}")
    return list(given)


_prompts = lru_cache(Prompts)

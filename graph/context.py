"""What a caller gives for one run: `TurnContext`, the graph's context schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from pydantic import ConfigDict
from pydantic.json_schema import SkipJsonSchema, WithJsonSchema

from turnflow.graph.cancel import CancelToken
from turnflow.graph.contributions import check_contributors
from turnflow.graph.inbox import check_inbox
from turnflow.graph.memory import MEMORY_NAMES
from turnflow.graph.permissions import PermissionPolicy, as_permission_policy
from turnflow.graph.protocol import PROTOCOL_NAMES, as_protocol
from turnflow.graph.settings import TurnSettings, as_settings
from turnflow.graph.tool_policy import ToolPolicy

Hook = Callable[[dict[str, Any]], Any]
"""Takes a payload with `session_id`, `turn_id`, `round` and what the hook is about; may return a directive
(a string) for the next request. May be a coroutine function."""

HookName = Literal[
    "on_turn_start", "on_first_round", "before_round", "on_tool_result", "on_pause", "on_turn_end"
]


@dataclass(frozen=True)
class TurnHooks:
    """Callables that observe a turn, or add a directive to its next request (docs/hooks.md).

    A hook that raises is logged and never breaks the turn.
    """

    on_turn_start: Hook | None = None
    on_first_round: Hook | None = None
    before_round: Hook | None = None
    on_tool_result: Hook | None = None
    on_pause: Hook | None = None
    on_turn_end: Hook | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be called.

        Raises:
            ValueError: The text names the hook.
        """
        for each in fields(self):
            hook = getattr(self, each.name)
            if hook is not None and not callable(hook):
                raise ValueError(f"hook {each.name} is a function, not {hook!r}")


MAX_USER_ID = 200
"""Characters of a user's id."""

_MEMORY_SCHEMA = {"anyOf": [{"type": "string", "enum": list(MEMORY_NAMES)}, {"type": "null"}]}
_PROTOCOL_SCHEMA = {"anyOf": [{"type": "string", "enum": list(PROTOCOL_NAMES)}, {"type": "null"}]}


@dataclass
class TurnContext:
    """What one run uses; each field overrides what `build_turn_graph` was given (docs/context.md).

    Live objects are typed `Any` and left out of the JSON schema, from which LangGraph Studio draws a form.
    """

    __pydantic_config__: ClassVar = ConfigDict(use_attribute_docstrings=True)

    model_name: str | None = None
    """Name of the model at the configured endpoint; ignored where `model` is given."""
    instructions: str | None = None
    """The caller's own instructions, in the system prompt behind the behaviour's text."""
    behaviour: Annotated[Any, WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "null"}]})] = None
    """Name of a behaviour, or the `Path` of its file."""
    protocol: Annotated[Any, WithJsonSchema(_PROTOCOL_SCHEMA)] = None
    """How replies say what they want: `native`, `label`, `json`, a `LabelProtocol` or a `JsonProtocol`. If
    unset, as the behaviour says."""
    user_id: str | None = None
    """Who is asking, in at most 200 characters; handed to hooks and tools."""
    locale: Literal["en", "zh"] | None = None
    """Language of the texts that the turn itself writes."""
    settings: Annotated[dict[str, Any], WithJsonSchema(TurnSettings.model_json_schema())] = field(
        default_factory=dict
    )
    """Fields of `TurnSettings` that differ in this run."""
    model: Annotated[Any, SkipJsonSchema()] = None
    """A LangChain chat model."""
    tools: Annotated[Any, SkipJsonSchema()] = None
    """Tools of this run, instead of those of the graph: a list, or a function without arguments that gives
    one, asked anew in each step of the turn."""
    policies: Annotated[Mapping[str, Any] | None, SkipJsonSchema()] = None
    """`ToolPolicy` by tool name; the fields that are set take the place of those that the graph has."""
    permissions: Annotated[Any, SkipJsonSchema()] = None
    """Permission policies of this run, instead of those of the graph (docs/permissions.md)."""
    memory: Annotated[Any, WithJsonSchema(_MEMORY_SCHEMA)] = None
    """Name of a memory strategy, or a memory (docs/memory.md)."""
    embeddings: Annotated[Any, SkipJsonSchema()] = None
    """LangChain `Embeddings`, for memories that are named."""
    contributors: Annotated[Any, SkipJsonSchema()] = None
    """List of `Contributor` of this run, instead of those of the graph (docs/context.md)."""
    summariser: Annotated[Any, SkipJsonSchema()] = None
    """The chat model that sums up what leaves the requests; None takes the model of the turn."""
    hooks: Annotated[Any, SkipJsonSchema()] = None
    """A `TurnHooks`."""
    cancel: Annotated[Any, SkipJsonSchema()] = None
    """A `CancelToken`."""
    inbox: Annotated[Any, SkipJsonSchema()] = None
    """An `Inbox`, for input that comes while the turn runs (docs/inbox.md)."""

    def __post_init__(self) -> None:
        """Refuse what would break a turn midway.

        Raises:
            ValueError: The text names the field and what it takes.
        """
        self._check_texts()
        self._check_tables()
        if self.permissions is not None:
            as_permission_policy(self.permissions)
            if not isinstance(self.permissions, PermissionPolicy) and not self.permissions:
                raise ValueError("TurnContext.permissions is empty, which would allow all; leave it out")
        if self.contributors is not None:
            check_contributors(self.contributors)
        check_model(self.summariser, "TurnContext.summariser")
        check_inbox(self.inbox, "TurnContext.inbox")
        for name, kind in (("hooks", TurnHooks), ("cancel", CancelToken)):
            value = getattr(self, name)
            if value is not None and not isinstance(value, kind):
                raise ValueError(f"TurnContext.{name} is a {kind.__name__}, not {value!r}")

    def _check_texts(self) -> None:
        if not isinstance(self.instructions, str | None):
            raise ValueError(f"TurnContext.instructions is a text, not {self.instructions!r:.80}")
        if not isinstance(self.user_id, str | None):
            raise ValueError(f"TurnContext.user_id is a text, not {self.user_id!r:.80}")
        if len(self.user_id or "") > MAX_USER_ID:
            has = f"has {len(self.user_id or '')} characters"
            raise ValueError(f"TurnContext.user_id {has}, {MAX_USER_ID} is the most; give a shorter id")
        if self.locale is not None:
            as_settings({"locale": self.locale}, "TurnContext")
        if self.protocol is not None:
            as_protocol(self.protocol)
        if not isinstance(self.behaviour, str | Path | None):
            raise ValueError(f"TurnContext.behaviour is a name or a Path, not {self.behaviour!r:.80}")
        if isinstance(self.behaviour, str) and self.behaviour.endswith(".md"):
            # A context may come as JSON from afar, and is not to name files of this machine.
            raise ValueError(f"TurnContext.behaviour is a name; for a file give Path({self.behaviour!r})")

    def _check_tables(self) -> None:
        for name, policy in (self.policies or {}).items() if isinstance(self.policies, Mapping) else ():
            if not isinstance(policy, ToolPolicy):
                # A context may come as JSON from afar, and is not to take approvals away.
                raise ValueError(f"TurnContext.policies[{name!r}] is a ToolPolicy, not {policy!r:.80}")
        for name in ("settings", "policies"):
            given = getattr(self, name)
            if not isinstance(given, Mapping) and (given is not None or name == "settings"):
                raise ValueError(f"TurnContext.{name} is a dict, not {given!r:.80}")
        as_settings(self.settings, "TurnContext.settings")
        if self.tools is not None and not _gives_tools(self.tools):
            if isinstance(self.tools, str | BaseTool | Mapping) or not isinstance(self.tools, Iterable):
                raise ValueError(f"TurnContext.tools is a list of tools; give [{self.tools!r:.80}]")
            self.tools = list(self.tools)


def check_model(model: object, argument: str) -> None:
    """Refuse what is neither a chat model, nor the name of one, nor None.

    Args:
        model: What was given.
        argument: What an error calls it.

    Raises:
        ValueError: The text names the argument and what it takes.
    """
    if isinstance(model, type) or not isinstance(model, str | Runnable | None):
        raise ValueError(f"{argument} is a LangChain chat model or the name of one, not {model!r:.80}")
    if isinstance(model, str) and not model.strip():
        raise ValueError(f"{argument} is an empty name; name a model, or leave it out")


def _gives_tools(tools: object) -> bool:
    """Whether this is a function that gives a list of tools, and no tool itself."""
    return callable(tools) and not isinstance(tools, BaseTool | type | Iterable)


def as_context(given: object) -> TurnContext | None:
    """A run's context, given as such or as a dict of its fields.

    Raises:
        ValueError: It is neither, or has an unknown field; the text lists those that there are.
    """
    if given is None or isinstance(given, TurnContext):
        return given
    if not isinstance(given, Mapping):
        raise ValueError(f"context is a TurnContext or a dict of its fields, not {given!r}")
    names = [field.name for field in fields(TurnContext)]
    unknown = [name for name in given if name not in names]
    if unknown:
        raise ValueError(f"context has no field {unknown[0]!r}; the fields are: {', '.join(names)}")
    return TurnContext(**given)

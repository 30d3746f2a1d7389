"""Who may call what: a chain of policies, of which the first that answers decides (docs/permissions.md)."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, Literal, Self, get_args

from turnflow.graph.awaiting import await_for, wait_for
from turnflow.graph.cancel import CancelToken
from turnflow.graph.daemon import GivenUpError, is_being_cancelled
from turnflow.graph.text import storable

logger = logging.getLogger("turnflow")

Verdict = Literal["allow", "ask", "deny"]
_VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

_MAX_REASON = 1000
_MAX_NAME = 100


@dataclass(frozen=True)
class Permission:
    """What a policy says of a call.

    Attributes:
        verdict: It runs, a person is asked first, or it is refused.
        policy: Name of the policy that said so; if blank, the chain fills in the name of the one it asked.
        reason: Why, in words for the model and the person that is asked.
    """

    verdict: Verdict
    policy: str = ""
    reason: str = ""


@dataclass(frozen=True)
class PermissionRequest:
    """What a policy is asked about: one call, as it would run.

    Attributes:
        name: The tool's own name, never an alias.
        args: What the tool would get, the defaults of its schema filled in; a copy.
        tool_call_id: Id of the call.
        session_id: The thread's id, or what stands for it.
        turn_id: Id of the turn.
        user_id: `TurnContext.user_id`.
        read_only: What the tool's policy says.
        needs_approval: What the tool's policy says of these arguments.
        grants: What a person allowed of this tool for the session: `{name: {...}}`, or empty.
        uncertain: Whether an equal call of this turn was broken off, and it is not known if it took effect.
        context: The run's `TurnContext`.
    """

    name: str
    args: dict[str, Any]
    tool_call_id: str = ""
    session_id: str = ""
    turn_id: str = ""
    user_id: str | None = None
    read_only: bool = False
    needs_approval: bool = False
    grants: Mapping[str, Any] = field(default_factory=dict)
    uncertain: bool = False
    context: Any = None


Policy = Callable[[PermissionRequest], Any]
"""Gives a verdict, a `Permission` that says why, or None where it has nothing to say; may be a coroutine
function. Its name is its attribute `name`, else its `__name__`."""


class DenyList:
    """Denies the tools whose names match a pattern (`fnmatch`, case-sensitive).

    Raises:
        ValueError: A pattern is not a text; the text of the error names it.
    """

    name = "deny_list"

    def __init__(self, *patterns: str, reason: str = "") -> None:
        self.patterns = _patterns("DenyList", patterns)
        if not isinstance(reason, str):
            raise ValueError(f"DenyList: reason is a text, not {reason!r:.80}")
        self._reason = reason

    def __call__(self, request: PermissionRequest) -> Permission | None:
        """Deny, or say nothing."""
        return Permission("deny", reason=self._reason) if _matches(request.name, self.patterns) else None


class AllowList:
    """Allows the tools whose names match a pattern (`fnmatch`, case-sensitive).

    Raises:
        ValueError: A pattern is not a text; the text of the error names it.
    """

    name = "allow_list"

    def __init__(self, *patterns: str) -> None:
        self.patterns = _patterns("AllowList", patterns)

    def __call__(self, request: PermissionRequest) -> Verdict | None:
        """Allow, or say nothing."""
        return "allow" if _matches(request.name, self.patterns) else None


class SessionGrants:
    """Allows the tools that a person has allowed for the session."""

    name = "session_grants"

    def __call__(self, request: PermissionRequest) -> Verdict | None:
        """Allow, or say nothing."""
        return "allow" if request.name in request.grants else None


class ToolRisk:
    """Asks where the tool's own policy says that the call needs approval."""

    name = "tool_risk"

    def __call__(self, request: PermissionRequest) -> Verdict | None:
        """Ask, or say nothing."""
        return "ask" if request.needs_approval else None


class AskIfUncertain:
    """Asks before a call is sent again of which it is not known if it took effect."""

    name = "ask_if_uncertain"

    def __call__(self, request: PermissionRequest) -> Permission | None:
        """Ask, or say nothing."""
        if not request.uncertain:
            return None
        return Permission("ask", reason="the same call was broken off before, and may have taken effect")


class Default:
    """Says the same of every call.

    Raises:
        ValueError: It is no verdict.
    """

    name = "default"

    def __init__(self, verdict: Verdict) -> None:
        if verdict not in _VERDICTS:
            raise ValueError(f"a verdict is one of {', '.join(_VERDICTS)}, not {verdict!r:.80}")
        self.verdict = verdict

    def __call__(self, request: PermissionRequest) -> Verdict:  # noqa: ARG002 - it is the same for all
        """Say it."""
        return self.verdict


_HARMLESS = (DenyList, AllowList, SessionGrants, ToolRisk, AskIfUncertain, Default)
"""Policies that change nothing of what they are given."""


class PermissionPolicy:
    """A chain: deny list, own rules, session grants, allow list, the tool's own risk, default.

    Args:
        deny: Patterns of tool names that are denied, whatever anyone says.
        allow: Patterns of tool names that need no approval.
        rules: Policies of one's own, asked in this order.
        default: What is said where nobody else says anything.

    Raises:
        ValueError: A pattern is not a text, a rule cannot be called, or the default is no verdict; the text
            names the value.
    """

    def __init__(
        self,
        *,
        deny: Iterable[str] = (),
        allow: Iterable[str] = (),
        rules: Iterable[Policy] = (),
        default: Verdict = "allow",
    ) -> None:
        self.policies: tuple[Policy, ...] = (
            DenyList(*_listed("deny", deny)),
            *_rules(_listed("rules", rules)),
            SessionGrants(),
            AllowList(*_listed("allow", allow)),
            ToolRisk(),
            Default(default),
        )


def as_permission_policy(given: object) -> PermissionPolicy:
    """The chain of what a caller gave: None for the standard one, a chain, a policy, or policies in order.

    What none of the given policies answers goes to session grants, the tool's own risk and the default,
    which allows.

    Raises:
        ValueError: It is nothing of these; the text names the value and the mend.
    """
    if isinstance(given, PermissionPolicy):
        return given
    if given is None:
        return PermissionPolicy()
    if callable(given):
        return PermissionPolicy(rules=(given,))
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        return PermissionPolicy(rules=given)
    raise ValueError(
        f"permissions is a PermissionPolicy, a function or a list of functions, not {given!r:.80}"
    )


class AskPermissions:
    """Asks the chain about calls, one after the other; waited for by a node's body.

    Gives one `Permission` for each request, in order. A policy that raises, or says what means nothing,
    denies: it is logged, and the reason names it. A coroutine is given up when the token is cancelled, and
    denies too.
    """

    def __init__(
        self,
        policy: PermissionPolicy,
        requests: Sequence[PermissionRequest],
        cancel: CancelToken | None = None,
    ) -> None:
        self._policies = policy.policies
        self._requests = requests
        self._cancel = cancel

    def call(self) -> list[Permission]:
        """Ask, blocking."""
        return [self._decide(request) for request in self._requests]

    async def acall(self) -> list[Permission]:
        """Ask, awaiting."""
        return [await self._adecide(request) for request in self._requests]

    def _decide(self, request: PermissionRequest) -> Permission:
        for policy in self._policies:
            with _FailClosed(policy) as asked:
                said = policy(_own(request, policy))
                if inspect.isawaitable(said):
                    said = wait_for(said, self._cancel)
                asked.answer = _read(said, policy)
            if asked.answer is not None:
                return asked.answer
        raise AssertionError("a chain ends with its default")

    async def _adecide(self, request: PermissionRequest) -> Permission:
        for policy in self._policies:
            with _FailClosed(policy) as asked:
                said = policy(_own(request, policy))
                if inspect.isawaitable(said):
                    said = await await_for(said, self._cancel)
                asked.answer = _read(said, policy)
            if asked.answer is not None:
                return asked.answer
        raise AssertionError("a chain ends with its default")


def _own(request: PermissionRequest, policy: Policy) -> PermissionRequest:
    """The request with values of its own, so that what one policy does to them is hidden from the next."""
    if type(policy) in _HARMLESS:
        return request
    return replace(request, args=deepcopy(request.args), grants=deepcopy(dict(request.grants)))


class _FailClosed:
    """Makes a denial of what a policy raises."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.answer: Permission | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
            return False
        if not isinstance(error, Exception | SystemExit | asyncio.CancelledError):
            return False
        name = policy_name(self._policy)
        if isinstance(error, GivenUpError):
            self.answer = Permission("deny", name, "the turn was cancelled")
            return True
        logger.warning("permission policy %s failed; the call is denied", name, exc_info=error)
        self.answer = Permission("deny", name, f"the policy {name!r} failed with {type(error).__name__}")
        return True


def _read(said: object, policy: Policy) -> Permission | None:
    """What a policy's answer means.

    Raises:
        ValueError: It means nothing.
    """
    if said is None:
        return None
    answer = Permission(said) if isinstance(said, str) else said  # type: ignore[arg-type]  # checked below
    if (
        not isinstance(answer, Permission)
        or not isinstance(answer.verdict, str)
        or answer.verdict not in _VERDICTS
        or not isinstance(answer.policy, str)
        or not isinstance(answer.reason, str)
    ):
        raise ValueError(
            f"a policy says {', '.join(map(repr, _VERDICTS))}, None or a Permission, not {said!r:.80}"
        )
    name = storable(answer.policy.strip())[:_MAX_NAME] or policy_name(policy)
    return replace(answer, policy=name, reason=storable(answer.reason.strip())[:_MAX_REASON])


def policy_name(policy: Policy) -> str:
    """The name under which a policy stands in events and refusals."""
    for named in (getattr(policy, "name", None), getattr(policy, "__name__", None)):
        if isinstance(named, str) and named.strip():
            return storable(named.strip())[:_MAX_NAME]
    return type(policy).__name__


def needs_approval(declared: bool | Callable[[dict[str, Any]], bool], args: dict[str, Any]) -> bool:  # noqa: FBT001
    """What `ToolPolicy.needs_approval` says of these arguments; a callable that raises says yes."""
    if not callable(declared):
        return declared
    try:
        return bool(declared(deepcopy(args)))
    except (Exception, SystemExit):
        logger.warning("needs_approval raised; the call needs approval", exc_info=True)
        return True


_current: ContextVar[Permission | None] = ContextVar("turnflow_permission", default=None)


def current_permission() -> Permission | None:
    """The permission under which the running tool call runs; None outside of one."""
    return _current.get()


@contextmanager
def permitted(permission: Permission | None) -> Iterator[None]:
    """Let `current_permission` give this permission within the block, and in tasks that are begun there."""
    token = _current.set(permission)
    try:
        yield
    finally:
        _current.reset(token)


def _patterns(owner: str, patterns: tuple[Any, ...]) -> tuple[str, ...]:
    for pattern in patterns:
        if not isinstance(pattern, str) or not pattern:
            raise ValueError(f"{owner}: {pattern!r:.80} is no pattern; give texts such as 'rm_*'")
    return patterns


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _listed(field_name: str, given: object) -> list[Any]:
    """What was given as a list.

    Raises:
        ValueError: It is none.
    """
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise ValueError(f"PermissionPolicy: {field_name} is a list; give [{given!r:.80}]")
    return list(given)


def _rules(given: list[Any]) -> list[Policy]:
    for rule in given:
        if isinstance(rule, PermissionPolicy):
            raise ValueError(
                "a PermissionPolicy is a whole chain and cannot be a rule; give it alone, and the other "
                "policies as its rules"
            )
        if isinstance(rule, type):
            raise ValueError(f"a rule is an instance of its class; give {rule.__name__}(...)")
        if not callable(rule):
            raise ValueError(f"a rule is a function that is given a PermissionRequest, not {rule!r:.80}")
    return given

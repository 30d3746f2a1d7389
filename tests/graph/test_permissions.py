"""The chain of permission policies: who answers first, and what becomes of one that breaks."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any

import pytest

from turnflow.graph import daemon
from turnflow.graph.permissions import (
    AllowList,
    AskIfUncertain,
    AskPermissions,
    Default,
    DenyList,
    Permission,
    PermissionPolicy,
    PermissionRequest,
    SessionGrants,
    ToolRisk,
    as_permission_policy,
    current_permission,
    needs_approval,
    permitted,
)


def request(name: str = "write", **fields: Any) -> PermissionRequest:
    return PermissionRequest(name=name, args={}, **fields)


def decide(policy: object, *requests: PermissionRequest) -> list[Permission]:
    """What the chain says, the same whether it is waited for or awaited."""
    chain = as_permission_policy(policy)
    blocking = AskPermissions(chain, requests).call()
    assert asyncio.run(AskPermissions(chain, requests).acall()) == blocking
    return blocking


def verdict(policy: object, **fields: Any) -> tuple[str, str]:
    (permission,) = decide(policy, request(**fields))
    return permission.verdict, permission.policy


GRANT = {"write": {"policy": "user", "turn_id": "turn-0"}}


@pytest.mark.parametrize(
    ("policy", "fields", "expected"),
    [
        (PermissionPolicy(), {}, ("allow", "default")),
        (PermissionPolicy(), {"needs_approval": True}, ("ask", "tool_risk")),
        (PermissionPolicy(), {"needs_approval": True, "grants": GRANT}, ("allow", "session_grants")),
        (PermissionPolicy(), {"needs_approval": True, "grants": {"other": {}}}, ("ask", "tool_risk")),
        (PermissionPolicy(allow=["wr*"]), {"needs_approval": True}, ("allow", "allow_list")),
        (PermissionPolicy(allow=["WR*"]), {"needs_approval": True}, ("ask", "tool_risk")),
        (PermissionPolicy(default="ask"), {}, ("ask", "default")),
        (PermissionPolicy(default="deny"), {"grants": GRANT}, ("allow", "session_grants")),
        (PermissionPolicy(deny=["wr*"], allow=["write"]), {"grants": GRANT}, ("deny", "deny_list")),
        (PermissionPolicy(deny=["wr*"], rules=[Default("allow")]), {}, ("deny", "deny_list")),
        (PermissionPolicy(rules=[Default("ask")]), {"grants": GRANT}, ("ask", "default")),
        (PermissionPolicy(rules=[Default("deny")], allow=["*"]), {}, ("deny", "default")),
        (PermissionPolicy(rules=[AskIfUncertain()]), {}, ("allow", "default")),
        (PermissionPolicy(rules=[AskIfUncertain()]), {"uncertain": True}, ("ask", "ask_if_uncertain")),
    ],
)
def test_the_first_of_the_chain_that_answers_decides(
    policy: PermissionPolicy, fields: dict[str, Any], expected: tuple[str, str]
) -> None:
    assert verdict(policy, **fields) == expected


def at_night(_: PermissionRequest) -> Permission:
    return Permission("deny", reason="  It is night. ")


async def slowly(asked: PermissionRequest) -> str | None:
    await asyncio.sleep(0)
    return "ask" if asked.name == "write" else None


class Named:
    name = "my rule"

    def __call__(self, _: PermissionRequest) -> str:
        return "ask"


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (at_night, Permission("deny", "at_night", "It is night.")),
        (slowly, Permission("ask", "slowly")),
        (Named(), Permission("ask", "my rule")),
        (partial(at_night), Permission("deny", "partial", "It is night.")),
        (lambda _: Permission("allow", "somebody else"), Permission("allow", "somebody else")),
        (lambda _: None, Permission("allow", "default")),
        ([lambda _: None, slowly, at_night], Permission("ask", "slowly")),
        ((DenyList("write", reason="Never."), slowly), Permission("deny", "deny_list", "Never.")),
        ([], Permission("allow", "default")),
        (None, Permission("allow", "default")),
    ],
)
def test_a_policy_of_ones_own_may_have_many_forms(policy: object, expected: Permission) -> None:
    assert decide(policy, request()) == [expected]


def test_each_call_is_decided_for_itself_and_in_order() -> None:
    policy = PermissionPolicy(deny=["rm_*"], rules=[slowly])
    names = [request(name) for name in ("write", "rm_all", "read", "write")]
    assert [said.verdict for said in decide(policy, *names)] == ["ask", "deny", "allow", "ask"]


def broken(_: PermissionRequest) -> str:
    raise RuntimeError("the rights server is down, password 1234")


async def broken_later(_: PermissionRequest) -> str:
    raise LookupError


async def cancels_itself(_: PermissionRequest) -> str:
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("policy", "kind"),
    [(broken, "RuntimeError"), (broken_later, "LookupError"), (cancels_itself, "CancelledError")],
)
def test_a_policy_that_breaks_denies(policy: Any, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    (said,) = decide([policy, Default("allow")], request())
    assert said == Permission("deny", policy.__name__, f"the policy {policy.__name__!r} failed with {kind}")
    assert policy.__name__ in caplog.text


@pytest.mark.parametrize(
    "answer",
    [
        "yes",
        "",
        True,
        1,
        ["allow"],
        {"verdict": "allow"},
        Permission("maybe"),  # type: ignore[arg-type]
        Permission(["allow"]),  # type: ignore[arg-type]
        Permission("allow", reason=3),  # type: ignore[arg-type]
        Permission("allow", policy=None),  # type: ignore[arg-type]
    ],
    ids=str,
)
def test_an_answer_that_means_nothing_denies(answer: object, caplog: pytest.LogCaptureFixture) -> None:
    def says_so(_: PermissionRequest) -> Any:
        return answer

    assert verdict(says_so) == ("deny", "says_so")
    assert "says_so" in caplog.text


def test_the_cancelling_of_a_run_is_no_answer() -> None:
    async def waits(_: PermissionRequest) -> None:
        await asyncio.sleep(60)

    async def main() -> None:
        asking = asyncio.create_task(AskPermissions(as_permission_policy(waits), [request()]).acall())
        await asyncio.sleep(0.01)
        asking.cancel()
        await asking

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())


def test_a_coroutine_policy_is_asked_from_within_a_loop_too() -> None:
    async def main() -> list[Permission]:
        return AskPermissions(as_permission_policy(slowly), [request()]).call()

    assert asyncio.run(main()) == [Permission("ask", "slowly")]


def test_names_and_reasons_can_be_stored_and_have_a_length() -> None:
    def says(_: PermissionRequest) -> Permission:
        return Permission("deny", "p" * 500 + "\ud83d", "\ud83d" + "r" * 5000)

    (said,) = decide(says, request())
    assert (len(said.policy), len(said.reason)) == (100, 1000)
    said.reason.encode()


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda: PermissionPolicy(deny="rm_*"), "['rm_*']"),
        (lambda: PermissionPolicy(allow=[3]), "3"),  # type: ignore[list-item]
        (lambda: PermissionPolicy(allow=[""]), "''"),
        (lambda: PermissionPolicy(rules=at_night), "rules"),  # type: ignore[arg-type]
        (lambda: PermissionPolicy(rules=["at_night"]), "'at_night'"),  # type: ignore[list-item]
        (lambda: PermissionPolicy(rules=[ToolRisk]), "ToolRisk(...)"),  # type: ignore[list-item]
        (lambda: PermissionPolicy(rules=[PermissionPolicy()]), "rules"),  # type: ignore[list-item]
        (lambda: PermissionPolicy(default="yes"), "'yes'"),  # type: ignore[arg-type]
        (lambda: Default(None), "None"),  # type: ignore[arg-type]
        (lambda: DenyList("a", 4), "4"),  # type: ignore[arg-type]
        (lambda: AllowList(["a"]), "['a']"),  # type: ignore[arg-type]
        (lambda: DenyList("a", reason=5), "5"),  # type: ignore[arg-type]
        (lambda: as_permission_policy("allow"), "'allow'"),
        (lambda: as_permission_policy(7), "7"),
        (lambda: as_permission_policy({"deny": ["a"]}), "{'deny': ['a']}"),
        (lambda: as_permission_policy([at_night, "ask"]), "'ask'"),
        (lambda: as_permission_policy(SessionGrants), "SessionGrants(...)"),
    ],
)
def test_what_is_no_chain_is_refused_with_its_value(make: Any, names: str) -> None:
    with pytest.raises(ValueError) as caught:
        make()
    assert names in str(caught.value)


def test_a_chain_is_taken_as_it_is() -> None:
    chain = PermissionPolicy(default="ask")
    assert as_permission_policy(chain) is chain


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        (True, True),
        (False, False),
        (lambda args: args["size"] > 10, True),
        (lambda args: args["size"] > 1000, False),
        (lambda args: args["colour"], True),
    ],
)
def test_needs_approval_looks_at_the_arguments(
    declared: Any, *, expected: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        assert needs_approval(declared, {"size": 100}) is expected


def test_the_running_call_knows_its_permission() -> None:
    allowed = Permission("allow", "user")
    assert current_permission() is None
    with permitted(allowed):
        assert current_permission() == allowed
        assert daemon.start(current_permission).result() == allowed
        context = copy_context()
        with ThreadPoolExecutor() as pool:
            assert pool.submit(context.run, current_permission).result() == allowed
        with permitted(None):
            assert current_permission() is None
    assert current_permission() is None


def test_calls_side_by_side_have_their_own_permissions() -> None:
    async def run(name: str) -> str:
        with permitted(Permission("allow", name)):
            await asyncio.sleep(0)
            current = current_permission()
        assert current is not None
        return current.policy

    async def main() -> list[str]:
        return list(await asyncio.gather(*(run(name) for name in "abc")))

    assert asyncio.run(main()) == ["a", "b", "c"]

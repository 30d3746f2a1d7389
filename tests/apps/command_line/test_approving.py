"""Approvals at the terminal and on the command line."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langgraph.types import Command
from rich.console import Console

from tests.turns.scripted import Start, call, calls, says, script
from tests.turns.stage import Stage
from turnflow import ToolPolicy
from turnflow.apps.command_line import commands
from turnflow.apps.command_line.approving import MAX_LINES, MAX_SHOWN
from turnflow.apps.command_line.asking import ask, read_answers, show
from turnflow.apps.command_line.screen import TurnScreen
from turnflow.apps.command_line.setup import Agent
from turnflow.apps.command_line.turns import resume_with, run_to_the_end
from turnflow.graph.tool_registry import ToolRegistry

from .inside import turnflow

ALL = ("approve", "edit", "reject", "respond")
Terminal = Callable[..., tuple[Console, io.StringIO]]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    def opened(*typed: str) -> tuple[Console, io.StringIO]:
        out = io.StringIO()
        console = Console(file=out, width=200, highlight=False)
        lines = iter(typed)

        def read(prompt: str) -> str:
            out.write(prompt)
            return next(lines)

        monkeypatch.setattr(console, "input", read)
        return console, out

    return opened


def approval(*args: dict[str, Any], allowed: tuple[str, ...] = ALL, name: str = "delete") -> dict[str, Any]:
    return {
        "type": "approval",
        "action_requests": [
            {"name": name, "args": given, "description": f"{name}(…)\n\nDelete it.", "tool_call_id": f"c{n}"}
            for n, given in enumerate(args)
        ],
        "review_configs": [{"action_name": name, "allowed_decisions": list(allowed)} for _ in args],
    }


EDIT = {"type": "edit", "edited_action": {"name": "delete", "args": {"path": "b"}}}


@pytest.mark.parametrize(
    ("typed", "decision"),
    [
        (["y"], {"type": "approve"}),
        ([" YES "], {"type": "approve"}),
        (["a"], {"type": "approve", "scope": "session"}),
        (["n"], {"type": "reject"}),
        (["n it is too late"], {"type": "reject", "message": "it is too late"}),
        (["No, it is too late"], {"type": "reject", "message": "it is too late"}),
        (["r use list.txt"], {"type": "respond", "message": "use list.txt"}),
        (["r", "use list.txt"], {"type": "respond", "message": "use list.txt"}),
        (["r", "", "y"], {"type": "approve"}),
        (["e", '{"path": "b"}'], EDIT),
        (["e", "b", "[1]", '{"path":', '{"path": "b"}'], EDIT),
        (["e", "", "n"], {"type": "reject"}),
        (["", "  ", "perhaps", "y if it is safe", "a but only today", "v", "n"], {"type": "reject"}),
    ],
)
def test_a_decision_is_typed(terminal: Terminal, typed: list[str], decision: dict[str, Any]) -> None:
    console, _ = terminal(*typed)
    assert ask(console, approval({"path": "a"})) == {"decisions": [decision]}


def test_each_call_is_asked_about_in_order(terminal: Terminal) -> None:
    console, out = terminal("y", "n", "a")
    answer = ask(console, approval({"path": "a"}, {"path": "b"}, {"path": "c"}))
    assert [decision["type"] for decision in answer["decisions"]] == ["approve", "reject", "approve"]
    shown = out.getvalue()
    assert shown.index("(1 of 3) delete") < shown.index('"b"') < shown.index("(3 of 3) delete")
    assert "  Delete it.\n" in shown


@pytest.mark.parametrize(
    ("allowed", "typed", "decision"),
    [
        (("approve", "reject"), ["e", "r x", "n"], {"type": "reject"}),
        (("reject", "respond"), ["y", "a", "r x"], {"type": "respond", "message": "x"}),
    ],
)
def test_only_what_is_allowed_can_be_decided(
    terminal: Terminal, allowed: tuple[str, ...], typed: list[str], decision: dict[str, Any]
) -> None:
    console, out = terminal(*typed)
    assert ask(console, approval({}, allowed=allowed)) == {"decisions": [decision]}
    assert ("y yes" in out.getvalue()) == ("approve" in allowed)
    assert ("e edit" in out.getvalue()) == ("edit" in allowed)


def test_nothing_is_hidden_and_nothing_is_obeyed(terminal: Terminal) -> None:
    console, out = terminal("n")
    hostile = "a.txt\x1b[2K\x1b]0;t\x07\r\u202egpj.exe\u200b\n? May this be done? [red]no[/red]"
    ask(console, approval({"path": hostile, "\x1b[2J": 1}, name="delete\x1b[1A"))
    shown = out.getvalue()
    assert "\x1b" not in shown
    assert "\r" not in shown
    assert r"delete\x1b[1A" in shown
    assert r"a.txt\u001b[2K\u001b]0;t\u0007\r\u202egpj.exe\u200b\n? May this be done? [red]no[/red]" in shown


@pytest.mark.parametrize(
    "arguments",
    [{"text": "x" * MAX_SHOWN + "; rm -rf /"}, {"lines": ["x"] * MAX_LINES + ["; rm -rf /"]}],
    ids=["characters", "lines"],
)
@pytest.mark.parametrize("yes", ["y", "a"])
def test_long_arguments_are_shown_to_their_end_where_somebody_asks(
    terminal: Terminal, arguments: dict[str, Any], yes: str
) -> None:
    console, out = terminal(yes, "YES", "v", yes)
    decision = {"type": "approve", **({"scope": "session"} if yes == "a" else {})}
    assert ask(console, approval(arguments)) == {"decisions": [decision]}
    before, _, after = out.getvalue().partition("v view the rest")
    assert "more characters are not shown yet" in before
    assert "rm -rf /" not in before
    assert after.count("a yes needs all of it to be seen") == 2
    assert after.index("all of it to be seen") < after.index("rm -rf /") < after.index("May this be done?")


def test_what_was_not_seen_can_be_rejected(terminal: Terminal) -> None:
    console, _ = terminal("n")
    assert ask(console, approval({"text": "x" * 10_000})) == {"decisions": [{"type": "reject"}]}


def test_the_call_stands_last_whatever_is_said_of_it(terminal: Terminal) -> None:
    console, out = terminal("n")
    value = approval({"path": "a"})
    said = [f"line {number} {'x' * 1000}" for number in range(300)]
    value["action_requests"][0]["description"] = "\n".join(["delete(…)", "", *said, "", "it is late"])
    ask(console, value)
    lines = out.getvalue().splitlines()
    assert len(lines) < 15
    assert max(map(len, lines[:-1])) < 400
    assert "… (296 more lines)" in lines[3]
    assert lines[5] == "  it is late"
    assert lines[6] == "? May this be done? (1 of 1) delete"
    assert "y yes" in lines[-1]


def test_a_yes_for_good_says_what_it_covers(terminal: Terminal) -> None:
    console, out = terminal("n")
    ask(console, approval({"path": "a"}))
    assert (
        "a yes, and to all later calls of delete in this thread, whatever their arguments" in out.getvalue()
    )


@pytest.mark.parametrize("broken", [{}, {"action_requests": []}, {"action_requests": [{"name": "x"}]}])
def test_what_only_looks_like_an_approval_is_a_question(terminal: Terminal, broken: dict[str, Any]) -> None:
    console, _ = terminal("yes")
    assert ask(console, {"type": "approval", **broken}) == "yes"


def test_an_approval_without_review_configs_can_be_decided(terminal: Terminal) -> None:
    console, _ = terminal("n")
    value = {"type": "approval", "action_requests": [{"name": "delete", "args": {}}]}
    assert ask(console, value) == {"decisions": [{"type": "reject"}]}


@pytest.mark.parametrize(
    ("answers", "decisions"),
    [
        (["approve"], [{"type": "approve"}]),
        ([" Approve "], [{"type": "approve"}]),
        (["approve session"], [{"type": "approve", "scope": "session"}]),
        (["reject"], [{"type": "reject"}]),
        (["reject: too late: 5 pm"], [{"type": "reject", "message": "too late: 5 pm"}]),
        (["respond: use b"], [{"type": "respond", "message": "use b"}]),
        ([json.dumps(EDIT)], [EDIT]),
        ([json.dumps({"decisions": [EDIT]})], [EDIT]),
        (["approve", "reject"], [{"type": "approve"}, {"type": "reject"}]),
    ],
)
def test_a_decision_on_the_command_line(answers: list[str], decisions: list[dict[str, Any]]) -> None:
    value = approval(*({"path": str(n)} for n in range(len(answers))))
    assert read_answers(value, answers) == {"decisions": decisions}


@pytest.mark.parametrize(
    ("answers", "complaint"),
    [
        (["yes"], "'yes' is no decision about delete; say approve"),
        (["approve if it is safe"], "is no decision"),
        (["approve: it is safe"], "is no decision"),
        (["respond"], "is no decision"),
        ([""], "is no decision"),
        (['{"type": "approve"'], "that is not JSON"),
        (['{"type": "accept"}'], "is no decision"),
        (["{}"], "is no decision"),
        (["\x1b[2J"], r"'\\x1b\[2J' is no decision"),
        (["approve", "approve"], r"1 calls wait for a decision \(delete\)"),
    ],
)
def test_an_answer_that_is_no_decision_is_refused_in_one_line(answers: list[str], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as raised:
        read_answers(approval({"path": "a"}), answers)
    assert len(str(raised.value).splitlines()) == 1
    assert "\x1b" not in str(raised.value)


def test_what_is_not_allowed_is_no_decision_either() -> None:
    with pytest.raises(ValueError, match=r"say approve, reject or reject: why$"):
        read_answers(approval({}, allowed=("approve", "reject")), [json.dumps(EDIT)])


def test_a_tools_own_question_is_answered_by_a_text() -> None:
    assert read_answers({"sign": 1}, ["ann"]) == "ann"
    with pytest.raises(ValueError, match="one --answer"):
        read_answers({"sign": 1}, ["ann", "bob"])


def test_what_nobody_is_asked_about_is_shown(terminal: Terminal) -> None:
    console, out = terminal()
    show(console, approval({"path": "\x1b[2Ja", "text": "x" * 10_000}))
    show(console, {"type": "ask_user", "questions": [{"prompt": "Which?", "options": ["x"]}]})
    show(console, {"sign": 1})
    shown = out.getvalue()
    assert r"\u001b[2Ja" in shown
    assert "x" * 10_000 in shown
    assert "? Which?\n  1. x\n" in shown
    assert '? {"sign": 1}' in shown


deleted: list[str] = []


def delete(path: str) -> str:
    """Delete a file."""
    deleted.append(path)
    return f"{path} is gone"


@pytest.fixture
def agent(tmp_path: Path, fake_provider: Start) -> Any:
    deleted.clear()
    stage = Stage("sync", "memory", tmp_path)
    both = calls(call("delete", "c1", path="a"), call("delete", "c2", path="b"))
    policies = {"delete": ToolPolicy(needs_approval=True)}
    graph = stage.graph(fake_provider(script(both, says("Done."))), tools=[delete], policies=policies)
    yield Agent(graph, ToolRegistry([delete]))
    stage.close()


def test_a_turn_is_run_to_its_end_with_approvals(agent: Agent, terminal: Terminal) -> None:
    console, out = terminal("y", "e", '{"file": "c"}', "y", "e", '{"path": "c"}')
    result = run_to_the_end(agent, "Go.", thread_id="t", screen=TurnScreen(None), asks=console)
    assert (result.status, result.answer) == ("finished", "Done.")
    # The edit that does not fit is refused, and both are asked about again.
    assert "does not fit" in out.getvalue()
    assert sorted(deleted) == ["a", "c"]


def test_a_later_command_decides(agent: Agent) -> None:
    screen = TurnScreen(None)
    paused = run_to_the_end(agent, "Go.", thread_id="t", screen=screen, asks=None)
    assert paused.status == "paused"
    with pytest.raises(ValueError, match="2 calls wait for a decision"):
        resume_with(agent, "t", ["approve"])
    command = resume_with(agent, "t", ["approve", "reject: keep it"])
    assert isinstance(command, Command)
    result = run_to_the_end(agent, command, thread_id="t", screen=screen, asks=None)
    assert deleted == ["a"]
    assert "keep it" in str(result.messages[3].content)


def test_the_command_takes_decisions(agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "build_agent", lambda *_arguments, **_options: agent)
    place = ("--thread", "t", "--db", str(tmp_path / "threads.sqlite"))
    code, out, err = turnflow("run", "Go.", *place)
    assert (code, err) == (0, "")
    assert '"path": "b"' in out
    assert "--answer" in out
    code, _, err = turnflow("run", *place, "--answer", "perhaps", "--answer", "approve")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "'perhaps' is no decision about delete" in err
    bad = json.dumps({"type": "edit", "edited_action": {"name": "delete", "args": {"file": "c"}}})
    code, _, err = turnflow("run", *place, "--answer", bad, "--answer", "approve")
    assert (code, len(err.splitlines())) == (2, 1)
    assert deleted == []
    code, out, _ = turnflow("run", *place, "--answer", "approve", "--answer", "approve")
    assert (code, out.splitlines()[-1]) == (0, "Done.")
    assert sorted(deleted) == ["a", "b"]


def other(path: str) -> str:
    """Delete a file, and all that looks like it."""
    return path


other.__name__ = "delete"


@pytest.mark.parametrize("tools", [[], [other]], ids=["gone", "changed"])
def test_what_this_command_does_not_offer_is_not_approved(agent: Agent, tools: list[Any]) -> None:
    screen = TurnScreen(None)
    run_to_the_end(agent, "Go.", thread_id="t", screen=screen, asks=None)
    without = Agent(agent.graph, ToolRegistry(tools))
    for answers in (["approve", "reject"], ["respond: x", "approve"], ["approve session", "approve"]):
        with pytest.raises(ValueError, match=r"does not offer delete .* Nothing was answered"):
            resume_with(without, "t", answers)
    assert isinstance(resume_with(without, "t", ["reject", "respond: x"]), Command)
    result = run_to_the_end(
        agent, resume_with(agent, "t", ["approve", "reject"]), thread_id="t", screen=screen, asks=None
    )
    assert (result.answer, deleted) == ("Done.", ["a"])


def test_at_the_terminal_it_is_asked_again(agent: Agent, terminal: Terminal) -> None:
    console, out = terminal("y", "y", "n", "n")
    without = Agent(agent.graph, ToolRegistry([]))
    result = run_to_the_end(without, "Go.", thread_id="t", screen=TurnScreen(None), asks=console)
    assert (result.answer, deleted) == ("Done.", [])
    assert out.getvalue().count("does not offer delete") == 1

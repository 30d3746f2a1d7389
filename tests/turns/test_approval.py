"""Calls that need a person: asked about once a reply, before anything behind them runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langgraph.types import Command
from pydantic import ValidationError

from tests.turns.scripted import Start, asks, call, calls, says, script
from tests.turns.stage import Stage, add, echo
from turnflow import PermissionPolicy, ToolOutput, ToolPolicy, TurnContext, TurnHooks, run_turn
from turnflow.apps.fake_provider import FakeProvider

RISKY = {"delete": {"needs_approval": True}}


class Deleter:
    """A tool with an effect that can be looked at."""

    def __init__(self) -> None:
        self.deleted: list[str] = []

        def delete(path: str) -> str:
            """Delete a file."""
            self.deleted.append(path)
            return f"deleted {path}"

        self.tool = delete

    def graph(self, stage: Stage, provider: FakeProvider, **options: Any) -> Any:
        return stage.graph(provider, tools=[add, echo, self.tool], **{"policies": RISKY, **options})


@pytest.fixture
def deleter() -> Deleter:
    return Deleter()


def delete(path: str, call_id: str = "c1") -> dict[str, Any]:
    return call("delete", call_id, path=path)


def answer(*decisions: Any) -> Command[Any]:
    return Command(resume={"decisions": [d if isinstance(d, dict) else {"type": d} for d in decisions]})


def test_nothing_runs_before_the_approval(stage: Stage, fake_provider: Start, deleter: Deleter) -> None:
    provider = fake_provider(script(calls(delete("a.txt")), says("Gone.")))
    graph = deleter.graph(stage, provider)
    paused = stage.play(graph, "Clean up.")
    assert (paused.status, paused.outcome["stop_reason"]) == ("paused", "approval")
    assert paused.answer == 'May this be done?\n- delete({"path": "a.txt"})'
    assert paused.types()[-1] == "paused"
    (interrupt,) = paused.interrupts
    (action,) = interrupt.value["action_requests"]
    assert (action["name"], action["args"], action["tool_call_id"]) == ("delete", {"path": "a.txt"}, "c1")
    assert interrupt.value["review_configs"] == [
        {"action_name": "delete", "allowed_decisions": ["approve", "edit", "reject", "respond"]}
    ]
    assert deleter.deleted == []
    played = stage.play(graph, answer("approve"))
    assert deleter.deleted == ["a.txt"]
    assert (played.status, played.answer) == ("finished", "Gone.")
    assert played.types()[0] == "resumed"
    (decision,) = played.of("permission")
    assert (decision["decision"], decision["scope"], decision["source"]) == ("approve", "once", "user")


def test_one_question_for_all_calls_of_a_reply(stage: Stage, fake_provider: Start, deleter: Deleter) -> None:
    batch = calls(
        call("echo", "c1", text="before"),
        delete("a", "c2"),
        call("echo", "c3", text="behind"),
        delete("b", "c4"),
        delete("c", "c5"),
    )
    graph = deleter.graph(stage, fake_provider(script(batch, says("Done."))))
    paused = stage.play(graph, "Go.")
    assert [a["args"]["path"] for a in paused.interrupts[0].value["action_requests"]] == ["a", "b", "c"]
    assert paused.results() == {"c1": "before"}
    edit = {"type": "edit", "edited_action": {"name": "delete", "args": {"path": "b2"}}}
    played = stage.play(graph, answer("approve", edit, {"type": "respond", "message": "Leave it to me."}))
    assert sorted(deleter.deleted) == ["a", "b2"]
    results = played.results()
    assert list(results) == ["c1", "c2", "c3", "c4", "c5"]
    assert (results["c2"], results["c3"], results["c5"]) == ("deleted a", "behind", "Leave it to me.")
    assert "changed this call" in results["c4"]
    assert results["c4"].endswith("deleted b2")
    # What the model wrote stands as it wrote it.
    assert played.messages[1].tool_calls[3]["args"] == {"path": "b"}


def test_after_a_rejection_nothing_behind_it_runs_unless_it_was_approved(
    stage: Stage, fake_provider: Start, deleter: Deleter
) -> None:
    batch = calls(
        delete("a", "c1"), call("echo", "c2", text="x"), delete("b", "c3"), asks("And now?", call_id="c4")
    )
    graph = deleter.graph(stage, fake_provider(script(batch, calls(asks("And now?", call_id="c5")))))
    stage.play(graph, "Go.")
    played = stage.play(graph, answer({"type": "reject", "message": "Not a."}, "approve"))
    results = played.results()
    assert "Not a." in results["c1"]
    assert "rejected an earlier call" in results["c2"]
    assert "rejected an earlier call" in results["c4"]
    assert results["c3"] == "deleted b"
    assert deleter.deleted == ["b"]
    # The question was not asked, so it does not count as asked.
    assert played.status == "paused"
    assert played.interrupts[0].value["questions"][0]["prompt"] == "And now?"


WRONG: list[Any] = [
    {"decisions": []},
    {"decisions": [{"type": "approve"}, {"type": "approve"}]},
    {"decisions": [{"type": "maybe"}]},
    {"decisions": [{"type": "respond"}]},
    {"decisions": [{"type": "approve", "scope": "for ever"}]},
    {"decisions": [{"type": "edit", "edited_action": {"name": "delete", "args": {"path": 7}}}]},
    {"decisions": [{"type": "edit", "edited_action": {"name": "nope", "args": {}}}]},
    {"decisions": [{"type": "edit", "edited_action": {"name": "ask_user", "args": {}}}]},
    "approve",
]


def test_wrong_answers_are_refused_and_can_be_given_again(
    stage: Stage, fake_provider: Start, deleter: Deleter
) -> None:
    graph = deleter.graph(stage, fake_provider(script(calls(delete("a")), says("Done."))))
    stage.play(graph, "Go.")
    for wrong in WRONG:
        with pytest.raises(ValidationError):
            stage.play(graph, Command(resume=wrong))
    assert deleter.deleted == []
    assert stage.play(graph, answer("approve")).status == "finished"
    assert deleter.deleted == ["a"]


def test_run_turn_says_what_is_wrong_with_an_answer(tmp_path: Path, fake_provider: Start) -> None:
    stage, deleter = Stage("sync", "sqlite", tmp_path), Deleter()
    graph = deleter.graph(stage, fake_provider(script(calls(delete("a")))))
    run_turn(graph, "Go.", thread_id="t")
    edit = {"type": "edit", "edited_action": {"name": "delete", "args": {"path": 7}}}
    with pytest.raises(ValueError, match="path: 7 is not of type string"):
        run_turn(graph, answer(edit), thread_id="t")
    stage.close()


def test_a_grant_holds_for_the_session(stage: Stage, fake_provider: Start, deleter: Deleter) -> None:
    provider = fake_provider(
        script(calls(delete("a")), says("One."), calls(delete("b", "c2")), says("Two."), calls(delete("c")))
    )
    graph = deleter.graph(stage, provider)
    stage.play(graph, "Go.")
    stage.play(graph, answer({"type": "approve", "scope": "session"}))
    second = stage.play(graph, "Again.")
    assert (second.status, deleter.deleted) == ("finished", ["a", "b"])
    (told,) = second.of("tool.call")
    assert (told["permission"], told["policy"]) == ("allow", "session_grants")
    # Another thread is another session.
    assert stage.play(graph, "Go.", thread="other").status == "paused"


def test_denied_and_unasked_calls_are_answered(stage: Stage, fake_provider: Start, deleter: Deleter) -> None:
    batch = calls(delete("a"), call("echo", "c2", text="x"))
    graph = deleter.graph(
        stage, fake_provider(script(batch, says("Ok."))), permissions=PermissionPolicy(deny=("del*",))
    )
    played = stage.play(graph, "Go.")
    assert "not allowed (deny_list)" in played.results()["c1"]
    assert played.results()["c2"] == "x"
    assert deleter.deleted == []
    assert [(e["permission"], e["policy"]) for e in played.of("tool.call")] == [
        ("deny", "deny_list"),
        ("allow", "default"),
    ]


def test_the_first_policy_that_answers_decides(stage: Stage, fake_provider: Start, deleter: Deleter) -> None:
    async def office_hours(request: Any) -> str | None:
        return "deny" if request.user_id == "mallory" else None

    batch = calls(call("echo", text="x"))
    graph = deleter.graph(stage, fake_provider(script(batch, says("No."), batch, says("Yes."))))
    for user, result in (("mallory", "office_hours"), ("ann", "x")):
        context = TurnContext(user_id=user, permissions=[office_hours])
        played = stage.play(graph, "Go.", context=context, thread=user)
        assert result in played.results()["c1"]


def test_a_policy_that_fails_denies(stage: Stage, fake_provider: Start, deleter: Deleter) -> None:
    def broken(_: Any) -> str:
        raise RuntimeError("secret: 1234")

    graph = deleter.graph(
        stage, fake_provider(script(calls(call("echo", text="x")), says("No."))), permissions=[broken]
    )
    result = stage.play(graph, "Go.").results()["c1"]
    assert "not allowed (broken)" in result
    assert "1234" not in result


def test_without_a_saver_nobody_can_be_asked(
    bare_stage: Stage, fake_provider: Start, deleter: Deleter
) -> None:
    graph = deleter.graph(bare_stage, fake_provider(script(calls(delete("a")), says("I could not."))))
    played = bare_stage.play(graph, "Go.")
    assert "needs the approval of a person" in played.results()["c1"]
    assert (played.status, deleter.deleted) == ("finished", [])


def test_new_input_during_an_approval_cancels_the_calls(
    stage: Stage, fake_provider: Start, deleter: Deleter
) -> None:
    ended: list[tuple[str, str]] = []
    hooks = TurnHooks(on_turn_end=lambda info: ended.append((info["outcome"]["status"], info["answer"])))
    batch = calls(call("echo", "c1", text="x"), delete("a", "c2"))
    graph = deleter.graph(stage, fake_provider(script(batch, says("Fine."))))
    stage.play(graph, "Go.", context=TurnContext(hooks=hooks))
    played = stage.play(graph, "Never mind.", context=TurnContext(hooks=hooks))
    assert played.results()["c1"] == "x"
    assert played.results()["c2"].endswith("before this call was started. It had no effect.")
    assert deleter.deleted == []
    assert ended == [("paused", 'May this be done?\n- delete({"path": "a"})'), ("finished", "Fine.")]
    if hasattr(stage.saver, "read_record"):
        ends = [f["outcome"]["status"] for f in stage.saver.read_record("t") if f["type"] == "turn.ended"]
        assert ends == ["paused", "finished"]


def test_approval_then_question_then_another_approval(
    stage: Stage, fake_provider: Start, deleter: Deleter
) -> None:
    batch = calls(asks("Sure?", call_id="q"), delete("a"))
    provider = fake_provider(script(batch, calls(delete("b", "c2")), says("Done.")))
    graph = deleter.graph(stage, provider)
    assert stage.play(graph, "Go.").outcome["stop_reason"] == "approval"
    asked = stage.play(graph, answer("approve"))
    assert (asked.outcome["stop_reason"], deleter.deleted) == ("question", ["a"])
    assert stage.play(graph, Command(resume="yes")).outcome["stop_reason"] == "approval"
    played = stage.play(graph, answer("reject"))
    assert (played.status, deleter.deleted) == ("finished", ["a"])


def test_a_denied_call_cannot_be_reached_by_an_edit(
    stage: Stage, fake_provider: Start, deleter: Deleter
) -> None:
    graph = deleter.graph(
        stage,
        fake_provider(script(calls(call("echo", text="x")), says("Done."))),
        policies={"echo": {"needs_approval": True}},
        permissions=PermissionPolicy(deny=("delete",)),
    )
    stage.play(graph, "Go.")
    edit = {"type": "edit", "edited_action": {"name": "delete", "args": {"path": "a"}}}
    played = stage.play(graph, answer(edit))
    assert "not allowed (deny_list)" in played.results()["c1"]
    assert deleter.deleted == []


def test_an_answered_question_is_not_answered_again_at_an_old_checkpoint(
    tmp_path: Path, fake_provider: Start
) -> None:
    stage, deleter = Stage("sync", "sqlite", tmp_path), Deleter()
    graph = deleter.graph(stage, fake_provider(script(calls(delete("a")), says("Done."))))
    run_turn(graph, "Go.", thread_id="t")
    run_turn(graph, answer("approve"), thread_id="t")
    config: Any = {"configurable": {"thread_id": "t"}}
    old = next(s for s in graph.get_state_history(config) if s.interrupts)
    with pytest.raises(ValueError, match="was answered; go on from the checkpoint before it"):
        run_turn(graph, answer("reject"), config=old.config)
    assert deleter.deleted == ["a"]
    stage.close()


def test_one_policy_cannot_hide_arguments_from_the_next(
    stage: Stage, fake_provider: Start, deleter: Deleter
) -> None:
    def clears(request: Any) -> None:
        request.args.clear()

    def denies_root(request: Any) -> str | None:
        return "deny" if request.args.get("path") == "/" else None

    graph = deleter.graph(
        stage,
        fake_provider(script(calls(delete("/")), says("No."))),
        policies={"delete": {"needs_approval": lambda args: bool(args.pop("path") and False)}},
        permissions=[clears, denies_root],
    )
    assert "not allowed (denies_root)" in stage.play(graph, "Go.").results()["c1"]
    assert deleter.deleted == []


def test_a_changed_call_that_ends_the_turn_gives_its_own_answer(stage: Stage, fake_provider: Start) -> None:
    def final(text: str) -> ToolOutput:
        """Say the final word."""
        return ToolOutput(text, terminate=True)

    graph = stage.graph(
        fake_provider(script(calls(call("final", text="x")))),
        tools=[final],
        policies={"final": {"needs_approval": True}},
    )
    stage.play(graph, "Go.")
    edit = {"type": "edit", "edited_action": {"name": "final", "args": {"text": "y"}}}
    assert stage.play(graph, answer(edit)).answer == "y"


@pytest.mark.parametrize(
    ("context", "complaint"),
    [
        ({"policies": {"delete": {}}}, "is a ToolPolicy, not"),
        ({"permissions": []}, "would allow all"),
        ({"permissions": ["allow"]}, "a rule is a function"),
    ],
)
def test_a_context_from_afar_takes_no_approval_away(
    stage: Stage, fake_provider: Start, deleter: Deleter, context: Any, complaint: str
) -> None:
    graph = deleter.graph(stage, fake_provider(script()))
    with pytest.raises(ValueError, match=complaint):
        stage.play(graph, "Go.", context=context, laws=False)


def test_a_contexts_policy_changes_what_it_sets_alone(
    stage: Stage, fake_provider: Start, deleter: Deleter
) -> None:
    graph = deleter.graph(stage, fake_provider(script(calls(delete("a")))))
    context = TurnContext(policies={"delete": ToolPolicy(timeout=5)})
    assert stage.play(graph, "Go.", context=context).status == "paused"
    assert deleter.deleted == []


def other_delete(path: str, force: bool = True) -> str:  # noqa: FBT001, FBT002 - a tool's argument
    """Delete a whole disk."""
    raise AssertionError((path, force))


other_delete.__name__ = "delete"


def test_a_grant_is_for_the_tool_that_was_seen(stage: Stage, fake_provider: Start, deleter: Deleter) -> None:
    replies = script(calls(delete("a")), says("One."), calls(delete("b", "c2")))
    graph = deleter.graph(stage, fake_provider(replies))
    stage.play(graph, "Go.")
    stage.play(graph, answer({"type": "approve", "scope": "session"}))
    paused = stage.play(graph, "Again.", context=TurnContext(tools=[other_delete]))
    assert paused.outcome["stop_reason"] == "approval"
    # What the tool would be given unasked is shown.
    assert paused.interrupts[0].value["action_requests"][0]["args"] == {"path": "b", "force": True}


def test_an_approval_is_for_the_tool_that_was_seen(
    stage: Stage, fake_provider: Start, deleter: Deleter
) -> None:
    graph = deleter.graph(stage, fake_provider(script(calls(delete("a")), says("It changed."))))
    stage.play(graph, "Go.")
    played = stage.play(graph, answer("approve"), context=TurnContext(tools=[other_delete]))
    assert "tool delete has changed" in played.results()["c1"]


def test_what_is_denied_by_now_does_not_run_on_approval(
    stage: Stage, fake_provider: Start, deleter: Deleter
) -> None:
    graph = deleter.graph(stage, fake_provider(script(calls(delete("a")), says("No."))))
    stage.play(graph, "Go.")
    context = TurnContext(permissions=PermissionPolicy(deny=["delete"]))
    played = stage.play(graph, answer("approve"), context=context)
    assert "not allowed (deny_list)" in played.results()["c1"]
    assert deleter.deleted == []


def test_nothing_hides_in_what_is_asked(stage: Stage, fake_provider: Start, deleter: Deleter) -> None:
    path = "notes\u202e.txt\u2028\U000e0100\ufe0f\u3164\x1b[2J"
    graph = deleter.graph(stage, fake_provider(script(calls(delete(path)))))
    paused = stage.play(graph, "Go.")
    (action,) = paused.interrupts[0].value["action_requests"]
    for text in (paused.answer, action["description"]):
        assert "notes\\u202e.txt\\u2028\\udb40\\udd00\\ufe0f\\u3164\\u001b[2J" in text
    assert action["args"] == {"path": path}


def test_an_edit_is_on_record_whole(stage: Stage, fake_provider: Start, deleter: Deleter) -> None:
    graph = deleter.graph(stage, fake_provider(script(calls(delete("a")), says("Done."))))
    stage.play(graph, "Go.")
    action = {"name": "delete", "args": {"path": "b" * 5000}}
    context = TurnContext(user_id="ann")
    edit = {"type": "edit", "edited_action": action}
    (told,) = stage.play(graph, answer(edit), context=context).of("permission")
    assert (told["edited_action"], told["user_id"]) == (action, "ann")
    if hasattr(stage.saver, "read_record"):
        (fact,) = [f for f in stage.saver.read_record("t") if f["type"] == "permission"]
        assert fact["edited_action"] == action


def test_a_changed_state_is_asked_about_anew(tmp_path: Path, fake_provider: Start) -> None:
    stage, deleter = Stage("sync", "sqlite", tmp_path), Deleter()
    graph = deleter.graph(stage, fake_provider(script(calls(delete("a")), says("Done."))))
    run_turn(graph, "Go.", thread_id="t")
    config: Any = {"configurable": {"thread_id": "t"}}
    graph.update_state(config, {"session": {"grants": None}})
    with pytest.raises(ValueError, match="go on with None, to be asked anew"):
        run_turn(graph, answer("approve"), thread_id="t")
    assert run_turn(graph, None, thread_id="t").status == "paused"
    assert run_turn(graph, answer("approve"), thread_id="t").answer == "Done."
    assert deleter.deleted == ["a"]
    stage.close()


@pytest.mark.parametrize("given", [True, "yes", [{"type": "approve"}], None])
def test_an_answer_of_another_shape_is_named(tmp_path: Path, fake_provider: Start, given: Any) -> None:
    stage, deleter = Stage("sync", "memory", tmp_path), Deleter()
    graph = deleter.graph(stage, fake_provider(script(calls(delete("a")))))
    run_turn(graph, "Go.", thread_id="t")
    with pytest.raises(ValueError, match=r"no answer|does not fit the question: [^:]") as raised:
        run_turn(graph, Command(resume=given), thread_id="t")
    shown = {True: "true", "yes": "'yes'", None: "no answer"}
    assert shown.get(given if isinstance(given, str | bool | None) else 0, '[{"type"') in str(raised.value)
    stage.close()

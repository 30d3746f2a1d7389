"""`ask_user`: the built-in tool that asks the user, as an interrupt of the graph (docs/pauses.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Union

from langchain_core.tools import BaseTool
from langgraph.types import interrupt
from pydantic import AfterValidator, BaseModel, Field
from typing_extensions import TypedDict

from turnflow.graph.batch import BatchCall
from turnflow.graph.builtin_tool import BuiltinTool
from turnflow.graph.events import Emitter
from turnflow.graph.flow import NodeRun
from turnflow.graph.langgraph_access import can_pause
from turnflow.graph.text import plain_json
from turnflow.graph.tool_names import ASK_USER
from turnflow.nodes.dispatch_tools.ending import Ended
from turnflow.nodes.dispatch_tools.results import Rendered, render
from turnflow.prompts import Prompts

MAX_QUESTIONS = 4
MAX_OPTIONS = 8


class Question(BaseModel):
    """One question to the user."""

    prompt: str = Field(min_length=1, pattern=r"\S", description="The question.")
    options: list[str] = Field(
        default_factory=list,
        max_length=MAX_OPTIONS,
        description="Answers to choose from; a free one is always possible.",
    )
    multi_select: bool = Field(default=False, description="Whether several options may be chosen.")


class AskUser(BaseModel):
    """Arguments of `ask_user`."""

    questions: list[Question] = Field(min_length=1, max_length=MAX_QUESTIONS)


class AskUserTool(BuiltinTool):
    """The tool as it is offered to the model; the graph runs it itself."""


def ask_user_tool(prompts: Prompts) -> BaseTool:
    """The built-in tool, described in the language of `prompts`."""
    text = prompts.text("tool", "ask_user")
    return AskUserTool(name=ASK_USER, description=text, args_schema=AskUser, func=_run_by_the_graph)


def _run_by_the_graph(questions: Any) -> str:
    raise RuntimeError(
        f"{ASK_USER} asks the user through the graph; it cannot be called by itself: {questions!r}"
    )


def ask(call: BatchCall, emitter: Emitter, run: NodeRun) -> Ended:
    """Ask the user. The interrupt comes first: a resumed task starts again from its top."""
    questions = call["args"]["questions"]
    prompts = run.resources.prompts
    if not can_pause(run.config):
        return Ended("asked", Rendered(prompts.text("result", "asked"), report={"asked": True}))
    answer = interrupt(question_value(call["id"], questions), response_schema=answer_schema(questions))
    emitter.emit("resumed", tool_call_id=call["id"], answer=plain_json(answer))
    text = render_answers(questions, answer, prompts)
    return Ended("ok", render(text, max_chars=run.resources.settings.max_result_chars, prompts=prompts))


def question_value(call_id: str, questions: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The interrupt's value: `{"type": "ask_user", "tool_call_id", "questions": [{"prompt", …}]}`."""
    return {"type": "ask_user", "tool_call_id": call_id, "questions": list(questions)}


def answer_schema(questions: Sequence[dict[str, Any]]) -> Any:
    """What an answer must be: `{"answers": [str | [str]]}`, one for each question in order.

    A list answers a `multi_select` question. With one question open, a bare string will do.
    """

    def fits(answers: list[str | list[str]]) -> list[str | list[str]]:
        for question, answer in zip(questions, answers, strict=True):
            if isinstance(answer, list) and not question.get("multi_select"):
                raise ValueError(f"{question['prompt']!r} takes one answer, not a list: {answer!r}")
        return answers

    count = len(questions)
    answers = Annotated[
        list[str | list[str]], Field(min_length=count, max_length=count), AfterValidator(fits)
    ]
    AskUserAnswer = TypedDict("AskUserAnswer", {"answers": answers})  # noqa: UP013
    return Union[AskUserAnswer, str] if count == 1 else AskUserAnswer  # noqa: UP007 - built at run time


def render_answers(questions: Sequence[dict[str, Any]], answer: Any, prompts: Prompts) -> str:
    """The answers as the tool's result: one line for each question."""
    answers = [answer] if isinstance(answer, str) else answer["answers"]
    lines = []
    for question, given in zip(questions, answers, strict=True):
        text = ", ".join(given) if isinstance(given, list) else given
        said = text if text.strip() else prompts.text("result", "no_answer")
        lines.append(prompts.text("result", "answer", prompt=question["prompt"], answer=said))
    return "\n".join(lines)

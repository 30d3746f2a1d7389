"""Summing up: one summary of an old one and what came after it, in as many calls as that takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage
from langgraph.errors import GraphBubbleUp

from turnflow.graph.flow import Body, NodeRun
from turnflow.graph.folds import defused
from turnflow.graph.outcome import NO_USAGE, Usage, sum_usage
from turnflow.graph.profile import ProviderProfile
from turnflow.graph.redaction import redact
from turnflow.graph.strict_messages import wire_messages
from turnflow.graph.text import storable
from turnflow.graph.tokens import TokenCounter
from turnflow.graph.waiting import Pause
from turnflow.graph.wire_texts import wire_texts
from turnflow.nodes.fold_checkpoint import summary_call
from turnflow.nodes.fold_checkpoint.material import MaterialWording, lines_of, steps_of
from turnflow.nodes.fold_checkpoint.summary_reply import read_reply

_MOST_WORDS, _LEAST_WORDS = 500, 40
_MOST_READ = 8000
"""Characters of an error that are read."""
_MATERIAL_PART = 0.6
"""Of the summariser's window, for what it reads; our count is an estimate."""
_LEAST_MATERIAL = 128
_TOKENS_PER_WORD = 4
"""A summary of more tokens than this for each word that it may have is none."""


@dataclass(frozen=True, slots=True)
class Summed:
    """What became of a summary.

    Attributes:
        text: The summary; '' where there is none.
        why: Why there is none: `empty`, `calls`, `too_long`, `timeout`, `error`, `cancelled`; '' where there
            is one.
        error: What the model raised, in short; '' if nothing.
        usage: Tokens of all calls.
    """

    text: str
    why: str
    error: str
    usage: Usage


def most_words(window: int, replaced: int) -> int:
    """How long a summary may be, in words.

    Args:
        window: Tokens of the window that it will stand in; a tenth of it is room enough.
        replaced: Tokens of what it stands for.
    """
    return max(_LEAST_WORDS, min(_MOST_WORDS, min(window // 10, replaced // 2) * 3 // 4))


def sum_up(
    messages: Sequence[AnyMessage], old: str, *, words: int, turn: dict[str, Any], run: NodeRun
) -> Body[Summed]:
    """Sum up messages, merged with an older summary into one.

    Args:
        messages: What to sum up.
        old: The older summary; '' for none.
        words: How long the summary may be.
        turn: The turn.
        run: The node's run.
    """
    resources = run.resources
    try:
        _ = resources.summariser_model  # a name becomes a model here, which its client may refuse
    except Exception as error:  # noqa: BLE001 - whatever making it raises, the turn goes on without a summary
        run.emitter(turn).record("summariser.replied", text="", failed=True, usage=dict(NO_USAGE))
        return Summed("", "error", _described(error), dict(NO_USAGE))
    prompts, counter = resources.prompts, resources.counter_in(turn)
    wording = MaterialWording(
        user_said=prompts.template("context", "user_said"),
        assistant_said=prompts.template("context", "assistant_said"),
        called=prompts.template("summary", "called"),
        result=prompts.template("summary", "result"),
        cut=prompts.template("result", "cut"),
    )
    system = prompts.text("summary", "system", words=words)
    lines = lines_of(messages, wording)
    # The reply has its place in the rest of the window.
    room = int(_summariser_window(turn, run) * _MATERIAL_PART) - counter.text(system)
    steps = steps_of(lines, max(room - counter.text(old), _LEAST_MATERIAL), counter, wording.cut)
    if len(steps) > 1:  # what a step makes stands in the next one
        between = max(counter.text(old), 2 * words)
        steps = steps_of(lines, max(room - between, _LEAST_MATERIAL), counter, wording.cut)
    summed = Summed(old, "" if old else "empty", "", dict(NO_USAGE))
    for step in steps:
        said = yield from _ask(system, _request(summed.text, step, run), words, counter, turn, run)
        summed = Summed(said.text, said.why, said.error, sum_usage(summed.usage, said.usage))
        if summed.why:
            break
    return summed


def _request(old: str, conversation: str, run: NodeRun) -> str:
    prompts = run.resources.prompts
    before = ""
    if old:
        # The template's own line breaks at its end part it from what follows.
        text = defused(old, "conversation", "summary")
        before = f"{prompts.text('summary', 'before', text=text)}\n\n"
    return prompts.text("summary", "request", before=before, conversation=conversation)


def _ask(
    system: str, request: str, words: int, counter: TokenCounter, turn: dict[str, Any], run: NodeRun
) -> Body[Summed]:
    """One call, made again where it fails for a reason that passes."""
    settings, requests = run.resources.settings, 0
    messages = wire_messages(
        [SystemMessage(system), HumanMessage(request)], _profile(turn, run), wire_texts(run.resources.prompts)
    )
    while True:
        end: summary_call.CallEnd = yield summary_call.SummaryCall(
            run.resources.summariser_in(turn),
            messages,
            run.config,
            cancel=run.resources.cancel,
            timeout=summary_call.SUMMARY_SECONDS,
        )
        requests += 1
        if not isinstance(end.error, Exception) or requests > settings.retries_per_round:
            break
        wait = run.resources.retry_wait(end.error, requests, settings)
        if wait is None or (yield Pause(wait, run.resources.cancel)):
            break
    if isinstance(end.error, GraphBubbleUp):
        raise end.error
    if end.given_up or end.error:
        asked: Usage = {**NO_USAGE, "requests": requests}
        run.emitter(turn).emit("usage", usage=asked, finish_reason="")
        run.emitter(turn).record("summariser.replied", text="", failed=True, usage=asked)
        if end.error:
            return Summed("", "error", _described(end.error), asked)
        is_cancelled = end.given_up is not None and end.given_up.cancelled
        return Summed("", "cancelled" if is_cancelled else "timeout", "", asked)
    profile = _profile(turn, run)
    reply = read_reply(end.value, profile.think_tags, starts_thinking=profile.starts_thinking)
    usage: Usage = {**reply.usage, "requests": requests}
    run.emitter(turn).emit("usage", usage=usage, finish_reason=reply.finish_reason)
    run.emitter(turn).record("summariser.replied", text=reply.text, failed=False, usage=usage)
    why = reply.why
    if not why and counter.text(reply.text) > words * _TOKENS_PER_WORD:
        why = "too_long"
    return Summed("" if why else reply.text, why, "", usage)


def _described(error: BaseException) -> str:
    try:
        text = str(redact(storable(" ".join(str(error).split())[:_MOST_READ])))
    except Exception:  # noqa: BLE001 - a foreign exception can raise anything
        text = ""
    return f"{type(error).__name__}: {text}"[:200]


def _profile(turn: dict[str, Any], run: NodeRun) -> ProviderProfile:
    """What is known of the summariser."""
    own = getattr(run.resources.summariser_in(turn), "provider_profile", None)
    if isinstance(own, ProviderProfile):
        return own
    return run.resources.profile_in(turn) if _is_own_model(run) else ProviderProfile()


def _summariser_window(turn: dict[str, Any], run: NodeRun) -> int:
    """Tokens that a request to the summariser and its reply may take; the turn's, where nothing says."""
    if not _is_own_model(run) and (window := _profile(turn, run).context_window):
        return window
    return run.resources.window_in(turn)


def _is_own_model(run: NodeRun) -> bool:
    return run.resources.summariser_model is run.resources.chat_model

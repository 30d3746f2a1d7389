"""Playing a script: which answer a request gets, and what is kept of it. Thread-safe, without I/O."""

from __future__ import annotations

import json
import math
import threading
from typing import TYPE_CHECKING, Any

from turnflow.apps.fake_provider.answers import Answer, error_answer, json_answer, step_answer
from turnflow.apps.fake_provider.expectations import mismatches
from turnflow.apps.fake_provider.frames import CREATED
from turnflow.apps.fake_provider.refusals import refusal_answer, refused
from turnflow.apps.fake_provider.strict import RULES, malformed, violations

if TYPE_CHECKING:
    from turnflow.apps.fake_provider.script import Script, Step
    from turnflow.apps.fake_provider.violation import Violation


class Player:
    """Answers requests from a script, step by step.

    A request that is refused (malformed, strict mode, a refused parameter, an expectation that fails)
    uses no step up: the script says what acceptable requests are answered with.

    Args:
        script: The script.
        strict: Whether strict mode is on.
    """

    def __init__(self, script: Script, *, strict: bool) -> None:
        self._script = script
        self._strict = strict
        # A rule that the script refuses by is not strict mode's any more.
        named = {refusal.what for refusal in script.refuses}
        given = script.strictness
        self._strictness = given.model_copy(
            update={
                "allow": [*given.allow, *(rule for rule in RULES if rule in named)],
                "also": [rule for rule in given.also if rule not in named],
            }
        )
        self._arrived = threading.Condition()
        self._played = [0] * len(script.steps)
        self._requests: list[dict[str, Any]] = []
        self._violations: list[tuple[int, Violation]] = []
        self._refusals: list[str] = []
        self._errors: list[str] = []
        self._count = 0

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The parsed bodies of all requests so far, in order."""
        with self._arrived:
            return list(self._requests)

    @property
    def violations(self) -> list[str]:
        """What strict mode refused, one line each: request, place, text and rule."""
        with self._arrived:
            return [f"request {number}: {violation}" for number, violation in self._violations]

    @property
    def refusals(self) -> list[str]:
        """What was refused because the script says so, once for each refused request."""
        with self._arrived:
            return list(self._refusals)

    @property
    def errors(self) -> list[str]:
        """Where the requests did not fit the script, one line each."""
        with self._arrived:
            return list(self._errors)

    @property
    def unplayed(self) -> list[str]:
        """The steps that are still to be played, one line each; none if the script repeats."""
        with self._arrived:
            return [
                f"step {number} ({_described(step)}) was played {played} of {step.times} times"
                for number, (step, played) in enumerate(zip(self._script.steps, self._played, strict=True), 1)
                if played < step.times and not self._script.repeat
            ]

    @property
    def steps_left(self) -> int:
        """How many answers are still to be given."""
        with self._arrived:
            pairs = zip(self._script.steps, self._played, strict=True)
            left = sum(max(0, step.times - played) for step, played in pairs)
            return 0 if self._script.repeat else left

    def wait_for_requests(self, count: int, timeout: float) -> bool:
        """Wait until so many requests have arrived; False if `timeout` seconds pass before."""
        with self._arrived:
            return self._arrived.wait_for(lambda: self._count >= count, timeout)

    def models(self) -> Answer:
        """The answer to `GET /v1/models`."""
        models = [
            {"id": name, "object": "model", "created": CREATED, "owned_by": "fake"}
            for name in self._script.models
        ]
        return json_answer(200, {"object": "list", "data": models})

    def complete(self, body: bytes) -> Answer:
        """The answer to `POST /v1/chat/completions`."""
        with self._arrived:
            self._count += 1
            self._arrived.notify_all()
            return self._answer(body, self._count)

    def _answer(self, body: bytes, number: int) -> Answer:
        try:
            request = json.loads(body)
        except ValueError:
            request = None
        if isinstance(request, dict):
            self._requests.append(request)
        found = self._broken_rules(request)
        if found:
            self._violations += [(number, violation) for violation in found]
            first = found[0]
            text = f"{first.param}: {first.message}"
            return error_answer(400, text, code=first.rule or "malformed", param=first.param)
        if (refusal := refused(self._script.refuses, request, self._script.strictness)) is not None:
            self._refusals.append(refusal.what)
            return refusal_answer(refusal, request)
        return self._play(request, number)

    def _broken_rules(self, request: Any) -> list[Violation]:
        if (problem := malformed(request)) is not None:
            return [problem]
        return violations(request, self._strictness) if self._strict else []

    def _play(self, request: dict[str, Any], number: int) -> Answer:
        at = self._next_step(request)
        if at is None:
            total = len(self._script.steps)
            return self._fail(
                number, 500, "script_exhausted", f"none of the script's {total} steps is left for it"
            )
        step = self._script.steps[at]
        if problems := mismatches(step.expect, request):
            text = f"not what step {at + 1} expects: {'; '.join(problems)}"
            # Neither retried nor read as a missing feature by clients, unlike 500 and 400.
            return self._fail(number, 417, "expectation_failed", text)
        self._played[at] += 1
        return step_answer(step, request, number)

    def _next_step(self, request: dict[str, Any]) -> int | None:
        at = self._fitting_step(request)
        if (
            at is None
            and self._script.repeat
            and all(
                played >= step.times for step, played in zip(self._script.steps, self._played, strict=True)
            )
        ):
            self._played = [0] * len(self._played)
            at = self._fitting_step(request)
        return at

    def _fitting_step(self, request: dict[str, Any]) -> int | None:
        for at, step in enumerate(self._script.steps):
            limit = math.inf if step.forever else step.times
            if self._played[at] < limit and (step.when is None or not mismatches(step.when, request)):
                return at
        return None

    def _fail(self, number: int, status: int, code: str, text: str) -> Answer:
        self._errors.append(f"request {number}: {text}")
        return error_answer(status, f"fake provider: request {number}: {text}", code=code)


def _described(step: Step) -> str:
    if step.note:
        return step.note
    return "reply" if step.reply else "error" if step.error else "raw"

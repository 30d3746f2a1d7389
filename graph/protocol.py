"""How a reply says what it wants: native tool calls, a label on its first line, or a JSON decision."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

LabelHook = Callable[[dict[str, Any]], Any]
"""Takes a dict with `hook` (its name), `session_id`, `turn_id`, `round`, `user_id` and what it is about. May
be a coroutine function. One that raises is logged and passed over."""

UNKNOWN = "UNKNOWN"
"""What stands for the label of a reply that has none."""

JSON_ACTIONS = ("reply", "call_tool", "clarify")
"""What a JSON decision can ask for."""

_LABEL = re.compile(r"[^\W_](?:[\w-]{0,30}[^\W_])?")
_HOOKS = ("validate_terminal", "before_round", "on_intermediate", "repair_message", "force_finalize")


@dataclass(frozen=True)
class LabelProtocol:
    """A reply's first line carries one label, which says what the reply is (docs/protocols.md).

    Attributes:
        allowed: All labels.
        terminal: Those that end the turn; the body is the answer.
        intermediate: Those after which the turn goes on with another round.
        final: Those whose body is shown to the user. A final label need not be terminal (say something and
            go on), and a terminal one need not be final: its body is the turn's `answer`, for the caller.
        tool: The label of a reply that calls tools, or None where the protocol has no tools.
        stream_final: Whether final bodies go out as events while they arrive; what is then rejected is
            taken back by a `content.retract`. Otherwise they go out once they are accepted.
        meanings: What the model is told about a label, where the standard text is not enough.
        validate_terminal: Called with a terminal reply (`label`, `text`); gives the key of a violation, or
            None to accept it.
        before_round: Called before a request; may give a directive for it.
        on_intermediate: Called after an intermediate reply (`label`, `text`); may give a directive.
        repair_message: Called with a violation (`key`, `label`, `times`, `text`: the standard directive);
            may give another text.
        force_finalize: Called before the request that ends the turn by force (`cause`); may give another
            text for its directive.
    """

    allowed: Collection[str]
    terminal: Collection[str]
    intermediate: Collection[str] = ()
    final: Collection[str] = ()
    tool: str | None = None
    stream_final: bool = False
    meanings: Mapping[str, str] = field(default_factory=dict)
    validate_terminal: LabelHook | None = None
    before_round: LabelHook | None = None
    on_intermediate: LabelHook | None = None
    repair_message: LabelHook | None = None
    force_finalize: LabelHook | None = None

    def __post_init__(self) -> None:
        """Refuse a protocol under which no turn could end well.

        Raises:
            ValueError: The text names the label or the field, and the mend.
        """
        for name in ("allowed", "terminal", "intermediate", "final"):
            object.__setattr__(self, name, _labels(name, getattr(self, name)))
        if not isinstance(self.tool, str | None):
            raise ValueError(f"LabelProtocol.tool is a label or None, not {self.tool!r}")
        if not isinstance(self.meanings, Mapping):
            raise ValueError(f"LabelProtocol.meanings is a dict from labels to texts, not {self.meanings!r}")
        for label, meaning in self.meanings.items():
            if not isinstance(meaning, str) or not meaning.strip():
                raise ValueError(f"LabelProtocol.meanings: {label!r} means a text, not {meaning!r}")
        if not isinstance(self.stream_final, bool):
            raise ValueError(f"LabelProtocol.stream_final is True or False, not {self.stream_final!r}")
        _check_labels(self.allowed)
        self._check_roles()
        for name in _HOOKS:
            hook = getattr(self, name)
            if hook is not None and not callable(hook):
                raise ValueError(f"LabelProtocol.{name} is a function, not {hook!r}")

    @property
    def answer_label(self) -> str:
        """The label that an answer to the user has."""
        return next((label for label in self.terminal if label in self.final), next(iter(self.terminal)))

    def is_thought(self, label: str) -> bool:
        """Whether the body of this label goes out as a thought."""
        return label not in self.final and (label in self.intermediate or label == self.tool)

    def _check_roles(self) -> None:
        for name in ("terminal", "intermediate", "final", "meanings"):
            self._check_known(name, getattr(self, name))
        self._check_known("tool", () if self.tool is None else (self.tool,))
        if not self.terminal:
            raise ValueError("LabelProtocol.terminal is empty: a turn needs a label to end with")
        if both := [label for label in self.terminal if label in {*self.intermediate, self.tool}]:
            raise ValueError(f"LabelProtocol: {both[0]!r} ends the turn and goes on with it; leave one")

    def _check_known(self, name: str, labels: Collection[str]) -> None:
        for label in labels:
            if label not in self.allowed:
                raise ValueError(f"LabelProtocol.{name}: {label!r} is not among the allowed {self.allowed!r}")


def _labels(name: str, given: object) -> tuple[str, ...]:
    """Labels without repeats, in the order given; those of a set in the order of the alphabet."""
    if isinstance(given, str) or not isinstance(given, Collection):
        raise ValueError(f"LabelProtocol.{name} is a list of labels, not {given!r}")
    if wrong := [label for label in given if not isinstance(label, str)]:
        raise ValueError(f"LabelProtocol.{name} is a list of labels; {wrong[0]!r} is no text")
    return tuple(dict.fromkeys(sorted(given) if isinstance(given, set | frozenset) else given))


def _check_labels(allowed: Collection[str]) -> None:
    for label in allowed:
        if not _LABEL.fullmatch(label) or label.upper() == UNKNOWN:
            raise ValueError(
                f"LabelProtocol.allowed: {label!r} is no label; use up to 32 letters and digits, hyphens and "
                f"underscores between them, and not {UNKNOWN}"
            )
    if len({label.casefold() for label in allowed}) < len(allowed):
        raise ValueError(f"LabelProtocol.allowed: some labels differ by case only: {allowed!r}")


@dataclass(frozen=True)
class JsonProtocol:
    """A reply is one JSON object: `{"thought", "action", "action_input"}` (docs/protocols.md).

    Attributes:
        max_thought_chars: How long a thought the schema that goes with a constrained request allows.
    """

    max_thought_chars: int = 1000

    def __post_init__(self) -> None:
        """Refuse what no schema could say.

        Raises:
            ValueError: The text names the value.
        """
        limit = self.max_thought_chars
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
            raise ValueError(f"JsonProtocol.max_thought_chars is a number of characters, not {limit!r}")


Protocol = LabelProtocol | JsonProtocol | None
"""None stands for native tool calls."""

ProtocolName = Literal["native", "label", "json"]
PROTOCOL_NAMES: tuple[ProtocolName, ...] = ("native", "label", "json")

LABELS = LabelProtocol(
    allowed=("FINISH", "THINK", "PAUSE", "TOOL"),
    terminal=("FINISH",),
    intermediate=("THINK", "PAUSE"),
    final=("FINISH", "PAUSE"),
    tool="TOOL",
)
"""What `protocol="label"` means."""


def as_protocol(given: object) -> Protocol:
    """The protocol of a name, or the protocol itself.

    Raises:
        ValueError: It is neither.
    """
    if isinstance(given, LabelProtocol | JsonProtocol | None):
        return given
    if given == "native":
        return None
    if given == "label":
        return LABELS
    if given == "json":
        return JsonProtocol()
    raise ValueError(
        f"protocol {given!r} is not one of: {', '.join(PROTOCOL_NAMES)}; or give a LabelProtocol or a "
        "JsonProtocol"
    )

"""Native tool calls, put together from the deltas of a stream."""

from __future__ import annotations

import json
from itertools import count, islice
from typing import TYPE_CHECKING, TypedDict

from turnflow.graph.decision import is_truncated

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

UNREADABLE = "<arguments that cannot be written as JSON>"
"""The text of arguments that came as a value which JSON cannot hold; no tool accepts it."""


class CallDelta(TypedDict):
    """A part of a call in canonical form: adding up the texts of one `index` gives the call.

    The index counts the reply's calls from 0. The id, and the name too unless it came in parts, stands in
    one delta of its call only.
    """

    index: int
    id: str | None
    name: str | None
    args: str


class AssembledCall(TypedDict):
    """A whole call. Its arguments are JSON text, or "" for none, and are not checked here."""

    id: str
    name: str
    arguments: str
    complete: bool
    """False if the reply's end cut the arguments off, so that the call must not be executed."""


class CallAssembler:
    """Puts a reply's native tool calls together, whatever a gateway does to ids, names and indexes."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._latest: _Call | None = None
        self._by_index: dict[int | str, _Call] = {}
        self._by_index_and_id: dict[tuple[int | str | None, str], _Call] = {}
        self._by_id: dict[str, _Call] = {}

    def feed(self, deltas: Iterable[Mapping[str, object]]) -> list[CallDelta]:
        """Take the next deltas; give them in canonical form, without those that say nothing.

        Args:
            deltas: Dicts with `index` (int), `id`, `name` and `args` (text), each of which may be None,
                missing or of a wrong type. Arguments that are no text are written as JSON.
        """
        return [taken for delta in deltas if (taken := self._take(delta)) is not None]

    def close(self, finish_reason: str | None, taken_ids: Collection[str] = ()) -> list[AssembledCall]:
        """Give the calls, in the order in which they began.

        Args:
            finish_reason: The provider's finish reason. A truncation makes the call that
                arrived last, and every call whose arguments are not strict JSON, incomplete.
            taken_ids: Ids that the turn used already. Calls without an id of their own get a new one.
        """
        cut_off = is_truncated(finish_reason)
        ids = self._unique_ids(frozenset(taken_ids))
        return [
            {
                "id": call_id,
                "name": call.name,
                "arguments": (arguments := "".join(call.arguments)),
                "complete": not cut_off or _survived(arguments, last=call is self._latest),
            }
            for call, call_id in zip(self._calls, ids, strict=True)
        ]

    def _take(self, delta: Mapping[str, object]) -> CallDelta | None:
        index, call_id = _index(delta.get("index")), _text(delta.get("id"))
        name, args = _text(delta.get("name")), _arguments(delta.get("args"))
        if call_id is None and name is None and not args:
            return None
        name = name and name.strip()
        call = self._find(index, call_id, name)
        if call is None:
            call = self._begin()
        elif call.is_over(name, args):
            if call_id is not None and call.is_same(call_id, args):
                args = ""
            else:
                name = name or call.name
                call = self._begin()
        canonical: CallDelta = {
            "index": call.index,
            "id": call.add_id(call_id),
            "name": call.add_name(name),
            "args": call.add_arguments(args),
        }
        self._remember(call, index)
        return canonical

    def _find(self, index: int | str | None, call_id: str | None, name: str | None) -> _Call | None:
        """Give the call that a delta may go on with."""
        latest = self._latest if index is None else self._by_index.get(index)
        if call_id is None:
            return latest
        known = self._by_id.get(call_id) if index is None else self._by_index_and_id.get((index, call_id))
        if known is None and latest is not None and latest.id is None and name in {None, latest.name}:
            return latest  # its id comes late
        return known

    def _begin(self) -> _Call:
        call = _Call(len(self._calls))
        self._calls.append(call)
        return call

    def _remember(self, call: _Call, index: int | str | None) -> None:
        self._latest = call
        if index is not None:
            self._by_index[index] = call
        if call.id is not None:
            self._by_id[call.id] = call
            self._by_index_and_id[index, call.id] = call

    def _unique_ids(self, taken: frozenset[str]) -> list[str]:
        """Give each call's id, in order: its own if it is the first with it, else a new one."""
        used = set(taken)
        # A new id must not be one that a later call brings along.
        reserved = used | {call.id for call in self._calls if call.id is not None}
        numbers = count(1)
        ids = []
        for call in self._calls:
            call_id = call.id
            if call_id is None or call_id in used:
                free = (f"{call.id or 'call'}_{number}" for number in numbers)
                call_id = next(new_id for new_id in free if new_id not in reserved)
            used.add(call_id)
            ids.append(call_id)
        return ids


def new_ids(count_of_calls: int, taken: Collection[str]) -> list[str]:
    """Ids for calls that have none of their own, none of them taken."""
    free = (call_id for number in count(1) if (call_id := f"call_{number}") not in taken)
    return list(islice(free, count_of_calls))


class _Call:
    """One call, as far as it came."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.id: str | None = None
        self.name = ""
        self.arguments: list[str] = []
        self._object = _ObjectEnd()
        self._named_again = False  # after its arguments were whole
        self._looked_at = 0  # how many parts of the arguments `_object` has seen

    def is_over(self, name: str | None, args: str) -> bool:
        """Say whether a delta that brings `name` and `args` begins another call.

        Gateways that leave out ids and indexes, or give all calls the same, tell by another name that another
        call began, or by the same name and a second object of arguments. The same name alone is a repeat.
        """
        if not (self.name and self.arguments):
            return False
        if name is not None and name != self.name:
            return True
        if not (name or self._named_again) or not self._arguments_are_whole():
            return False
        self._named_again = True
        return args.lstrip().startswith("{")

    def is_same(self, call_id: str, args: str) -> bool:
        """Say whether a whole call is this one, sent again."""
        return call_id == self.id and args == "".join(self.arguments)

    def add_id(self, call_id: str | None) -> str | None:
        """Take the id; give it if it is news."""
        if self.id is not None:
            return None
        self.id = call_id
        return call_id

    def add_name(self, name: str | None) -> str | None:
        """Take the name, a part of it, or more of it than before; give what is news."""
        if name is None or name == self.name:
            return None
        news = name.removeprefix(self.name)
        self.name += news
        return news

    def add_arguments(self, args: str) -> str:
        """Take the next text of the arguments and give it."""
        if args:
            self.arguments.append(args)
        return args

    def _arguments_are_whole(self) -> bool:
        for part in self.arguments[self._looked_at :]:
            self._object.feed(part)
        self._looked_at = len(self.arguments)
        return self._object.ended


class _ObjectEnd:
    """Looks for the end of a JSON object by its brackets, in one pass over the parts of its text."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._begun = False

    @property
    def ended(self) -> bool:
        return self._begun and not self._depth

    def feed(self, text: str) -> None:
        for char in text:
            if self._escaped:
                self._escaped = False
            elif self._in_string:
                self._escaped = char == "\\"
                self._in_string = char != '"'
            elif char == '"':
                self._in_string = True
            elif char in "{[":
                self._depth += 1
                self._begun = True
            elif char in "}]":
                self._depth -= 1


def _index(value: object) -> int | str | None:
    return value if isinstance(value, (int, str)) and value != "" else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _arguments(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return UNREADABLE


def _survived(arguments: str, *, last: bool) -> bool:
    """Say whether a call is whole although the reply was cut off.

    Only an object shows its own end: a number may have lost digits, and no arguments at all, in the call that
    came last, may be arguments that did not begin.
    """
    if not arguments.strip():
        return not last
    try:
        parsed = json.loads(arguments, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return False
    return isinstance(parsed, dict)


def _refuse_constant(constant: str) -> object:
    """Refuse NaN and the infinities, which Python reads but JSON does not have."""
    raise ValueError(f"{constant} is no JSON")

"""What is kept with a thread beside its transcript: variables and metadata (docs/sessions.md)."""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from typing_extensions import TypedDict

from turnflow.graph.batch import batch_of
from turnflow.graph.state import CLEARED, merge_session
from turnflow.graph.text import is_storable, storable

Variables = dict[str, dict[str, Any]]
"""By namespace and key."""

MAX_VARIABLES = 64_000
"""Bytes of all variables of a session together, as compact JSON in UTF-8."""

MAX_TAG = 200
"""Characters of a tag's name, and of its value."""

MAX_TAGS = 100

_MAX_DEPTH = 32
_BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Control characters and line breaks."""
_PRIVATE = "_"
"""What the name of a namespace begins with that the model is not shown."""


class SessionMeta(TypedDict):
    """What is known about a session; None for what is not."""

    user: str | None
    created: float | None
    """When its first turn began, in seconds since the epoch."""
    last_active: float | None
    """When its last turn began, in seconds since the epoch; each turn's is later than the one's before."""
    tags: dict[str, str]


class SessionInfo(TypedDict):
    """A session's variables and metadata."""

    vars: Variables
    meta: SessionMeta


def checked_variables(given: object, name: str = "variables") -> dict[str, Any]:
    """A change of variables as it can be stored: by namespace, each a dict of plain JSON by key, or None.

    Args:
        given: The change; None takes a key out, or all of a namespace.
        name: What an error calls it.

    Raises:
        ValueError: It is no such thing; the text names the place and the mend.
    """
    if not isinstance(given, Mapping):
        kind = type(given).__name__
        raise ValueError(f'{name} is a dict by namespace, such as {{"form": {{"step": 2}}}}, not {kind}')
    checker = _Checker()
    change: dict[str, Any] = {}
    for namespace, entries in given.items():
        path = f"{name}[{namespace!r:.80}]"
        if not isinstance(entries, Mapping | None):
            raise ValueError(f"{path} is a dict of values by key, or None to clear it, not {_kind(entries)}")
        space = _name(namespace, path)
        change[space] = None if entries is None else {}
        for key, value in (entries or {}).items():
            place = f"{path}[{key!r:.80}]"
            change[space][_name(key, place)] = checker.plain(value, place)
    return change


def _name(given: object, path: str) -> str:
    if not isinstance(given, str) or not given.strip():
        raise ValueError(f"{path}: the name of a variable, or of a namespace, is a text that is not blank")
    return storable(str.__str__(given))


def _kind(value: object) -> str:
    return f"a value of type {type(value).__name__}"


class _Checker:
    """Copies values as plain JSON; counts them, so that one that holds itself comes to an end."""

    def __init__(self) -> None:
        self._left = MAX_VARIABLES

    def plain(self, value: object, path: str, depth: int = 0) -> Any:
        self._left -= 1
        if self._left < 0 or depth > _MAX_DEPTH:
            what = f"holds more than {MAX_VARIABLES} values" if self._left < 0 else "is nested too deeply"
            raise ValueError(f"{path[:300]} {what}")
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return storable(str.__str__(value))
        if isinstance(value, int) and is_storable(value):
            return int(value)
        if isinstance(value, float) and math.isfinite(value):
            return float(value)
        if isinstance(value, list | tuple):
            return [self.plain(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)]
        if isinstance(value, Mapping):
            return {
                self._key(key, path): self.plain(item, f"{path}[{key!r:.80}]", depth + 1)
                for key, item in value.items()
            }
        is_number = isinstance(value, int | float)
        what = "a number that JSON or a checkpoint cannot hold" if is_number else _kind(value)
        raise ValueError(f"{path[:300]} is {what}; a variable is plain JSON")

    def _key(self, key: object, path: str) -> str:
        if not isinstance(key, str):
            raise ValueError(f"{path[:300]} has a key that is no text: {key!r:.80}")
        return storable(str.__str__(key))


def merged_changes(changes: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Changes of variables as one, those that come later last."""
    merged: dict[str, Any] = {}
    for change in changes:
        for namespace, entries in change.items():
            if entries is None or namespace not in merged:
                merged[namespace] = entries
            else:
                earlier = {CLEARED: None} if merged[namespace] is None else merged[namespace]
                merged[namespace] = {**earlier, **entries}
    return merged


def check_size(session: Mapping[str, Any] | None, change: Mapping[str, Any]) -> None:
    """Refuse a change that would make a session's variables too large, or give it too many tags.

    One that makes them no larger than they are goes through.

    Args:
        session: The `session` channel.
        change: The change of that channel.

    Raises:
        ValueError: The text says how large they would be, and names the largest value.
    """
    before = dict(session or {})
    after = merge_session(before, dict(change))
    tags = meta_of(after)["tags"]
    if len(tags) > max(MAX_TAGS, len(meta_of(before)["tags"])):
        raise ValueError(f"the session would have {len(tags)} tags, {MAX_TAGS} is the most; take some off")
    variables = variables_of(after)
    size = _size(variables)
    if size <= max(MAX_VARIABLES, _size(variables_of(before))):
        return
    sizes = {
        (space, key): _size(value) for space, entries in variables.items() for key, value in entries.items()
    }
    namespace, key = max(sizes, key=lambda place: sizes[place])
    raise ValueError(
        f"the session's variables would take {size} bytes, {MAX_VARIABLES} is the most; the largest is "
        f"variables[{namespace!r:.80}][{key!r:.80}] with {sizes[namespace, key]}"
    )


def _size(value: object) -> int:
    return len(_compact(value).encode())


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def variables_of(session: Mapping[str, Any] | None) -> Variables:
    """The variables of the `session` channel, which a thread of an earlier version may not have."""
    variables = (session or {}).get("vars")
    return {space: dict(entries) for space, entries in (variables or {}).items() if isinstance(entries, dict)}


def public_variables(variables: Mapping[str, Mapping[str, Any]]) -> Variables:
    """The variables that a model may be shown: those of namespaces that do not begin with `_`."""
    return {space: dict(entries) for space, entries in variables.items() if not space.startswith(_PRIVATE)}


def shown_variables(variables: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The variables that a model may be shown, as compact JSON; None where there are none."""
    public = public_variables(variables)
    return _compact(public) if public else None


def meta_of(session: Mapping[str, Any] | None) -> SessionMeta:
    """The metadata of the `session` channel, which a thread of an earlier version may not have."""
    meta = (session or {}).get("meta") or {}
    return {
        "user": meta.get("user"),
        "created": meta.get("created"),
        "last_active": meta.get("last_active"),
        "tags": dict(meta.get("tags") or {}),
    }


def info_of(session: Mapping[str, Any] | None) -> SessionInfo:
    """Variables and metadata of the `session` channel; the caller may change what it gets."""
    return {"vars": copy.deepcopy(variables_of(session)), "meta": meta_of(session)}


def touched(meta: Mapping[str, Any], user_id: str | None, now: float) -> dict[str, Any]:
    """What a turn that begins changes of a session's metadata.

    Args:
        meta: The section `meta` of the `session` channel; empty before the first turn.
        user_id: Who is asking; None leaves the user as it is.
        now: Seconds since the epoch. `last_active` grows even where the clock does not.
    """
    moment, last = round(now, 3), meta.get("last_active")
    if last is not None and moment <= last:
        moment = round(last + 0.001, 3)
    change: dict[str, Any] = {"last_active": moment}
    if meta.get("created") is None:
        change["created"] = moment
    if user_id is not None and user_id != meta.get("user"):
        change["user"] = user_id
    return change


def checked_tags(given: object) -> dict[str, str | None]:
    """A change of tags: texts by name; None takes a tag off.

    Raises:
        ValueError: It is no such thing; the text names the tag.
    """
    if not isinstance(given, Mapping):
        raise ValueError(f'tags are a dict of texts, such as {{"team": "north"}}, not {_kind(given)}')
    for name, value in given.items():
        if not isinstance(name, str) or not name.strip() or "=" in name or len(name) > MAX_TAG:
            raise ValueError(f"tag {name!r:.80}: a name is a text without '=', of 1 to {MAX_TAG} characters")
        if not isinstance(value, str | None) or len(value or "") > MAX_TAG:
            raise ValueError(f"tag {name!r:.80}: a value is a text of at most {MAX_TAG} characters, or None")
        # A list of threads shows tags, a thread a line. What an earlier version has kept can be taken off.
        if value is not None and (_BREAKS.search(name) or _BREAKS.search(value)):
            raise ValueError(
                f"tag {name!r:.80}: neither a name nor a value has control characters or line breaks"
            )
    return {storable(name): None if value is None else storable(value) for name, value in given.items()}


def session_change(
    variables: Mapping[str, Mapping[str, Any] | None] | None = None,
    tags: Mapping[str, str | None] | None = None,
) -> dict[str, Any]:
    """The state update that sets variables and tags, for `Command(resume=answer, update=...)`.

    Raises:
        ValueError: They are not as they must be; the text names what is wrong.
    """
    session: dict[str, Any] = {}
    if variables:
        session["vars"] = checked_variables(variables)
    if tags:
        session["meta"] = {"tags": checked_tags(tags)}
    return {"session": session}


def with_session(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state as tools see it: `session` always has `vars` and `meta`.

    What earlier calls of the same reply have set is in `vars` already; nothing that a tool changes there
    changes the state.
    """
    session = state.get("session") or {}
    calls = batch_of(state)["calls"].values()
    said = merged_changes(call["variables"] for call in calls if call["done"] and call.get("variables"))
    info = info_of(merge_session(session, {"vars": said}) if said else session)
    return {**state, "session": {**session, **info}}

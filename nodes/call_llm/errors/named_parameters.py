"""Which parameter of a request the words of an error say no to."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from turnflow.nodes.call_llm.errors.refused_content import NOT_TAKEN

_MAX_NAMES = 100
_MAX_NAME = 64
_MAX_MENTIONS = 5
_BEFORE, _AFTER = 100, 140
_COMPLAINT = re.compile(
    NOT_TAKEN + r"|invalid|illegal|must (?:not )?be|should be|out of range|range of"
    r"|only .{0,40}(?:allowed|supported)|deprecated|cannot both|can't both|mutually exclusive"
    r"|unknown|unrecogni[sz]ed|unexpected|forbidden"
    r"|not a valid|leave it unset|参数非法|仅支持|只支持|failed to parse|not permitted"
    r"|one of .{0,30} not both",
    re.IGNORECASE,
)
_ALTERNATIVES = re.compile(
    r"expected one of|(?:supported|valid|allowed|available|permitted) (?:values|parameters|fields"
    r"|options|keys)"
    r"|did you mean|\binstead\b|known fields",
    re.IGNORECASE,
)
"""Behind it stand names of what is taken."""
_PARAMETER = re.compile(r"param|argument|field|propert|option|\bkey\b|input", re.IGNORECASE)
_PLAIN = frozenset({"temperature", "seed", "logprobs"})
"""Names that are no words of an error's prose."""
_ALSO = {
    "stream_options": "include[ _]?usage",
    "response_format": r"json[ _-]?(?:schema|mode|object|output)|structured[ _-]outputs?",
    "reasoning_effort": r"reasoning[ ._-]effort",
    "max_tokens": r"max[ _]?new[ _]?tokens|max[ _]?output[ _]?tokens|num_predict",
    "max_completion_tokens": r"max[ _]?new[ _]?tokens|max[ _]?output[ _]?tokens|num_predict",
    "grammar": r"gbnf",
}
"""What providers call the same, as patterns."""


def named_parameter(text: str, names: Collection[str]) -> str:
    """The first parameter that the text complains of, or ''.

    Args:
        text: What the error says.
        names: Parameters that were sent.
    """
    if alternatives := _ALTERNATIVES.search(text):
        text = text[: alternatives.start()] or text
    found = [(place, name) for name in sorted(names)[:_MAX_NAMES] for place in _complaints(text, name)]
    return min(found)[1] if found else ""


def same_parameter(place: str, names: Collection[str]) -> str:
    """The parameter among `names` that a provider calls `place`, or ''."""
    wanted = _plain(place)
    for name in sorted(names):
        if _plain(name) == wanted:
            return name
    for name in sorted(names):
        if name in _ALSO and re.fullmatch(_ALSO[name], place[:_MAX_NAME], re.IGNORECASE):
            return name
    return "reasoning_effort" if place == "reasoning" and "reasoning_effort" in names else ""


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _complaints(text: str, name: str) -> Iterator[int]:
    """Where the name is mentioned together with a complaint."""
    if not name or len(name) > _MAX_NAME:
        return
    spelled = "[ _-]?".join(re.escape(part) for part in name.split("_"))
    pattern = re.compile(
        rf"(?<!\w)(?:{spelled}{'|' + _ALSO[name] if name in _ALSO else ''})(?!\w)", re.IGNORECASE
    )
    for count, match in enumerate(pattern.finditer(text)):
        if count >= _MAX_MENTIONS:
            return
        around = text[max(0, match.start() - _BEFORE) : match.end() + _AFTER]
        is_plain = name in _PLAIN or "_" in name
        if not is_plain and not _is_marked(text, match) and not _PARAMETER.search(around):
            continue
        if _COMPLAINT.search(around):
            yield match.start()


def _is_marked(text: str, match: re.Match[str]) -> bool:
    """Whether it stands in quotes or backticks."""
    before, after = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
    return before in {"'", '"', "`"} and after in {"'", '"', "`", "."}

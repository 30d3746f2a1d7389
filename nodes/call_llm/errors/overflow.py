"""Which failures say that the request is too long, or asks for too long a reply."""

from __future__ import annotations

import re

from turnflow.nodes.call_llm.errors.told_error import Told

_STATUSES = frozenset({None, 400, 413, 422, 500})
"""Statuses under which a request that is too long is refused; some local servers answer 500."""
_TOO_LARGE = 413
_CODES = re.compile(
    r"context_length_exceeded|context_window_exceeded|exceed_context_size|request_too_large|\b1261\b"
    r"|max_tokens_exceeded|context_too_long|input_too_long|contextwindowexceeded"
)
_STRING = "string_above_max_length"
_RATE = re.compile(
    r"per[ -]?(?:minute|second|hour|day)|rate.?limit|\btpm\b|\brpm\b|quota|throttl|too many requests",
    re.IGNORECASE,
)
_LONG = re.compile(
    r"context.{0,20}(?:length|window|size|limit)|maximum.{0,20}(?:context|tokens|length)"
    r"|too (?:long|many (?:input |prompt )?tokens)|max_new_tokens.{0,20}must be <=|range of input length"
    r"|(?:prompt|input|request|tokens?).{0,40}(?:exceed|too (?:long|large)|longer than|larger than)"
    r"|exceed.{0,40}(?:context|n_ctx|max.{0,10}(?:tokens|length)|token limit)|token limit exceeded"
    r"|more than max tokens|exceeds? the limit of \d|(?:context|reduce the) length"
    r"|inputs.{0,20}must have less than|must be at least 1, got -|max_(?:model|seq)_len|\bn_ctx\b"
    r"|input.{0,20}length.{0,20}limit|输入.{0,20}(?:过长|超过|超出|超长)|超过.{0,10}(?:长度|上下文)"
    r"|上下文.{0,10}超",
    re.IGNORECASE,
)
_OUTPUT = re.compile(
    r"max[ _]?(?:completion|output|new)?[ _]?tokens\b['\"`]{0,2}(?: or ['\"`]?max_completion_tokens['\"`]?)?"
    r"(?: (?:is|are))? too (?:large|big|high|small|low)|range of ['\"`]?max_?\w{0,12}tokens"
    r"|(?:invalid|illegal)(?: value for)? ['\"`]?max_\w{0,12}tokens|max_\w{0,12}tokens.{0,6}参数非法"
    r"|at most \d{1,9} (?:completion|output) tokens|max_\w{0,12}tokens['\"`]{0,2}:? \d{1,9} > \d"
    r"|max_?\w{0,12}tokens['\"`]{0,2}.{0,12} (?:must|should|can(?:no|')t|may not|has to).{0,20}"
    r"(?:<=|less|lower|smaller|at most|at least|between|exceed|greater|larger|in range|in the range|\[)"
    r"|max_?output_?tokens.{0,40}supported range|maximum tokens you requested exceed"
    r"|max_\w{0,12}tokens['\"`]{0,2}.{0,10}(?:exceed|is (?:greater|larger|more|higher) than)"
    r"|maximum (?:allowed )?(?:number of )?(?:output|completion) tokens",
    re.IGNORECASE,
)
_SUM = re.compile(
    r"(?:inputs?|prompt|length|messages)\b.{0,20}(?:\+|\band\b|\bplus\b).{0,4}max_|at least 1, got -",
    re.IGNORECASE,
)
"""The request and its reply taken together: the request is as much to blame."""
_OUTPUT_CODES = ("integer_above_max_value", "integer_below_min_value")
OUTPUT_LIMITS = ("max_tokens", "max_completion_tokens")
"""Parameters that limit the output."""


def speaks_of_rate(told: Told) -> bool:
    """Whether there is a word of a limit of rate, so that no word about length counts."""
    return bool(_RATE.search(told.text))


def asks_too_much_output(told: Told) -> bool:
    """Whether the limit of output tokens is one that the model does not take."""
    if told.status not in _STATUSES or speaks_of_rate(told) or _SUM.search(told.text):
        return False
    if any(code in _OUTPUT_CODES for code in told.codes):
        return any(place.startswith("max_") for place in told.places)
    return bool(_OUTPUT.search(told.text))


def is_too_long(told: Told) -> bool:
    """Whether the request has more tokens, or characters, than the provider takes."""
    if any(_CODES.search(code[:200]) for code in told.codes):
        return True
    if told.status not in _STATUSES or speaks_of_rate(told):
        return False
    if any(not _may_be_long(place) for place in told.places):
        return False
    return told.status == _TOO_LARGE or _STRING in told.codes or bool(_LONG.search(told.text))


def _may_be_long(place: str) -> bool:
    """Whether what stands there is the conversation: a name that is too long is another matter."""
    head, _, rest = place.partition(".")
    if head == "messages":
        return not re.search(r"\b(?:id|name|tool_call_id)$", rest)
    return head not in {"tools", "functions", "user", "metadata", "stop", "prompt_cache_key", "tool_choice"}

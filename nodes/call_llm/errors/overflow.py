"""Which failures say that the request is too long, or asks for too long a reply."""

from __future__ import annotations

import re

from turnflow.nodes.call_llm.errors.told_error import Told
from turnflow.nodes.call_llm.errors.vague import is_page

_STATUSES = frozenset({None, 400, 413, 422, 500})
"""Statuses under which a request that is too long is refused; some local servers answer 500."""
_TOO_LARGE = 413
_LOOSE_STATUSES = frozenset({None, 500})
"""Statuses that say nothing of the request."""
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
_SURE = re.compile(
    r"maximum context length (?:is|of) \d|(?:prompt|input) is too long|\d tokens? > \d"
    r"|exceeds?.{0,40}\bcontext (?:length|window|size)|longer than the.{0,20}context length"
    r"|context (?:length|window|size) (?:exceeded|of only \d|is \d)",
    re.IGNORECASE,
)
"""So plain that no word of time counts against it."""
_TIME = re.compile(
    r"time[ -]?outs?\b|timed[ -]?out|deadline|\b(?:execution|processing|response|running|wall|wait(?:ing)?"
    r"|request|inference|generation|queue|maximum|max|allowed) time\b|too long to\b(?! fit)|took too long"
    r"|taking too long|too long (?:waiting|running)|duration|\d ?(?:s|ms|secs?|seconds?|mins?|minutes?)\b"
    r"|concurren|simultaneous|parallel requests|in[ -]flight|pending|queue|cancell?(?:ed|ing|ation)"
    r"|\babort|preempt|expired|lifetime|\bretries\b|attempts|connections?\b|out of memory|\boom\b"
    r"|(?:request )?(?:headers?|cookies?|uri|url)\b.{0,20}too (?:long|large)|bucket|\bspent\b",
    re.IGNORECASE,
)
"""A limit of time or of requests at once, or a request broken off."""
_MEASURE = re.compile(
    r"\btokens?\b|_tokens\b|\bcontext\b|\bprompts?\b|\binputs?\b|\blength\b|n_ctx|max_(?:model|seq)_len|输入|上下文|长度"
    r"|ContextWindow",
    re.IGNORECASE,
)
"""What is counted where a request is too long."""
_TOKENS = re.compile(
    r"\btokens?\b|_tokens\b|context[ _](?:length|window|size|limit)|\bprompts?\b|n_ctx|max_(?:model|seq)_len"
    r"|reduce the length|\binput (?:length|is too long)|输入|上下文",
    re.IGNORECASE,
)
_BYTES = re.compile(r"(?:entity|payload|body) (?:is )?too large|PayloadTooLarge", re.IGNORECASE)
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
    if told.status == _TOO_LARGE or _STRING in told.codes or is_too_large(told):
        return True
    return bool(_LONG.search(told.text)) and _means_length(told)


def is_too_large(told: Told) -> bool:
    """Whether the request has too many bytes, and nothing is said of its tokens."""
    if told.status not in _STATUSES or speaks_of_rate(told) or _TOKENS.search(told.text):
        return False
    if any("context" in code or "token" in code for code in told.codes):
        return False
    return told.status == _TOO_LARGE or bool(_BYTES.search(told.text))


def _means_length(told: Told) -> bool:
    """Whether words that are used of a request too long are not said of time, or of requests at once."""
    if _SURE.search(told.text):
        return True
    if _TIME.search(told.text):
        return False
    is_loose = told.status in _LOOSE_STATUSES or is_page(told)
    return not is_loose or bool(_MEASURE.search(told.text))


def _may_be_long(place: str) -> bool:
    """Whether what stands there is the conversation: a name that is too long is another matter."""
    head, _, rest = place.partition(".")
    if head == "messages":
        return not re.search(r"\b(?:id|name|tool_call_id)$", rest)
    return head not in {"tools", "functions", "user", "metadata", "stop", "prompt_cache_key", "tool_choice"}

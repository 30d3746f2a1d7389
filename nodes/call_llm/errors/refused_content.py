"""What of a request's content a provider's words say no to: its tools, images, system message, messages."""

from __future__ import annotations

import re

NOT_TAKEN = (
    r"(?:(?:not|n't|no longer|never)\W+(?:\w+\W+){0,3}?"
    r"(?:support|allow|accept|available|enabled|permitted|implemented|recogni[sz]ed|valid|compatible)"
    r"|unsupported|unavailable|no endpoints found|requires? --enable|requires? --jinja"
    r"|extra inputs are not permitted"
    r"|(?:unknown|unrecogni[sz]ed|unexpected|extra) (?:request )?"
    r"(?:parameter|argument|field|input|key|property)"
    r"|incompatible|不支持|暂不支持)"
)
"""Words, as a pattern, that say that something is not taken."""

_REFUSES = re.compile(NOT_TAKEN, re.IGNORECASE)
_TOOLS = re.compile(
    r"\btools?\b|tool[ _-](?:use|call|choice)|\bfunctions?\b|function[ _-]call|工具|函数调用", re.IGNORECASE
)
_CALLS = re.compile(
    r"tool_?(?:call|use)s?_?ids?\b|tool[ _]?(?:call|use) ids?\b|must be (?:a response|followed)|preceding"
    r"|tool_?result|insufficient tool messages|`tool_use`|response messages"
    r"|function (?:response|call) (?:parts|turn)|number of function calls|role\W+.?tool\b"
    r"|\btool\b.{0,3} role|tool messages?\b|single tool-calls"
    r"|tool_calls.{0,40}\b(?:empty|too short|too long)|\[\] is too short - 'messages"
    r"|(?:assistant|previous) message.{0,40}tool[ _]call",
    re.IGNORECASE,
)
"""A complaint about the calls and results in the messages; the tools themselves are fine."""
_ORDER = re.compile(
    r"alternat(?:e|ing|ion)|consecutive|\bsame role|roles? in a row|(?:unexpected|incorrect|wrong"
    r"|invalid) role\b"
    r"|role information|after role|(?:expected|the) last (?:role|message)|last message|final message"
    r"|(?:must|should|has to|can only) (?:start|begin|end) with|end with an? (?:user|assistant)|message order"
    r"|(?:2|two|multiple|more than one|several) (?:or more )?(?:system|user|assistant) messages"
    r"|system.{0,40}\b(?:at the (?:beginning|start|top)|(?:be|come|appear|as) (?:the )?first"
    r"|in the middle|only once)"
    r"|only the first message|messages?.{0,12}(?:参数非法|is illegal)|role.{0,20}order|prefill",
    re.IGNORECASE,
)
_EMPTY = re.compile(
    r"(?:content|text|messages?|parts?|turns?)\b.{0,60}\b(?:empty|non-?empty|null|none|blank|whitespace"
    r"|at least one content|is required|missing)"
    r"|(?:missing|invalid type for|expected) ['\"`]{0,2}(?:content|messages?)\b|non-?empty (?:content|text)"
    r"|failed to parse messages|invalid messages?\b",
    re.IGNORECASE,
)
_TEMPLATE = re.compile(r"jinja|template|raise_exception", re.IGNORECASE)
_ROLE = re.compile(r"\broles?\b|\bmessages?\b", re.IGNORECASE)
_SYSTEM = re.compile(
    rf"(?:system|developer)['\"`]{{0,2}} ?(?:role|message|prompt|instruction|content)s?\b.{{0,40}}{NOT_TAKEN}"
    rf"|{NOT_TAKEN}.{{0,40}}\b(?:system|developer)['\"`]{{0,2}} ?(?:role|message|prompt|instruction)"
    r"|not support ['\"`](?:system|developer)['\"`]"
    r"|only user(?: and|,)? assistant(?:,? and tool| and tool)? roles are supported"
    r"|only ['\"`]?user['\"`]?,? (?:and|or) ['\"`]?(?:assistant|model)['\"`]?"
    r"|unexpected role ['\"`](?:system|developer)['\"`](?! after)"
    r"|unknown variant ['\"`]?(?:system|developer)\b"
    r"|invalid (?:value|role):? ['\"`]?(?:system|developer)\b"
    rf"|\brole ['\"`]?(?:system|developer)['\"`]?.{{0,30}}{NOT_TAKEN}"
    r"|['\"`](?:system|developer)['\"`] is not one of|valid role: user, model",
    re.IGNORECASE,
)
_MEDIA = (
    r"(?:images?|image_?urls?|input_image|input_audio|audio|vision|multi-?modal|pictures?|media"
    r"|图片|图像|视觉)"
)
_IMAGES = re.compile(
    rf"{_MEDIA}.{{0,60}}{NOT_TAKEN}|{NOT_TAKEN}.{{0,40}}(?<![a-z]){_MEDIA}"
    r"|unknown variant ['\"`]?(?:image|input_audio|file)|not a multi-?modal model"
    r"|only supported by certain models"
    r"|(?:content|input) (?:type|part|block)s?\b.{0,40}(?:only|must be) ['\"`]?text"
    r"|only (?:supports? )?text\b"
    r"|text[ -]only|(?:unknown|unsupported|invalid) (?:content )?(?:part|block)? ?type|mmproj"
    r"|content (?:must be|should be|is not) a string|content.{0,40}(?:valid|be a) string"
    r"|no endpoints found that support image",
    re.IGNORECASE,
)
_BAD_IMAGE = re.compile(
    r"\bimages?\b.{0,40}(?:exceed|too (?:large|big|many|small)|could not|cannot be|corrupt|invalid|download)"
    r"|(?:invalid|corrupt\w{0,2}|malformed|broken|could not|cannot|can't|failed to|unable to"
    r"|error while|timeout while)"
    r"(?: \w{1,14}){0,3}[ _](?:images?|image_?url|media|base64)\b"
    r"|(?:at most|too many|maximum of) ?\d{0,4} ?images?|image_parse_error|invalid_image|image_too_large",
    re.IGNORECASE,
)


def complains_of_messages(text: str) -> bool:
    """Whether the messages are refused for their roles, their order, their emptiness or their calls."""
    if _CALLS.search(text) or _ORDER.search(text) or _EMPTY.search(text):
        return True
    return bool(_TEMPLATE.search(text) and _ROLE.search(text) and not _TOOLS.search(text))


def complains_of_calls(text: str) -> bool:
    """Whether the calls in the messages are refused, so that no word about tools means the tools."""
    return bool(_CALLS.search(text))


def refuses_system(text: str) -> bool:
    """Whether there may be no system message."""
    return bool(_SYSTEM.search(text)) and not re.search(r"at the beginning|after role", text, re.IGNORECASE)


def refuses_images(text: str) -> bool:
    """Whether the model takes no images, sounds or files."""
    return bool(_IMAGES.search(text))


def cannot_read_image(text: str) -> bool:
    """Whether one image is refused for what it is; another might be taken."""
    return bool(_BAD_IMAGE.search(text))


def refuses_tools(text: str) -> bool:
    """Whether tools are not taken, in so many words."""
    return bool(_TOOLS.search(text) and _REFUSES.search(text))

"""What of a request's content a provider's words say no to: its tools, images, system message, messages."""

from __future__ import annotations

import re

from turnflow.nodes.call_llm.errors.strong_words import (
    SYSTEM_NOT_TAKEN,
    surely_binds_messages,
    surely_refuses_images,
    surely_refuses_tools,
)

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
    r"|role information|after role|unexpected message role"
    r"|(?:expected|the) last (?:role|message)|last message|final message"
    r"|(?:must|should|has to|can only) (?:start|begin|end) with|end with an? (?:user|assistant)|message order"
    r"|(?:2|two|multiple|more than one|several) (?:or more )?(?:system|user|assistant) messages"
    r"|system.{0,40}\b(?:at the (?:beginning|start|top)|(?:be|come|appear|as) (?:the )?first"
    r"|in the middle|only once)"
    r"|only the first message|messages?.{0,12}(?:参数非法|is illegal)|role.{0,20}order|prefill",
    re.IGNORECASE,
)
_EMPTY = re.compile(
    r"(?<![a-z])(?:content|text|messages?|parts?|turns?)\b.{0,60}\b(?:empty|non-?empty|null|none|blank|whitespace"
    r"|at least one content|is required|missing)"
    r"|(?:missing|invalid type for|expected) ['\"`]{0,2}(?:content|messages?)\b|non-?empty (?:content|text)"
    r"|failed to parse messages|invalid messages?\b",
    re.IGNORECASE,
)
_TEMPLATE = re.compile(r"jinja|template|raise_exception", re.IGNORECASE)
_ROLE = re.compile(r"\broles?\b|\bmessages?\b", re.IGNORECASE)
_REPLY = re.compile(r"\b(?:response|reply|output|completion|returned|answer)\b", re.IGNORECASE)
_NAME = re.compile(r"\b(?:tool|function) names?\b", re.IGNORECASE)
_NO_SYSTEM = (
    r"not support ['\"`](?:system|developer)['\"`]"
    r"|only user(?: and|,)? assistant(?:,? and tool| and tool)? roles are supported"
    r"|only ['\"`]?user['\"`]?,? (?:and|or) ['\"`]?(?:assistant|model)['\"`]?"
    r"|unexpected role ['\"`](?:system|developer)['\"`](?! after)"
    r"|unknown variant ['\"`]?(?:system|developer)\b"
    r"|invalid (?:value|role):? ['\"`]?(?:system|developer)\b"
    r"|['\"`](?:system|developer)['\"`] is not one of|valid role: user, model"
)
_SYSTEM = re.compile(
    rf"(?:system|developer)['\"`]{{0,2}} ?(?:role|message|prompt|instruction|content)s?\b.{{0,40}}{NOT_TAKEN}"
    rf"|{NOT_TAKEN}.{{0,40}}\b(?:system|developer)['\"`]{{0,2}} ?(?:role|message|prompt|instruction)"
    rf"|\brole ['\"`]?(?:system|developer)['\"`]?.{{0,30}}{NOT_TAKEN}|{_NO_SYSTEM}",
    re.IGNORECASE,
)
_SURELY_NO_SYSTEM = re.compile(f"{SYSTEM_NOT_TAKEN}|{_NO_SYSTEM}", re.IGNORECASE)
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
    r"|text[ -]only"
    r"|(?:unknown|unsupported|invalid) (?:(?:message )?content|part|block)(?: part| block)? type\b"
    rf"|(?:unknown|unsupported|invalid) type\b.{{0,40}}(?<![a-z]){_MEDIA}|mmproj"
    r"|content['\"`\]]{0,2}: expected (?:a |an? )?string,? (?:but )?got (?:an? )?(?:array|list)"
    r"|content (?:must be|should be|is not) a string|content.{0,40}(?:valid|be a) string"
    r"|no endpoints found that support image",
    re.IGNORECASE,
)
_OTHER_IMAGE = re.compile(
    r"(?:container|docker|oci|disk|boot|vm|machine|runtime|worker)[ _-]images?\b"
    r"|\bimages?[ _-]?(?:pull|registry)"
    r"|\bpull\w{0,3}(?: \w{1,20}){0,3} images?\b"
    r"|\bimages?[ _-](?:\w{1,20}[ _-])?(?:service|server|worker|backend|queue|pod)\b",
    re.IGNORECASE,
)
"""What is no image of the request: a container's, or what works on images."""
_BAD_IMAGE = re.compile(
    r"\bimages?\b.{0,40}(?:exceed|too (?:large|big|many|small)|could not|cannot be|corrupt|invalid|download)"
    r"|(?:invalid|corrupt\w{0,2}|malformed|broken|could not|cannot|can't|failed to|unable to"
    r"|error while|timeout while)"
    r"(?: \w{1,14}){0,3}[ _](?:images?|image_?url|media|base64)\b"
    r"|(?:un)?supported image\b.{0,40}make sure"
    r"|(?:at most|too many|maximum of) ?\d{0,4} ?images?|image_parse_error|invalid_image|image_too_large",
    re.IGNORECASE,
)


def complains_of_messages(text: str, *, strictly: bool) -> bool:
    """Whether the messages are refused for their roles, their order, their emptiness or their calls."""
    if strictly and not surely_binds_messages(text):
        return False
    if _CALLS.search(text) or _ORDER.search(text):
        return True
    if _EMPTY.search(text) and not (strictly and _REPLY.search(text)):
        return True
    return bool(_TEMPLATE.search(text) and _ROLE.search(text) and not _TOOLS.search(text))


def complains_of_calls(text: str) -> bool:
    """Whether the calls in the messages are refused, so that no word about tools means the tools."""
    return bool(_CALLS.search(text))


def refuses_system(text: str, *, strictly: bool = False) -> bool:
    """Whether there may be no system message."""
    pattern = _SURELY_NO_SYSTEM if strictly else _SYSTEM
    return bool(pattern.search(text)) and not re.search(r"at the beginning|after role", text, re.IGNORECASE)


def refuses_images(text: str, *, strictly: bool = False) -> bool:
    """Whether the model takes no images, sounds or files."""
    if _OTHER_IMAGE.search(text):
        return False
    return surely_refuses_images(text) if strictly else bool(_IMAGES.search(text))


def cannot_read_image(text: str) -> bool:
    """Whether one image is refused for what it is; another might be taken."""
    return bool(_BAD_IMAGE.search(text)) and not _OTHER_IMAGE.search(text)


def refuses_tools(text: str, *, strictly: bool) -> bool:
    """Whether tools are not taken, in so many words. A name of one that is not taken is another matter."""
    if _NAME.search(text):
        return False
    if strictly:
        return surely_refuses_tools(text)
    return bool(_TOOLS.search(text) and _REFUSES.search(text))

"""What words say no to beyond doubt: for an error that nothing but its words ties to the request."""

from __future__ import annotations

import re

_NOT = r"(?:\w{2,6}n['\u2019]t|not|cannot|no longer|never)"
_PASSIVE = (
    rf"(?:{_NOT} (?:\w+ ){{0,2}}?(?:supported|allowed|accepted|permitted|implemented|enabled|recogni[sz]ed)\b"
    rf"|{_NOT} be used\b|(?:is|are) (?:unsupported|disabled|incompatible)\b|unsupported\b"
    r"|requires? --(?:enable|jinja))"
)
"""Behind the thing itself, as its predicate."""
_FIELD = (
    r"(?:request|body|parameters?|params?|arguments?|fields?|keys?|options?|propert(?:y|ies)|inputs?|values?"
    r"|types?|names?|features?|supplied|provided|for|the|this|that|any|native|use|of|in|content|with)"
)
_ACTIVE = (
    rf"(?:{_NOT} (?:\w+ )?(?:support|allow|accept|permit|take|handle|implement|recogni[sz]e|use)s?"
    r"|unsupported|no support for|no endpoints found that support|extra inputs are not permitted,"
    r"|(?:unknown|unrecogni[sz]ed|unexpected|extra) (?:request )?"
    r"(?:parameter|argument|field|input|key|property|name|variant)s?)"
)
"""Before the thing itself, which is its object."""
_MACHINE = (
    r"(?:servers?|services?|workers?|backends?|endpoints?|runtimes?|parsers?|gateways?|hosts?|nodes?|apis?"
    r"|pods?|platforms?|encoders?|processors?|formats?|pulls?|registry)"
)


def said_of(thing: str) -> str:
    """A pattern of words that say that a thing is not taken, right beside its name.

    Args:
        thing: Names of the thing, as a pattern.
    """
    return (
        rf"(?<![\w-]){thing}['\"`\])]{{0,3}}(?!\w)(?: (?!{_MACHINE}\b)\w+){{0,3}}?:? {_PASSIVE}"
        rf"|(?<!\w){_ACTIVE}(?:[ :]+{_FIELD}){{0,4}}[ :,]*['\"`\[({{]{{0,3}}{thing}(?![\w-])"
        rf"(?! {_MACHINE}\b)"
    )


_TOOLS = re.compile(
    said_of(
        r"(?:tools|functions|tool[ _-]?(?:use|calls?|calling|choice|usage)"
        r"|function[ _-]?(?:calls?|calling|tools?))"
    )
    + r"|tool[ _-]choice requires --|no (?:tool|function)(?:[ -]call(?:ing)?)? support"
    r"|不支持.{0,8}(?:工具|函数调用)|(?:工具|函数)(?:调用)?.{0,8}不支持",
    re.IGNORECASE,
)
_MEDIA = (
    r"(?:(?<!container )(?<!docker )(?<!disk )(?<!deployment )"
    r"(?:images?|image_?urls?|input_image|input_audio|audio|vision|multi-?modal|pictures?|media)"
    r"(?: (?:inputs?|contents?|parts?|urls?))?)"
)
_IMAGES = re.compile(
    said_of(_MEDIA)
    + r"|unknown variant ['\"`]?(?:image|input_audio|file)|not a multi-?modal model|\bmmproj\b"
    r"|only (?:supports? )?text (?:content|input|messages?)?\b.{0,12}(?:supported|allowed|accepted)"
    r"|only supports? text\b|text[ -]only model|no (?:image|vision) support"
    r"|不支持.{0,8}(?:图片|图像|视觉)|(?:图片|图像|视觉).{0,8}不支持",
    re.IGNORECASE,
)
_SYSTEM = said_of(
    r"(?:(?<!file )(?:system|developer)['\"`]{0,2} (?:role|message|prompt|instruction)s?"
    r"|['\"`](?:system|developer)['\"`]|roles?:? ['\"`]?(?:system|developer)['\"`]?)"
)
_BOUND = re.compile(
    r"must (?:strictly )?alternate|(?:must|should|has to|have to|can only) (?:start|begin|end|follow|come"
    r"|appear|contain|include|have (?:non|at least)|be (?:a response|followed|preceded|the first|first"
    r"|at the|non-?empty|adjacent|unique))"
    r"|(?:must|should|can|may) ?not (?:be (?:empty|null|none|blank|the last)"
    r"|have (?:2|two|multiple|more|empty|consecutive)|follow|contain (?:empty|consecutive))"
    r"|consecutive .{0,40}\bnot\b|not (?:support|allow)\w* .{0,30}(?:consecutive|prefill|same role|in a row)"
    r"|(?:unexpected|incorrect|wrong|invalid|unknown) (?:message )?roles?\b|expected last role"
    r"|only supports? single tool-calls|no previous assistant|without .{0,20}(?:tool_result|tool messages?)"
    r"|insufficient tool messages|did not have response messages",
    re.IGNORECASE,
)
_CHAT_TEMPLATE = re.compile(r"jinja|raise_exception|chat[ _]template", re.IGNORECASE)


def surely_refuses_tools(text: str) -> bool:
    """Whether tools or calls are said to be not supported."""
    return bool(_TOOLS.search(text))


def surely_refuses_images(text: str) -> bool:
    """Whether images, sounds or files are said to be not supported."""
    return bool(_IMAGES.search(text))


def surely_binds_messages(text: str) -> bool:
    """Whether it says what messages must be, or comes of their template."""
    return bool(_BOUND.search(text) or _CHAT_TEMPLATE.search(text))


SYSTEM_NOT_TAKEN = _SYSTEM
"""Words, as a pattern, that say that there may be no system message."""

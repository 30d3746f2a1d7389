"""What the reply reader makes of one reply: every rule about think tags, by example."""

import pytest

from turnflow.graph.profile import ProviderProfile
from turnflow.nodes.call_llm.reader import ReplyReader
from turnflow.nodes.call_llm.reply_events import ReplyEvent

STARTS_THINKING = ProviderProfile(starts_thinking=True)

# name: (reply, its text, its thinking)
CASES = {
    # Openers and closers.
    "no tags": ("Hello, world.\n", "Hello, world.\n", ""),
    "empty": ("", "", ""),
    "one thought": ("<think>a</think>b", "b", "a"),
    "every name: thinking": ("<thinking>a</thinking>b", "b", "a"),
    "every name: thought": ("<thought>a</thought>b", "b", "a"),
    "every name: reasoning": ("<reasoning>a</reasoning>b", "b", "a"),
    "every name: analysis": ("<analysis>a</analysis>b", "b", "a"),
    "any case": ("<THINK>a</Think>b", "b", "a"),
    "other alphabets' letters are no letters of a name": ("<thin\u212a>a", "<thin\u212a>a", ""),
    "either name closes either": ("<think>a</thinking>b", "b", "a"),
    "text before": ("b<think>a</think>c", "bc", "a"),
    "two thoughts": ("<think>a</think>b<think>c</think>d", "bd", "ac"),
    "a thought keeps its white space": ("<think>\n a \n</think>b", "b", "\n a \n"),
    "tags of other names are text": ("<b>a</b> <tool>c</tool>", "<b>a</b> <tool>c</tool>", ""),
    "name after a blank is text": ("if x < think then", "if x < think then", ""),
    "name after a blank and a tag's end is text": ("< think>a", "< think>a", ""),
    "name with a hyphen is text": ("a <think-tank> b", "a <think-tank> b", ""),
    "longer word is text": ("a <thinker> b", "a <thinker> b", ""),
    "shorter word is text": ("a <thin> b", "a <thin> b", ""),
    "bare name and `<` is text": ("a <think<b", "a <think<b", ""),
    "opener without `>` is text": ("x <think then y", "x <think then y", ""),
    "opener cut by another `<` is text": ("x <think a<b> y", "x <think a<b> y", ""),
    "the `<` that cuts an opener may begin one": ("<think <think>a</think>b", "<think b", "a"),
    "many `<` before an opener": ("<<<think>a</think>b", "<<b", "a"),
    "closer with blanks": ("<think>a</think \t>b", "b", "a"),
    "closer over two lines": ("<think>a</think\n>b", "b", "a"),
    "closer with an attribute is none": ("<think>a</think x>b", "", "a</think x>b"),
    "closer with blanks before the name is none": ("<think>a</ think>b", "", "a</ think>b"),
    "closer of another name is none": ("<think>a</thinker>b", "", "a</thinker>b"),
    # Attributes.
    "attributes": ('<think type="deep" n=1>a</think>b', "b", "a"),
    "attributes over two lines": ("<think\n  a=b\n>a</think>b", "b", "a"),
    "200 characters of attributes": (f"<think {'x' * 200}>a</think>b", "b", "a"),
    "201 characters of attributes are text": (f"<think {'x' * 201}>a", f"<think {'x' * 201}>a", ""),
    "a slash in the attributes": ("<think a/b>c</think>d", "d", "c"),
    # Self-closing.
    "self-closing": ("<think/>b", "b", ""),
    "self-closing with a blank": ("<think />b", "b", ""),
    "self-closing with attributes": ("<think a=b />c", "c", ""),
    "self-closing in the middle": ("a <think/>b", "a b", ""),
    "self-closing does not count in a thought": ("<think>a<think/>b</think>c", "c", "a<think/>b"),
    # Depth.
    "nested": ("<think>a<think>b</think>c</think>d", "d", "a<think>b</think>c"),
    "nested with other names": ("<think>a<reasoning>b</thought>c</think>d", "d", "a<reasoning>b</thought>c"),
    "nested twice": (
        "<think><think><think>a</think></think></think>b",
        "b",
        "<think><think>a</think></think>",
    ),
    "mentioned opener": ("<think>I use <think> here.</think>b", "b", "I use <think> here."),
    "mentioned opener, blank lines": ("<think>a <think></think>\n\n b\n", " b\n", "a <think>"),
    "two mentioned openers": ("<think>a<think>b<think>c</think>d", "d", "a<think>b<think>c"),
    "what follows the last closer, not the first": (
        "<think>a<think>b<think>c</think>d</think>e",
        "e",
        "a<think>b<think>c</think>d",
    ),
    "an opener after the last closer is text": (
        "<think>a<think>b</think>c<think>d",
        "c<think>d",
        "a<think>b",
    ),
    "a closed thought is no reason to end another": ("<think>a</think>b<think>c", "b", "ac"),
    # Never closed.
    "never closed": ("<think>a\n\nb", "", "a\n\nb"),
    "never closed after text": ("b <think>a", "b ", "a"),
    "opener at the end": ("b<think>", "b", ""),
    "half an opener at the end": ("b<think", "b<think", ""),
    "half attributes at the end": ("b<think a=", "b<think a=", ""),
    "a `<` at the end": ("b<", "b<", ""),
    "half a closer at the end": ("<think>a</thin", "", "a</thin"),
    "half a closer with blanks at the end": ("<think>a</think  ", "", "a</think  "),
    "half a tag after a mentioned opener": ("<think>a<think></think>b</th", "b</th", "a<think>"),
    # Code outside thinking.
    "span": ("a `<think>` b", "a `<think>` b", ""),
    "closer in a span": ("a `</think>` b", "a `</think>` b", ""),
    "self-closing in a span": ("a `<think/>` b", "a `<think/>` b", ""),
    "span of two": ("a ``b ` <think>`` c", "a ``b ` <think>`` c", ""),
    "tag after a span": ("`a`<think>b</think>c", "`a`c", "b"),
    "tag after a span of two": ("``a`b``<think>c</think>d", "``a`b``d", "c"),
    "an unequal run closes nothing": ("`a``<think>b", "`a``<think>b", ""),
    "an unclosed span ends with its line": ("a ` b <think>\n<think>c</think>d", "a ` b <think>\nd", "c"),
    "two spans": ("`a` b `<think>`", "`a` b `<think>`", ""),
    "run right before a tag": ("a `<think>b", "a `<think>b", ""),
    "fence": ("```\n<think>\n```\n<think>a</think>b", "```\n<think>\n```\nb", "a"),
    "fence with info": ("```xml <think>\n<think>\n```\nc", "```xml <think>\n<think>\n```\nc", ""),
    "fence of tildes": ("~~~\n<think>\n~~~\n<think>a</think>b", "~~~\n<think>\n~~~\nb", "a"),
    "fence of tildes with backticks in its info": ("~~~ a`b`\n<think>\n~~~", "~~~ a`b`\n<think>\n~~~", ""),
    "a longer fence closes": ("```\na\n`````\n<think>b</think>c", "```\na\n`````\nc", "b"),
    "a shorter fence does not close": ("````\n```\n<think>\n````", "````\n```\n<think>\n````", ""),
    "the other fence does not close": ("```\n~~~\n<think>\n```", "```\n~~~\n<think>\n```", ""),
    "a fence with text after does not close": ("```\na\n``` b\n<think>", "```\na\n``` b\n<think>", ""),
    "a fence with a tag after does not close": ("```\na\n```<think>b", "```\na\n```<think>b", ""),
    "a fence with blanks after closes": ("```\na\n``` \t\r\n<think>b</think>c", "```\na\n``` \t\r\nc", "b"),
    "a fence indented by three": (
        "   ```\n<think>\n   ```\n<think>a</think>b",
        "   ```\n<think>\n   ```\nb",
        "a",
    ),
    "an indented fence after text": (
        "a\n ```\n<think>\n ```\n<think>b</think>c",
        "a\n ```\n<think>\n ```\nc",
        "b",
    ),
    "a fence indented by four is a span": ("    ```\n<think>a</think>b", "    ```\nb", "a"),
    "a closing fence indented by four is none": ("```\na\n    ```\n<think>", "```\na\n    ```\n<think>", ""),
    "a fence in mid-line is a span": ("a ```b\n<think>c</think>d", "a ```b\nd", "c"),
    "three backticks closed on their line are a span": ("```a```<think>b</think>c", "```a```c", "b"),
    "two tildes are no fence": ("~~\n<think>a</think>b", "~~\nb", "a"),
    "tildes in mid-line are no fence": ("a ~~~\n<think>b</think>c", "a ~~~\nc", "b"),
    "a fence never closed": ("```\n<think>a</think>", "```\n<think>a</think>", ""),
    "a fence after a thought": ("<think>a</think>\n\n```\n<think>\n```", "```\n<think>\n```", "a"),
    "a fence where the user sees a line start": (
        "<think>a</think>```\n<think>\n```",
        "```\n<think>\n```",
        "a",
    ),
    "backticks in a thought are not tracked": ("<think>a `b</think>c <think>d</think>e", "c e", "a `bd"),
    "a fence in a thought is not tracked": ("<think>\n```\n</think>b<think>c</think>d", "bd", "\n```\nc"),
    "a fence in a thought that is not closed": ("<think>a ```\n</think> ```\nb", " ```\nb", "a ```\n"),
    # Blank lines after a closer.
    "one line": ("<think>a</think>\nb", "b", "a"),
    "blank lines": ("<think>a</think>\n\n\nb", "b", "a"),
    "blank lines with blanks": ("<think>a</think> \n\t\r\n  \nb", "b", "a"),
    "the next line's indent is kept": ("<think>a</think>\n\n    b", "    b", "a"),
    "blanks before text are kept": ("<think>a</think>  b", "  b", "a"),
    "only the lines directly after": ("<think>a</think>\nb\n\nc", "b\n\nc", "a"),
    "nothing but blank lines": ("<think>a</think> \n\n ", "", "a"),
    "blank lines between thoughts": ("<think>a</think>\n\n <think>b</think>\n\nc", "c", "ab"),
    "blanks between thoughts on one line": ("<think>a</think> <think>b</think>c", " c", "ab"),
    "blank lines after a self-closing tag": ("<think/>\n\nb", "b", ""),
    "blank lines before a thought are kept": ("\n\n<think>a</think>\nb", "\n\nb", "a"),
    "a thought on a line of its own": ("a\n<think>b</think>\n\nc", "a\nc", "b"),
    "a thought at a line's end keeps the line's end": ("a<think>b</think>\nc", "a\nc", "b"),
    "blank lines after a thought at a line's end": ("a <think>b</think> \n\n\nc", "a  \nc", "b"),
    # Orphan closers.
    "orphan closer": ("a</think>b", "b", "a"),
    "orphan closer and blank lines": ("a\nb\n</think>\n\nc", "c", "a\nb\n"),
    "orphan closer after leading blank lines": ("\n \na</think>b", "b", "\n \na"),
    "orphan closer first": ("</think>\n\nb", "b", ""),
    "orphan closer in the second paragraph": ("a\n\nb</think>c", "a\n\nb</think>c", ""),
    "orphan closer after a blank line of blanks": ("a\n \t\nb</think>c", "a\n \t\nb</think>c", ""),
    "orphan closer after a blank line with CR": ("a\r\n\r\nb</think>c", "a\r\n\r\nb</think>c", ""),
    "orphan closer in a span": ("a `</think>` b</think>c", "c", "a `</think>` b"),
    "orphan closer in a fence": ("```\n</think>\n```", "```\n</think>\n```", ""),
    "code before an orphan closer": (
        "a\n```\nb\n```\n</think>```\n<think>\n",
        "```\n<think>\n",
        "a\n```\nb\n```\n",
    ),
    "orphan closer after a thought of the same paragraph": ("<think>a</think>b</think>c", "c", "ab"),
    "orphan closer after a thought and a blank line": ("<think>a</think>\n\nb</think>c", "b</think>c", "a"),
    "orphan closer after a thought with a blank line": (
        "<think>a\n\n</think>b</think>c",
        "b</think>c",
        "a\n\n",
    ),
    "orphan closer after an empty thought and a blank line": (
        "<think>\n\n</think>\n\nb</think>c",
        "b</think>c",
        "\n\n",
    ),
    "two orphan closers": ("a</think>b</think>c", "c", "ab"),
    "two orphan closers, the second in a later paragraph": ("a</think>\n\nb</think>c", "b</think>c", "a"),
    "orphan closer after blanks that were not shown": ("a</think> </think>b", "b", "a "),
}

# name: (reply to a prompt that ends in an opener, its text, its thinking)
STARTS_THINKING_CASES = {
    "closer only": ("a</think>\n\nb", "b", "a"),
    "several paragraphs": ("a\n\nb</think>c", "c", "a\n\nb"),
    "never closed": ("a\n\nb", "", "a\n\nb"),
    "the opener is written again": ("\n<think>a</think>b", "b", "\na"),
    "an opener that is mentioned": ("a<think>b</think>c", "c", "a<think>b"),
    "a nested thought": ("a<think>b</think>c</think>d", "d", "a<think>b</think>c"),
    "code is not tracked": ("`a</think>b", "b", "`a"),
    "a second closer is text": ("a</think>b</think>c", "b</think>c", "a"),
    "an empty thought": ("</think>a<think><think>b", "a", "<think>b"),
    "a second thought": ("a</think>b<think>c</think>d", "bd", "ac"),
}

# name: (what was shown before, reply, its text, its thinking)
CONTINUATIONS = {
    "text": ("a", "b", "b", ""),
    "an open fence": ("```\na\n", "<think>\n```\n<think>b</think>c", "<think>\n```\nc", "b"),
    "an open span": ("a `b", "<think>` <think>c</think>d", "<think>` d", "c"),
    "a closed span": ("a `b`", "<think>c</think>d", "d", "c"),
    "a run of backticks cut in two": ("a `", "`b` <think>`` c", "`b` <think>`` c", ""),
    "a fence cut in two": ("``", "`\n<think>\n```", "`\n<think>\n```", ""),
    "an orphan closer is text": ("a", "b</think>c", "b</think>c", ""),
    "a thought": ("a", "<think>b</think>c", "c", "b"),
    "a line's end after a thought at its end": ("a", "<think>b</think>\n\nc", "\nc", "b"),
    "blank lines after a thought": ("a\n", "<think>b</think>\n\nc", "c", "b"),
}


def read(
    reply: str, *, size: int = 0, profile: ProviderProfile | None = None, after: str = ""
) -> tuple[str, str]:
    """Give text and thinking of a reply that arrives in chunks of `size` characters, or as a whole."""
    reader = ReplyReader(profile=profile, after=after)
    size = size or len(reply) or 1
    for start in range(0, len(reply), size):
        reader.feed(reply[start : start + size])
    reader.close()
    assert reader.reply["raw"] == reply
    return reader.reply["text"], reader.reply["thinking"]


def event(kind: str, text: str) -> ReplyEvent:
    return {"kind": kind, "text": text}  # type: ignore[typeddict-item]


@pytest.mark.parametrize("size", [0, 1, 7])
@pytest.mark.parametrize(("reply", "text", "thinking"), CASES.values(), ids=CASES)
def test_a_reply_is_told_apart_into_text_and_thinking(
    reply: str, text: str, thinking: str, size: int
) -> None:
    assert read(reply, size=size) == (text, thinking)


@pytest.mark.parametrize("size", [0, 1])
@pytest.mark.parametrize(
    ("reply", "text", "thinking"), STARTS_THINKING_CASES.values(), ids=STARTS_THINKING_CASES
)
def test_a_profile_says_that_replies_start_inside_a_thought(
    reply: str, text: str, thinking: str, size: int
) -> None:
    assert read(reply, size=size, profile=STARTS_THINKING) == (text, thinking)


@pytest.mark.parametrize("size", [0, 1])
@pytest.mark.parametrize(("after", "reply", "text", "thinking"), CONTINUATIONS.values(), ids=CONTINUATIONS)
def test_a_continuation_reads_on_where_the_shown_text_ended(
    after: str, reply: str, text: str, thinking: str, size: int
) -> None:
    assert read(reply, size=size, after=after) == (text, thinking)


def test_a_profile_names_the_tags() -> None:
    profile = ProviderProfile(think_tags=("Ponder",))
    assert read("<ponder>a</PONDER>b<think>", profile=profile) == ("b<think>", "a")


def test_a_profile_without_tags_leaves_all_tags_in_the_text() -> None:
    assert read("<think>a</think><>b", profile=ProviderProfile(think_tags=())) == ("<think>a</think><>b", "")


def test_the_longest_name_is_held_back_within_the_limits() -> None:
    name = "x" * 20
    profile = ProviderProfile(think_tags=(name,))
    assert read(f"<{name} {'a' * 188}>b</{name}  >c", profile=profile) == ("c", "b")
    assert read(f"<{name} {'a' * 189}>b", profile=profile) == (f"<{name} {'a' * 189}>b", "")
    assert read(f"<{name}>b</{name}   >c", profile=profile) == ("", f"b</{name}   >c")


def test_text_and_thinking_are_told_as_they_arrive() -> None:
    reader = ReplyReader()
    assert reader.feed("Hi <think>a ") == [event("content", "Hi "), event("thinking", "a ")]
    assert reader.feed("b</think> c") == [event("thinking", "b"), event("content", " c")]
    assert reader.feed("") == []
    assert reader.close() == []


def test_only_what_may_become_a_tag_is_held_back() -> None:
    reader = ReplyReader()
    assert reader.feed("a <thi") == [event("content", "a ")]
    assert reader.feed("s") == [event("content", "<this")]
    assert reader.feed(" <think") == [event("content", " ")]
    assert reader.feed(" x") == []
    assert reader.feed("<") == [event("content", "<think x")]
    assert reader.feed("/") == []
    assert reader.close() == [event("content", "</")]


def test_an_opener_is_held_back_for_210_characters_at_most() -> None:
    reader = ReplyReader()
    held = "<thinking ".ljust(210, "x")
    assert reader.feed(held) == []
    assert reader.feed("x") == [event("content", held + "x")]


def test_a_closer_is_held_back_for_24_characters_at_most() -> None:
    reader = ReplyReader()
    reader.feed("<think>")
    held = "</think".ljust(24)
    assert reader.feed(held) == []
    assert reader.feed(" ") == [event("thinking", held + " ")]


def test_an_orphan_closer_takes_the_shown_text_back() -> None:
    reader = ReplyReader()
    assert reader.feed("plan") == [event("content", "plan")]
    assert reader.feed(" b</think>c") == [
        event("content", " b"),
        event("retract", "plan b"),
        event("thinking", "plan b"),
        event("content", "c"),
    ]


def test_an_orphan_closer_with_nothing_shown_takes_nothing_back() -> None:
    assert ReplyReader().feed("</think>a") == [event("content", "a")]


def test_what_may_still_be_the_answer_is_not_told_as_thinking() -> None:
    reader = ReplyReader()
    assert reader.feed("<think>a <think> b</think>c") == [event("thinking", "a <think> b")]
    assert reader.feed("d") == []
    assert reader.close() == [event("content", "cd")]


def test_what_was_not_the_answer_after_all_is_told_as_thinking() -> None:
    reader = ReplyReader()
    reader.feed("<think>a<think>b</think>c")
    assert reader.feed("</think>d") == [event("thinking", "</think>c"), event("content", "d")]


def test_the_reasoning_field_is_thinking_whatever_it_holds() -> None:
    reader = ReplyReader()
    assert reader.feed_thinking("a</think>") == [event("thinking", "a</think>")]
    assert reader.feed_thinking("") == []
    assert reader.feed("b`") == [event("content", "b`")]
    assert reader.feed_thinking("`") == [event("thinking", "`")]
    assert reader.feed("<think>`") == [event("content", "<think>`")]
    reader.close()
    assert reader.reply == {
        "text": "b`<think>`",
        "thinking": "a</think>`",
        "label": None,
        "calls": [],
        "raw": "b`<think>`",
    }


def test_a_server_may_split_off_the_thought_that_the_prompt_opened() -> None:
    reader = ReplyReader(profile=STARTS_THINKING)
    reader.feed_thinking("a")
    assert reader.feed("b") == [event("content", "b")]


def test_the_reasoning_field_does_not_end_a_thought_that_has_begun() -> None:
    reader = ReplyReader(profile=STARTS_THINKING)
    reader.feed("a")
    reader.feed_thinking("b")
    assert reader.feed("c</think>d") == [event("thinking", "c"), event("content", "d")]


def test_a_closed_reader_reads_no_more() -> None:
    reader = ReplyReader()
    reader.feed("a")
    with pytest.raises(RuntimeError, match="still being read"):
        _ = reader.reply
    reader.close()
    assert reader.close() == []
    with pytest.raises(RuntimeError, match="closed"):
        reader.feed("b")
    with pytest.raises(RuntimeError, match="closed"):
        reader.feed_thinking("b")
    assert reader.reply["text"] == "a"

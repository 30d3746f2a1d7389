"""How a conversation is put to the embedded model: which of three requests, with which examples.

The model's chat template knows system, user and assistant texts only. So calls and results are put to it as
text, each request with worked examples in front, worded as they are because these wordings were measured to
leave it the least doubt (see docs/local-model.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from turnflow.apps.local_model.arithmetic import (
    CALL_PREFIX,
    CALL_SUFFIX,
    asks_for_sum,
    call_grammar,
    with_signs,
)

Role: TypeAlias = Literal["system", "user", "assistant"]
Text: TypeAlias = dict[Literal["role", "content"], str]
"""One message of the model's chat template."""

CALCULATE = "calculate"
EXPRESSION = "expression"
"""The one tool that this model is offered, and its one argument, a string."""

MAX_SYSTEM_CHARS = 300
"""System prompts written for large models only confuse this one: a longer one is left out."""

MAX_EXCHANGE_CHARS = 1000
"""How much of a question, and of the results of its tools, it reads when it calls and answers."""

CALL_SYSTEM = "You use the calculator by writing calculate(expression)."
CALL_EXAMPLES = (
    ("Please divide 84 by 7", "84 / 7"),
    ("3**4", "3 ** 4"),
    ("What is 8 - 6?", "8 - 6"),
    ("(2 + 6) * 3", "(2 + 6) * 3"),
    ("What is 4 + 5?", "4 + 5"),
)

ANSWER_SYSTEM = "You say the result of the calculator in one short sentence."
ANSWER_EXAMPLES = (
    ("What is 4 + 5?", "4 + 5", "9"),
    ("Please divide 84 by 7", "84 / 7", "12"),
    ("2.5*3", "2.5 * 3", "7.5"),
    ("What is (8 - 6) * 50?", "(8 - 6) * 50", "100"),
)

CHAT_SYSTEM = "You are SmolLM2, a small and friendly assistant."
CHAT_EXAMPLES = (
    ("Who are you?", "I am SmolLM2, a very small language model."),
    ("What is the capital of Italy?", "The capital of Italy is Rome."),
    ("Hi!", "Hello! How can I help you today?"),
)


@dataclass(frozen=True, slots=True)
class Plan:
    """One request to the embedded model.

    Attributes:
        kind: `call` (write a call of the calculator), `answer` (say what its result was) or `chat`.
        messages: What the model reads.
        grammar: What it may write, in GBNF; None for anything.
    """

    kind: Literal["call", "answer", "chat"]
    messages: list[Text]
    grammar: str | None = None


def plan_request(
    messages: Sequence[BaseMessage],
    *,
    tools: Sequence[Mapping[str, Any]] = (),
    tool_choice: object = None,
    room_tokens: int = 3000,
    is_held: bool = False,
) -> Plan:
    """Decide what to ask of the model, and how.

    After a tool's result it is asked for the answer. After a user's message it is asked for a call if
    `calculate` is among the tools and the message asks for a calculation (or the caller insists on a call);
    all else is plain chat. Calls and answers look at the last question only.

    Args:
        messages: The conversation.
        tools: Tools in the OpenAI format; those other than `calculate` are passed over.
        tool_choice: As in the OpenAI API. `"required"`, `"any"` or naming `calculate` insists on a call;
            `"none"` forbids one.
        room_tokens: How much of the conversation a plain chat may take, roughly.
        is_held: Whether the caller sends a grammar or a schema of its own. The reply is then what they allow,
            and the caller's system prompt, which explains them, is used at any length.
    """
    talk = [message for message in messages if not isinstance(message, SystemMessage)]
    if is_held:
        return Plan("chat", _as_far_back_as_fits([_text("system", _own_system(messages))], talk, room_tokens))
    exchange = _last_exchange(talk)
    question = exchange[0].text[:MAX_EXCHANGE_CHARS] if exchange else ""
    if exchange and isinstance(exchange[-1], ToolMessage):
        return Plan("answer", _answer_messages(question, exchange))
    if exchange and _offers_calculator(tools) and tool_choice != "none":
        insisted = tool_choice not in {None, "auto"} if isinstance(tool_choice, str | None) else True
        if insisted or asks_for_sum(question):
            return Plan("call", _call_messages(question), call_grammar(question))
    return Plan("chat", _chat_messages(messages, talk, room_tokens))


def _last_exchange(talk: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    """Return the messages from the user's last one on."""
    for index in range(len(talk) - 1, -1, -1):
        if isinstance(talk[index], HumanMessage):
            return talk[index:]
    return ()


def _offers_calculator(tools: Sequence[Mapping[str, Any]]) -> bool:
    for tool in tools:
        function = tool.get("function", {})
        properties = function.get("parameters", {}).get("properties", {})
        if function.get("name") == CALCULATE and properties.get(EXPRESSION, {}).get("type") == "string":
            return True
    return False


def _call_messages(question: str) -> list[Text]:
    talk = [_text("system", CALL_SYSTEM)]
    for asked, expression in CALL_EXAMPLES:
        talk += [_text("user", asked), _text("assistant", _call_text(expression))]
    return [*talk, _text("user", with_signs(question))]


def _answer_messages(question: str, exchange: Sequence[BaseMessage]) -> list[Text]:
    talk = [_text("system", ANSWER_SYSTEM)]
    for asked, expression, result in ANSWER_EXAMPLES:
        talk += [_text("user", asked), _text("assistant", _call_text(expression))]
        talk += [_text("user", f"{expression} = {result}"), _text("assistant", f"{expression} is {result}.")]
    talk.append(_text("user", question))
    for message in exchange[1:]:
        if isinstance(message, AIMessage) and message.tool_calls:
            calls = "\n".join(_call_text(_subject(call)) for call in message.tool_calls)
            talk.append(_text("assistant", calls[:MAX_EXCHANGE_CHARS]))
    return [*talk, _text("user", _results_text(exchange))]


def _results_text(exchange: Sequence[BaseMessage]) -> str:
    """Pair each result with what was calculated: the model copies a sum far better than it remembers one."""
    subjects = {
        call["id"]: _subject(call)
        for message in exchange
        if isinstance(message, AIMessage)
        for call in message.tool_calls
    }
    results = (
        f"{subjects.get(message.tool_call_id, message.name or 'result')} = {message.text}"
        for message in exchange
        if isinstance(message, ToolMessage)
    )
    return "\n".join(results)[:MAX_EXCHANGE_CHARS]


def _subject(call: Mapping[str, Any]) -> str:
    """Return what a call was about: the expression, or the name of another tool."""
    return str(call["args"].get(EXPRESSION, call["name"]))


def _call_text(expression: str) -> str:
    return f"{CALL_PREFIX}{expression}{CALL_SUFFIX}"


def _chat_messages(
    messages: Sequence[BaseMessage], talk: Sequence[BaseMessage], room_tokens: int
) -> list[Text]:
    """Put the conversation as far back as it fits, without calls and their results."""
    own = _own_system(messages)
    head = [_text("system", own)]
    if not own or len(own) > MAX_SYSTEM_CHARS:
        head = [_text("system", CHAT_SYSTEM)]
        for asked, answer in CHAT_EXAMPLES:
            head += [_text("user", asked), _text("assistant", answer)]
    return _as_far_back_as_fits(head, talk, room_tokens)


def _own_system(messages: Sequence[BaseMessage]) -> str:
    return "\n\n".join(message.text for message in messages if isinstance(message, SystemMessage)).strip()


def _as_far_back_as_fits(head: list[Text], talk: Sequence[BaseMessage], room_tokens: int) -> list[Text]:
    """The head, and the newest messages that there is room for, the last one in any case."""
    kept: list[Text] = []
    for message in reversed(talk):
        text = _chat_text(message)
        if text is None:
            continue
        cost = rough_tokens(text["content"])
        if cost > room_tokens:
            if not kept:
                kept.append({**text, "content": text["content"][-room_tokens:]})
            break
        kept.append(text)
        room_tokens -= cost
    return head + kept[::-1]


def _chat_text(message: BaseMessage) -> Text | None:
    if isinstance(message, HumanMessage):
        return _text("user", message.text)
    if isinstance(message, AIMessage) and message.text and not message.tool_calls:
        return _text("assistant", message.text)
    return None


def rough_tokens(text: str) -> int:
    """Estimate how many tokens a text takes: a third of a letter's worth, one for every other byte."""
    letters = sum(character.isascii() and (character.isalpha() or character == " ") for character in text)
    others = len(text.encode("utf-8", "replace")) - letters
    return letters // 3 + others + 4


def _text(role: Role, content: str) -> Text:
    return {"role": role, "content": content}

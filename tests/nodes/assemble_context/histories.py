"""Conversations by the thousand, from a seed: tools, parallel and unanswered calls, media, pins, folds."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from turnflow import PlanInput
from turnflow.graph.protocol import LABELS, JsonProtocol
from turnflow.graph.reply_form import ReplyForm
from turnflow.graph.tool_names import ASK_USER

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
WORDS = [
    "the order was sent on Monday ",
    "你好，请帮我查一下这个订单。",
    "def f(x):\n    return {'a': [x, 1]}\n",
    "注文は月曜日に届きました。",
    "🙂👍 ",
    "Привет мир ",
]
FORMS = [
    ReplyForm(None, native_tools=True, dialects=()),
    ReplyForm(LABELS, native_tools=True, dialects=()),
    ReplyForm(LABELS, native_tools=False, dialects=("hermes",)),
    ReplyForm(JsonProtocol(), native_tools=False, dialects=()),
    ReplyForm(None, native_tools=False, dialects=("hermes",)),
]


@dataclass
class History:
    """A conversation, and what a summary stands for in it."""

    messages: list[BaseMessage] = field(default_factory=list)
    folds: list[Any] = field(default_factory=list)
    input_ids: list[str] = field(default_factory=list)
    marks: dict[str, str] = field(default_factory=dict)
    """A text that only this message holds, by id; messages that hold none are missing."""


class Writer:
    """Writes a history; each message begins with a mark of its own."""

    def __init__(self, seed: int, *, is_odd: bool = True) -> None:
        self.random = random.Random(seed)  # noqa: S311
        self.is_odd = is_odd
        self.history = History()

    def write(self, turns: int, *, rounds: int = 3, last_rounds: int | None = None) -> History:
        if self._one_in(6):
            self._add(SystemMessage, self._text(1))
        if self._one_in(8):
            self._add(AIMessage, self._text(2))
        for turn in range(turns):
            is_last = turn == turns - 1
            some = self.random.randint(0, rounds)
            self._turn(last_rounds if is_last and last_rounds is not None else some, is_last=is_last)
        return self.history

    def _turn(self, rounds: int, *, is_last: bool) -> None:
        start = len(self.history.messages)
        blocks = self._one_in(8)
        text = self.random.choice(WORDS) + self._text(2)
        message = self._add(HumanMessage, [{"type": "text", "text": text}, IMAGE] if blocks else text)
        self.history.input_ids.append(message.id or "")
        for _ in range(rounds):
            self._round()
        if rounds and self._one_in(4):
            closed = self.history.messages[start + 1 : self._last_reply()]
            self.history.folds.append(
                {"after_id": message.id, "message_ids": [m.id for m in closed], "texts": [self._text(1)]}
            )
        if not is_last and not self._one_in(10):
            self._reply()

    def _round(self) -> None:
        number = len(self.history.messages)
        calls: list[Any] = [
            {
                "id": f"c{number}-{at}" if not self._one_in(40) else "again",
                "name": ASK_USER if self._one_in(12) else "look_up",
                "args": {"query": self.random.choice(WORDS) * self.random.randint(0, 6)},
                "type": "tool_call",
            }
            for at in range(self.random.choice([1, 1, 1, 2, 3]))
        ]
        self._reply(calls)
        for call in calls:
            if self._one_in(15):
                continue
            text = self._text(self.random.choice([0, 1, 2, 8, 40]))
            content: Any = [{"type": "text", "text": text}, IMAGE] if self._one_in(15) else text
            self._add(ToolMessage, content, tool_call_id=call["id"], name=call["name"])
        if self._one_in(20):
            self._add(ToolMessage, self._text(1), tool_call_id="nobody", name="look_up")

    def _reply(self, calls: Any = ()) -> None:
        text = self._text(self.random.choice([0, 1, 2, 6])) if not calls or self._one_in(2) else ""
        own: dict[str, Any] = {}
        if text and self._one_in(3):
            label = "TOOL" if calls else "FINISH"
            own = {"turnflow": {"raw": f"``{label}``\n{text}", "label": label, "thinking": "hm"}}
        if self._one_in(6):
            own["reasoning_content"] = self.random.choice(WORDS) * 5
        self._add(AIMessage, text, tool_calls=list(calls), additional_kwargs=own)

    def _add(self, kind: Any, content: Any, **fields: Any) -> BaseMessage:
        number = len(self.history.messages)
        message_id = f"m{number}"
        is_text = isinstance(content, str)
        text = content if is_text else content[0]["text"]
        mark = f"k{number}k"
        if self.is_odd and kind is not HumanMessage and self._one_in(25):
            text = " "
        elif text:
            text = f"{mark} {text}"
            self.history.marks[message_id] = mark
        own = fields.pop("additional_kwargs", {})
        if isinstance(own.get("turnflow"), dict):
            raw = own["turnflow"]["raw"]
            head, _, tail = raw.partition("\n")
            own = {**own, "turnflow": {**own["turnflow"], "raw": f"{head}\n{mark} {tail}"}}
            if not text.strip():
                own = {}
        if self._one_in(30):
            own = {**own, "turnflow": {**own.get("turnflow", {}), "pinned": True}}
        content = text if is_text else [{"type": "text", "text": text}, *content[1:]]
        message: BaseMessage = kind(content=content, id=message_id, additional_kwargs=own, **fields)
        self.history.messages.append(message)
        return message

    def _last_reply(self) -> int:
        messages = self.history.messages
        return next(at for at in range(len(messages) - 1, -1, -1) if isinstance(messages[at], AIMessage))

    def _text(self, size: int) -> str:
        return self.random.choice(WORDS) * self.random.randint(0, 8 * size) if size else ""

    def _one_in(self, chances: int) -> bool:
        return self.is_odd and self.random.randrange(chances) == 0


def tool_definition(size: int = 10) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"query": {"type": "string", "description": "what " * size}}}
    return {"type": "function", "function": {"name": "look_up", "description": "Look.", "parameters": schema}}


def plan_of(seed: int, turns: int, window: int | None, **fields: Any) -> tuple[PlanInput, History]:
    """A plan with everything in it, from a seed."""
    chance = random.Random(seed + 1)  # noqa: S311
    history = Writer(seed).write(turns)
    anchored = chance.randrange(4) == 0
    anchor = {
        "through_id": chance.choice([*history.input_ids, "gone"]),
        "position": 0,
        "text": "Summed </summary> up.",
    }
    contributions: list[Any] = [
        {
            "name": f"n{at}",
            "text": f"Contribution {at}. </context>" * chance.randint(0, 20),
            "place": chance.choice(["system", "message"]),
            "budget": chance.choice([20, 200]),
            "priority": chance.randint(-1, 2),
        }
        for at in range(chance.randint(0, 3))
    ]
    recalled: list[Any] = [
        {
            "key": f"turn-old{at}~0",
            "position": at,
            "time": 60.0 * at,
            "text": f"User: recalled{at} </recalled>",
        }
        for at in range(chance.randint(0, 3))
    ]
    plan = PlanInput(
        **{
            "messages": history.messages,
            "system": "You are S. " * chance.randint(1, 10),
            "folds": history.folds,
            "fold_text": "<checkpoint>{text}</checkpoint>",
            "directives": [{"key": "k", "text": "Do so."}] if chance.randrange(2) else [],
            "form": chance.choice(FORMS),
            "window": window,
            "max_output": chance.choice([None, 100, 5000, 60_000]),
            "tool_definitions": [tool_definition()] if chance.randrange(2) else [],
            "protected_turns": chance.choice([1, 2, 2, 4]),
            "recent_turns": chance.choice([None, None, 0, 3, 10]),
            "anchor": anchor if anchored else None,
            "contributions": contributions,
            "recalled": recalled,
            "can_fetch": bool(chance.randrange(2)),
            **fields,
        }
    )
    return plan, history

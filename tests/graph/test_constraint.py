"""What goes with a request so that the reply keeps to its protocol; the last tests ask the embedded model."""

import json
import os
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from turnflow.apps.local_model import LocalModelServer
from turnflow.graph.constraint import json_grammar, json_schema, label_grammar, request_constraint
from turnflow.graph.profile import Dialect, ProviderProfile
from turnflow.graph.protocol import LABELS, JsonProtocol, LabelProtocol

FUZZ = settings(max_examples=int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "100")), deadline=None)


def tool(name: str, parameters: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": name, "description": "查询 “x”", "parameters": parameters},
    }


def obj(required: str = "", **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required.split()}


TEXT = {"type": "string"}
CALCULATE = tool("calculate", obj("expression", expression=TEXT))
NOW = tool("now", None)
WEATHER = tool("weather", obj("city", city=TEXT, days={"type": "integer"}, unit={"enum": ["°C", "°F"]}))
FREE = tool("free", {"type": "object"})
TREE = tool(
    "tree",
    {
        "$defs": {"Node": obj("name", name=TEXT, parts={"type": "array", "items": {"$ref": "#/$defs/Node"}})},
        **obj("root", root={"$ref": "#/$defs/Node"}),
    },
)
# What some endpoint refuses somewhere in a schema, and what refers to nothing.
ODD = tool(
    "odd",
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://example.org/odd",
        "$defs": {"loop": {"$ref": "#/$defs/loop"}},
        **obj(
            "a absent",
            a={"not": {"type": "string"}},
            b={"type": "string", "pattern": "a|b", "format": "date", "maxLength": 10**6},
            c=True,
            d={"$ref": "#/$defs/loop"},
            e={"$ref": "https://example.org/elsewhere"},
            f={"type": ["string", "null"]},
            g={"oneOf": [{"const": 1}, {"allOf": [{"$ref": "#/properties/c"}]}]},
            h={"type": "array", "prefixItems": [{"type": "integer"}], "items": False},
            i={"type": "object", "patternProperties": {"^x": TEXT}, "additionalProperties": False},
            **{'q"\\\n': {"type": "number", "minimum": 0}},
        ),
    },
)
TOOLS = [CALCULATE, NOW, WEATHER, FREE, TREE, ODD]
DIALECTS: list[Dialect] = ["hermes", "deepseek", "deepseek_tokens", "json"]


# A matcher for the part of GBNF that is used here.

_LEXEME = re.compile(
    r"""\s*(?: (?P<text>"(?:[^"\\]|\\.)*") | (?P<set>\[(?:[^\]\\]|\\.)*\]) | (?P<name>[a-z][a-z0-9-]*)
        | (?P<times>[*+?]|\{\d*,?\d*\}) | (?P<mark>[()|]) )""",
    re.VERBOSE,
)


class Grammar:
    """A grammar that says whether it takes a text."""

    def __init__(self, text: str) -> None:
        lines = (line.partition(" ::= ") for line in text.splitlines())
        self.rules = {name: self._parse(body) for name, _, body in lines}

    def takes(self, text: str) -> bool:  # noqa: C901 - five small steps that know the text
        @cache
        def ends(name: str, at: int) -> frozenset[int]:
            return frozenset(choice(self.rules[name], at))

        def choice(choices: Any, at: int) -> set[int]:
            found = set[int]()
            for row in choices:
                found |= sequence(row, {at})
            return found

        def sequence(row: Any, places: set[int]) -> set[int]:
            for item, least, most in row:
                places = repeated(item, places, least, most)
            return places

        def repeated(item: Any, places: set[int], least: int, most: float) -> set[int]:
            found, times = set(places) if least == 0 else set[int](), 0
            while places and times < most:
                places = set().union(*(once(item, at) for at in places))
                times += 1
                if times >= least:
                    places -= found
                    found |= places
            return found

        def once(item: Any, at: int) -> set[int] | frozenset[int]:
            kind, value = item
            if kind == "name":
                return ends(value, at)
            if kind == "choice":
                return choice(value, at)
            match = value.match(text, at)
            return {match.end()} if match else set()

        return len(text) in ends("root", 0)

    def _parse(self, body: str) -> Any:
        rows: list[Any] = [[[]]]
        while body:
            lexeme = _LEXEME.match(body)
            assert lexeme, body
            body = body[lexeme.end() :]
            kind, value = lexeme.lastgroup, lexeme.group(lexeme.lastgroup or 0)
            match kind, value:
                case "mark", "(":
                    rows.append([[]])
                case "mark", ")":
                    inner = rows.pop()
                    rows[-1][-1].append((("choice", inner), 1, 1))
                case "mark", _:
                    rows[-1].append([])
                case "times", _:
                    item, _, _ = rows[-1][-1].pop()
                    rows[-1][-1].append((item, *self._times(value)))
                case "name", _:
                    rows[-1][-1].append((("name", value), 1, 1))
                case "text", _:
                    rows[-1][-1].append((("re", re.compile(re.escape(self._unescaped(value[1:-1])))), 1, 1))
                case _:
                    rows[-1][-1].append((("re", re.compile(value, re.DOTALL)), 1, 1))
        assert len(rows) == 1
        return rows[0]

    @staticmethod
    def _unescaped(text: str) -> str:
        return re.sub(r"\\(.)", lambda match: {"n": "\n", "t": "\t", "r": "\r"}.get(match[1], match[1]), text)

    @staticmethod
    def _times(mark: str) -> tuple[int, float]:
        if mark in "*+?":
            return int(mark == "+"), 1 if mark == "?" else float("inf")
        least, _, most = mark[1:-1].partition(",")
        return int(least or 0), float(most) if most else float("inf") if "," in mark else int(least)


def labels(*, dialect: Dialect | None = "hermes", only: list[str] | None = None) -> Grammar:
    return Grammar(label_grammar(LABELS, TOOLS, dialect=dialect, labels=only))


LABELLED = [
    "``FINISH``\nHi",
    "``FINISH``\n你好。\n\n- a\n- b\n\n    code\n",
    "``FINISH``\n```python\nprint(1)\n```\n\nThe end",
    "``FINISH``\n**Note**: this\n# Title\n[a](b)",
    "``FINISH``\nFinishing is hard, and TOOLS are: good\nThink about it: now\n`TOOL` is a word",
    "``FINISH``\nHe said TOOL: use it",
    "``FINISH``\n<b>x</b> <tool> a < b",
    "``FINISH``\n[\n  [\n    1",
    "``THINK``\n-5",
    "``PAUSE``\n---\ntitle: x",
]
NOT_LABELLED = [
    "Hi",
    "FINISH\nHi",
    "``FINISH``",
    "``FINISH``\n",
    "``FINISH``\n \n",
    "``FINISH`` Hi",
    "``OTHER``\nHi",
    "``FINISH``\n``TOOL``\nx",
    "``FINISH``\nHi\n``TOOL``",
    "``FINISH``\nHi\n  **think**  \n",
    "``FINISH``\nHi\n[PAUSE]",
    "``FINISH``\nHi\n# PAUSE",
    "``FINISH``\nHi\n`TOOL\nx",
    "``FINISH``\nHi\nTOOL: x",
    "``FINISH``\nHi\n``TOOL``: x",
    "``FINISH``\nHi\nTool ：x",
    "``FINISH``\nTHINK: x",
    "``FINISH``\nx\n`TOOL````` is x",
    "``FINISH``\n```\n```\n```\n",
    "``FINISH``\nx <tool_call>",
    "``THINK``\n<tool_call>\n{}",
    "``FINISH``\n<<tool_call>",
    "``TOOL``\nI call a tool",
]


@pytest.mark.parametrize("text", LABELLED)
def test_the_label_grammar_takes(text: str) -> None:
    assert labels().takes(text)


@pytest.mark.parametrize("text", NOT_LABELLED)
def test_the_label_grammar_refuses(text: str) -> None:
    assert not labels().takes(text)


def hermes(*calls: str) -> str:
    return "\n".join(f"<tool_call>\n{call}\n</tool_call>" for call in calls)


SUM = '{"name": "calculate", "arguments": {"expression": "2 + 3"}}'
SUM_DEEPSEEK = """<｜DSML｜function_calls>
<｜DSML｜invoke name="calculate">
<｜DSML｜parameter name="expression" string="true">2 < 3</｜DSML｜parameter>
</｜DSML｜invoke>
<｜DSML｜invoke name="weather">
<｜DSML｜parameter name="city" string="true">北京</｜DSML｜parameter>
<｜DSML｜parameter name="days" string="false">3</｜DSML｜parameter>
<｜DSML｜parameter name="unit" string="true">°C</｜DSML｜parameter>
</｜DSML｜invoke>
</｜DSML｜function_calls>"""
SUM_TOKENS = (
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>calculate<｜tool▁sep｜>"
    '{"expression": "2"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
)


@pytest.mark.parametrize(
    ("dialect", "calls"),
    [
        ("hermes", hermes(SUM)),
        ("hermes", hermes('{"name": "now", "arguments": {}}', SUM)),
        ("hermes", hermes('{"name": "weather", "arguments": {"city": "a\\n\\u00e9", "unit": "°C"}}')),
        ("hermes", hermes('{"name": "free", "arguments": {"a": [1, {"b": null}], "c": -1.5e3}}')),
        (
            "hermes",
            hermes('{"name": "tree", "arguments": {"root": {"name": "a", "parts": [{"name": "b"}]}}}'),
        ),
        ("deepseek", SUM_DEEPSEEK),
        ("deepseek_tokens", SUM_TOKENS),
        ("json", SUM),
    ],
)
def test_the_tool_label_takes_calls(dialect: Dialect, calls: str) -> None:
    assert labels(dialect=dialect).takes(f"``TOOL``\n{calls}")
    assert not labels(dialect=dialect).takes(f"``FINISH``\n{calls}")


@pytest.mark.parametrize(
    ("dialect", "calls"),
    [
        ("hermes", ""),
        ("hermes", SUM),
        ("hermes", hermes(SUM) + "\nDone"),
        ("hermes", hermes(*[SUM] * 9)),
        ("hermes", hermes('{"name": "other", "arguments": {}}')),
        ("hermes", hermes('{"name": "calculate", "arguments": {}}')),
        ("hermes", hermes('{"name": "calculate", "arguments": {"expression": 2}}')),
        ("hermes", hermes('{"name": "calculate", "arguments": {"expression": "2", "more": 1}}')),
        ("hermes", hermes('{"name": "weather", "arguments": {"city": "a", "unit": "K"}}')),
        ("hermes", hermes('{"name": "weather", "arguments": {"city": "\\ud83d"}}')),
        ("hermes", hermes('{"name": "weather", "arguments": {"city": "a\nb"}}')),
        ("json", f"{SUM}\n{SUM}"),
        ("json", hermes(SUM)),
        ("deepseek", SUM_DEEPSEEK.replace("北京", "</｜DSML｜invoke>")),
        ("deepseek_tokens", SUM_TOKENS.replace("calculate", "other")),
    ],
)
def test_the_tool_label_refuses_what_is_no_call(dialect: Dialect, calls: str) -> None:
    assert not labels(dialect=dialect).takes(f"``TOOL``\n{calls}")


def test_only_labels_that_may_come_are_in_the_grammar() -> None:
    finishing = labels(only=["FINISH"])
    without_tools = Grammar(label_grammar(LABELS, [], dialect="hermes"))

    assert finishing.takes("``FINISH``\nHi")
    assert not finishing.takes("``THINK``\nHi")
    assert not finishing.takes("``FINISH``\nHi\n``THINK``")
    assert without_tools.takes("``THINK``\nHi")
    assert not without_tools.takes("``TOOL``\nHi")
    assert not without_tools.takes(f"``FINISH``\n{hermes(SUM)}")


def test_labels_that_begin_alike_and_labels_in_other_scripts() -> None:
    protocol = LabelProtocol(allowed=("RE", "RE-PLAN", "RE_PLAN", "完成"), terminal=("完成",))
    grammar = Grammar(label_grammar(protocol, [], dialect=None))

    assert grammar.takes("``RE_PLAN``\nRe-planning\n完成了\nre_plan it")
    for line in ("RE: x", "RE-PLAN: x", "re_plan: x", "``RE-PLAN``", "**RE**", "完成：x", "`完成`"):
        assert not grammar.takes(f"``RE-PLAN``\nx\n{line}"), line


def test_a_small_label_grammar_by_the_letter() -> None:
    protocol = LabelProtocol(allowed=("A",), terminal=("A",))

    assert label_grammar(protocol, [], dialect=None) == SMALL


BLANKS = r"\u0020\u0009\u00A0\u3000\u200B\u200C\u200D\u2060\uFEFF"
SMALL = r"""root ::= "``A``\n" body
body ::= [<] rest | [`*_\u005B#>] marks | [aA] label-0 | [^\u000A<`*_\u005B#>aA~] rest
rest ::= [\u000A] line | [<] rest | [^\u000A<] rest | ""
marks ::= [\u000A] next | [<] rest | [~`*_\u005B#>] marks | [aA] label-0 | @ | ""
label-0 ::= [<] rest | [~] after | [`*_\u005D] closer-1 | [^\u000A<~`*_\u005D:：.。] rest
line ::= [\u000A~] line | [<] rest | [`*_\u005B#>] marks | [aA] label-0 | @ | ""
next ::= [\u000A~] next | [<] rest | [`*_#>] marked | [\u005B] marks | [aA] label-0 | @ | ""
after ::= [<] rest | [~] after | [^\u000A<~:：.。`*_\u005D] rest
closer-1 ::= [<] rest | [~] after | [`*_\u005D] closer-2 | [^\u000A<~`*_\u005D:：.。] rest
marked ::= [<] rest | [~`*_\u005B#>] marked | [aA] label-0 | @
closer-2 ::= [<] rest | [~] after | [`*_\u005D] closer-3 | [^\u000A<~`*_\u005D:：.。] rest
closer-3 ::= [<] rest | [~] after | [`*_\u005D] closer-4 | [^\u000A<~`*_\u005D:：.。] rest
closer-4 ::= [<] rest | [~] after | [^\u000A<~:：.。`*_\u005D] rest
""".replace("@", r"[^\u000A<~`*_\u005B#>aA] rest").replace("~", BLANKS)


@FUZZ
@given(
    st.lists(
        st.sampled_from(
            ["``", "`", "**", "TOOL", "think", ":", "\n", " ", "a", "<tool_call>", "<", "#", "，"]
        )
    ).map("".join)
)
def test_no_body_has_a_second_label(body: str) -> None:
    if labels().takes(f"``FINISH``\n{body}"):
        assert body.strip()
        assert "<tool_call>" not in body
        for line in body.split("\n"):
            assert not re.fullmatch(
                r"\s*(`{1,4}|\*\*|# )\s*(TOOL|THINK)\s*(`{1,4}|\*\*)?\s*", line, re.IGNORECASE
            )
            assert not re.match(r"\s*(`{1,4}|\*\*)?(TOOL|THINK)(`{1,4}|\*\*)?\s*:", line, re.IGNORECASE)


def decision(action: str, action_input: Any, thought: str = "I see") -> str:
    return json.dumps(
        {"thought": thought, "action": action, "action_input": action_input}, ensure_ascii=False
    )


def call(name: str, **parameters: Any) -> dict[str, Any]:
    return {"tool_name": name, "parameters": parameters}


DECISIONS = [
    decision("reply", 'Hi "you"\n🙂'),
    decision("reply", "Hi", thought=""),
    decision("clarify", "Which one?"),
    decision("call_tool", call("calculate", expression="2 + 3")),
    decision("call_tool", [call("now"), call("weather", city="北京", days=-3)]),
    decision("call_tool", call("tree", root={"name": "a", "parts": [{"name": "b", "parts": []}]})),
    decision("call_tool", call("free", any=[1, True, None])),
    decision("call_tool", call("odd", a={"x": [1]}, f=None, g=1, h=["x"], i={"xy": "z"}, **{'q"\\\n': 0.5})),
]
NO_DECISIONS = [
    "Hi",
    decision("reply", ""),
    decision("reply", {"text": "Hi"}),
    decision("reply", "Hi", thought="x" * 1001),
    decision("other", "Hi"),
    decision("clarify", ""),
    decision("call_tool", []),
    decision("call_tool", [call("now")] * 9),
    decision("call_tool", call("other")),
    decision("call_tool", call("calculate")),
    decision("call_tool", call("weather", city="a", unit="K")),
    decision("call_tool", call("tree", root={"name": "a", "parts": [{}]})),
    '{"action": "reply"}',
]


@pytest.mark.parametrize("text", DECISIONS)
def test_the_schema_and_the_grammar_take_a_decision(text: str) -> None:
    schema = json_schema(JsonProtocol(), TOOLS, may_call=True, may_ask=True)

    assert list(Draft202012Validator(schema).iter_errors(json.loads(text))) == []
    assert Grammar(json_grammar(JsonProtocol(), TOOLS, may_call=True, may_ask=True)).takes(text)


@pytest.mark.parametrize("text", NO_DECISIONS)
def test_the_schema_and_the_grammar_refuse(text: str) -> None:
    schema = json_schema(JsonProtocol(), TOOLS, may_call=True, may_ask=True)

    Draft202012Validator.check_schema(schema)
    if text.startswith("{"):
        assert not Draft202012Validator(schema).is_valid(json.loads(text))
    assert not Grammar(json_grammar(JsonProtocol(), TOOLS, may_call=True, may_ask=True)).takes(text)


@pytest.mark.parametrize(
    ("may", "tools", "actions"),
    [
        ({"may_call": True, "may_ask": True}, TOOLS, ["reply", "call_tool", "clarify"]),
        ({"may_call": True, "may_ask": False}, TOOLS, ["reply", "call_tool"]),
        ({"may_call": True, "may_ask": True}, [], ["reply", "clarify"]),
        ({"may_call": False, "may_ask": True}, TOOLS, ["reply"]),
    ],
)
def test_only_actions_that_may_come_are_offered(
    may: dict[str, bool], tools: list[dict[str, Any]], actions: list[str]
) -> None:
    schema = json_schema(JsonProtocol(), tools, **may)
    grammar = Grammar(json_grammar(JsonProtocol(), tools, **may))

    assert [each["properties"]["action"]["const"] for each in schema["anyOf"]] == actions
    texts = {"reply": "Hi", "call_tool": call("now"), "clarify": "Hi"}
    assert [action for action, form in texts.items() if grammar.takes(decision(action, form))] == actions


def test_a_small_schema_and_grammar_by_the_letter() -> None:
    assert json_schema(JsonProtocol(max_thought_chars=9), [CALCULATE], may_call=False, may_ask=False) == {
        "type": "object",
        "anyOf": [
            {
                "type": "object",
                "properties": {
                    "thought": {"type": "string", "maxLength": 9},
                    "action": {"const": "reply"},
                    "action_input": {"type": "string", "minLength": 1},
                },
                "required": ["thought", "action", "action_input"],
                "additionalProperties": False,
            }
        ],
    }
    grammar = json_grammar(JsonProtocol(max_thought_chars=5000), [], may_call=False, may_ask=False)
    assert grammar.splitlines()[0] == (
        r'root ::= "{\"thought\": \"" char{0,1999} "\", \"action\": " '
        r'("\"reply\", \"action_input\": " text) "}"'
    )


def test_the_same_input_gives_the_same_text_and_is_left_alone() -> None:
    before = json.dumps(TOOLS)
    texts = {
        label_grammar(LabelProtocol(allowed=allowed, terminal=["A"]), TOOLS, dialect="hermes")
        + json.dumps(json_schema(JsonProtocol(), TOOLS, may_call=True, may_ask=True))
        for allowed in ({"A", "B", "C"}, {"C", "B", "A"})
    }

    assert len(texts) == 1
    assert json.dumps(TOOLS) == before


class TestRequestConstraint:
    def of(self, protocol: Any, profile: dict[str, Any], **options: Any) -> dict[str, Any]:
        given: dict[str, Any] = {"dialect": "hermes", "may_call": True, "may_ask": True}
        given |= {"native_tools_offered": False} | options
        return request_constraint(protocol, ProviderProfile(**profile), TOOLS, **given)

    def test_a_schema_goes_before_a_grammar(self) -> None:
        form = self.of(JsonProtocol(), {"json_schema": True, "grammar": True})["response_format"]

        assert form["type"] == "json_schema"
        assert form["json_schema"]["strict"] is False
        assert form["json_schema"]["schema"] == json_schema(
            JsonProtocol(), TOOLS, may_call=True, may_ask=True
        )

    def test_grammars(self) -> None:
        profile = {"grammar": True}

        assert self.of(JsonProtocol(), profile) == {
            "grammar": json_grammar(JsonProtocol(), TOOLS, may_call=True, may_ask=True),
        }
        assert self.of(LABELS, profile) == {
            "grammar": label_grammar(LABELS, TOOLS, dialect="hermes"),
        }
        assert self.of(LABELS, profile, may_call=False) == {
            "grammar": label_grammar(LABELS, TOOLS, dialect="hermes", labels=["FINISH"]),
        }

    @pytest.mark.parametrize(
        ("protocol", "profile", "options"),
        [
            (None, {"grammar": True, "json_schema": True}, {}),
            (JsonProtocol(), {}, {}),
            (LABELS, {"json_schema": True}, {}),
            (LABELS, {"grammar": True}, {"native_tools_offered": True}),
            (JsonProtocol(), {"json_schema": True}, {"native_tools_offered": True}),
            (LABELS, {"grammar": True, "starts_thinking": True}, {}),
        ],
    )
    def test_nothing_goes_with_the_request(
        self, protocol: Any, profile: dict[str, Any], options: dict[str, Any]
    ) -> None:
        assert self.of(protocol, profile, **options) == {}


@pytest.fixture(scope="module")
def client() -> Iterator[openai.OpenAI]:
    with (
        LocalModelServer() as server,
        openai.OpenAI(
            base_url=server.base_url,
            api_key=server.api_key,
            max_retries=0,
            http_client=openai.DefaultHttpxClient(trust_env=False),
        ) as client,
    ):
        yield client


def ask(client: openai.OpenAI, question: str, constraint: dict[str, Any], max_tokens: int = 120) -> str:
    reply = client.chat.completions.create(
        model="embedded",
        messages=[{"role": "user", "content": question}],
        temperature=0,
        seed=1,
        max_tokens=max_tokens,
        response_format=constraint.get("response_format", openai.omit),
        extra_body={"cache_prompt": False, **constraint},
    )
    return reply.choices[0].message.content or ""


@pytest.mark.local_model
class TestEmbeddedModel:
    @pytest.mark.parametrize("dialect", DIALECTS)
    def test_it_is_held_to_calls(self, client: openai.OpenAI, dialect: Dialect) -> None:
        grammar = label_grammar(LABELS, [CALCULATE], dialect=dialect, labels=["TOOL"])

        text = ask(client, "What is 17 * 23?", {"grammar": grammar}, max_tokens=24)

        head = text.partition('calculate"')[0]
        assert len(head) > len("``TOOL``\n<")
        whole = {"hermes": hermes(SUM), "json": SUM, "deepseek": SUM_DEEPSEEK, "deepseek_tokens": SUM_TOKENS}
        assert f"``TOOL``\n{whole[dialect]}".startswith(head)

    @pytest.mark.parametrize("dialect", DIALECTS)
    def test_its_server_takes_every_grammar_of_labels(self, client: openai.OpenAI, dialect: Dialect) -> None:
        grammar = label_grammar(LABELS, TOOLS, dialect=dialect)

        assert ask(client, "Hi", {"grammar": grammar}, max_tokens=3).startswith("``")

    @pytest.mark.parametrize("profile", [{"json_schema": True}, {"grammar": True}])
    def test_its_decisions_keep_to_the_schema(self, client: openai.OpenAI, profile: dict[str, Any]) -> None:
        def constraint(tools: list[dict[str, Any]], *, may_call: bool) -> dict[str, Any]:
            return request_constraint(
                JsonProtocol(max_thought_chars=40),
                ProviderProfile(**profile),
                tools,
                dialect=None,
                may_call=may_call,
                may_ask=True,
                native_tools_offered=False,
            )

        text = ask(client, "What is the capital of Italy?", constraint([], may_call=False))

        assert list(json.loads(text)) == ["thought", "action", "action_input"]
        assert json.loads(text)["action"] == "reply"
        # An unfinished reply may show a part of a code fence, which the server takes away at the end.
        assert ask(client, "Hi", constraint(TOOLS, may_call=True), max_tokens=16).startswith("{")

"""Replies that are not quite a JSON decision, and what each of them means."""

from typing import Any

from turnflow.graph.json_decision import JsonDecision
from turnflow.graph.text_call import TextCall

Expectation = str | JsonDecision
"""The key of a violation, or the decision."""


def call(name: str, arguments: str = "{}", *, complete: bool = True) -> TextCall:
    return {"name": name, "arguments": arguments, "complete": complete}


def decision(action: str, thought: str = "t", **fields: Any) -> JsonDecision:
    nothing: JsonDecision = {
        "action": action,
        "thought": thought,
        "text": "",
        "calls": [],
        "question": "",
        "options": [],
        "violation": "",
        "problem": "",
    }
    return {**nothing, **fields}  # type: ignore[typeddict-item]


def reply(text: str, thought: str = "t") -> JsonDecision:
    return decision("reply", thought, text=text)


def calls(*each: TextCall, thought: str = "t") -> JsonDecision:
    return decision("call_tool", thought, calls=list(each))


def clarify(question: str, *options: str) -> JsonDecision:
    return decision("clarify", question=question, options=list(options))


_T = '{"thought": "t", "action": '
_REPLY = _T + '"reply", "action_input": '
_CALL = _T + '"call_tool", "action_input": '
_ASK = _T + '"clarify", "action_input": '
_LS = '{"tool_name": "ls", "parameters": {"a": 1}}'
_ALL_SINGLE = str(
    {"thought": "t", "action": "call_tool", "action_input": {"tool_name": "ls", "parameters": {"a": "b"}}}
)
_HI = reply("hi")
_CALLED = calls(call("ls", '{"a": 1}'))

BROKEN: list[tuple[str, str, Expectation]] = [
    # Around the object.
    ("fence", f'```json\n{_REPLY}"hi"}}\n```', _HI),
    ("fence without info", f'```\n{_REPLY}"hi"}}\n```', _HI),
    ("fence on one line", f'```{_REPLY}"hi"}}```', _HI),
    ("fence that is not closed", f'```json\n{_REPLY}"hi"}}', _HI),
    ("fence around a call", f"```json\n{_CALL}{_LS}}}\n```", _CALLED),
    ("prose before", f'Sure! Here it is:\n{_REPLY}"hi"}}', _HI),
    ("prose after", f'{_REPLY}"hi"}}\nI hope that helps.', _HI),
    ("prose with quotes before", f'I\'d say "so":\n{_REPLY}"hi"}}', _HI),
    ("prose with braces before", f'The form {{x}} and {{"a": b}} is: {_REPLY}"hi"}}', _HI),
    ("prose with an object before", f'Not {{"a": 1}} but {_REPLY}"hi"}}', _HI),
    ("prose with braces after", f'{_REPLY}"hi"}} {{"action": "call_tool"}}', _HI),
    ("empty object before", f'{{}} {_REPLY}"hi"}}', _HI),
    ("list around it", f'[{_REPLY}"hi"}}]', _HI),
    ("byte order mark", f'\ufeff{_REPLY}"hi"}}', _HI),
    ("a brace too many before", f'{{{_REPLY}"hi"}}', _HI),
    ("a brace too many after", f'{_REPLY}"hi"}}}}', _HI),
    ("a call and a brace too many", f"{_CALL}{_LS}}}}}", _CALLED),
    ("two decisions", f'{_REPLY}"hi"}}{_REPLY}"ho"}}', _HI),
    ("an object that is no decision before a broken one", f"{{\"a\": 1}} {_REPLY}'hi'}}", _HI),
    # Slips of grammar.
    ("trailing comma", f'{_REPLY}"hi",}}', _HI),
    ("trailing comma in a call", f'{_CALL}{{"tool_name": "ls", "parameters": {{"a": 1}},}},}}', _CALLED),
    (
        "trailing comma in the parameters",
        f'{_CALL}{{"tool_name": "ls", "parameters": {{"a": 1,}}}}}}',
        calls(call("ls", '{"a": 1,}')),
    ),
    ("trailing comma in a list", f"{_CALL}[{_LS},]}}", _CALLED),
    ("single quotes", "{'thought': 't', 'action': 'reply', 'action_input': 'hi'}", _HI),
    ("single quotes and an apostrophe", f"{_REPLY}'it\\'s'}}", reply("it's")),
    (
        "single quotes in a call",
        _ALL_SINGLE,
        calls(call("ls", "{'a': 'b'}")),
    ),
    ("bare keys", '{thought: "t", action: "reply", action_input: "hi"}', _HI),
    (
        "bare keys in a call",
        '{thought: "t", action: "call_tool", action_input: {tool_name: "ls", parameters: {a: 1}}}',
        calls(call("ls", "{a: 1}")),
    ),
    ("typographic quotes", "{“thought”: “t”, “action”: “reply”, “action_input”: “hi”}", _HI),
    ("Python's words beside", f'{_REPLY}"hi", "done": True, "next": None}}', _HI),
    (
        "Python's None for parameters",
        f'{_CALL}{{"tool_name": "ls", "parameters": None}}}}',
        calls(call("ls")),
    ),
    ("line break", f'{_REPLY}"a\nb"}}', reply("a\nb")),
    ("tab", f'{_REPLY}"a\tb"}}', reply("a\tb")),
    ("carriage return and control characters", f'{_REPLY}"a\r\n\x01b"}}', reply("a\r\n\x01b")),
    (
        "line break in parameters",
        f'{_CALL}{{"tool_name": "ls", "parameters": {{"a": "x\ny"}}}}}}',
        calls(call("ls", '{"a": "x\ny"}')),
    ),
    ("line comment", '{"thought": "t", // why\n"action": "reply", "action_input": "hi"}', _HI),
    ("block comment", '{"thought": "t", /* why */ "action": "reply", "action_input": "hi"}', _HI),
    ("hash comment", '{"thought": "t", # why\n"action": "reply", "action_input": "hi"}', _HI),
    ("comment in a call", f'{_CALL}{{"tool_name": "ls", // it\n "parameters": {{"a": 1}}}}}}', _CALLED),
    ("missing comma", '{"thought": "t" "action": "reply" "action_input": "hi"}', _HI),
    ("semicolon for a comma", '{"thought": "t"; "action": "reply"; "action_input": "hi"}', _HI),
    ("inner quotes", f'{_REPLY}"say "hi" to me"}}', reply('say "hi" to me')),
    ("inner quotes and a comma", f'{_REPLY}"say "hi", then "ho"!"}}', reply('say "hi", then "ho"!')),
    (
        "inner quotes in the thought",
        '{"thought": "he said "no" twice", "action": "reply", "action_input": "hi"}',
        reply("hi", 'he said "no" twice'),
    ),
    (
        "inner quotes in the thought of a call",
        f'{{"thought": "he said "no" twice", "action": "call_tool", "action_input": {_LS}}}',
        calls(call("ls", '{"a": 1}'), thought='he said "no" twice'),
    ),
    ("escape that JSON has not", f'{_REPLY}"\\d+ and \\(x\\)"}}', reply("\\d+ and \\(x\\)")),
    ("escaped apostrophe", f'{_REPLY}"it\\\'s"}}', reply("it's")),
    ("Windows path", f'{_REPLY}"C:\\Users\\x.txt"}}', reply("C:\\Users\\x.txt")),
    (
        "escape that JSON has not, in a call's thought",
        f'{{"thought": "\\d", "action": "call_tool", "action_input": {_LS}}}',
        calls(call("ls", '{"a": 1}'), thought="\\d"),
    ),
    (
        "escape that JSON has not, in parameters",
        f'{_CALL}{{"tool_name": "ls", "parameters": {{"a": "\\d"}}}}}}',
        calls(call("ls", '{"a": "\\d"}')),
    ),
    ("code point that is none", f'{_REPLY}"\\u12 x"}}', reply("\\u12 x")),
    ("first half of a pair", f'{_REPLY}"a\\ud83d b"}}', reply("a\ufffd b")),
    ("second half of a pair", f'{_REPLY}"a\\ude00 b"}}', reply("a\ufffd b")),
    ("half of a pair in broken text", f'{_REPLY}"a\\ud83d b",}}', reply("a\ufffd b")),
    ("pair", f'{_REPLY}"\\ud83d\\ude00"}}', reply("😀")),
    # Keys.
    ("other order", '{"action_input": "hi", "action": "reply", "thought": "t"}', _HI),
    ("more keys", f'{_REPLY}"hi", "confidence": 0.9, "notes": [{{"action": 1}}]}}', _HI),
    ("more keys before", '{"id": 7, "thought": "t", "action": "reply", "action_input": "hi"}', _HI),
    ("a key twice", f'{_REPLY}"hi", "action_input": "ho", "action": "clarify"}}', _HI),
    ("a key twice in broken text", f'{_REPLY}"hi", "action_input": "ho", "x": y}}', _HI),
    ("action in capitals", '{"thought": "t", "action": " Reply\\n", "action_input": "hi"}', _HI),
    ("escaped key", '{"\\u0074hought": "t", "action": "reply", "action_input": "hi"}', _HI),
    ("empty thought", '{"thought": "", "action": "reply", "action_input": "hi"}', reply("hi", "")),
    # Calls.
    ("no parameters", f'{_CALL}{{"tool_name": "ls"}}}}', calls(call("ls"))),
    ("null parameters", f'{_CALL}{{"tool_name": "ls", "parameters": null}}}}', calls(call("ls"))),
    ("parameters in a string", f'{_CALL}{{"tool_name": "ls", "parameters": "{{\\"a\\": 1}}"}}}}', _CALLED),
    ("parameters before the name", f'{_CALL}{{"parameters": {{"a": 1}}, "tool_name": "ls"}}}}', _CALLED),
    ("blanks around a name", f'{_CALL}{{"tool_name": " ls\\n", "parameters": {{"a": 1}}}}}}', _CALLED),
    ("more keys in a call", f'{_CALL}{{"id": [1], "tool_name": "ls", "parameters": {{"a": 1}}}}}}', _CALLED),
    (
        "a list of calls",
        f'{_CALL}[{_LS}, {{"tool_name": "cd"}}]}}',
        calls(call("ls", '{"a": 1}'), call("cd")),
    ),
    (
        "a key twice in parameters",
        f'{_CALL}{{"tool_name": "ls", "parameters": {{"a": 1, "a": 2}}}}}}',
        calls(call("ls", '{"a": 1, "a": 2}')),
    ),
    (
        "brackets and quotes in parameters",
        f'{_CALL}{{"tool_name": "ls", "parameters": {{"a": "}} ] \\" \' {{"}}}}}}',
        calls(call("ls", '{"a": "} ] \\" \' {"}')),
    ),
    (
        "a name twice in broken text",
        f'{_CALL}{{"tool_name": "ls", "tool_name": "rm",}},}}',
        calls(call("ls", complete=False)),
    ),
    (
        "parameters twice in broken text",
        f'{_CALL}{{"tool_name": "ls", "parameters": {{"a": 1}}, "parameters": {{"a": 2}},}},}}',
        calls(call("ls", '{"a": 1}', complete=False)),
    ),
    ("last brace missing", f"{_CALL}{_LS}", _CALLED),
    ("last brace missing before a fence", f"```json\n{_CALL}{_LS}\n```", _CALLED),
    ("last brace missing behind a list", f"{_CALL}[{_LS}]", _CALLED),
    (
        "a decision in the parameters",
        f'{{\'id\': 1, {_CALL[1:]}{{"tool_name": "ls", "parameters": {_REPLY}"no"}}}}}}',
        calls(call("ls", _REPLY + '"no"}', complete=False)),
    ),
    (
        "inner quotes in the parameters",
        f'{_CALL}{{"tool_name": "ls", "parameters": {{"a": "say "hi""}}}}}}',
        calls(call("ls", '{"a": "say "hi""}')),
    ),
    # Cut off.
    ("text cut off", f'{_REPLY}"hi th', reply("hi th")),
    ("text cut off behind its quote", f'{_REPLY}"hi"', _HI),
    ("text cut off at a blank", f'{_REPLY}"hi ', reply("hi ")),
    ("text cut off in an escape", f'{_REPLY}"hi\\', _HI),
    ("text cut off in a code point", f'{_REPLY}"hi\\u00e', _HI),
    ("text cut off in a pair", f'{_REPLY}"hi\\ud83d\\ude0', _HI),
    ("text cut off in single quotes", f"{_REPLY}'hi", _HI),
    ("text cut off in an escape, in single quotes", f"{_REPLY}'hi\\u00", _HI),
    ("text cut off behind an escaped backslash", f"{_REPLY}'hi\\\\u00e", reply("hi\\u00e")),
    ("question cut off", f'{_ASK}{{"question": "why', clarify("why")),
    (
        "call cut off",
        f'{_CALL}{{"tool_name": "ls", "parameters": {{"a": 1',
        calls(call("ls", '{"a": 1', complete=False)),
    ),
    (
        "call cut off behind its parameters",
        f'{_CALL}{{"tool_name": "ls", "parameters": {{"a": 1}}',
        calls(call("ls", '{"a": 1}', complete=False)),
    ),
    ("call cut off behind its name", f'{_CALL}{{"tool_name": "ls"', calls(call("ls", "{}", complete=False))),
    (
        "call cut off in single quotes",
        "{'thought': 't', 'action': 'call_tool', 'action_input': {'tool_name': 'ls', 'parameters': {'a': 'b",
        calls(call("ls", "{'a': 'b", complete=False)),
    ),
    (
        "call cut off before a fence",
        f'{_CALL}{{"tool_name": "ls", "parameters": {{"a": 1\n```',
        calls(call("ls", '{"a": 1\n```', complete=False)),
    ),
    (
        "second call cut off",
        f'{_CALL}[{_LS}, {{"tool_name": "cd", "parameters": {{',
        calls(call("ls", '{"a": 1}'), call("cd", "{", complete=False)),
    ),
    ("second call cut off in its name", f'{_CALL}[{_LS}, {{"tool_name": "cd', _CALLED),
    # Questions.
    ("question in an object", f'{_ASK}{{"question": "why?"}}}}', clarify("why?")),
    ("question under another name", f'{_ASK}{{"prompt": "why?", "options": null}}}}', clarify("why?")),
    (
        "question with options",
        f'{_ASK}{{"question": "a?", "options": ["b", "c"]}}}}',
        clarify("a?", "b", "c"),
    ),
    (
        "question in broken text",
        f'{_ASK}{{"question": "a?", "options": ["b", "c",],}},}}',
        clarify("a?", "b", "c"),
    ),
    # Violations.
    ("nothing", "", "invalid_json"),
    ("prose", "I do not know.", "invalid_json"),
    ("prose with braces", "f(x) = {x, y}", "invalid_json"),
    ("list", "[1, 2]", "invalid_json"),
    ("string", '"thought"', "invalid_json"),
    ("brace", "{", "invalid_json"),
    ("too deep", '{"thought": ' + "[" * 200, "invalid_json"),
    ("too deep in parameters", f'{_CALL}{{"parameters": {"[" * 200}{"]" * 200}}}}}', "invalid_json"),
    ("too long to mend", "{'thought': '" + "x" * 100_000 + "'}", "invalid_json"),
    ("too many quotes to mend", "{'thought': '" + "\"' " * 10_000 + "'}", "invalid_json"),
    ("empty object", "{}", "schema:thought"),
    ("another object", '{"name": "ls", "arguments": {}}', "schema:thought"),
    ("no thought", '{"action": "reply", "action_input": "hi"}', "schema:thought"),
    ("null thought", '{"thought": null, "action": "reply", "action_input": "hi"}', "schema:thought"),
    ("thought in a list", '{"thought": ["t"], "action": "reply", "action_input": "hi"}', "schema:thought"),
    ("no action", '{"thought": "t", "action_input": "hi"}', "schema:action"),
    ("null action", f'{_T}null, "action_input": "hi"}}', "schema:action"),
    ("no input", '{"thought": "t", "action": "reply"}', "schema:action_input"),
    ("no input, and the action is unknown", '{"thought": "t", "action": "dance"}', "schema:action_input"),
    ("cut off in the thought", '{"thought": "I wo', "schema:action"),
    ("cut off in the action", '{"thought": "t", "action": "rep', "schema:action_input"),
    ("unknown action", '{"thought": "t", "action": "dance", "action_input": "hi"}', "unknown_action"),
    ("blank action", '{"thought": "t", "action": " ", "action_input": "hi"}', "unknown_action"),
    ("null input", f"{_REPLY}null}}", "wrong_input_shape"),
    ("blank text", f'{_REPLY}" \\n"}}', "wrong_input_shape"),
    ("blank question", f'{_ASK}" "}}', "wrong_input_shape"),
    ("blank question in an object", f'{_ASK}{{"question": " "}}}}', "wrong_input_shape"),
    ("options in a string", f'{_ASK}{{"question": "a?", "options": "b"}}}}', "wrong_input_shape"),
    ("options that are numbers", f'{_ASK}{{"question": "a?", "options": [1]}}}}', "wrong_input_shape"),
    ("no calls", f"{_CALL}[]}}", "wrong_input_shape"),
    ("a call and something else", f"{_CALL}[{_LS}, 1]}}", "wrong_input_shape"),
    ("call without a name", f'{_CALL}{{"parameters": {{}}}}}}', "wrong_input_shape"),
    ("call with a blank name", f'{_CALL}{{"tool_name": " "}}}}', "wrong_input_shape"),
    ("call with a name that is none", f'{_CALL}{{"tool_name": true}}}}', "wrong_input_shape"),
    ("parameters in a list", f'{_CALL}{{"tool_name": "ls", "parameters": [1]}}}}', "wrong_input_shape"),
    ("parameters that are a number", f'{_CALL}{{"tool_name": "ls", "parameters": 1}}}}', "wrong_input_shape"),
    ("call cut off in its name", f'{_CALL}{{"tool_name": "l', "wrong_input_shape"),
    ("call cut off at its start", f"{_CALL}{{", "wrong_input_shape"),
]

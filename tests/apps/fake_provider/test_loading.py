from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from turnflow.apps.fake_provider import FakeProvider, ScriptError, load_script, parse_script

if TYPE_CHECKING:
    from pathlib import Path


def test_a_script_can_be_yaml_json_or_a_dict(tmp_path: Path) -> None:
    data = {"steps": [{"reply": {"content": "x"}}]}
    (tmp_path / "script.json").write_text(json.dumps(data))
    (tmp_path / "script.yaml").write_text("steps: [{reply: {content: x}}]")
    assert (
        load_script(tmp_path / "script.json")
        == load_script(str(tmp_path / "script.yaml"))
        == parse_script(data)
    )


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ({}, "script: steps: Field required"),
        ({"steps": 3}, "script: steps: Input should be a valid list, got '3'"),
        ({"stepz": [], "steps": []}, "script: stepz: unknown field; did you mean 'steps'?"),
        ({"steps": [{"replay": {}}]}, "script: step 1: replay: unknown field; did you mean 'reply'?"),
        ({"steps": [{"reply": {"qqqq": 1}}]}, "script: step 1: reply.qqqq: unknown field"),
        ({"steps": [{}]}, "script: step 1: give exactly one of 'reply', 'error' and 'raw'"),
        ({"steps": [{"reply": {}}, {"reply": {}, "raw": []}]}, "script: step 2: give exactly one of"),
        (
            {"steps": [{"reply": {"tool_calls": [{}]}}]},
            "script: step 1: reply.tool_calls.0.name: Field required",
        ),
        (
            {"steps": [{"reply": {"content": 3}}]},
            "script: step 1: reply.content: Input should be a valid string",
        ),
        (
            {"steps": [{"error": {"status": 99}}]},
            "script: step 1: error.status: Input should be greater than",
        ),
        (
            {"steps": [{"error": {"html": "x", "code": "y"}}]},
            "step 1: error: html and message/type/code/param",
        ),
        ({"steps": [{"error": {}, "fault": {"kind": "hang", "after": 0}}]}, "step 1: 'fault' goes with"),
        ({"steps": [{"reply": {}, "times": 2, "forever": True}]}, "step 1: 'times' and 'forever' exclude"),
        ({"steps": [{"reply": {}, "forever": True}, {"reply": {}}]}, "steps: step 1 is 'forever'"),
        ({"steps": [{"raw": [{"hex": "xyz"}]}]}, "script: step 1: raw.0.hex: non-hexadecimal number"),
        ({"steps": [], "strictness": {"allow": ["x"]}}, "script: strictness.allow.0: Input should be"),
    ],
)
def test_a_wrong_script_is_refused_in_one_line_that_names_the_place(
    data: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ScriptError) as caught:
        parse_script(data)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_further_problems_are_counted() -> None:
    with pytest.raises(ScriptError, match=r"\(and 1 more\)$"):
        parse_script({"steps": [{"reply": {"x": 1, "y": 2}}]})


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"steps: [", "script.yaml: line 1, column 9: "),
        (b"- a\n- b\n", "script.yaml: a script is a mapping with 'steps', this is a list"),
        (b"\xff\xfe\xff", "script.yaml: "),
        (b"steps: [{reply: {content: x}, when: 3}]", "script.yaml: step 1: when: "),
        (b"a: \x07", "script.yaml: "),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = tmp_path / "script.yaml"
    path.write_bytes(content)
    with pytest.raises(ScriptError) as caught:
        FakeProvider(path)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match=r"nowhere\.yaml: No such file"):
        load_script(tmp_path / "nowhere.yaml")

"""Behaviours as files: what they may say, and how mistakes in them are told."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from tests.turns.scripted import Start, says, script
from turnflow import (
    JsonProtocol,
    LabelProtocol,
    OpenAICompatibleChat,
    ProviderProfile,
    build_turn_graph,
    open_saver,
    run_turn,
)
from turnflow.graph.protocol import LABELS
from turnflow.prompts import Prompts

LABELS_OF_ITS_OWN = """+++
version = 3

[labels]
terminal = ["ANSWER"]
intermediate = ["DOUBT"]
final = ["ANSWER"]
tool = "LOOKUP"
stream_final = true

[labels.meanings]
DOUBT = "what might be wrong."
+++

You are careful.
"""


def behaviour_file(folder: Path, source: str, name: str = "own.md") -> Path:
    file = folder / name
    file.write_text(source, encoding="utf-8")
    return file


def test_a_file_brings_its_protocol(tmp_path: Path) -> None:
    own = Prompts("en").behaviour(behaviour_file(tmp_path, LABELS_OF_ITS_OWN))
    assert (own.name, own.version, own.text) == ("own", "3", "You are careful.")
    assert own.protocol == LabelProtocol(
        allowed=("ANSWER", "DOUBT", "LOOKUP"),
        terminal=("ANSWER",),
        intermediate=("DOUBT",),
        final=("ANSWER",),
        tool="LOOKUP",
        stream_final=True,
        meanings={"DOUBT": "what might be wrong."},
    )


@pytest.mark.parametrize(
    ("source", "protocol", "text"),
    [
        ("Be kind.", None, "Be kind."),
        ("\ufeff+++\r\nprotocol = 'json'\r\n+++\r\nBe kind.\r\n", JsonProtocol(), "Be kind."),
        ("+++ \nprotocol = 'label'\n+++\t\nBe\n+++\nkind.", LABELS, "Be\n+++\nkind."),
        ("+++\n+++\nBe kind.", None, "Be kind."),
    ],
    ids=["text alone", "BOM and CRLF", "blanks behind the fence", "empty settings"],
)
def test_forms_of_a_file(tmp_path: Path, source: str, protocol: object, text: str) -> None:
    own = Prompts("en").behaviour(str(behaviour_file(tmp_path, source)))
    assert (own.protocol, own.text) == (protocol, text)


def test_a_translation_beside_it_is_taken(tmp_path: Path) -> None:
    file = behaviour_file(tmp_path, "Be kind.")
    behaviour_file(tmp_path, "请友善。", "own.zh.md")
    assert Prompts("zh").behaviour(file).text == "请友善。"
    assert Prompts("en").behaviour(file).text == "Be kind."


def test_a_relative_path_means_the_folder_of_the_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = Prompts("en")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        behaviour_file(tmp_path / name, name)
        monkeypatch.chdir(tmp_path / name)
        assert prompts.behaviour("own.md").text == name


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("+++\nversion = '1'\n+++\n", "has no text"),
        ("", "has no text"),
        ("+++\nversion = '1'\nBe kind.", "the settings have no end"),
        ("+++\nversion = \n+++\nBe kind.", "the settings are no TOML"),
        ("+++\nvoice = 'soft'\n+++\nBe kind.", "no setting is named 'voice'; there are: version"),
        ("+++\nversion = [3]\n+++\nBe kind.", "version is a text or a number"),
        ("+++\nprotocol = 'labels'\n+++\nBe kind.", "protocol is one of native, label, json, not 'labels'"),
        ("+++\nprotocol = 'json'\n[labels]\n+++\nBe kind.", "goes with protocol = \"label\", not 'json'"),
        ("+++\nlabels = 'A'\n+++\nBe kind.", "[labels] is a table"),
        ("+++\n[labels]\nbogus = 1\n+++\nBe kind.", "no field of [labels] is named 'bogus'"),
        ("+++\n[labels]\nvalidate_terminal = 'x'\n+++\nBe kind.", "is named 'validate_terminal'"),
        ("+++\n[labels]\nterminal = [1]\n+++\nBe kind.", "[labels] terminal is a list of texts"),
        ("+++\n[labels]\nterminal = 'A'\n+++\nBe kind.", "[labels] terminal is a list of texts"),
        ("+++\n[labels]\ntool = ['T']\n+++\nBe kind.", "[labels] tool is a text"),
        ("+++\n[labels]\n+++\nBe kind.", "terminal is empty"),
        ("+++\n[labels]\nterminal=['A']\nstream_final='no'\n+++\nBe kind.", "stream_final is True or False"),
        ("+++\n[labels]\nterminal=['A']\nmeanings={A=1}\n+++\nBe kind.", "meanings: 'A' means a text"),
    ],
)
def test_mistakes_are_told_by_name(tmp_path: Path, source: str, told: str) -> None:
    file = behaviour_file(tmp_path, source)
    with pytest.raises(ValueError, match=r"own\.md") as raised:
        build_turn_graph(behaviour=file)
    assert told in str(raised.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "bytes.md").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path, tmp_path / "bytes.md", tmp_path / "none.md", "a\0.md", "x" * 5000 + ".md"):
        with pytest.raises(ValueError, match="cannot be read"):
            build_turn_graph(behaviour=path if isinstance(path, str) else Path(path))


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"allowed": "AB"}, "allowed is a list of labels"),
        ({"allowed": ("A", 1)}, "1 is no text"),
        ({"allowed": ("A", "MY LABEL")}, "'MY LABEL' is no label"),
        ({"allowed": ("A", "-B")}, "'-B' is no label"),
        ({"allowed": ("A", "unknown")}, "'unknown' is no label"),
        ({"allowed": ("A", "a")}, "differ by case only"),
        ({"terminal": ()}, "terminal is empty"),
        ({"terminal": ("B",)}, "terminal: 'B' is not among the allowed"),
        ({"intermediate": ("A",)}, "'A' ends the turn and goes on with it"),
        ({"tool": "A"}, "'A' ends the turn and goes on with it"),
        ({"tool": 1}, "tool is a label or None"),
        ({"meanings": "A"}, "meanings is a dict"),
        ({"meanings": {"A": 5}}, "meanings: 'A' means a text"),
        ({"stream_final": "no"}, "stream_final is True or False"),
        ({"before_round": "x"}, "before_round is a function"),
    ],
)
def test_a_wrong_label_protocol_is_refused(fields: dict[str, object], told: str) -> None:
    good: dict[str, object] = {"allowed": ("A",), "terminal": ("A",), "final": ("A",)}
    with pytest.raises(ValueError, match="LabelProtocol") as raised:
        LabelProtocol(**{**good, **fields})  # type: ignore[arg-type]
    assert told in str(raised.value)


@pytest.mark.parametrize("limit", ["x", None, -5, 0, True])
def test_a_wrong_json_protocol_is_refused(limit: object) -> None:
    with pytest.raises(ValueError, match="max_thought_chars is a number of characters"):
        JsonProtocol(limit)  # type: ignore[arg-type]


def test_an_unknown_dialect_is_refused() -> None:
    with pytest.raises(ValueError, match="hermes"):
        ProviderProfile.model_validate({"text_dialects": ["klingon"]})


REPLIES = {
    "chat": "Hi.",
    "solve": "``FINISH``\nHi.",
    "research": "``FINISH``\nHi.",
    "decide": '{"thought": "", "action": "reply", "action_input": "Hi."}',
}


@pytest.mark.parametrize("locale", ["en", "zh"])
@pytest.mark.parametrize("name", REPLIES)
def test_each_behaviour_plays_a_turn_and_its_version_is_recorded(
    fake_provider: Start, tmp_path: Path, name: str, locale: Literal["en", "zh"]
) -> None:
    provider = fake_provider(script(says(REPLIES[name])))
    model = OpenAICompatibleChat(model="fake", base_url=provider.base_url)
    with open_saver(tmp_path / "threads.sqlite") as saver:
        graph = build_turn_graph(model, behaviour=name, settings={"locale": locale}, checkpointer=saver)
        result = run_turn(graph, "Hello.", thread_id="t")
        facts = list(saver.read_record("t"))
    assert (result.status, result.answer) == ("finished", "Hi.")
    system = provider.requests[0]["messages"][0]["content"]
    own = Prompts(locale).behaviour(name)
    assert system.startswith(own.text)
    labels = own.protocol.allowed if isinstance(own.protocol, LabelProtocol) else ()
    assert all(f"``{label}``" in system for label in labels)
    (manifest,) = [fact["manifest"] for fact in facts if fact["type"] == "context.assembled"]
    assert manifest["behaviour"] == f"{name}/{own.version}"
    assert manifest["prompt_version"] == Prompts(locale).version

"""Profiles as a caller gives them: by name, as a file, as fields; and what is wrong is named in one line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from turnflow.graph.profile import ProviderProfile
from turnflow.graph.profiles import (
    KnownProfile,
    as_profile,
    find_profile,
    load_profile,
    load_profiles,
    named_profile,
)

DEFAULTS = ProviderProfile()
ENTRIES = list(load_profiles().values())


def departures(profile: ProviderProfile) -> dict[str, Any]:
    return profile.model_dump(exclude_defaults=True)


class TestNames:
    @pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
    def test_each_entry_can_be_named(self, entry: KnownProfile) -> None:
        assert departures(named_profile(entry.name)) == departures(
            ProviderProfile.model_validate(dict(entry.fields))
        )

    @pytest.mark.parametrize(
        "name",
        ["vllm+mistral+opened-thought", " VLLM + Mistral+opened-thought ", "opened-thought+mistral+vllm"],
    )
    def test_several_go_together_in_any_order(self, name: str) -> None:
        assert departures(named_profile(name)) == {
            "json_schema": True,
            "reasoning_field": "reasoning",
            "call_ids": "alnum9",
            "strict_messages": True,
            "starts_thinking": True,
        }

    @pytest.mark.parametrize(
        ("name", "says"),
        [
            ("deepsek", ["'deepsek'", "did you mean 'deepseek'?", "vllm", "opened-thought"]),
            ("vllm+qwen33", ["'qwen33'", "did you mean 'qwen3'?"]),
            ("", ["provider profile '' is no name; the names are: openai"]),
            (" ", ["provider profile ' ' is no name"]),
            ("vllm+", ["provider profile 'vllm+' lacks a name; the names are: openai"]),
            ("vllm+ollama", ["vllm and ollama are both of the kind 'server'"]),
            ("qwen3+vllm+qwen3", ["qwen3 and qwen3 are both of the kind 'family'"]),
        ],
    )
    def test_a_wrong_name_is_refused_in_one_line(self, name: str, says: list[str]) -> None:
        with pytest.raises(ValueError) as raised:
            named_profile(name)
        text = str(raised.value)
        assert all(part in text for part in says), text
        assert "\n" not in text

    @pytest.mark.parametrize("name", ["x" * 100_000, "vllm+" + "x" * 100_000, "vllm+" * 20_000])
    def test_a_long_name_is_not_said_again_whole(self, name: str) -> None:
        with pytest.raises(ValueError, match="provider profile") as raised:
            named_profile(name)
        assert len(str(raised.value)) < 1000

    @pytest.mark.parametrize("name", [None, 5, ["vllm"], b"vllm"])
    def test_a_name_is_a_text(self, name: Any) -> None:
        with pytest.raises(ValueError, match=re.escape(f"is a text, not {name!r}")):
            named_profile(name)

    @pytest.mark.parametrize(
        ("model", "base_url", "says"),
        [
            (5, None, "model_name is the name of a model, not 5"),
            (["m"], None, r"model_name is the name of a model, not \['m'\]"),
            ("m", 5, "base_url is the address of an endpoint or None, not 5"),
            ("m", [], r"base_url is the address of an endpoint or None, not \[\]"),
        ],
    )
    def test_model_and_address_are_texts(self, model: Any, base_url: Any, says: str) -> None:
        with pytest.raises(ValueError, match=says):
            find_profile(model, base_url)


class TestFiles:
    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("p.json", '{"native_tools": false, "think_tags": ["Think"], "context_window": 8192}'),
            ("p.JSON", '\ufeff{"native_tools": false, "think_tags": ["Think"], "context_window": 8192}'),
            ("p.toml", 'native_tools = false\nthink_tags = ["Think"]\ncontext_window = 8_192\n'),
        ],
    )
    def test_a_file_is_read(self, tmp_path: Path, name: str, text: str) -> None:
        (tmp_path / name).write_text(text, "utf-8")
        expected = ProviderProfile(native_tools=False, think_tags=("think",), context_window=8192)
        assert load_profile(tmp_path / name) == load_profile(str(tmp_path / name)) == expected
        assert as_profile(tmp_path / name) == expected

    @pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
    def test_a_profile_survives_a_file(self, tmp_path: Path, entry: KnownProfile) -> None:
        profile = named_profile(entry.name)
        (tmp_path / "whole.json").write_text(profile.model_dump_json(), "utf-8")
        (tmp_path / "short.json").write_text(json.dumps(departures(profile)), "utf-8")
        assert load_profile(tmp_path / "whole.json") == load_profile(tmp_path / "short.json") == profile

    @pytest.mark.parametrize(
        ("name", "content", "says"),
        [
            ("p.json", b"{", ["is no JSON", "line 1"]),
            ("p.json", b"[" * 100_000, ["is no JSON"]),
            ("p.toml", b"images = maybe", ["is no TOML", "line 1"]),
            ("p.json", b"\xff\xfe{}", ["is no text in UTF-8", "save it as UTF-8"]),
            ("p.json", b"[]", ["holds no object"]),
            ("p.json", b'{"image": false}', ["no field 'image'", "did you mean 'images'?", "call_ids"]),
            ("p.toml", b"zzz = 1", ["no field 'zzz'; the fields are: native_tools"]),
            ("p.json", b'{"context_window": 8}', ["context_window:", "256", "not 8"]),
            ("p.json", b'{"call_ids": "short"}', ["call_ids:", "'any' or 'alnum9'", "not 'short'"]),
            ("p.json", b'{"think_tags": ["a b"]}', ["think_tags: 'a b' is no tag name", "ASCII letters"]),
            (
                "p.json",
                b'{"images": "maybe", "grammar": 7}',
                ["images:", "not 'maybe'", "; ", "grammar:", "not 7"],
            ),
            ("p.yaml", b"images: false", ["neither .json nor .toml"]),
            ("profile", b"{}", ["neither .json nor .toml"]),
            ("absent.json", None, ["cannot be read: No such file"]),
        ],
    )
    def test_what_is_wrong_is_named_in_one_line(
        self, tmp_path: Path, name: str, content: bytes | None, says: list[str]
    ) -> None:
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError) as raised:
            load_profile(tmp_path / name)
        text = str(raised.value)
        assert text.startswith(f"profile {tmp_path / name}")
        assert all(part in text for part in says), text
        assert "\n" not in text

    def test_unknown_fields_are_named_in_short_and_the_list_once(self, tmp_path: Path) -> None:
        fields = {"x" * 100_000: 1, **{f"zz{number}": number for number in range(100)}}
        (tmp_path / "p.json").write_text(json.dumps(fields), "utf-8")
        with pytest.raises(ValueError, match="; and 96 more; the fields are: native_tools") as raised:
            load_profile(tmp_path / "p.json")
        assert len(str(raised.value)) < 2000
        assert str(raised.value).count("the fields are") == 1

    @pytest.mark.parametrize(
        ("path", "says"),
        [
            (None, "as its path, a text or a Path, not None"),
            (5, "as its path, a text or a Path, not 5"),
            ("", "is a folder; give a file whose name ends in .json or .toml"),
            (".", "is a folder; give a file whose name ends in .json or .toml"),
            ("a\0b.json", "cannot be read: it has a character that no path has"),
            ("x" * 100_000 + ".json", "cannot be read: File name too long"),
            ("x" * 100_000, "neither .json nor .toml"),
        ],
    )
    def test_what_is_no_file_is_refused(self, path: Any, says: str) -> None:
        with pytest.raises(ValueError, match=says) as raised:
            load_profile(path)
        assert len(str(raised.value)) < 500

    def test_a_folder_is_no_file(self, tmp_path: Path) -> None:
        (tmp_path / "p.json").mkdir()
        with pytest.raises(ValueError, match="cannot be read"):
            load_profile(tmp_path / "p.json")


class TestWhatACallerGives:
    def test_all_forms(self) -> None:
        profile = ProviderProfile(images=False)
        assert as_profile(None) is None
        assert as_profile(profile) is profile
        assert as_profile({"images": False}) == profile
        assert as_profile({}) == DEFAULTS
        assert as_profile("ollama") == named_profile("ollama")

    @pytest.mark.parametrize(
        ("wrong", "says"),
        [
            ({"native_tool": False}, ["provider_profile:", "'native_tool'", "did you mean 'native_tools'?"]),
            ({"first_token_timeout": 0}, ["first_token_timeout:", "greater than 0", "not 0"]),
            ({1: 2}, ["provider_profile: there is no field '1'; the fields are: native_tools"]),
            ("mine.json", ["'mine.json' is no name", "give Path('mine.json')"]),
            ("a/b.TOML", ["give Path('a/b.TOML')"]),
            ("nothing", ["'nothing'", "the names are: openai", "a file is given as a Path"]),
            ("x" * 5000 + ".json", ["is no name; to read a file, give Path("]),
            (3, ["not 3"]),
            (["ollama"], ["a dict of its fields, a name or a Path", "not ['ollama']"]),
            ("x" * 5000, ["no provider profile is named"]),
        ],
    )
    def test_what_is_wrong_is_named_in_one_line(self, wrong: object, says: list[str]) -> None:
        with pytest.raises(ValueError) as raised:
            as_profile(wrong)
        text = str(raised.value)
        assert all(part in text for part in says), text
        assert "\n" not in text

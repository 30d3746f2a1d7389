"""What is known of providers: each line has its source, is found where it should be, and harms nobody."""

from __future__ import annotations

import json
import re
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnflow.graph import profiles
from turnflow.graph.profile import ProviderProfile
from turnflow.graph.profiles import (
    KINDS,
    KnownProfile,
    find_profile,
    found_profile,
    load_profiles,
    named_profile,
)

ROOT = Path(__file__).parents[2]
DATA = ROOT / "graph" / "provider_profiles.toml"
PAGE = ROOT / "docs" / "profiles.md"

OWN = "http://127.0.0.1:8000/v1"
OPENAI = "https://api.openai.com/v1"
AZURE = "https://mine.openai.azure.com/openai/v1"
DEEPSEEK = "https://api.deepseek.com"
KIMI = "https://api.moonshot.ai/v1"
KIMI_CN = "https://api.moonshot.cn/v1"
KIMI_CODE = "https://api.kimi.com/coding/v1"
ZAI = "https://api.z.ai/api/paas/v4/"
BIGMODEL = "https://open.bigmodel.cn/api/paas/v4"
MISTRAL = "https://api.mistral.ai/v1"
QWEN = "https://dashscope.aliyuncs.com/compatible-mode/v1"
ROUTER = "https://openrouter.ai/api/v1"
OLLAMA = "http://localhost:11434/v1"
STUDIO = "http://127.0.0.1:1234/v1"

ENTRIES = list(load_profiles().values())
ADDRESSES = [
    None,
    OWN,
    OPENAI,
    AZURE,
    DEEPSEEK,
    KIMI,
    KIMI_CN,
    KIMI_CODE,
    ZAI,
    BIGMODEL,
    MISTRAL,
    QWEN,
    ROUTER,
    OLLAMA,
    STUDIO,
    "https://gateway.example/v1",
]


def found(model: str, base_url: str | None) -> list[KnownProfile]:
    last, address = profiles._last_part(model), profiles._address(base_url)
    return [entry for entry in ENTRIES if entry.matches(last, address)]


def is_automatic(entry: KnownProfile) -> bool:
    return bool(entry.hosts or entry.ports or entry.models)


def departures(profile: ProviderProfile) -> dict[str, Any]:
    return profile.model_dump(exclude_defaults=True)


class TestTheData:
    @pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
    def test_an_entry_is_a_profile_that_departs_from_the_defaults_where_it_says_so(
        self, entry: KnownProfile
    ) -> None:
        profile = ProviderProfile.model_validate(dict(entry.fields))
        assert sorted(departures(profile)) == sorted(entry.fields)
        assert entry.title

    def test_names_are_unique_and_can_be_given(self) -> None:
        names = re.findall(r"^\[\w+\.([\w-]+)\]$", DATA.read_text("utf-8"), re.MULTILINE)
        assert names
        assert sorted(names) == sorted(load_profiles())
        assert all(re.fullmatch(r"[a-z][a-z0-9-]*", name) for name in names)

    def test_kinds_say_how_an_entry_is_found(self) -> None:
        for entry in ENTRIES:
            at, of = bool(entry.hosts or entry.ports), bool(entry.models)
            allowed = {
                "server": {(True, False), (False, False)},
                "family": {(False, True)},
                "hosted": {(True, True)},
                "trait": {(False, False)},
            }
            assert (at, of) in allowed[entry.kind], entry.name
        assert [KINDS.index(entry.kind) for entry in ENTRIES] == sorted(
            KINDS.index(entry.kind) for entry in ENTRIES
        )

    def test_every_field_has_a_source_beside_or_above_it(self) -> None:
        fields = sources = 0
        table, comments = "", ""
        for line in DATA.read_text("utf-8").splitlines():
            if line.startswith("["):
                table, comments = line, ""
            elif line.startswith("#"):
                comments += line + "\n"
            elif re.match(r"\w+ =", line) and table.endswith(".profile]"):
                urls = re.findall(r"https?://[^\s,;)]+", comments + line.partition("#")[2])
                assert urls, f"{table} {line}"
                assert all("." in (urlsplit(url).hostname or "") for url in urls)
                fields, sources, comments = fields + 1, sources + len(urls), ""
            else:
                comments = ""
        assert fields == sum(len(entry.fields) for entry in ENTRIES)
        assert sources > fields

    def test_every_family_that_is_asked_for_is_there(self) -> None:
        wanted = {
            "openai",
            "openai-o",
            "openai-gpt-5",
            "deepseek",
            "deepseek-r1",
            "dashscope",
            "qwen3",
            "kimi",
            "kimi-k2",
            "glm",
            "mistral",
            "vllm",
            "sglang",
            "ollama",
            "llamacpp",
            "lmstudio",
            "openrouter",
        }
        assert wanted <= load_profiles().keys()

    def test_what_is_found_changes_no_way_to_call_tools_or_to_read_replies(self) -> None:
        touchy = {"native_tools", "text_dialects", "grammar", "think_tags", "starts_thinking"}
        touchy |= {"parallel_calls", "request_parameters"}
        for entry in ENTRIES:
            if is_automatic(entry):
                assert not touchy & entry.fields.keys(), entry.name

    def test_windows_are_set_at_a_providers_own_address_only(self) -> None:
        assert {entry.kind for entry in ENTRIES if "context_window" in entry.fields} == {"hosted"}

    def test_it_cannot_be_changed(self) -> None:
        with pytest.raises(TypeError):
            load_profiles()["mine"] = ENTRIES[0]  # type: ignore[index]
        with pytest.raises(TypeError):
            ENTRIES[0].fields["images"] = False  # type: ignore[index]


MATCHES: list[tuple[str, str | None, str]] = [
    # OpenAI and Azure
    ("gpt-4o-mini", None, "openai openai-gpt-4"),
    ("gpt-4o-mini", "", "openai openai-gpt-4"),
    ("gpt-4o", OPENAI, "openai openai-gpt-4"),
    ("gpt-4.1-nano", "https://eu.api.openai.com/v1", "openai openai-gpt-4"),
    ("gpt-4o-2024-05-13", None, "openai"),
    ("gpt-4o-audio-preview", None, "openai"),
    ("gpt-3.5-turbo", None, "openai"),
    ("ft:gpt-4o-mini-2024-07-18:org::x1", None, "openai openai-gpt-4"),
    ("gpt-5", None, "openai openai-gpt-5"),
    ("gpt-5-mini-2025-08-07", OPENAI, "openai openai-gpt-5"),
    ("gpt-5-chat-latest", None, "openai"),
    ("gpt-5.2", None, "openai openai-gpt-5-next"),
    ("gpt-5.1-codex-max", None, "openai openai-gpt-5-next"),
    ("gpt-5.2-chat-latest", None, "openai"),
    ("o1", None, "openai openai-o"),
    ("o1-2024-12-17", None, "openai openai-o"),
    ("o1-mini-2024-09-12", None, "openai openai-o1-early"),
    ("o1-preview", None, "openai openai-o1-early"),
    ("o3", None, "openai openai-o"),
    ("O3-Mini", None, "openai openai-o"),
    ("o4-mini", AZURE, "openai-o"),
    ("gpt-5-nano", AZURE, "openai-gpt-5"),
    ("my-deployment", AZURE, ""),
    ("o10-nova", None, "openai"),
    # DeepSeek
    ("deepseek-v4-pro", DEEPSEEK, "deepseek deepseek-v4-pro"),
    ("deepseek-flash", DEEPSEEK, "deepseek deepseek-flash"),
    ("deepseek-v4-flash", "https://api.deepseek.com/v1", "deepseek deepseek-flash"),
    ("deepseek-chat", DEEPSEEK, "deepseek deepseek-chat"),
    ("deepseek-reasoner", DEEPSEEK, "deepseek deepseek-chat"),
    ("deepseek-v4-pro", OWN, ""),
    ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", OWN, "deepseek-r1"),
    ("deepseek/deepseek-r1:free", ROUTER, "openrouter deepseek-r1"),
    # Qwen
    ("qwen-plus", QWEN, "dashscope"),
    ("qwen3-max", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "dashscope qwen3"),
    ("qwen3.5-plus", "https://w1.cn-beijing.maas.aliyuncs.com/compatible-mode/v1", "dashscope qwen3"),
    ("Qwen/Qwen3-32B", OWN, "qwen3"),
    ("qwen/qwen3-32b", ROUTER, "openrouter qwen3"),
    ("accounts/fireworks/models/qwen3-235b-a22b", "https://api.fireworks.ai/inference/v1", "qwen3"),
    ("QwQ-32B", OWN, "qwen3"),
    ("qwen2.5-7b-instruct", OWN, ""),
    # Kimi
    ("kimi-k2.6", KIMI, "kimi kimi-k2 kimi-k2-api"),
    ("kimi-k2-thinking", KIMI_CN, "kimi kimi-k2-thinking kimi-k2-api"),
    ("kimi-k3", KIMI, "kimi kimi-k3-api"),
    ("k3-256k", KIMI_CODE, "kimi kimi-k3-api"),
    ("kimi-for-coding", KIMI_CODE, "kimi kimi-k3-api"),
    ("moonshot-v1-8k", KIMI, "kimi"),
    ("moonshotai/Kimi-K2-Thinking", OWN, "kimi-k2-thinking"),
    ("moonshotai/kimi-k2.5", ROUTER, "openrouter kimi-k2"),
    ("moonshotai/Kimi-K2-Instruct", "https://api.together.xyz/v1", "kimi-k2"),
    # GLM
    ("glm-4.6", ZAI, "glm glm-4-5 glm-4-6-api"),
    ("glm-4.6v", ZAI, "glm glm-4-5"),
    ("glm-5.2", BIGMODEL, "glm glm-4-5"),
    ("zai-org/GLM-4.5-Air", OWN, "glm-4-5"),
    # Mistral
    ("mistral-large-latest", MISTRAL, "mistral-api mistral"),
    ("codestral-latest", MISTRAL, "mistral-api mistral"),
    ("some-fine-tune", MISTRAL, "mistral-api"),
    ("mistralai/Devstral-Small-2-24B-Instruct-2512", OWN, "mistral"),
    ("mistralai/mistral-small-3.2-24b-instruct:free", ROUTER, "openrouter mistral"),
    ("open-mixtral-8x7b", OWN, "mistral"),
    # Servers of one's own
    ("qwen3:8b", OLLAMA, "ollama qwen3"),
    ("mistral:7b", "http://127.0.0.1:11434/v1", "ollama mistral"),
    ("llama3.2", "http://[::1]:11434/v1/", "ollama"),
    ("gpt-oss:120b", "https://ollama.com/v1", "ollama"),
    ("qwen3:8b", "http://ollama.lan:11434/v1", "qwen3"),
    ("openai/gpt-oss-20b", STUDIO, "lmstudio"),
    ("models/Qwen3-4B-Q4_K_M.gguf", "http://localhost:8080/v1", "qwen3"),
    ("C:\\models\\Qwen3-4B.gguf", "http://localhost:8080/v1", "qwen3"),
    # OpenRouter
    ("openai/gpt-4o-mini", ROUTER, "openrouter openai-gpt-4"),
    ("openai/o3:online", ROUTER, "openrouter openai-o"),
    ("openai/gpt-5", "https://OPENROUTER.ai/api/v1", "openrouter openai-gpt-5"),
    ("anthropic/claude-sonnet-4.5", ROUTER, "openrouter"),
    # What nothing is known of
    ("fake", OWN, ""),
    ("fake", "http://127.0.0.1:43211/v1", ""),
    ("m", "http://localhost:5000", ""),
    ("", OWN, ""),
    ("/", OWN, ""),
    ("gpt-5", OWN, ""),
    ("o3", "https://gateway.example/v1", ""),
    ("gpt-4o-mini", "https://notapi.openai.com/v1", ""),
    ("gpt-4o-mini", "https://api.openai.com.example/v1", ""),
    ("gpt-4o-mini", "https://evilapi.openai.com.example", ""),
    ("deepseek-v4-pro", "https://api.deepseek.com.example", ""),
    ("gpt-5", "http://[broken", ""),
    ("gpt-5", "http://127.0.0.1:port/v1", ""),
    ("gpt-5", "no address", ""),
]


class TestFinding:
    def test_there_are_enough_rows(self) -> None:
        assert len(MATCHES) >= 60
        assert {name for _, _, names in MATCHES for name in names.split()} == {
            entry.name for entry in ENTRIES if is_automatic(entry)
        }

    @pytest.mark.parametrize(("model", "base_url", "names"), MATCHES)
    def test_a_model_at_an_address(self, model: str, base_url: str | None, names: str) -> None:
        entries = found(model, base_url)
        assert " ".join(entry.name for entry in entries) == names
        fields: dict[str, Any] = {}
        for entry in entries:
            fields |= entry.fields
        assert find_profile(model, base_url) == ProviderProfile.model_validate(fields)

    def test_no_two_of_a_kind_are_about_the_same(self) -> None:
        patterns = {pattern for entry in ENTRIES for pattern in entry.models + entry.but_not}
        models = {pattern.replace("*", end) for pattern in patterns for end in ("", "-x", ".5", ":8b")}
        models |= {model for model, _, _ in MATCHES}
        for model, base_url in product(sorted(models), ADDRESSES):
            kinds = [entry.kind for entry in found(model, base_url)]
            assert len(kinds) == len(set(kinds)), (model, base_url)

    def test_every_pattern_and_every_address_is_one_that_can_fit(self) -> None:
        for entry in ENTRIES:
            assert all(pattern == pattern.lower() and "/" not in pattern for pattern in entry.models)
            assert all(host == host.lower() and ":" not in host for host in entry.hosts)
            assert all(0 < port < 65536 for port in entry.ports)

    def test_fields_lie_over_each_other(self, monkeypatch: pytest.MonkeyPatch) -> None:
        entries = {
            "s": KnownProfile("s", "server", "S", hosts=("s.example",), fields={"images": False}),
            "f": KnownProfile("f", "family", "F", models=("m",), fields={"context_window": 1000}),
            "h": KnownProfile(
                "h",
                "hosted",
                "H",
                hosts=("s.example",),
                models=("m",),
                fields={"images": True, "context_window": 2000, "stream_usage": False},
            ),
            "t": KnownProfile("t", "trait", "T", fields={"stream_usage": True}),
        }
        monkeypatch.setattr(profiles, "load_profiles", lambda: entries)
        found_profile.cache_clear()
        try:
            assert departures(find_profile("m", "https://s.example")) == {
                "context_window": 2000,
                "stream_usage": False,
            }
            assert departures(find_profile("n", "https://s.example")) == {"images": False}
            assert departures(find_profile("m", "https://x.example")) == {"context_window": 1000}
            assert departures(named_profile("t+h+f+s")) == {"context_window": 2000}
        finally:
            found_profile.cache_clear()

    def test_at_an_address_of_ones_own_next_to_nothing_changes(self) -> None:
        fields = {field for model, _, _ in MATCHES for field in departures(find_profile(model, OWN))}
        assert fields == {"call_ids", "strict_messages", "images"}

    @settings(max_examples=200, deadline=None)
    @given(model=st.text(max_size=30), base_url=st.none() | st.text(max_size=40))
    def test_any_text_is_a_model_and_an_address(self, model: str, base_url: str | None) -> None:
        assert find_profile(model, base_url) == find_profile(model, base_url)

    def test_well_known_departures(self) -> None:
        reasoning = find_profile("o3-mini", None)
        assert "max_completion_tokens" in departures(reasoning).values()
        assert {"temperature", "parallel_tool_calls"} <= set(reasoning.unsupported_parameters)
        assert (reasoning.first_token_timeout or 0) > 60
        assert "parallel_tool_calls" not in find_profile("gpt-5", None).unsupported_parameters
        assert find_profile("gpt-5.2", None).unsupported_parameters == ()
        assert find_profile("deepseek-v4-pro", DEEPSEEK).reasoning_field == "reasoning_content"
        assert not find_profile("deepseek-v4-pro", DEEPSEEK).images
        assert find_profile("deepseek-flash", DEEPSEEK).images
        assert find_profile("mistral-small-latest", MISTRAL).call_ids == "alnum9"
        assert not find_profile("mistral-small-latest", MISTRAL).stream_usage
        assert find_profile("mistral-small-latest", ROUTER).stream_usage
        assert find_profile("openai/o3", ROUTER).reasoning_field == "reasoning"


def row(entry: KnownProfile) -> str:
    """The row of an entry in docs/profiles.md."""
    at = [f"`{host}`" for host in entry.hosts] + [f"port {port} at loopback" for port in entry.ports]
    of = [f"`{pattern}`" for pattern in entry.models]
    but = f" but not {', '.join(f'`{pattern}`' for pattern in entry.but_not)}" if entry.but_not else ""
    ways = " at ".join(part for part in (", ".join(of) + but, ", ".join(at)) if part)
    departs = "; ".join(f"`{name}` = `{json.dumps(value)}`" for name, value in entry.fields.items())
    return f"| `{entry.name}` | {entry.title} | {ways or 'name only'} | {departs or 'nothing'} |"


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_the_page_says_what_the_data_says(entry: KnownProfile) -> None:
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith(f"| `{entry.name}` |")]
    assert rows == [row(entry)]

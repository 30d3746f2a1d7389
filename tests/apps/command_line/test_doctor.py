"""The command `doctor`, and the option `--profile` that takes what it wrote."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.apps.command_line.inside import turnflow
from turnflow.apps.fake_provider import FakeProvider
from turnflow.apps.fake_provider.personality import personality

HOSTILE = "no \x1b]0;evil\x07\x1b[2J\x9b31m\u202e such thing"


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "TURNFLOW_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TURNFLOW_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "160")


@pytest.fixture
def mistral() -> Iterator[FakeProvider]:
    with FakeProvider(personality("mistral")) as provider:
        yield provider


def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def says(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"steps": [*steps, {"reply": {"content": "42"}, "forever": True}]}


def test_it_prints_a_table_and_writes_a_profile(mistral: FakeProvider, tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    code, out, err = turnflow("doctor", "--base-url", mistral.base_url, "--out", str(file))
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["probe", "tried", "found", "evidence", "seconds"]
    rows = {line.split()[0]: line for line in lines[1:] if line.strip()}
    assert "own chunk" not in rows["usage"]
    assert "refused" in rows["usage"]
    assert "alnum9" in rows["call_ids"]
    assert "not known" in rows["reasoning_back"]
    assert "skipped: reasoning is no" in rows["reasoning_back"]
    assert '  call_ids = "alnum9"' in lines
    assert f"--profile {file}" in lines[-1]
    assert json.loads(file.read_text())["call_ids"] == "alnum9"


def test_the_profile_is_used(mistral: FakeProvider, tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    endpoint = ("--base-url", mistral.base_url)
    turnflow("doctor", *endpoint, "--out", str(file))
    refused = len(mistral.violations) + len(mistral.refusals)
    for thread in ("one", "two"):
        code, out, _ = turnflow("run", "Hello.", *endpoint, "--profile", str(file), "--thread", thread)
        assert (code, out) == (0, "42\n")
    assert len(mistral.violations) + len(mistral.refusals) == refused


def test_as_json(mistral: FakeProvider) -> None:
    code, out, err = turnflow("doctor", "--base-url", mistral.base_url, "--json")
    assert (code, err, out.count("\n")) == (0, "", 1)
    printed = json.loads(out)
    assert (printed["model"], printed["base_url"]) == ("mistral-small-latest", mistral.base_url)
    assert printed["requests"] == sum(finding["requests"] for finding in printed["findings"])
    assert printed["profile"]["call_ids"] == "alnum9"
    findings = {finding["probe"]: finding for finding in printed["findings"]}
    assert findings["call_ids"]["found"] == "alnum9"
    assert set(findings["images"]) == {"probe", "tried", "found", "evidence", "seconds", "requests"}


def test_an_endpoint_without_quirks_needs_no_profile() -> None:
    with FakeProvider(says()) as provider:
        _, out, _ = turnflow("doctor", "--base-url", provider.base_url)
    assert "native_tools = false" in out  # it never calls one
    script = says(
        {"when": {"has": "tools"}, "reply": {"tool_calls": [{"id": "c", "name": "add"}]}, "forever": True}
    )
    allow = ["system_position", "consecutive_users", "user_after_tool", "empty_content"]
    with FakeProvider({**script, "strictness": {"allow": allow}}) as provider:
        _, out, _ = turnflow("doctor", "--base-url", provider.base_url)
    assert out.splitlines()[-1] == "The default profile fits."


def test_the_environment_names_endpoint_model_and_key(
    mistral: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", mistral.base_url)
    monkeypatch.setenv("TURNFLOW_MODEL", "other")
    monkeypatch.setenv("MY_KEY", " k ")
    code, out, _ = turnflow("doctor", "--api-key-env", "MY_KEY", "--json")
    assert (code, json.loads(out)["model"]) == (0, "other")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            {"status": 401, "message": "bad key"},
            "401: {url} refuses the key (401: bad key): set OPENAI_API_KEY",
        ),
        (
            {"status": 404, "code": "model_not_found", "message": "no"},
            "there is no model 'm' at {url}; it has: fake-model",
        ),
        ({"status": 404, "message": HOSTILE}, "there is no model 'm' at {url}"),
        ({"status": 500, "message": HOSTILE}, "{url} gives no reply: 500: no ]0;evil[2J31m such thing"),
    ],
)
def test_an_endpoint_that_gives_no_reply(error: dict[str, Any], told: str) -> None:
    with FakeProvider({"steps": [{"error": error, "forever": True}]}) as provider:
        code, out, err = turnflow("doctor", "--base-url", provider.base_url, "-m", "m")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("turnflow: " + told.format(url=provider.base_url))


@pytest.mark.parametrize(
    ("url", "told"),
    [
        (
            "http://127.0.0.1:{port}/v1",
            "cannot be reached: the connection was refused; is the server running?",
        ),
        ("http://no-such-host.invalid/v1", "cannot be reached"),
    ],
)
def test_an_address_where_nothing_is(url: str, told: str) -> None:
    code, out, err = turnflow(
        "doctor", "--base-url", url.format(port=closed_port()), "-m", "m", "--timeout", "10"
    )
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert told in err


def test_a_server_of_another_kind(tmp_path: Path) -> None:
    with FakeProvider(says()) as provider:
        code, _, err = turnflow("doctor", "--base-url", provider.base_url.removesuffix("/v1"), "-m", "m")
    assert code == 1
    assert "404: there is no" in err
    assert "a base URL usually ends in /v1" in err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["doctor"], "give the endpoint with --base-url, or set OPENAI_BASE_URL"),
        (["doctor", "--base-url", "localhost:8000/v1"], "localhost:8000/v1 is no address"),
        (["doctor", "--base-url", "http://a:port/v1"], "--base-url http://a:port/v1 is no address"),
        (["doctor", "--base-url", "http:///v1"], "--base-url http:///v1 is no address: it names no host"),
        (["run", "hi", "--base-url", "http://[::1/v1"], "--base-url http://[::1/v1 is no address"),
        (["doctor", "--base-url", "http://x/v1", "--api-key-env", "NO_SUCH"], "NO_SUCH is not set"),
        (
            ["doctor", "--base-url", "http://x/v1", "--out", "/does/not/exist.json"],
            "there is no folder /does/not",
        ),
        (["doctor", "--base-url", "http://x/v1", "--out", "/tmp"], "does not end in .json"),  # noqa: S108
        (["doctor", "--base-url", "http://x/v1", "--timeout", "0"], "--timeout"),
        (["doctor", "surplus"], "surplus"),
        (
            ["run", "hi", "--model", "m", "--base-url", "http://x/v1", "--profile", "/no/file.json"],
            "/no/file.json",
        ),
        (["run", "hi", "--model", "m", "--base-url", "http://x/v1", "--profile", "no-such"], "no-such"),
        (["run", "hi", "--local", "--profile", "qwen"], "--profile needs a real model"),
        (["run", "hi", "--local", "--profile", ""], "--profile needs a real model"),
        (["doctor", "--base-url", "me:hidden@x/v1"], " x/v1 is no address: it begins with http"),
    ],
)
def test_wrong_use(arguments: list[str], told: str) -> None:
    code, out, err = turnflow(*arguments)
    assert (code, out) == (2, "")
    assert told in err


def test_a_file_that_cannot_be_written_is_told_before_anything_is_asked(
    mistral: FakeProvider, tmp_path: Path
) -> None:
    folder = tmp_path / "folder.json"
    folder.mkdir()
    code, _, err = turnflow("doctor", "--base-url", mistral.base_url, "--out", str(folder))
    assert (code, err.count("\n")) == (2, 1)
    assert "is a folder" in err
    assert mistral.requests == []


@pytest.mark.parametrize(
    ("profile", "told"),
    [
        ("nothere", "no provider profile is named 'nothere'; the names are: openai, "),
        ("nothere", "several go together as 'vllm+qwen3', a file's name ends in .json or .toml\n"),
        ("vllm+", "provider profile 'vllm+' lacks a name; the names are: openai, "),
        ("", "provider profile '' is no name; the names are: openai, "),
        (".", "profile . is a folder; give a file whose name ends in .json or .toml\n"),
        ("/", "profile / is a folder; give a file whose name ends in .json or .toml\n"),
        ("x" * 100_000, f"no provider profile is named '{'x' * 79}; the names are: openai, "),
        ("x" * 100_000 + ".json", "cannot be read: File name too long\n"),
    ],
)
def test_a_profile_that_there_is_not(profile: str, told: str) -> None:
    code, out, err = turnflow("run", "hi", "--model", "m", "--base-url", "http://x/v1", "--profile", profile)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert told in err
    assert len(err) < 1000


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="stands for a disk that is full")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_findings_are_printed_before_the_profile_is_written(
    mistral: FakeProvider, tmp_path: Path, options: list[str]
) -> None:
    full = tmp_path / "full.json"
    full.symlink_to("/dev/full")
    code, out, err = turnflow("doctor", "--base-url", mistral.base_url, "--out", str(full), *options)
    assert code == 2
    assert "alnum9" in out
    assert "Written to" not in out
    assert err == f"turnflow: the profile could not be written to {full}: No space left on device\n"


def test_a_place_where_nothing_can_be_made_is_told_before_anything_is_asked(mistral: FakeProvider) -> None:
    code, out, err = turnflow("doctor", "--base-url", mistral.base_url, "--out", "/proc/x.json")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("turnflow: the profile could not be written to /proc/x.json: ")
    assert mistral.requests == []


def test_looking_whether_a_file_can_be_written_changes_none(tmp_path: Path) -> None:
    kept, new = tmp_path / "kept.json", tmp_path / "new.json"
    kept.write_text("{}")
    for file in (kept, new):
        url = f"http://127.0.0.1:{closed_port()}/v1"
        assert turnflow("doctor", "--base-url", url, "-m", "m", "--out", str(file))[0] == 1
    assert kept.read_text() == "{}"
    assert not new.exists()


@pytest.mark.parametrize("key", ["plain-key-of-mine-99", "sk-abcdefgh12345678"])
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_key_that_an_endpoint_quotes_is_not_shown(
    key: str, options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    refuses_key = {"error": {"status": 401, "message": f"you sent Bearer {key}"}, "forever": True}
    with FakeProvider({"steps": [refuses_key]}) as provider:
        code, out, err = turnflow("doctor", "--base-url", provider.base_url, "-m", "m", *options)
    assert code == 1
    assert key not in out + err
    assert "refuses the key (401: you sent" in err
    late = {"error": {"status": 400, "message": f"no, not with {key}"}, "forever": True}
    with FakeProvider({"steps": [{"reply": {"content": "42"}}, late]}) as provider:
        code, out, err = turnflow("doctor", "--base-url", provider.base_url, "-m", "m", *options)
    assert (code, err) == (0, "")
    assert "not with" in out
    assert key not in out


def test_a_key_that_no_header_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "schlüssel\n2")
    code, _, err = turnflow("doctor", "--base-url", "http://x/v1")
    assert (code, "holds no key" in err) == (2, True)


def test_what_an_endpoint_says_cannot_drive_the_terminal() -> None:
    steps = says({"when": {"has": "tools"}, "error": {"status": 400, "message": HOSTILE}, "forever": True})
    with FakeProvider({**steps, "models": [f"m{HOSTILE}"]}) as provider:
        _, table, _ = turnflow("doctor", "--base-url", provider.base_url)
        _, printed, _ = turnflow("doctor", "--base-url", provider.base_url, "--json")
    assert "no ]0;evil[2J31m such thing" in table
    for text in (table, printed):
        assert not set("\x1b\x07\x9b\u202e") & set(text)
    assert json.loads(printed)["model"] == f"m{HOSTILE}"


def test_a_personality_can_be_played_by_its_name() -> None:
    code, _, err = turnflow("fake-provider", "no-such-thing")
    assert code == 2
    assert "there is no personality 'no-such-thing'; there are: broken_gateway, deepseek" in err

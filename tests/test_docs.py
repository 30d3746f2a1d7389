"""The pages in docs/: they say what there is, their code runs, their links lead somewhere."""

from __future__ import annotations

import dataclasses
import re
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest

import turnflow
from turnflow import ProviderProfile, ToolPolicy, TurnContext, TurnHooks, TurnSettings
from turnflow.apps.fake_provider import FakeProvider
from turnflow.graph.events import EventType
from turnflow.graph.outcome import STATUSES

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
ROOMS = ("graph", "nodes", "apps", "prompts", "turnflow")

_MENTION = re.compile(r"\bdocs/[\w-]+\.md\b")
_FENCE = re.compile(r"^(<!-- not run -->\n)?```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def fields_of(kind: Any) -> list[str]:
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    return list(kind.model_fields)


def mentions() -> Iterator[str]:
    for room in ROOMS:
        for file in (ROOT / room).rglob("*"):
            if file.suffix in {".py", ".md", ".toml"}:
                yield from _MENTION.findall(text_of(file))


def code_blocks() -> list[Any]:
    """Each Python block, and whether it is to be run: a comment right above may say that it is not."""
    return [
        pytest.param(code, not skipped, id=f"{page.relative_to(ROOT)}-{number}")
        for page in PAGES
        for number, (skipped, language, code) in enumerate(_FENCE.findall(text_of(page)), start=1)
        if language == "python"
    ]


@cache
def words_in_code() -> set[str]:
    """The words that stand as code in the pages, in blocks or within a line."""
    code = [found for page in PAGES for found in _CODE.findall(text_of(page))]
    return {word for found in code for word in re.findall(r"\w+", found)}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """A strict provider that answers whatever the pages ask; where it can ask about a fence, it does."""
    question = {"prompt": "Which colour?", "options": ["red", "blue"]}
    asks = {"tool_calls": [{"name": "ask_user", "arguments": {"questions": [question]}}]}
    deletes = {"tool_calls": [{"name": "delete", "arguments": {"path": "draft.txt"}}]}
    steps = [
        {"when": {"last_role": "user", "last_contains": "fence"}, "reply": asks, "forever": True},
        {"when": {"last_role": "user", "last_contains": "draft"}, "reply": deletes, "forever": True},
        {"reply": {"content": "Very well."}, "forever": True},
    ]
    with FakeProvider({"steps": steps}) as provider:
        yield provider.base_url
    # Where tests run in several processes, each has a provider of its own and plays a part of the steps.
    provider.allow("steps_left").assert_clean()


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    prose = _FENCE.sub("", text_of(page))
    headings = [heading.replace("`", "").lower() for heading in _HEADING.findall(prose)]
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in headings}


def test_every_page_that_code_mentions_exists() -> None:
    mentioned = set(mentions())
    assert mentioned
    assert sorted(page for page in mentioned if not (ROOT / page).is_file()) == []


def test_the_index_lists_every_page() -> None:
    listed = set(_LINK.findall(text_of(DOCS / "README.md")))
    assert [page.name for page in DOCS.glob("*.md") if page.name not in listed | {"README.md"}] == []


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("settings.md", fields_of(TurnSettings)),
        ("tools.md", fields_of(ToolPolicy)),
        ("context.md", fields_of(TurnContext)),
        ("hooks.md", fields_of(TurnHooks)),
        ("providers.md", fields_of(ProviderProfile)),
        ("outcomes.md", list(STATUSES)),
        ("events.md", list(get_args(EventType))),
    ],
)
def test_a_page_has_a_row_for_everything_it_is_about(page: str, names: list[str]) -> None:
    rows = {line.split("|")[1].strip() for line in text_of(DOCS / page).splitlines() if line.startswith("|")}
    assert [name for name in names if f"`{name}`" not in rows] == []


@pytest.mark.parametrize("name", turnflow.__all__)
def test_each_public_name_stands_in_a_page(name: str) -> None:
    assert name in words_in_code()


@pytest.mark.parametrize(("code", "is_run"), code_blocks())
def test_code_runs(
    code: str, *, is_run: bool, endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = compile(code, "page", "exec")
    if not is_run:
        return
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint)
    for name in ("OPENAI_API_KEY", "TURNFLOW_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("builtins.input", lambda prompt: "blue")
    try:
        exec(compiled, {"__name__": "page"})  # noqa: S102 - the pages are ours
    finally:
        for thread in threading.enumerate():
            if isinstance(thread, threading.Timer):
                thread.cancel()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in _LINK.findall(_FENCE.sub("", text_of(page))):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []

"""Fixtures for all tests."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from turnflow.apps.fake_provider import FakeProvider
from turnflow.graph.learned import forget_learned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# The same examples each time, so that a change is judged by itself; `make fuzz` draws new ones.
hypothesis.settings.register_profile("repeatable", derandomize="TURNFLOW_FUZZ_EXAMPLES" not in os.environ)
hypothesis.settings.load_profile("repeatable")

SCENARIOS = Path(__file__).parent / "scenarios"


@pytest.fixture(autouse=True)
def _nothing_learned() -> Iterator[None]:
    """What a provider taught in one test is not known in the next, which may get its port."""
    yield
    forget_learned()


@pytest.fixture
def fake_provider() -> Iterator[Callable[..., FakeProvider]]:
    """Starts fake providers: `fake_provider(script)`, a dict or the name of a file in tests/scenarios.

    At the end all are stopped and must be clean, except for what a test said with `provider.allow(...)`.
    """
    started: list[FakeProvider] = []

    def start(script: dict[str, Any] | str, *, strict: bool | None = None) -> FakeProvider:
        source = SCENARIOS / f"{script}.yaml" if isinstance(script, str) else script
        provider = FakeProvider(source, strict=strict)
        provider.start()
        started.append(provider)
        return provider

    yield start
    for provider in started:
        provider.stop()
    for provider in started:
        provider.assert_clean()

"""LangGraph's own conformance suite, over a file and over memory."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import ALL_CAPABILITIES

from turnflow.graph.saver import TurnSaver, open_saver


@pytest.mark.parametrize("name", ["file", "memory"])
async def test_saver_conforms(name: str, tmp_path: Path) -> None:
    files = (tmp_path / f"{number}.db" for number in range(100))

    @checkpointer_test(name=f"TurnSaver-{name}")
    async def fresh_saver() -> AsyncIterator[TurnSaver]:
        async with open_saver(next(files) if name == "file" else ":memory:") as saver:
            yield saver

    report = await validate(fresh_saver)

    failures = [failure for result in report.results.values() for failure in result.failures]
    assert not failures
    assert report.passed_all()
    assert all(report.results[capability.value].tests_passed for capability in ALL_CAPABILITIES)

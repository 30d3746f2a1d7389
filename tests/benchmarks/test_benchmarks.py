"""The benchmark runs the turns that it says, and shows each variant; nothing here looks at a time."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

pytest.importorskip("langchain")
pytest.importorskip("pydantic_ai")
pytest.importorskip("agents")

from tests.benchmarks.__main__ import main
from tests.benchmarks.cases import CASES, STORES, Group
from tests.benchmarks.runner import check, measure
from tests.benchmarks.savers import Savers
from tests.benchmarks.variants import BASELINE, Seen, Variant, langgraph_variants

ON_LANGGRAPH = [
    "turnflow invoke",
    "turnflow run_turn",
    "create_agent",
    "create_agent + 4 middleware",
    "StateGraph of two nodes",
]
ELSEWHERE = ["pydantic-ai", "openai-agents"]


@pytest.mark.parametrize("store", ["none", "normal", "full+async"])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_each_variant_runs_the_turn_and_has_a_row(mode: str, store: str) -> None:
    group = Group("sync" if mode == "sync" else "async", CASES["1x10"], STORES[store])
    rows = measure(group, 2)
    has_others = (mode, store) == ("async", "none")
    assert [row.variant for row in rows] == ON_LANGGRAPH + (ELSEWHERE if has_others else [])
    for row in rows:
        assert row.reps == 2
        assert 0 < row.p10 <= row.median <= row.p90
        assert (row.ratio == 1) == (row.variant == BASELINE)
        assert (row.footprint is None) == (store == "none")


def test_a_turn_leaves_what_its_graph_says() -> None:
    rows = {row.variant: row for row in measure(Group("sync", CASES["10x1"], STORES["normal"]), 1)}
    plain = rows["StateGraph of two nodes"].footprint
    assert plain is not None
    assert plain.supersteps == 21  # eleven requests, ten rounds of tools
    assert plain.checkpoints == plain.supersteps + 2  # the input, and the state before the first step
    assert all(row.footprint and row.footprint.stored_bytes > 10_000 for row in rows.values())


@pytest.mark.parametrize("case", ["0x1", "1x1", "10x1", "1x10"])
def test_a_variant_that_runs_another_turn_is_refused(case: str, tmp_path: Path) -> None:
    group = Group("sync", CASES[case], STORES["none"])
    with asyncio.Runner() as loop, Savers(group, tmp_path, loop) as savers:
        for variant in langgraph_variants(group, savers):
            check(variant, variant.run("t"), group)
    more = Seen(group.case.results + 1, "done")
    mute = Seen(group.case.results, "")
    for wrong in (Variant("more", _nothing, lambda _: more), Variant("mute", _nothing, lambda _: mute)):
        with pytest.raises(ValueError, match="another turn"):
            check(wrong, wrong.run("t"), group)


def _nothing(thread_id: str) -> None:
    return None


def run(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    main(["--cases", "0x1,1x1", "--savers", "none,normal", "--only", "sync", "--reps", "1", *options])
    return capsys.readouterr().out


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def test_tables(capsys: pytest.CaptureFixture[str]) -> None:
    printed = run(capsys)
    lines = [line for line in printed.splitlines() if line.startswith("|")]
    headers = [cells(line) for line in lines if "variant" in line]
    assert headers[0] == ["case", "variant", "median ms", "p10", "p90", "ratio"]
    assert headers[1] == [*headers[0], "supersteps", "checkpoints", "writes", "KiB"]
    assert [cells(line)[:2] for line in lines if "x1 " in line] == 2 * [
        [case, variant] for case in ("0x1", "1x1") for variant in ON_LANGGRAPH
    ]
    assert "python 3." in printed
    assert "langgraph 1." in printed


def test_summary(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line for line in run(capsys, "--summary").splitlines() if line.startswith("|")]
    assert cells(lines[0]) == ["variant", "0x1", "1x1"]
    assert [cells(line)[0] for line in lines[2 : 2 + len(ON_LANGGRAPH)]] == ON_LANGGRAPH
    assert all(len(cells(line)) == 3 for line in lines)
    assert cells(lines[-1])[0] == ON_LANGGRAPH[-1]
    assert cells(lines[-1])[2].startswith("3 / 5 / 7 / ")


def test_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [json.loads(line) for line in run(capsys, "--json").splitlines()]
    assert len(rows) == 2 * 2 * len(ON_LANGGRAPH)
    assert {row["variant"] for row in rows} == set(ON_LANGGRAPH)
    assert {row["synchronous"] for row in rows} == {None, "NORMAL"}


@pytest.mark.parametrize("options", [["--cases", "2x2"], ["--savers", "postgres"], ["--reps", "0"]])
def test_wrong_options_are_refused(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(options)
    assert options[0] in capsys.readouterr().err

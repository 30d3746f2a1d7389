"""Long results in the saver's file."""

from pathlib import Path

from tests.graph.saver_chat import rows
from turnflow.graph.saver import open_saver


async def test_a_result_is_kept_by_thread_and_handle(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    whole = "汉字 and \x00 more " * 10_000
    with open_saver(path) as saver:
        saver.keep_result("t", "one", "first")
        saver.keep_result("t", "one", whole)
        await saver.akeep_result("t", "two", "second")
        await saver.akeep_result("other", "one", "another's")
        with open_saver(path) as other:
            assert other.find_result("t", "one") == whole
        assert await saver.afind_result("t", "two") == "second"
        assert await saver.afind_result("other", "one") == "another's"
        assert saver.find_result("t", "three") is None
        assert await saver.afind_result("nobody", "one") is None
        assert rows(path, "turnflow_results") == 3

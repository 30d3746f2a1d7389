"""The checks themselves: what they find, and what they let pass."""

from __future__ import annotations

import base64
import io
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError
from nbformat import v4
from PIL import Image, ImageDraw

from tests.notebooks.execution import cleaned, executed, read, write
from tests.notebooks.outputs import differences, faults, said


def notebook(*sources: str, tags: tuple[str, ...] = ()) -> Any:
    cells = [v4.new_code_cell(source, metadata={"tags": list(tags)}) for source in sources]  # type: ignore[no-untyped-call]
    return v4.new_notebook(cells=cells)  # type: ignore[no-untyped-call]


def printed(text: str, *, name: str = "stdout", count: int = 1, tags: tuple[str, ...] = ()) -> Any:
    made = notebook("print()", tags=tags)
    made.cells[0].execution_count = count
    made.cells[0].outputs = [v4.new_output("stream", name=name, text=text)]  # type: ignore[no-untyped-call]
    return made


def faults_of(made: Any, folder: Path) -> list[str]:
    path = folder / "made.ipynb"
    nbformat.write(made, path)  # type: ignore[no-untyped-call]
    return faults(path, made)


def test_a_run_is_of_this_interpreter_without_a_configured_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    ask = "import os, sys; print(sys.executable, os.environ.get('OPENAI_API_KEY'))"
    fresh = executed(notebook(ask, "21 * 2"))
    assert said(fresh.cells[0]) == [("stdout", f"{sys.executable} None\n")]
    assert said(fresh.cells[1]) == [("text/plain", "42")]
    assert [cell.execution_count for cell in fresh.cells] == [1, 2]


def test_a_cell_that_fails_is_shown_with_its_source_and_traceback() -> None:
    with pytest.raises(CellExecutionError, match=r"(?s)number = 1 / 0.*ZeroDivisionError"):
        executed(notebook("number = 1 / 0"))


def test_files_left_behind_are_named() -> None:
    with pytest.raises(AssertionError, match=r"leaves files .*\['left.txt'\]"):
        executed(notebook("_ = open('left.txt', 'w').close()"))


def test_a_stored_output_that_is_no_longer_true_is_found() -> None:
    (difference,) = differences(printed("It is 41."), printed("It is 42."))
    assert "It is 41." in difference
    assert "It is 42." in difference
    assert differences(printed("It is 42."), printed("It is 42.")) == []
    assert differences(printed("It is 42."), printed("It is 42.", name="stderr"))


def test_times_do_not_count() -> None:
    assert differences(printed("done (0.25 s)"), printed("done (12 ms)")) == []


def test_a_cell_that_varies_only_has_to_say_something() -> None:
    stored = printed("A toy's answer.", tags=("varies",))
    assert differences(stored, printed("Another one.")) == []
    assert differences(stored, notebook("print()"))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (f"{Path.home()}/threads", "names the home folder"),
        ("/tmp/tmpab12/threads.sqlite", "names a temporary folder"),  # noqa: S108 - not used
        ("Traceback (most recent call last):", "has an error"),
        ("Looking in https://pypi.org/simple", "names a host on the internet"),
    ],
)
def test_what_an_output_must_not_say_is_found(text: str, fault: str, tmp_path: Path) -> None:
    assert faults_of(printed("It is 42."), tmp_path) == []
    made = printed(text)
    assert faults_of(made, tmp_path) == [f"cell {made.cells[0].id} {fault}"]


def test_size_and_order_are_checked(tmp_path: Path) -> None:
    assert faults_of(printed("x" * 200_000), tmp_path)
    assert faults_of(printed("It is 42.", count=2), tmp_path)


def test_what_is_stored_keeps_tags_and_drops_the_rest(tmp_path: Path) -> None:
    made = printed("It is 42.", tags=("varies",))
    made.metadata["kernelspec"] = {"name": "my-venv", "display_name": "mine"}
    made.cells[0].metadata["execution"] = {"iopub.status.busy": "2030-01-01T00:00:00Z"}
    write(made, tmp_path / "made.ipynb")
    stored = read(tmp_path / "made.ipynb")
    assert stored == cleaned(made)
    assert stored.cells[0].metadata == {"tags": ["varies"]}
    assert stored.metadata["kernelspec"]["name"] == "python3"
    assert stored.cells[0].outputs == made.cells[0].outputs


def drawn(*heights: int, width: int = 400, line: int = 4) -> Any:
    """A notebook with a picture of columns."""
    picture = Image.new("RGB", (width, 200), "white")
    for place, height in enumerate(heights):
        left = 20 + place * 60
        ImageDraw.Draw(picture).rectangle((left, 190 - height, left + 40, 190), "navy", "black", line)
    file = io.BytesIO()
    picture.save(file, "png")
    made = notebook("plot()")
    data = {"image/png": base64.b64encode(file.getvalue()).decode(), "text/plain": "<Figure>"}
    made.cells[0].outputs = [v4.new_output("display_data", data=data)]  # type: ignore[no-untyped-call]
    return made


def test_a_picture_that_shows_something_else_is_found() -> None:
    stored = drawn(40, 80, 120)
    assert differences(stored, drawn(40, 80, 120)) == []
    assert differences(stored, drawn(40, 80, 120, line=3)) == []  # drawn a little otherwise
    for other in (drawn(40, 80), drawn(120, 80, 40), drawn(40, 80, 160), drawn(40, 80, 120, width=450)):
        (difference,) = differences(stored, other)
        assert "the picture is another one now" in difference


def test_a_picture_in_a_cell_that_varies_may_show_anything() -> None:
    stored, fresh = drawn(40), drawn(120)
    stored.cells[0].metadata["tags"] = ["varies"]
    assert differences(stored, fresh) == []

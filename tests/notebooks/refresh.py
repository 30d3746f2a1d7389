"""Runs the notebooks and stores what they give: `python -m tests.notebooks.refresh [NAME …]`."""

from __future__ import annotations

import sys

from tests.notebooks.execution import NOTEBOOKS, executed, read, write


def main(names: list[str]) -> None:
    """Refresh the notebooks with these names (without `.ipynb`), or all."""
    for path in [NOTEBOOKS / f"{name}.ipynb" for name in names] or sorted(NOTEBOOKS.glob("*.ipynb")):
        write(executed(read(path)), path)
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])

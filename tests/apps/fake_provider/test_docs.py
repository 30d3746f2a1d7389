"""docs/fake-provider.md names everything that a script can say."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from turnflow.apps.fake_provider import script

PAGE = (Path(__file__).parents[3] / "docs" / "fake-provider.md").read_text(encoding="utf-8")
MODELS = [
    model for model in vars(script).values() if isinstance(model, type) and issubclass(model, BaseModel)
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_field_is_documented(model: type[BaseModel]) -> None:
    assert [name for name in model.model_fields if name not in PAGE] == []


def test_every_rule_wording_style_and_fault_is_documented() -> None:
    kinds = (script.Rule, script.PickyRule, script.Wording, script.CallStyle, script.FaultKind)
    words = [word for kind in kinds for word in get_args(kind)]
    assert [word for word in words if f"`{word}`" not in PAGE] == []

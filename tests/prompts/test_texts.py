"""The texts: the same in every language, with the same fields."""

from __future__ import annotations

import string
import tomllib
from typing import Any

import pytest

from tests.test_packaging import ROOT
from turnflow.prompts import Prompts

LANGUAGES = ("en", "zh")


def texts(language: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / "prompts" / language / "texts.toml").read_text("utf-8"))


def fields(text: str) -> list[str]:
    return sorted({name for _, name, _, _ in string.Formatter().parse(text) if name is not None})


def test_every_language_has_the_same_texts_with_the_same_fields() -> None:
    english, chinese = (
        {
            (section, key): fields(text)
            for section, found in texts(language).items()
            if section != "version"
            for key, text in found.items()
        }
        for language in LANGUAGES
    )
    assert english == chinese
    assert texts("en")["version"] == texts("zh")["version"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_the_same_behaviours(language: str) -> None:
    prompts = Prompts(language)
    assert prompts.behaviours() == Prompts("en").behaviours()
    for name in prompts.behaviours():
        assert prompts.behaviour(name).text


def test_an_unknown_behaviour_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match="behaviour 'poet' does not exist; there are: chat"):
        Prompts("en").behaviour("poet")


def test_fields_are_filled_in_as_they_are() -> None:
    text = Prompts("en").text("result", "failed", type="T", message="{not} a {field!r} %s {0}")
    assert text == "The tool failed with T: {not} a {field!r} %s {0}"

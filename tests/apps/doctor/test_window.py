"""Hints about the window, as servers give them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.apps.doctor.endpoints import doctor_of, says

OLLAMA = {"models": [{"name": "m:latest"}, {"name": "m", "model": "m", "context_length": 8192}]}


def listing(**fields: Any) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": "other", "max_model_len": 999}, {"id": "m", **fields}]}


@pytest.mark.parametrize(
    ("pages", "window", "told"),
    [
        ({"/v1/models": listing(max_model_len=32768)}, 32768, "max_model_len in /models"),
        ({"/v1/models": listing(context_length=131072)}, 131072, "context_length in /models"),
        ({"/v1/models": listing(top_provider={"context_length": 65536})}, 65536, "context_length in /models"),
        ({"/v1/models": {"data": [{"id": "x.gguf", "meta": {"n_ctx": 4096}}]}}, 4096, "n_ctx in /models"),
        ({"/props": {"default_generation_settings": {"n_ctx": 2048}}}, 2048, "n_ctx in /props"),
        ({"/api/ps": OLLAMA}, 8192, "context_length in /api/ps"),
        ({"/api/show": {"parameters": 'stop "x"\nnum_ctx   16384'}}, 16384, "num_ctx in /api/show"),
        (
            {"/api/v0/models/m": {"id": "m", "max_context_length": 9999, "loaded_context_length": 4096}},
            4096,
            "loaded_context_length in /api/v0/models/m",
        ),
    ],
)
def test_a_server_tells_its_window(pages: dict[str, Any], window: int, told: str) -> None:
    examination = doctor_of(lambda _: says(), pages)
    assert examination.findings["window"].value == window
    assert examination.findings["window"].evidence == told
    assert examination.profile.context_window == window


@pytest.mark.parametrize(
    "pages",
    [
        {"/v1/models": listing(max_model_len="32768")},
        {"/v1/models": listing(max_model_len=True)},
        {"/v1/models": listing(max_model_len=0)},
        {"/v1/models": listing(max_model_len=10**30)},
        {"/v1/models": {"data": [{"id": "m", "meta": {"n_ctx_train": 32768}}]}},  # not what is served
        {"/api/show": {"model_info": {"llama.context_length": 131072}}},
        {
            "/v1/models": [3, None, {"id": ["m"]}],
            "/props": [],
            "/api/ps": {"models": {"m": 1}},
            "/api/show": 3,
        },
        {},
    ],
)
def test_what_is_no_hint(pages: dict[str, Any]) -> None:
    examination = doctor_of(lambda _: says(), pages)
    assert examination.findings["window"].value is None
    assert examination.profile.context_window is None

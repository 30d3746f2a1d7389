"""The doctor on a real server: llama.cpp with the embedded model."""

from __future__ import annotations

import asyncio

import pytest

from turnflow.apps.doctor import DoctorError, examine
from turnflow.apps.local_model import LocalModelServer

FIRST = {"streaming": True, "stream_end": "complete", "reasoning": False, "window": 2048}
LATER = {"usage": "own_chunk", "system_role": True, "images": False, "json_schema": True, "grammar": True}

NO_TIME = ("no end within", "the time was over", "skipped")
"""How evidence begins where a busy machine left a probe no time: seconds elsewhere."""


@pytest.mark.local_model
@pytest.mark.timeout(240)
def test_the_embedded_model() -> None:
    with LocalModelServer(context_tokens=2048) as server:
        examination = asyncio.run(examine(server.base_url, api_key=server.api_key))
    findings = examination.findings
    assert examination.seconds < 65
    assert {name: findings[name].value for name in FIRST} == FIRST
    reached = [name for name in LATER if not findings[name].evidence.startswith(NO_TIME)]
    assert {name: findings[name].value for name in reached} == {name: LATER[name] for name in reached}
    assert examination.profile.context_window == 2048


@pytest.mark.local_model
def test_its_key_is_asked_for() -> None:
    with (
        LocalModelServer() as server,
        pytest.raises(DoctorError, match=r"^401: .* refuses the key.*OPENAI_API_KEY"),
    ):
        asyncio.run(examine(server.base_url))

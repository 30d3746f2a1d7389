from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from turnflow.apps.example_tools import now


@pytest.mark.parametrize("name", ["Asia/Shanghai", "asia/shanghai", " Asia/Shanghai "])
def test_it_tells_the_time_of_a_zone(name: str) -> None:
    text, _, rest = now.invoke({"timezone": name}).partition(" ")
    told = datetime.fromisoformat(text)
    assert told.utcoffset() == timedelta(hours=8)
    assert abs(told - datetime.now(UTC)) < timedelta(minutes=1)
    assert rest == f"({told:%A}, Asia/Shanghai)"


@pytest.mark.parametrize("arguments", [{}, {"timezone": "utc"}])
def test_utc_is_the_default(arguments: dict[str, str]) -> None:
    told = now.invoke(arguments)
    assert "+00:00" in told
    assert told.endswith(", UTC)")


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("Berlin", "Europe/Berlin"),
        ("New York", "America/New_York"),
        ("Asia/Shanghay", "Asia/Shanghai"),
        ("Europe/Pariss", "Europe/Paris"),
    ],
)
def test_an_unknown_zone_names_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(ValueError, match=f"no time zone is named '{name}'; the nearest are: .*{nearest}"):
        now.invoke({"timezone": name})


@pytest.mark.parametrize(
    "name", ["", "/etc/passwd", "../../etc/passwd", "Europe", "\0", "x" * 5000, "\ud800"]
)
def test_what_is_no_zone_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no time zone is named"):
        now.invoke({"timezone": name})

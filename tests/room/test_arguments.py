"""What callers may give as a time-out."""

from __future__ import annotations

import pytest

from curb_client.errors import InvalidTimeoutError
from curb_client.protocol.json_text import encode_json
from curb_client.room.arguments import NO_PAYLOAD, check_timeout


@pytest.mark.parametrize(("given", "seconds"), [(None, 10.0), (0, 0.0), (3, 3.0), (0.25, 0.25), (86_400, 86_400.0)])
def test_a_timeout(given: float | None, seconds: float) -> None:
    checked = check_timeout(given, default=10)
    assert checked == seconds
    assert checked is not True


@pytest.mark.parametrize("given", [-0.001, float("nan"), float("inf"), float("-inf"), 86_400.1, True, "5", [1]])
def test_no_timeout(given: object) -> None:
    with pytest.raises(InvalidTimeoutError, match=r"^timeout (is|must be)"):
        check_timeout(given, default=10)  # type: ignore[arg-type]


def test_no_payload_is_an_empty_object_that_nobody_can_fill() -> None:
    assert encode_json(NO_PAYLOAD) == "{}"
    with pytest.raises(TypeError):
        NO_PAYLOAD["key"] = 1  # type: ignore[index]

"""One list of scenarios, played by the clients of both languages."""

import pytest

pytest.register_assert_rewrite(*(f"tests.parity.{name}" for name in ("apps", "scene", "scenarios", "comings")))

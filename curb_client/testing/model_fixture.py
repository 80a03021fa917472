"""The fixture ``curb_model``: a scripted model for the agent under test."""

from __future__ import annotations

from collections.abc import Iterator

from curb_client.model import ModelEndpoint, ModelScript

__all__ = ["scripted_model"]


def scripted_model() -> Iterator[ModelEndpoint]:
    """An endpoint with an empty script, which the test fills; at its end every request must have been scripted."""
    with ModelEndpoint(ModelScript()) as endpoint:
        yield endpoint
        endpoint.check()

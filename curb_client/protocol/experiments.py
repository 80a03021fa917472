"""Which variant of each experiment a call gets (host protocol, Shapes: ``experiments``)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, TypeAlias

from pydantic import ValidationError

from curb_client.errors import UsageError
from curb_client.protocol.scalars import AbsentOr, Count, NonEmpty
from curb_client.protocol.types import HostModel, issues_of

__all__ = ["ExperimentDefinition", "ExperimentDefinitions", "assign_experiments"]


class ExperimentDefinition(HostModel):
    """One of the ``experiments`` in a bundle's manifest.

    Attributes:
        variants: variant name to weight, a whole number; a variant of weight 0 is only ever picked by ``from_client``.
        from_client: the key of the client context whose value picks a variant, if it names one.
    """

    variants: dict[str, Count]
    from_client: AbsentOr[NonEmpty] = None


ExperimentDefinitions: TypeAlias = Mapping[str, ExperimentDefinition | Mapping[str, Any]]
"""By experiment name; a plain mapping has the wire's names, ``{"variants": {…}, "fromClient": …}``."""


def assign_experiments(
    definitions: ExperimentDefinitions, session_id: str, client_context: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Experiment name to variant name: the same for the same call, wherever it is worked out.

    Raises:
        UsageError: a definition that does not fit or whose weights are all 0, or a name that UTF-8 cannot carry.
    """
    context = client_context or {}
    return {
        name: _variant(name, _checked(name, definition), session_id, context)
        for name, definition in definitions.items()
    }


def _checked(name: str, definition: ExperimentDefinition | Mapping[str, Any]) -> ExperimentDefinition:
    if isinstance(definition, ExperimentDefinition):
        checked = definition
    else:
        try:
            checked = ExperimentDefinition.from_wire(dict(definition))
        except ValidationError as error:
            issue = issues_of(error, definition)[0]
            where = ".".join(map(str, issue.path))
            raise UsageError(f"experiment {name!r:.80}: {where}: {issue.message}") from None
    if not sum(checked.variants.values()):
        raise UsageError(f"experiment {name!r:.80} has no variant with a weight over 0; give it one")
    return checked


def _variant(name: str, definition: ExperimentDefinition, session_id: str, context: Mapping[str, str]) -> str:
    variants = definition.variants
    chosen = None if definition.from_client is None else context.get(definition.from_client)
    if chosen in variants:
        return chosen
    try:
        digest = hashlib.sha256(f"{session_id}:{name}".encode()).digest()
        # JavaScript sorts texts by their UTF-16 units, Python by code points; they differ beyond U+FFFF.
        by_name = sorted(variants, key=lambda variant: variant.encode("utf-16-be"))
    except UnicodeEncodeError:
        raise UsageError(f"experiment {name!r:.80}: a lone surrogate in a name; remove it") from None
    left = int.from_bytes(digest[:8], "big") % sum(variants.values())
    for variant in by_name:
        if variants[variant] > left:
            return variant
        left -= variants[variant]
    raise AssertionError("what is left is smaller than the sum of the weights")

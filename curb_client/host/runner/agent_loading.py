"""An agent by the name of its module and attribute: ``module:agent``."""

from __future__ import annotations

import importlib
import inspect

from curb_client.errors import UsageError
from curb_client.host.runner.hosted_agent import HostedAgent

__all__ = ["load_agent"]


def load_agent(name: str) -> HostedAgent:
    """The agent ``name`` says: a :class:`HostedAgent`, or a function of (call, context).

    Raises:
        UsageError: there is no such module or attribute, or it is no agent. What a module that is there raises when
            it is imported is raised as it is.
    """
    module_name, colon, attribute = name.partition(":")
    if not (module_name and colon and attribute):
        raise UsageError(f"{name!r} does not name an agent; give module:attribute, such as my_agent:agent")
    try:
        found = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there, and lacks another
        raise UsageError(f"there is no module {error.name!r} (for the agent {name!r}); is it on PYTHONPATH?") from None
    for step in attribute.split("."):
        if not hasattr(found, step):
            raise UsageError(f"{module_name!r} has no {attribute!r}; name the HostedAgent, or the function, in it")
        found = getattr(found, step)
    if isinstance(found, HostedAgent):
        return found
    if not callable(found) or inspect.isclass(found):
        raise UsageError(f"{name!r} is no HostedAgent and no function of (call, context), but {type(found).__name__}")
    return HostedAgent(found)

"""A small agent core that writes what the model receives from the agent's state."""

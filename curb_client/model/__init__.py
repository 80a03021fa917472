"""What the model receives: build it, record it, read it, compare it."""

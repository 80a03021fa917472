"""What livekit-server does, as a record made with the Python SDK, and the embedded server measured against it."""

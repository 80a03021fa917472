"""A model that answers as scripted, behind OpenAI's interface."""

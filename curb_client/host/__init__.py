"""The host protocol (HTTP) from both ends: RunnerClient for hosts, Runner for Python agents."""

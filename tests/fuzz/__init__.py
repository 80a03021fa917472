"""Every decoder of what a peer sends, fed with whatever a fuzzer thinks of.

``python -m tests.fuzz`` runs all targets, each in a process of its own; ``make fuzz`` does it for a minute each.
"""

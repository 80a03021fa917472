"""Recordings shown to people: in a terminal, and as a page."""

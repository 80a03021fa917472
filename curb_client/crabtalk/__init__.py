"""A client for CrabTalk daemons, and a gateway that brings one into a room."""

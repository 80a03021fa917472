"""Whether the server that answers at an address is LiveKit, and knows a key."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Literal, NamedTuple

__all__ = ["Answer", "ask_for_rooms"]

ANSWER_WITHIN = 2.0


class Answer(NamedTuple):
    """Who answers at an address, and how it shows."""

    kind: Literal["ready", "not yet", "nobody", "refused", "stranger"]
    detail: str


def ask_for_rooms(url: str, token: str) -> Answer:
    """Finds out, within a few seconds, whether a LiveKit server at ``url`` is ready and knows the token's key."""
    base = "http" + url.removeprefix("ws")
    is_local = urllib.parse.urlsplit(base).hostname in ("127.0.0.1", "localhost", "::1")
    opener = urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if is_local else []))
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{base}/twirp/livekit.RoomService/ListRooms", b"{}", headers)
    try:
        with opener.open(request, timeout=ANSWER_WITHIN) as response:
            reply = json.loads(response.read())
        if not (isinstance(reply, dict) and "rooms" in reply):
            return Answer("stranger", "it answers a request for its rooms with something else")
        with opener.open(base, timeout=ANSWER_WITHIN):
            return Answer("ready", "it knows the key")
    except urllib.error.HTTPError as error:
        with error:
            return _judge(error.code, error.read(300).decode(errors="replace").strip())
    except (urllib.error.URLError, ConnectionError, TimeoutError) as error:
        return Answer("nobody", str(getattr(error, "reason", error)))
    except (http.client.HTTPException, ValueError) as error:
        return Answer("stranger", f"no sensible HTTP answer: {error!r}")


def _judge(status: int, body: str) -> Answer:
    detail = f"status {status}: {body}" if body else f"status {status}"
    if status in (401, 403):
        return Answer("refused", detail)
    if status == 406 or (status >= 500 and status != 501):  # 406 is how livekit-server says that it is not ready
        return Answer("not yet", detail)
    return Answer("stranger", detail)

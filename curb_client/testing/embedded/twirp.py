"""Twirp, the protocol of LiveKit's server API: a POST for each call, in protobuf or JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web
from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message

from curb_client.testing.embedded.context import Context
from curb_client.testing.embedded.joins import Claims, RefusedError, read_claims
from curb_client.testing.embedded.signalling import ANY_ORIGIN, bearer_token

__all__ = ["Method", "Service", "TwirpError"]

PROTOBUF: Final = "application/protobuf"
JSON: Final = "application/json"
_STATUSES: Final = {
    "invalid_argument": 400,
    "malformed": 400,
    "unauthenticated": 401,
    "permission_denied": 403,
    "failed_precondition": 412,
    "not_found": 404,
    "bad_route": 404,
    "unimplemented": 501,
    "resource_exhausted": 429,
}


class TwirpError(Exception):
    """A call that is answered with one of Twirp's error codes and a message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True)
class Method:
    """How a call is done: the type of its request, and a function of the bearer's claims and the request."""

    request: type[Message]
    call: Callable[[Claims, Any], Message]


class Service:
    """A service by its full name, such as ``livekit.RoomService``, and its methods by theirs."""

    def __init__(self, context: Context, name: str, methods: Mapping[str, Method]) -> None:
        self._context = context
        self._name = name
        self._methods = methods

    def add_routes(self, app: web.Application) -> None:
        app.router.add_post(f"/twirp/{self._name}/{{method}}", self._serve)

    async def _serve(self, request: web.Request) -> web.Response:
        is_json = request.content_type == JSON
        try:
            if not is_json and request.content_type != PROTOBUF:
                raise TwirpError("bad_route", f"unexpected Content-Type: {request.content_type!r}")
            claims = read_claims(bearer_token(request), self._context.key)
            reply = self._call(request.match_info["method"], claims, await request.read(), is_json)
        except RefusedError as refused:
            return self._failure(request, "unauthenticated", refused.text)
        except TwirpError as error:
            return self._failure(request, error.code, error.message)
        if not is_json:
            return web.Response(body=reply.SerializeToString(), content_type=PROTOBUF, headers=ANY_ORIGIN)
        text = json_format.MessageToJson(
            reply, preserving_proto_field_name=True, always_print_fields_with_no_presence=True, indent=None
        )
        return web.Response(text=text, content_type=JSON, headers=ANY_ORIGIN)

    def _call(self, name: str, claims: Claims, body: bytes, is_json: bool) -> Message:
        method = self._methods.get(name)
        if method is None:
            known = ", ".join(self._methods)
            raise TwirpError("unimplemented", f"the embedded server has no {self._name}/{name}, only {known}")
        message = method.request()
        try:
            if is_json:
                json_format.Parse(body, message, ignore_unknown_fields=True)
            else:
                message.ParseFromString(body)
        except (DecodeError, json_format.ParseError, UnicodeDecodeError, RecursionError) as error:
            raise TwirpError("malformed", f"the request could not be decoded: {error}") from None
        return method.call(claims, message)

    def _failure(self, request: web.Request, code: str, message: str) -> web.Response:
        self._context.journal.write(f"{request.path} answered with {code}: {message}")
        text = json.dumps({"code": code, "msg": message})
        return web.Response(status=_STATUSES.get(code, 500), text=text, content_type=JSON, headers=ANY_ORIGIN)

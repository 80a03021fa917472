"""Who may join: tokens and join requests, read and checked. No input, no output."""

from __future__ import annotations

import base64
import binascii
import json
import time
import warnings
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any, Final

import jwt
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from google.protobuf.message import DecodeError
from livekit.protocol import models, rtc

__all__ = ["ApiKey", "Claims", "Join", "RefusedError", "read_claims", "read_join", "sign"]

LEEWAY: Final = 60.0
"""Seconds by which clocks may differ."""
MAX_REQUEST_BYTES: Final = 1 << 20
MAX_NAME: Final = 256
"""Bytes of a room's name, an identity or a participant's name."""
MAX_METADATA_BYTES: Final = 512 * 1024
MAX_ATTRIBUTES_BYTES: Final = 64 * 1024
REFRESHED_TOKEN_LASTS: Final = 600.0


class RefusedError(Exception):
    """A request that is answered with an HTTP status and a text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


@dataclass(frozen=True)
class ApiKey:
    """What tokens are signed with."""

    name: str
    secret: str = field(repr=False)


@dataclass(frozen=True)
class Claims:
    """What a token says."""

    identity: str
    name: str
    kind: models.ParticipantInfo.Kind
    metadata: str
    attributes: Mapping[str, str]
    video: Mapping[str, Any]
    """The video grant, as it is in the token."""
    expires: float = 0.0
    """Seconds since 1970; 0 for never."""
    room_config: Mapping[str, Any] = field(default_factory=dict)
    """What the room is to be like where this join makes it, as it is in the token."""

    @property
    def room(self) -> str:
        return _text(self.video, "room")

    def grants(self, action: str) -> bool:
        """Whether the bearer may do what is named like ``roomJoin`` or ``roomList``."""
        return self.video.get(action) is True

    @property
    def permission(self) -> models.ParticipantPermission:
        """What the bearer may do in a room."""
        can_publish = self.video.get("canPublish") is not False
        can_publish_data = self.video.get("canPublishData")
        sources = self.video.get("canPublishSources") or []
        return models.ParticipantPermission(
            can_subscribe=self.video.get("canSubscribe") is not False,
            can_publish=can_publish,
            can_publish_data=can_publish if can_publish_data is None else can_publish_data is True,
            can_publish_sources=[source for source in map(_member, repeat(models.TrackSource), sources) if source],
            can_update_metadata=self.grants("canUpdateOwnMetadata"),
            can_subscribe_metrics=self.grants("canSubscribeMetrics"),
            can_manage_agent_session=self.grants("canManageAgentSession"),
            hidden=self.grants("hidden"),
            recorder=self.grants("recorder"),
            agent=self.grants("agent"),
        )

    def with_permission(self, permission: models.ParticipantPermission) -> Claims:
        """The same, but for what the bearer may do in the room."""
        names = {"can_update_metadata": "canUpdateOwnMetadata"}
        video = dict(self.video)
        for descriptor in permission.DESCRIPTOR.fields:
            value = getattr(permission, descriptor.name)
            if descriptor.name == "can_publish_sources":
                value = [models.TrackSource.Name(source).lower() for source in value]
            video[names.get(descriptor.name, descriptor.json_name)] = value
        return replace(self, video=video)


def read_claims(token: str, key: ApiKey) -> Claims:
    """What a token says that was signed with our key.

    Raises:
        RefusedError: 401, and why.
    """
    if not token:
        raise RefusedError(401, "permissions denied")
    try:
        issuer = jwt.decode(token, options={"verify_signature": False}).get("iss")
    except (jwt.PyJWTError, ValueError):
        raise RefusedError(401, "invalid authorization token") from None
    if issuer != key.name:
        raise RefusedError(401, f"invalid API key: {issuer}")
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The HMAC key is")  # the secret is the user's choice
            body = jwt.decode(
                token,
                key.secret,
                algorithms=["HS256"],
                leeway=LEEWAY,
                options={"verify_iat": False, "verify_aud": False, "verify_sub": False, "verify_jti": False},
            )
    except (jwt.PyJWTError, ValueError) as error:
        raise RefusedError(401, f"invalid token: {error}") from None
    return _claims(body)


def _claims(body: Mapping[str, Any]) -> Claims:
    attributes = body.get("attributes") or {}
    video = body.get("video") or {}
    room_config = body.get("roomConfig") or {}
    expires = body.get("exp")
    if not all(isinstance(each, dict) for each in (attributes, video, room_config)):
        raise RefusedError(401, "invalid token: what should be an object in it is none")
    kind = _member(models.ParticipantInfo.Kind, _text(body, "kind"))
    return Claims(
        identity=_text(body, "sub") or _text(body, "jti"),
        name=_text(body, "name"),
        kind=models.ParticipantInfo.STANDARD if kind is None else kind,
        metadata=_text(body, "metadata"),
        attributes={str(name): str(value) for name, value in attributes.items()},
        video=video,
        expires=float(expires) if isinstance(expires, (int, float)) else 0.0,
        room_config=room_config,
    )


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    return value if isinstance(value, str) else ""


def _member(enumeration: EnumTypeWrapper, name: object) -> Any:
    """The member of one of the protocol's enumerations, named in whatever case; None where there is none."""
    try:
        return enumeration.Value(str(name).upper())
    except ValueError:
        return None


def sign(claims: Claims, key: ApiKey) -> str:
    """A token that says the same, good for ten minutes or as long as the one before it."""
    now = time.time()
    body: dict[str, Any] = {
        "iss": key.name,
        "sub": claims.identity,
        "nbf": int(now),
        "exp": int(max(claims.expires, now + REFRESHED_TOKEN_LASTS)),
        "name": claims.name,
        "kind": models.ParticipantInfo.Kind.Name(claims.kind).lower(),
        "metadata": claims.metadata,
        "attributes": dict(claims.attributes),
        "video": dict(claims.video),
        "roomConfig": dict(claims.room_config),
    }
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The HMAC key is")
        return jwt.encode(body, key.secret, algorithm="HS256")


@dataclass(frozen=True)
class Join:
    """A request to join a room, or to go on in it, that may be granted."""

    claims: Claims
    client: models.ClientInfo
    reconnect: bool
    sid: str
    """Of the participant to go on with; may be empty."""
    offer: rtc.SessionDescription | None
    tracks: tuple[rtc.AddTrackRequest, ...]
    subscribes: bool
    """To every track, unless it says otherwise later."""


def read_join(token: str, query: Mapping[str, str], key: ApiKey, *, wrapped: bool) -> Join:
    """A request to join.

    Args:
        query: the parameters of its URL.
        wrapped: whether it has to bring a ``join_request``, as ``/rtc/v1`` has it.

    Raises:
        RefusedError: with the status that livekit-server answers.
    """
    claims = read_claims(token, key)
    if not claims.grants("roomJoin"):
        raise RefusedError(401, "permissions denied")
    if "join_request" in query:
        request = _unwrapped(query["join_request"])
    elif wrapped:
        raise RefusedError(400, "join_request is required")
    else:
        request = _from_query(query)
    _check_names(claims)
    claims = _with_own_metadata(claims, request)
    has_offer = request.HasField("publisher_offer")
    return Join(
        claims=claims,
        client=request.client_info,
        reconnect=request.reconnect,
        sid=request.participant_sid,
        offer=request.publisher_offer if has_offer else None,
        tracks=tuple(request.add_track_requests),
        subscribes=request.connection_settings.auto_subscribe,
    )


def _check_names(claims: Claims) -> None:
    for what, value in (("identity", claims.identity), ("room name", claims.room)):
        if not value:
            raise RefusedError(400, "identity cannot be empty" if what == "identity" else "no room name")
        if len(value.encode()) > MAX_NAME:
            raise RefusedError(400, f"{what} length exceeds limits: max length {MAX_NAME}")


def _with_own_metadata(claims: Claims, request: rtc.JoinRequest) -> Claims:
    attributes = {name: value for name, value in request.participant_attributes.items() if value}
    if not (request.metadata or request.participant_attributes):
        return claims
    if not claims.grants("canUpdateOwnMetadata"):
        raise RefusedError(401, "permissions denied")
    return replace(claims, metadata=request.metadata or claims.metadata, attributes={**claims.attributes, **attributes})


def _unwrapped(text: str) -> rtc.JoinRequest:
    try:
        wrapped = rtc.WrappedJoinRequest.FromString(_from_base64(text))
        data = wrapped.join_request
        if wrapped.compression == rtc.WrappedJoinRequest.GZIP:
            unzip = zlib.decompressobj(16 + zlib.MAX_WBITS)
            data = unzip.decompress(data, MAX_REQUEST_BYTES + 1)
        if len(data) > MAX_REQUEST_BYTES:
            raise RefusedError(400, "join request too large")
        return rtc.JoinRequest.FromString(data)
    except (binascii.Error, ValueError, zlib.error, DecodeError) as error:
        raise RefusedError(400, f"cannot read the join request: {error}") from None


def _from_base64(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def _from_query(query: Mapping[str, str]) -> rtc.JoinRequest:
    client = models.ClientInfo(
        protocol=_int(query, "protocol"),
        client_protocol=_int(query, "client_protocol"),
        version=query.get("version", ""),
        os=query.get("os", ""),
    )
    client.sdk = _member(models.ClientInfo.SDK, query.get("sdk", "")) or models.ClientInfo.UNKNOWN
    named = [_member(models.ClientInfo.Capability, name.strip()) for name in query.get("capabilities", "").split(",")]
    client.capabilities.extend(capability for capability in named if capability is not None)
    request = rtc.JoinRequest(
        client_info=client,
        reconnect=query.get("reconnect") in ("1", "true"),
        participant_sid=query.get("sid", ""),
        connection_settings=rtc.ConnectionSettings(auto_subscribe=query.get("auto_subscribe", "1") in ("1", "true")),
    )
    if query.get("attributes"):
        request.participant_attributes.update(_attributes(query["attributes"]))
    return request


def _attributes(text: str) -> dict[str, str]:
    try:
        found = json.loads(_from_base64(text))
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: value for name, value in found.items() if isinstance(value, str)}


def _int(query: Mapping[str, str], name: str) -> int:
    value = query.get(name, "")
    return int(value) if value.isascii() and value.isdecimal() and len(value) < 10 else 0

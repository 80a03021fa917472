"""Tokens and join requests."""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import gzip
import json
import time
from typing import Any

import jwt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from livekit.api import AccessToken, VideoGrants
from livekit.protocol import models, rtc

from curb_client.testing import LiveKitAddress
from curb_client.testing.embedded.joins import ApiKey, RefusedError, read_claims, read_join, sign

KEY = ApiKey("key", "s" * 40)
ADDRESS = LiveKitAddress("ws://127.0.0.1:1", KEY.name, KEY.secret)


def token(**changes: Any) -> str:
    body: dict[str, Any] = {
        "iss": KEY.name,
        "sub": "alice",
        "nbf": int(time.time()),
        "exp": int(time.time()) + 60,
        "video": {"roomJoin": True, "room": "a-room"},
    }
    return jwt.encode({**body, **changes}, KEY.secret, algorithm="HS256")


def wrapped(request: rtc.JoinRequest, *, compressed: bool = True) -> str:
    data = request.SerializeToString()
    outer = rtc.WrappedJoinRequest(
        join_request=gzip.compress(data) if compressed else data,
        compression=rtc.WrappedJoinRequest.GZIP if compressed else rtc.WrappedJoinRequest.NONE,
    )
    return base64.urlsafe_b64encode(outer.SerializeToString()).decode()


# Tokens


def test_what_a_token_says() -> None:
    made = ADDRESS.token("alice", "a-room", kind="agent", name="A", metadata="m", attributes={"k": "v"}, hidden=True)
    claims = read_claims(made, KEY)
    assert (claims.identity, claims.room, claims.name, claims.metadata) == ("alice", "a-room", "A", "m")
    assert claims.kind == models.ParticipantInfo.AGENT
    assert claims.attributes == {"k": "v"}
    permission = claims.permission
    assert permission.hidden
    assert permission.can_update_metadata
    assert permission.can_publish_data


def test_what_a_token_leaves_out_is_as_livekit_has_it() -> None:
    permission = read_claims(token(), KEY).permission
    assert (permission.can_publish, permission.can_subscribe, permission.can_publish_data) == (True, True, True)
    assert (permission.can_update_metadata, permission.hidden) == (False, False)
    silent = {"roomJoin": True, "room": "a-room", "canPublish": False}
    assert not read_claims(token(video=silent), KEY).permission.can_publish_data, "as canPublish, where it is left out"
    assert read_claims(token(video={**silent, "canPublishData": True}), KEY).permission.can_publish_data
    sources = {**silent, "canPublish": True, "canPublishSources": ["microphone", "nonsense"]}
    assert list(read_claims(token(video=sources), KEY).permission.can_publish_sources) == [
        models.TrackSource.MICROPHONE
    ]


@pytest.mark.parametrize("kind", ["nonsense", "", None, 7])
def test_an_unknown_kind_is_the_standard_one(kind: object) -> None:
    assert read_claims(token(kind=kind), KEY).kind == models.ParticipantInfo.STANDARD


def refusal(made: str, key: ApiKey = KEY) -> tuple[int, str]:
    with pytest.raises(RefusedError) as caught:
        read_claims(made, key)
    return caught.value.status, caught.value.text


def test_a_token_that_does_not_hold() -> None:
    assert refusal("") == (401, "permissions denied")
    assert refusal("no-token") == (401, "invalid authorization token")
    assert refusal(token(), ApiKey("another", KEY.secret)) == (401, "invalid API key: key")
    assert refusal(token(), ApiKey(KEY.name, "t" * 40)) == (401, "invalid token: Signature verification failed")
    assert refusal(token(iss="")) == (401, "invalid API key: ")
    now = int(time.time())
    assert refusal(token(exp=now - 61)) == (401, "invalid token: Signature has expired")
    assert refusal(token(nbf=now + 90)) == (401, "invalid token: The token is not yet valid (nbf)")
    assert refusal(token(video="yes"))[0] == 401
    assert refusal(token(attributes=["a"]))[0] == 401
    unsigned = jwt.encode({"iss": KEY.name, "video": {"roomAdmin": True}}, "", algorithm="none")
    assert refusal(unsigned)[0] == 401


def test_clocks_may_differ_by_a_minute() -> None:
    now = int(time.time())
    assert read_claims(token(exp=now - 50), KEY).identity == "alice"
    assert read_claims(token(nbf=now + 50, iat=now + 900), KEY).identity == "alice"


def test_a_short_secret_does_not_warn() -> None:
    made = LiveKitAddress("ws://127.0.0.1:1", "devkey", "secret").token("alice", "a-room")
    claims = read_claims(made, ApiKey("devkey", "secret"))
    assert read_claims(sign(claims, ApiKey("devkey", "secret")), ApiKey("devkey", "secret")).identity == "alice"


def test_a_refreshed_token_says_the_same() -> None:
    made = ADDRESS.token("alice", "a-room", kind="agent", attributes={"k": "v"}, hidden=True, can_publish_data=False)
    claims = read_claims(made, KEY)
    again = read_claims(sign(claims, KEY), KEY)
    assert again.permission == claims.permission
    assert (again.identity, again.kind, again.attributes, again.room) == ("alice", claims.kind, {"k": "v"}, "a-room")
    assert again.expires == claims.expires, "no shorter than the one before it"
    assert read_claims(sign(read_claims(token(), KEY), KEY), KEY).expires >= time.time() + 590


def test_a_changed_permission_is_in_the_refreshed_token() -> None:
    claims = read_claims(ADDRESS.token("alice", "a-room"), KEY)
    permission = models.ParticipantPermission(
        can_subscribe=True, can_update_metadata=True, can_publish_sources=[models.TrackSource.CAMERA]
    )
    again = read_claims(sign(claims.with_permission(permission), KEY), KEY)
    assert again.permission == permission
    assert again.grants("roomJoin")


# Join requests


def test_a_wrapped_join_request() -> None:
    offer = rtc.SessionDescription(type="offer", sdp="v=0", id=3)
    request = rtc.JoinRequest(client_info=models.ClientInfo(protocol=16), publisher_offer=offer)
    for compressed in (True, False):
        join = read_join(token(), {"join_request": wrapped(request, compressed=compressed)}, KEY, wrapped=True)
        assert (join.client.protocol, join.reconnect, join.sid) == (16, False, "")
        assert join.offer == offer
    again = rtc.JoinRequest(reconnect=True, participant_sid="PA_1")
    join = read_join(token(), {"join_request": wrapped(again).rstrip("=")}, KEY, wrapped=True)
    assert (join.reconnect, join.sid, join.offer) == (True, "PA_1", None)


def test_a_join_request_in_the_query() -> None:
    query = {
        "protocol": "9",
        "sdk": "js",
        "version": "2.0",
        "reconnect": "1",
        "sid": "PA_1",
        "client_protocol": "no number",
        "capabilities": "CAP_PACKET_TRAILER, NO_SUCH",
    }
    join = read_join(token(), query, KEY, wrapped=False)
    assert (join.client.protocol, join.client.client_protocol, join.client.version) == (9, 0, "2.0")
    assert join.client.sdk == models.ClientInfo.JS
    assert list(join.client.capabilities) == [models.ClientInfo.CAP_PACKET_TRAILER]
    assert (join.reconnect, join.sid) == (True, "PA_1")


def test_a_client_may_bring_its_own_metadata_where_its_token_allows() -> None:
    request = rtc.JoinRequest(metadata="mine", participant_attributes={"a": "1", "k": ""})
    query = {"join_request": wrapped(request)}
    allowed = {"roomJoin": True, "room": "a-room", "canUpdateOwnMetadata": True}
    claims = read_join(token(video=allowed, attributes={"k": "v"}), query, KEY, wrapped=True).claims
    assert (claims.metadata, claims.attributes) == ("mine", {"k": "v", "a": "1"})
    attributes = base64.urlsafe_b64encode(json.dumps({"a": "1", "b": 2}).encode()).decode()
    claims = read_join(token(video=allowed), {"attributes": attributes}, KEY, wrapped=False).claims
    assert claims.attributes == {"a": "1"}
    with pytest.raises(RefusedError) as caught:
        read_join(token(), query, KEY, wrapped=True)
    assert caught.value.status == 401


@pytest.mark.parametrize(
    ("changes", "status", "text"),
    [
        ({"video": {"room": "a-room"}}, 401, "permissions denied"),
        ({"video": {"roomJoin": True}}, 400, "no room name"),
        ({"video": None}, 401, "permissions denied"),
        ({"sub": ""}, 400, "identity cannot be empty"),
        ({"sub": "a" * 257}, 400, "identity length"),
        ({"video": {"roomJoin": True, "room": "r" * 257}}, 400, "room name length"),
        ({}, 400, "join_request is required"),
    ],
)
def test_who_may_not_join(changes: dict[str, Any], status: int, text: str) -> None:
    with pytest.raises(RefusedError, match=text) as caught:
        read_join(token(**changes), {} if not changes else {"join_request": ""}, KEY, wrapped=True)
    assert caught.value.status == status


def test_a_join_request_that_makes_no_sense() -> None:
    bomb = rtc.WrappedJoinRequest(
        join_request=gzip.compress(bytes(10_000_000)), compression=rtc.WrappedJoinRequest.GZIP
    )
    no_gzip = rtc.WrappedJoinRequest(join_request=b"no gzip", compression=rtc.WrappedJoinRequest.GZIP)
    no_message = rtc.WrappedJoinRequest(join_request=b"\xff\xff")
    bad = [base64.urlsafe_b64encode(each.SerializeToString()).decode() for each in (bomb, no_gzip, no_message)]
    for text in (*bad, "?", "\u00e4", "A", "____"):
        with pytest.raises(RefusedError) as caught:
            read_join(token(), {"join_request": text}, KEY, wrapped=True)
        assert caught.value.status == 400


@settings(deadline=None)
@given(st.text(max_size=100))
def test_any_text_is_refused_or_read(text: str) -> None:
    for read in (
        lambda: read_claims(text, KEY),
        lambda: read_join(token(), {"join_request": text}, KEY, wrapped=True),
        lambda: read_join(token(), dict.fromkeys(("protocol", "sdk", "attributes"), text), KEY, wrapped=False),
    ):
        with contextlib.suppress(RefusedError):
            read()


def test_tokens_of_livekit_api_are_read() -> None:
    made = AccessToken(KEY.name, KEY.secret).with_identity("w").with_grants(VideoGrants(agent=True, room_list=True))
    claims = read_claims(made.with_ttl(dt.timedelta(minutes=1)).to_jwt(), KEY)
    assert claims.grants("agent")
    assert claims.grants("roomList")
    assert not claims.grants("roomJoin")

"""Access tokens for a LiveKit server whose key and secret you hold."""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from typing_extensions import TypedDict, Unpack

from curb_client.errors import LiveKitServerError

if TYPE_CHECKING:
    from livekit.api import AccessToken

__all__ = ["ParticipantKind", "TokenOptions", "join_token", "list_rooms_token"]

ParticipantKind = Literal["standard", "agent"]

SIX_HOURS = 6 * 3600.0
WARNED_ABOUT_BELOW = 32
"""Bytes of a secret; PyJWT warns about shorter ones, such as the placeholder of ``livekit-server --dev``."""


class TokenOptions(TypedDict, total=False):
    """What a token may say besides who joins which room; each key may be left out."""

    kind: ParticipantKind
    """``standard`` unless given; ``agent`` makes the others see a participant of kind AGENT."""
    name: str
    metadata: str
    attributes: Mapping[str, str]
    can_publish: bool
    """True unless given, like the three that follow."""
    can_subscribe: bool
    can_publish_data: bool
    """Without it what one sends goes nowhere, and LiveKit does not tell."""
    can_update_own_metadata: bool
    """Without it ``set_attributes`` does nothing, and LiveKit does not tell."""
    hidden: bool
    """False unless given; a hidden participant is not seen by the others."""
    ttl: float
    """Seconds until the token no longer lets anyone in; six hours unless given."""


def join_token(api_key: str, api_secret: str, identity: str, room: str, **options: Unpack[TokenOptions]) -> str:
    """Returns a token with which ``identity`` can join ``room``.

    Raises:
        LiveKitServerError: the package livekit-api is missing, or the key, secret, identity or room is empty.
    """
    for what, value in (("identity", identity), ("room", room)):
        if not value:
            raise LiveKitServerError(f"The {what} of a token is {value!r}; give a name that is not empty.")
    token = _unsigned(api_key, api_secret)
    from livekit.api import VideoGrants

    grants = VideoGrants(
        room_join=True,
        room=room,
        can_publish=options.get("can_publish", True),
        can_subscribe=options.get("can_subscribe", True),
        can_publish_data=options.get("can_publish_data", True),
        can_update_own_metadata=options.get("can_update_own_metadata", True),
        hidden=options.get("hidden", False),
    )
    token.with_identity(identity).with_kind(options.get("kind", "standard")).with_grants(grants)
    token.with_ttl(dt.timedelta(seconds=options.get("ttl", SIX_HOURS)))
    if "name" in options:
        token.with_name(options["name"])
    if "metadata" in options:
        token.with_metadata(options["metadata"])
    if "attributes" in options:
        token.with_attributes(dict(options["attributes"]))
    return _signed(token)


def list_rooms_token(api_key: str, api_secret: str) -> str:
    """Returns a token, good for one minute, that lets its bearer list the server's rooms and nothing else.

    Raises:
        LiveKitServerError: the package livekit-api is missing, or the key or the secret is empty.
    """
    token = _unsigned(api_key, api_secret).with_ttl(dt.timedelta(minutes=1))
    from livekit.api import VideoGrants

    return _signed(token.with_grants(VideoGrants(room_list=True)))


def _unsigned(api_key: str, api_secret: str) -> AccessToken:
    if not (api_key and api_secret):  # livekit-api would silently take those of the environment instead
        raise LiveKitServerError("The API key and the API secret of a LiveKit server must not be empty.")
    try:
        from livekit.api import AccessToken
    except ImportError as error:
        raise LiveKitServerError(
            f"LiveKit tokens need the package livekit-api ({error}): pip install 'curb-client[testing]'"
        ) from error
    return AccessToken(api_key, api_secret)


def _signed(token: AccessToken) -> str:
    if len(token.api_secret.encode()) >= WARNED_ABOUT_BELOW:
        return token.to_jwt()
    with warnings.catch_warnings():  # whoever was handed a server with a short secret cannot lengthen it here
        warnings.filterwarnings("ignore", message="The HMAC key is")
        return token.to_jwt()

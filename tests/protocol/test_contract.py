"""What the protocol texts state, byte for byte."""

from __future__ import annotations

from curb_client.errors import AuthoringError
from curb_client.protocol import contract
from curb_client.protocol.states import AgentState


def test_names_on_the_wire() -> None:
    assert contract.MESSAGE == "curb.message"
    assert contract.UPDATE == "curb.update"


def test_refusal_codes() -> None:
    assert [code.value for code in contract.RefusalCode] == [
        "no_handler",
        "invalid_payload",
        "handler_failed",
        "not_adjustable",
        "invalid_settings",
        "payload_too_large",
    ]


def test_sizes() -> None:
    assert contract.MAX_KEY_LENGTH == 256
    assert contract.MAX_ID_LENGTH == 128
    assert contract.MAX_REQUEST_BYTES == 15_360


def test_times() -> None:
    assert contract.AGENT_WAIT_SECONDS == 10.0
    assert contract.EARLY_REQUEST_SECONDS == 10.0
    assert contract.ASK_HOST_SECONDS == 10.0


def test_senders_and_adjustable_paths() -> None:
    assert contract.SENDERS == ("client", "host")
    assert contract.ADJUSTABLE_PATHS == ("tts.voice", "tts.model", "stt.language", "llm")


def test_llm_providers() -> None:
    assert contract.LLM_PROVIDERS == ("kugelaudio", "anthropic", "openai", "openai-compatible")


def test_authoring_code() -> None:
    assert AuthoringError("wrong").code == "AGENT_INVALID_AUTHORING_PROP"


def test_the_exchange_outlasts_the_agents_hold() -> None:
    assert contract.EXCHANGE_SECONDS > contract.EARLY_REQUEST_SECONDS


def test_our_number_is_not_livekits() -> None:
    assert contract.REFUSAL_NUMBER not in contract.LIVEKIT_RESERVED_NUMBERS
    assert 1001 in contract.LIVEKIT_RESERVED_NUMBERS
    assert 1999 in contract.LIVEKIT_RESERVED_NUMBERS
    assert 2000 not in contract.LIVEKIT_RESERVED_NUMBERS


def test_codes_and_states_are_text() -> None:
    assert contract.RefusalCode("no_handler") == "no_handler"
    assert AgentState("absent") == "absent"

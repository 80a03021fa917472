"""What the protocol texts state, byte for byte."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from curb_client.errors import AuthoringError
from curb_client.protocol import contract
from curb_client.protocol.contract import ErrorCode
from curb_client.protocol.host_errors import known_code, status_of
from curb_client.protocol.states import AgentState
from tests.protocol.vectors import cases, vectors


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


# Host protocol


def test_host_protocol_names_and_limits() -> None:
    assert contract.PROTOCOL_VERSION == 1
    assert contract.PROTOCOL_VERSIONS == (1,)
    assert contract.LIFECYCLE_PREFIX == "curb-hosted "
    assert contract.MAX_GRACE_MS == 60_000
    assert contract.HELD_MESSAGES == 32
    assert contract.HEARTBEAT_SECONDS == 15.0
    assert contract.RETAINED_RECORDS == 4096
    assert contract.MAX_KEPT_BYTES == 4096
    assert contract.RUNNER_PRODUCER == "runner"
    assert contract.KNOWN_CLASSES == ("lifecycle", "host", "conversation")
    assert contract.EVENT_ENDED == "curb.ended"
    assert contract.EVENT_MESSAGES == "curb.messages"
    assert contract.TRANSFER_NO_REPLY == "transfer_no_reply"
    assert get_args(contract.CallState) == ("starting", "connected", "ending", "ended")
    assert get_args(contract.CallDirection) == ("inbound", "outbound")


def test_more_is_remembered_than_a_runner_sends_again() -> None:
    assert contract.MAX_LINE_BYTES >= 2 * 2**20
    assert contract.REMEMBERED_PRODUCERS * contract.REMEMBERED_RANGES >= contract.RETAINED_RECORDS


@pytest.mark.parametrize("case", cases("statuses"))
def test_status_vector(case: Any) -> None:
    code = known_code(case["code"])
    assert code is not None
    assert status_of(code) == case["status"]


def test_every_code_has_a_status() -> None:
    assert [case["code"] for case in vectors("statuses")["cases"]] == [code.value for code in ErrorCode]
    assert set(contract.STATUS_BY_CODE) == set(ErrorCode)


def test_what_an_agent_refuses_a_runner_can_answer() -> None:
    refusals = {code.value for code in contract.RefusalCode}
    assert refusals - {"payload_too_large"} <= {code.value for code in ErrorCode}

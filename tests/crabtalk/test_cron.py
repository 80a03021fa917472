"""Schedules of five fields, as a daemon takes them."""

from __future__ import annotations

import datetime as dt
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curb_client.crabtalk import InvalidCronError
from curb_client.crabtalk.cron import daemon_schedule, quiet_time
from curb_client.testing.fake_daemon.schedules import Schedule


@pytest.mark.parametrize(
    ("given_schedule", "sent"),
    [
        ("* * * * *", "0 * * * * *"),
        ("*/5 * * * *", "0 */5 * * * *"),
        ("  0   9,17 1-7/2 jan-mar *  ", "0 0 9,17 1-7/2 JAN-MAR *"),
        ("30 6 * * 0", "0 30 6 * * SUN"),
        ("30 6 * * 7", "0 30 6 * * SUN"),
        ("30 6 * * 1-5", "0 30 6 * * MON,TUE,WED,THU,FRI"),
        ("30 6 * * fri-sun", "0 30 6 * * SUN,FRI,SAT"),
        ("30 6 * * 5-7", "0 30 6 * * SUN,FRI,SAT"),
        ("30 6 * * */2", "0 30 6 * * SUN,TUE,THU,SAT"),
        ("30 6 * * 1/3", "0 30 6 * * MON,THU"),
        ("0 0 */2 * 1", "0 0 0 */2 * MON"),
        ("*/59 */23 */31 */12 *", "0 */59 */23 */31 */12 *"),
        ("@hourly", "0 0 * * * *"),
        ("@Weekly", "0 0 0 * * SUN"),
        ("*/10 * * * * *", "*/10 * * * * *"),
        ("0 0 0 1 1 * 2030", "0 0 0 1 1 * 2030"),
    ],
)
def test_what_is_sent(given_schedule: str, sent: str) -> None:
    assert daemon_schedule(given_schedule) == sent
    Schedule(sent)


@pytest.mark.parametrize(
    ("schedule", "reason"),
    [
        ("", "0 fields"),
        ("* * * *", "4 fields"),
        ("60 * * * *", "'60' is no minute; it must be from 0 to 59"),
        ("* 24 * * *", "'24' is no hour"),
        ("* * 0 * *", "'0' is no day of month"),
        ("* * * 13 *", "'13' is no month"),
        ("* * * * 8", "'8' is no day of week"),
        ("* * * * mo", "is no day of week"),
        ("* mon * * *", "'mon' is no hour"),
        ("*/0 * * * *", "minute '*/0' has steps of 0; they must be from 1 to 59"),
        ("*/60 * * * *", "minute '*/60' has steps of 60; they must be from 1 to 59"),
        ("0 1/24 * * *", "hour '1/24' has steps of 24; they must be from 1 to 23"),
        ("0 0 */400 * *", "day of month '*/400' has steps of 400; they must be from 1 to 31"),
        ("0 0 1 */13 *", "month '*/13' has steps of 13; they must be from 1 to 12"),
        ("0 0 * * */8", "day of week '*/8' has steps of 8; they must be from 1 to 7"),
        ("\u0663 * * * *", "is no minute"),
        ("*/\u0663 * * * *", "is no minute"),
        ("9-5 * * * *", "ends before it begins"),
        ("1,,2 * * * *", "'' is no minute"),
        ("@fortnightly", "1 fields"),
        ("0 0 1 * MON", "make a job for each"),
    ],
)
def test_what_is_refused(schedule: str, reason: str) -> None:
    with pytest.raises(InvalidCronError, match=re.escape(reason)) as refused:
        daemon_schedule(schedule)
    assert refused.value.field == "schedule"


@settings(deadline=None, max_examples=200)
@given(st.sets(st.integers(0, 6), min_size=1), st.integers(0, 59), st.integers(0, 23), st.integers(0, 13))
def test_days_of_the_week_are_those_of_cron(days: set[int], minute: int, hour: int, later: int) -> None:
    at = dt.datetime(2030, 6, 2, hour, minute) + dt.timedelta(days=later)  # a Sunday, and days after it
    schedule = Schedule(daemon_schedule(f"{minute} {hour} * * {','.join(map(str, sorted(days)))}"))
    assert schedule.fires(at) == ((later % 7) in days)
    assert not schedule.fires(at + dt.timedelta(seconds=1))


@pytest.mark.parametrize("time", ["24:00", "7:00", "07:60", "0700", "", "٠٧:٠٠", "07:00\n"])
def test_times_that_are_none(time: str) -> None:
    with pytest.raises(InvalidCronError, match="give a time from '00:00' to '23:59'"):
        quiet_time(time, "quiet_start")


def test_times() -> None:
    assert [quiet_time(time, "quiet_end") for time in ("00:00", "23:59")] == ["00:00", "23:59"]

"""What a runner counts, for Prometheus; the extra ``metrics`` brings what this needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from aiohttp import web

from curb_client.errors import RunnerStartError

if TYPE_CHECKING:
    from prometheus_client import Metric

    from curb_client.host.runner.server import Runner

__all__ = ["metrics_handler"]


def metrics_handler(runner: Runner) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
    """Answers ``GET /metrics`` on a listener of its own, which asks for no token.

    Raises:
        RunnerStartError: prometheus-client is missing.
    """
    try:
        from prometheus_client import CollectorRegistry
        from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
        from prometheus_client.registry import Collector
    except ImportError as error:
        raise RunnerStartError("metrics need prometheus-client: pip install 'curb-client[metrics]'") from error

    class _Collector(Collector):
        def collect(self) -> Iterator[Metric]:
            return _metrics(runner)

    registry = CollectorRegistry()
    registry.register(_Collector())

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if request.method != "GET" or request.path != "/metrics":
            return web.Response(status=404, text="GET /metrics\n")
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return handle


def _metrics(runner: Runner) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    if not runner.is_started:
        return
    counters = runner.counters
    yield GaugeMetricFamily("curb_calls_active", "Calls that go on", len(runner.calls.active))
    yield GaugeMetricFamily("curb_calls_max", "Calls at the same time", runner.options.max_sessions)
    yield GaugeMetricFamily("curb_draining", "1 while no calls are taken", runner.calls.draining)
    yield GaugeMetricFamily("curb_event_readers", "Readers of the event stream", counters.readers)
    yield CounterMetricFamily("curb_event_readers_cut", "Readers that were too slow", counters.readers_cut)
    yield CounterMetricFamily("curb_records", "Records on the event stream", runner.newest_envelope)
    yield CounterMetricFamily("curb_calls_started", "Calls taken", counters.calls_started)
    ended = CounterMetricFamily("curb_calls_ended", "Calls ended, by reason", labels=["reason"])
    for reason, count in counters.calls_ended.items():
        ended.add_metric([reason], count)
    messages = CounterMetricFamily("curb_messages", "App messages", labels=["direction", "outcome"])
    for (direction, outcome), count in counters.messages.items():
        messages.add_metric([direction, outcome], count)
    requests = CounterMetricFamily("curb_http_requests", "Requests answered", labels=["route", "status"])
    for (route, status), count in counters.requests.items():
        requests.add_metric([route, str(status)], count)
    yield from (ended, messages, requests)

"""What `/metrics` shows, in the format of Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from app.server.admission import Admission
from backend.types import ChatOutcome

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """Counts of one server, from its start. Times are in seconds."""

    def __init__(self, admission: Admission) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "fireside_requests", "Requests answered.", ("route", "status"), registry=self._registry
        )
        self._tokens = Counter(
            "fireside_tokens", "Tokens read and written.", ("kind",), registry=self._registry
        )
        self._first = Histogram(
            "fireside_first_token_seconds",
            "Until the first token.",
            registry=self._registry,
            buckets=_SECONDS,
        )
        self._speed = Histogram(
            "fireside_tokens_per_second",
            "Speed of decoding, of each reply.",
            registry=self._registry,
            buckets=(1, 5, 10, 20, 40, 80, 160, 320),
        )
        running = Gauge("fireside_replies_running", "Replies being written.", registry=self._registry)
        running.set_function(lambda: admission.taken - admission.waiting)
        waiting = Gauge("fireside_replies_waiting", "Replies in the queue.", registry=self._registry)
        waiting.set_function(lambda: admission.waiting)

    def request(self, route: str, status: int) -> None:
        """Count a request by the pattern of its route."""
        self._requests.labels(route, str(status)).inc()

    def reply(self, outcome: ChatOutcome) -> None:
        """Count what a reply took."""
        if outcome.reply == 0:  # the replies to one request share its prompt
            self._tokens.labels("prompt").inc(outcome.prompt_tokens)
            self._tokens.labels("reused").inc(outcome.reused_tokens)
        self._tokens.labels("written").inc(outcome.new_tokens)
        if outcome.new_tokens:
            self._first.observe(outcome.time_to_first_token_s)
            self._speed.observe(outcome.tokens_per_second)

    def text(self) -> bytes:
        """All of it, as a scraper reads it."""
        return generate_latest(self._registry)

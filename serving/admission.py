"""Limits that are judged before any work: body bytes, deadline, texts in flight."""

import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from starlette.datastructures import Headers

from serving.errors import ApiError, queue_full

TIMEOUT_HEADER = "x-request-timeout-seconds"
_SECONDS = re.compile(r"\d{1,9}(\.\d{1,9})?|\.\d{1,9}")
# Serve's proxy answers its own deadline as plain text; ours comes first.
BEFORE_PROXY_S = 0.1


class Admission:
    """Counts the texts in flight in one ingress."""

    def __init__(self, limit: int) -> None:
        self._limit, self.texts = limit, 0

    @contextmanager
    def __call__(self, count: int) -> Iterator[None]:
        """Hold `count` places for the block. Raises ApiError 429 when they are not free."""
        if self.texts + count > self._limit:
            raise queue_full(self._limit)
        self.texts += count
        try:
            yield
        finally:
            self.texts -= count


def seconds_allowed(headers: Headers, limit_s: float) -> float:
    """The smaller of the service's and the request's own limit. Raises ApiError 400 on a value that is no time."""
    value = headers.get(TIMEOUT_HEADER)
    if value is None:
        return limit_s
    if not _SECONDS.fullmatch(value) or float(value) == 0:
        raise ApiError(400, "timeout_header", f"{TIMEOUT_HEADER} must be a number of seconds above 0 and below 10^9")
    return min(limit_s, float(value))


def deadline(started: float, seconds: float) -> float:
    """Seconds that are left of a request that began at `started` (time.monotonic)."""
    return max(0.0, started + seconds - BEFORE_PROXY_S - time.monotonic())


def check_content_type(headers: Headers) -> None:
    """Raises ApiError 415 unless the body is plain `application/json` in UTF-8."""
    kind, _, parameters = headers.get("content-type", "").partition(";")
    charset = re.search(r"charset\s*=\s*\"?([^\s;\"]+)", parameters, re.IGNORECASE)
    if kind.strip().lower() != "application/json":
        raise ApiError(415, "content_type", "send Content-Type: application/json")
    if charset and charset.group(1).lower() not in {"utf-8", "utf8"}:
        raise ApiError(415, "charset", "send the body as UTF-8")
    if headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise ApiError(415, "content_encoding", "send the body uncompressed")


async def read_body(stream: AsyncIterator[bytes], headers: Headers, limit: int) -> bytes:
    """The whole body. Raises ApiError 413 as soon as it is known to be longer than `limit` bytes."""
    too_large = ApiError(
        413, "body_too_large", f"the body is larger than {limit} bytes", headers={"connection": "close"}
    )
    declared = headers.get("content-length", "0")
    if declared.isdigit() and int(declared[:20]) > limit:
        raise too_large
    body = bytearray()
    async for chunk in stream:
        body += chunk
        if len(body) > limit:
            raise too_large
    return bytes(body)

"""`POST /predict`: what can be refused is refused before it is queued; then one answer per text, in order."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse

from registry.bundle import VersionRef
from registry.contract import Encoded, Encoder
from serving.admission import Admission, check_content_type, deadline, read_body, seconds_allowed
from serving.body import Texts, read_texts
from serving.errors import ApiError, deadline_passed, failed, unavailable
from serving.health import Monitor
from serving.messages import Scored
from serving.params import ServeParams

# Above this many characters, tokenising takes long enough (ms) that the event loop should stay free for others.
LARGE = 4096


@dataclass(frozen=True)
class Predictor:
    """What answers texts: knows no Ray, only a plain async `score`."""

    version: VersionRef
    params: ServeParams
    encode: Encoder
    score: Callable[[Encoded], Awaitable[Scored]]
    monitor: Monitor
    admission: Admission
    told_wait: Callable[[float], None]
    """Hears how many milliseconds each request waited."""

    async def __call__(self, request: Request) -> JSONResponse:
        """Answer one request. Raises ApiError, as the table of docs/HTTP.md says."""
        began = time.monotonic()
        seconds = seconds_allowed(request.headers, self.params.request_timeout_s)
        try:
            async with asyncio.timeout(deadline(began, seconds)):
                texts = await self._read(request)
                with self.admission(len(texts.texts)):
                    encoded, tokenize_ms = await self._encode(texts)
                    scored, waited_ms = await self._score(encoded)
        except TimeoutError:
            fault = self.monitor.fault
            raise (unavailable(fault) if fault else deadline_passed(seconds)) from None
        return self._answer(scored, tokenize_ms, waited_ms)

    async def _read(self, request: Request) -> Texts:
        check_content_type(request.headers)
        body = await read_body(request.stream(), request.headers, self.params.max_body_bytes)
        return read_texts(body, self.params.max_texts)

    async def _encode(self, texts: Texts) -> tuple[list[Encoded], float]:
        """Token ids, and the milliseconds they took. Raises ApiError 422 when the policy refuses a long text."""
        began = time.perf_counter()
        large = sum(map(len, texts.texts)) > LARGE
        encoded = await asyncio.to_thread(self.encode, texts.texts) if large else self.encode(texts.texts)
        if self.params.on_long_text == "reject":
            for index, one in enumerate(encoded):
                if one.truncated:
                    field = texts.field(index)
                    raise ApiError(422, "text_too_long", f"{field} has more tokens than max_tokens", field)
        return encoded, (time.perf_counter() - began) * 1000

    async def _score(self, encoded: list[Encoded]) -> tuple[list[Scored], float]:
        """All answers in order, and the milliseconds they took.

        Raises ApiError: 503 when the model is down or goes down meanwhile, 500 when a text alone makes it fail.
        """
        began = time.perf_counter()
        # A model that is loading is worth waiting for: during an update the old one has gone already.
        await self.monitor.heard.wait()
        if self.monitor.fault:
            raise unavailable(self.monitor.fault)
        scoring = asyncio.gather(*map(self.score, encoded))
        either: tuple[asyncio.Future[Any], ...] = (scoring, self.monitor.down)
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not scoring.done():
                raise unavailable(self.monitor.fault or "the model stopped answering")
            scored = scoring.result()
        finally:
            scoring.cancel()
        if any(one.prediction is None for one in scored):
            raise failed()
        return scored, (time.perf_counter() - began) * 1000

    def _answer(self, scored: list[Scored], tokenize_ms: float, waited_ms: float) -> JSONResponse:
        forward_ms, batch = max(one.forward_ms for one in scored), max(one.batch_texts for one in scored)
        padding = max(one.padding for one in scored)
        queue_ms = max(0.0, waited_ms - forward_ms)
        self.told_wait(queue_ms)
        headers = {
            "server-timing": f"queue;dur={queue_ms:.1f}, tokenize;dur={tokenize_ms:.1f}, "
            f'forward;dur={forward_ms:.1f}, padding;desc="{padding:.2f}", batch;desc="{batch}"',
            "x-model-version": self.version.version,
            "x-served-by": ",".join(sorted({one.replica for one in scored})),
        }
        body = {
            "predictions": [asdict(one.prediction) for one in scored if one.prediction],
            "model": self.version.model_dump(include={"name", "version", "digest"}),
        }
        return JSONResponse(body, headers=headers)

"""The routes: HTTP in, HTTP out. Knows no Ray: it is built around a plain async `score`."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import JsonValue
from starlette.exceptions import HTTPException

from registry.bundle import VersionRef
from registry.contract import Encoded, Encoder
from serving.admission import Admission, check_content_type, deadline, read_body, seconds_allowed
from serving.edge import Edge
from serving.errors import ApiError, deadline_passed, failed, unavailable
from serving.health import Monitor
from serving.messages import Scored
from serving.params import ServeParams
from serving.schema import PredictResponse, read_texts

PAGE = Path(__file__).parent / "page"
# Above this, tokenising takes long enough (ms) that the event loop should stay free for others.
LARGE_TEXT = 4096


@dataclass(frozen=True)
class Service:
    """What the routes need of the graph."""

    version: VersionRef
    params: ServeParams
    encode: Encoder
    score: Callable[[Encoded], Awaitable[Scored]]
    monitor: Monitor
    about: dict[str, JsonValue]
    """The fields of `/health` that the ingress knows itself: graph_digest, verified, deployment, build."""
    key_digests: Sequence[str] = ()


def create_app(service: Service) -> FastAPI:
    """The ASGI app of one ingress."""
    admission = Admission(service.params.max_queued_texts)
    started = time.monotonic()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        watching = asyncio.create_task(service.monitor.watch())
        yield
        watching.cancel()

    app = FastAPI(
        title=service.version.name, version=service.version.version, lifespan=lifespan, redirect_slashes=False
    )

    @app.post("/predict", response_model=PredictResponse)
    async def predict(request: Request) -> JSONResponse:
        """Classify one text or a list of texts."""
        return await _predict(service, admission, request)

    @app.get("/health")
    async def health(request: Request) -> JSONResponse:
        """Whether the model answers right, and which version it is."""
        fault = service.monitor.fault
        body: dict[str, JsonValue] = {"status": "unhealthy" if fault else "ok"}
        if request.state.authorised:
            body |= {"reason": fault, "uptime_s": round(time.monotonic() - started, 1), **_identity(service)}
        return JSONResponse(body, 503 if fault else 200, {"retry-after": "1"} if fault else None)

    @app.get("/live")
    async def live() -> JSONResponse:
        """Whether the HTTP process runs; says nothing about the model."""
        return JSONResponse({"status": "ok"})

    app.add_middleware(Edge, key_digests=service.key_digests)
    app.exception_handler(HTTPException)(_routing_error)
    return app


def _identity(service: Service) -> dict[str, JsonValue]:
    """The digest is the one that the replica computed from the bytes it loaded; null until one has answered."""
    loaded = dict(service.monitor.loaded)
    model: JsonValue = {
        "name": service.version.name,
        "version": service.version.version,
        "digest": loaded.pop("digest", None),
    }
    return {"model": model, **service.about, **loaded}


async def _predict(service: Service, admission: Admission, request: Request) -> JSONResponse:
    began, params = time.monotonic(), service.params
    seconds = seconds_allowed(request.headers, params.request_timeout_s)
    try:
        async with asyncio.timeout(deadline(began, seconds)):
            check_content_type(request.headers)
            body = await read_body(request.stream(), request.headers, params.max_body_bytes)
            texts, listed = read_texts(body, params.max_texts)
            with admission(len(texts)):
                encoded, tokenize_ms = await _encode(service, texts, listed)
                waited = time.monotonic()
                scored = await _score(service, encoded)
                waited_ms = (time.monotonic() - waited) * 1000
    except TimeoutError:
        raise deadline_passed(seconds) from None
    return _answer(service, scored, tokenize_ms, waited_ms)


async def _encode(service: Service, texts: list[str], listed: bool) -> tuple[list[Encoded], float]:
    """Token ids, and the milliseconds they took. Raises ApiError 422 when the policy refuses a long text."""
    began = time.perf_counter()
    large = sum(map(len, texts)) > LARGE_TEXT
    encoded = await asyncio.to_thread(service.encode, texts) if large else service.encode(texts)
    if service.params.on_long_text == "reject":
        for index, one in enumerate(encoded):
            if one.truncated:
                field = f"texts[{index}]" if listed else "text"
                raise ApiError(422, "text_too_long", f"{field} is longer than the model's max_tokens", field)
    return encoded, (time.perf_counter() - began) * 1000


async def _score(service: Service, encoded: list[Encoded]) -> list[Scored]:
    """All answers, in order. Raises ApiError: 503 when the model is or goes down, 500 when one text made it fail."""
    if service.monitor.fault:
        raise unavailable(service.monitor.fault)
    down = asyncio.ensure_future(service.monitor.down.wait())
    scoring = asyncio.gather(*map(service.score, encoded))
    either: tuple[asyncio.Future[Any], ...] = (scoring, down)
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not scoring.done():
            raise unavailable(service.monitor.fault or "the model stopped answering")
        scored = scoring.result()
    finally:
        down.cancel()
        scoring.cancel()
    if any(one.prediction is None for one in scored):
        raise failed()
    return scored


def _answer(service: Service, scored: list[Scored], tokenize_ms: float, waited_ms: float) -> JSONResponse:
    version = service.version
    forward_ms, batch = max(one.forward_ms for one in scored), max(one.batch_texts for one in scored)
    queue_ms = max(0.0, waited_ms - forward_ms)
    headers = {
        "server-timing": f"queue;dur={queue_ms:.1f}, tokenize;dur={tokenize_ms:.1f}, "
        f'forward;dur={forward_ms:.1f}, batch;desc="{batch}"',
        "x-model-version": version.version,
        "x-served-by": ",".join(sorted({one.replica for one in scored})),
    }
    body = {
        "predictions": [asdict(one.prediction) for one in scored if one.prediction],
        "model": {"name": version.name, "version": version.version, "digest": version.digest},
    }
    return JSONResponse(body, headers=headers)


async def _routing_error(request: Request, error: HTTPException) -> JSONResponse:
    """The router's own 404 and 405, in our shape."""
    messages = {404: "no such route; see POST /predict, GET /health, GET /docs", 405: "this route has other methods"}
    kinds = {404: "not_found", 405: "method_not_allowed"}
    fault = ApiError(
        error.status_code, kinds.get(error.status_code, "http"), messages.get(error.status_code, "refused")
    )
    return JSONResponse(fault.body(request.state.request_id), error.status_code, error.headers)

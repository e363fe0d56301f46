"""The routes: HTTP in, HTTP out. Knows no Ray, so it runs in a test as it runs in Serve."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import JsonValue
from starlette.exceptions import HTTPException

from registry.bundle import VersionRef
from serving import openapi, pages
from serving.door import Door
from serving.edge import Edge
from serving.errors import RETRY_AFTER_S, ApiError
from serving.health import Monitor
from serving.predict import Predictor

ROUTING_ERRORS = {
    404: ("not_found", "there is no such route; there are POST /predict, GET /health, /live, /docs and /"),
    405: ("method_not_allowed", "this route takes other methods; the Allow header names them"),
}


def create_app(
    predictor: Predictor, about: dict[str, JsonValue], door: Door, key_digests: Sequence[str] = ()
) -> FastAPI:
    """The ASGI app of one ingress.

    `about`: the fields of `/health` that the ingress knows itself: graph_digest, verified, deployment, build.
    """
    version, monitor, started = predictor.version, predictor.monitor, time.monotonic()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        watching = asyncio.create_task(monitor.watch())
        yield
        watching.cancel()

    app = FastAPI(
        title=version.name,
        version=version.version,
        lifespan=lifespan,
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
        servers=openapi.SERVERS,
        root_path_in_servers=False,
    )
    app.openapi_version = openapi.VERSION

    @app.post("/predict", **openapi.PREDICT)
    async def predict(request: Request) -> JSONResponse:
        """Classify one text, or a list of texts."""
        return await predictor(request)

    @app.get("/health", **openapi.HEALTH)
    async def health(request: Request) -> JSONResponse:
        """Whether the model answers right, and which version it is."""
        fault = monitor.fault if door.open else "the service is stopping"
        body: dict[str, JsonValue] = {"status": "unhealthy" if fault else "ok"}
        if request.state.authorised:
            uptime_s = round(time.monotonic() - started, 1)
            body |= {"reason": fault, "uptime_s": uptime_s, **about, **_identity(version, monitor)}
        return JSONResponse(body, 503, {"retry-after": str(RETRY_AFTER_S)}) if fault else JSONResponse(body)

    @app.get("/live")
    async def live() -> JSONResponse:
        """Whether the HTTP process runs; says nothing about the model."""
        return JSONResponse({"status": "ok"})

    pages.add(app)
    app.add_middleware(Edge, door=door, key_digests=key_digests)
    app.exception_handler(HTTPException)(_routing_error)
    return app


def _identity(version: VersionRef, monitor: Monitor) -> dict[str, JsonValue]:
    """The digest is the one that the replica computed from the bytes it loaded; null until one has answered."""
    loaded = dict(monitor.loaded)
    model: JsonValue = {"name": version.name, "version": version.version, "digest": loaded.pop("digest", None)}
    return {"model": model, **loaded}


async def _routing_error(request: Request, error: HTTPException) -> JSONResponse:
    """The router's own errors, in our shape."""
    kind, message = ROUTING_ERRORS.get(error.status_code, ("refused", "the request was refused"))
    body = ApiError(error.status_code, kind, message).body(request.state.request_id)
    return JSONResponse(body, error.status_code, error.headers)

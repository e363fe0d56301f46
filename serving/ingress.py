"""The HTTP deployment: everything refusable is refused here, before it is queued; then one handle call a text."""

import os
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from pydantic import JsonValue

from registry import bundle
from registry.bundle import VersionRef
from serving.admission import Admission
from serving.door import Door
from serving.engine import engine_of
from serving.graph import graph_digest
from serving.health import Monitor
from serving.messages import Held
from serving.metrics import Waits
from serving.model import Model
from serving.params import ServeParams
from serving.predict import Predictor
from serving.routes import create_app
from serving.sizes import calls_per_ingress, texts_per_call


class Ingress:
    """Holds the tokenizer and the handle to the model deployment. Needs neither torch nor transformers."""

    def __init__(
        self,
        model: Any,
        version: VersionRef,
        params: ServeParams,
        about: dict[str, JsonValue],
        key_digests: Sequence[str],
    ) -> None:
        wanted = Held(version.digest, engine_of(version.folder, params).runtime)
        asked = Model(model, wanted, calls_per_ingress(params), texts_per_call(params), params.batch_wait_s)
        self._predictor = Predictor(
            version=version,
            params=params,
            encode=bundle.encoder_of(version.folder),
            score=asked.score,
            monitor=Monitor(asked.canary, wanted),
            admission=Admission(params.max_queued_texts),
            told_wait=Waits(),
        )
        self._about = {"graph_digest": graph_digest(params, os.environ), **about}
        self._key_digests = key_digests
        self._door, self._grace_s = Door(), params.graceful_shutdown_s

    def about(self) -> dict[str, JsonValue]:
        """What it knows itself, for who asks through the handle: graph_digest, verified, deployment, build."""
        return self._about

    async def close(self) -> int:
        """Take no more requests and answer those inside; how many are left when the grace is over."""
        return await self._door.close(self._grace_s)

    def __serve_build_asgi_app__(self) -> FastAPI:
        """Serve calls this after the constructor, in the replica: nothing of the app has to travel."""
        return create_app(self._predictor, self._about, self._door, self._key_digests)

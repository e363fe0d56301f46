"""The HTTP deployment: everything refusable is refused here, before it is queued; then one handle call a text."""

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from pydantic import JsonValue

from registry import bundle
from registry.bundle import VersionRef
from serving.graph import graph_digest
from serving.health import Monitor
from serving.model import Model
from serving.params import ServeParams
from serving.routes import Service, create_app
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
        asked = Model(model, calls_per_ingress(params), texts_per_call(params))
        self._service = Service(
            version=version,
            params=params,
            encode=bundle.encoder_of(version.folder),
            score=asked.score,
            monitor=Monitor(asked.canary),
            about={"graph_digest": graph_digest(params), **about},
            key_digests=key_digests,
        )

    def about(self) -> dict[str, JsonValue]:
        """What it knows itself, for who asks through the handle: fault, graph_digest, verified, deployment, build."""
        return {"fault": self._service.monitor.fault, **self._service.about}

    def __serve_build_asgi_app__(self) -> FastAPI:
        """Serve calls this after the constructor, in the replica: nothing of the app has to travel."""
        return create_app(self._service)

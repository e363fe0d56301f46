"""The HTTP deployment: everything refusable is refused here, before it is queued; then one handle call a text."""

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from pydantic import JsonValue

from registry import bundle
from registry.bundle import VersionRef
from serving.graph import graph_digest
from serving.health import Monitor
from serving.routes import Service, create_app
from serving.model import Model
from serving.params import ServeParams


class Ingress:
    """Holds the tokenizer and the handle to the model deployment. Needs neither torch nor transformers."""

    def __init__(
        self,
        model: Any,
        version: VersionRef,
        params: ServeParams,
        window: int,
        about: dict[str, JsonValue],
        key_digests: Sequence[str],
    ) -> None:
        """`window`: texts that this ingress may have with the model deployment at a time."""
        asked = Model(model, window)
        self._service = Service(
            version=version,
            params=params,
            encode=bundle.encoder_of(version.folder),
            score=asked.score,
            monitor=Monitor(asked.canary),
            about={"graph_digest": graph_digest(params), **about},
            key_digests=key_digests,
        )

    def __serve_build_asgi_app__(self) -> FastAPI:
        """Serve calls this after the constructor, in the replica: nothing of the app has to travel."""
        return create_app(self._service)

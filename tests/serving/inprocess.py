"""The ingress's app in this process, around a `score` of the test's choosing; no Ray."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from starlette.testclient import TestClient

from registry import bundle
from registry.bundle import VersionRef
from registry.contract import Encoded, Prediction
from serving.admission import Admission
from serving.door import Door
from serving.health import Monitor
from serving.messages import Alive, Held, Scored
from serving.params import ServeParams
from serving.predict import Predictor
from serving.routes import create_app

Score = Callable[[Encoded], Awaitable[Scored]]
ABOUT = {"graph_digest": "sha256:graph", "verified": False, "deployment": "n", "build": {"git": None}}
LOADED = {"runtime": "torch-fp32", "precision": "fp32", "device": "cpu"}
LOADED |= {"labels": ["no", "yes"], "max_tokens": 32, "training": {"lr": 0.1}}


def scored(encoded: Encoded, replica: str = "r1") -> Scored:
    """An answer that shows how many tokens were read."""
    score = 1 / len(encoded.ids)
    answer = Prediction("yes", score, {"no": 1 - score, "yes": score}, encoded.truncated)
    return Scored(answer, replica, forward_ms=2.0, batch_texts=7, padding=0.25)


async def answers(encoded: Encoded) -> Scored:
    """A model that is well."""
    return scored(encoded)


async def never(_: Encoded) -> Scored:
    """A model that hangs."""
    await asyncio.sleep(3600)
    raise AssertionError


@dataclass
class Canary:
    """What the model says to canaries; a test may change it."""

    digest: str
    fault: str | None = None
    silent: bool = False

    async def __call__(self) -> Alive:
        if self.silent:
            await asyncio.sleep(3600)
        return Alive(self.fault, {"digest": self.digest, **LOADED})


@contextmanager
def client(
    version: VersionRef,
    score: Score = answers,
    params: ServeParams | None = None,
    key_digests: Sequence[str] = (),
    canary: Canary | None = None,
    door: Door | None = None,
    root_path: str = "",
    told_wait: Callable[[float], None] = lambda _: None,
) -> Iterator[TestClient]:
    """The app behind HTTP, started, its first canary answered."""
    params = params or ServeParams()
    monitor = Monitor(canary or Canary(version.digest), Held(version.digest, str(LOADED["runtime"])))
    encode, admission = bundle.encoder_of(version.folder), Admission(params.max_queued_texts)
    predictor = Predictor(version, params, encode, score, monitor, admission, told_wait)
    app = create_app(predictor, dict(ABOUT), door or Door(), key_digests)
    with TestClient(app, raise_server_exceptions=False, root_path=root_path, follow_redirects=False) as asked:
        for _ in range(100):
            if monitor.loaded or (canary and canary.silent):
                break
            asked.get("/live")
        yield asked

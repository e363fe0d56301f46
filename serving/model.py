"""The ingress's side of the handle: how texts reach a replica and what happens when it dies under them."""

import asyncio
from typing import Any

from ray.exceptions import ActorDiedError, ActorUnavailableError
from ray.serve.exceptions import DeploymentUnavailableError, ReplicaUnavailableError

from registry.contract import Encoded
from serving.errors import unavailable
from serving.messages import Alive, Scored

GONE = (ActorDiedError, ActorUnavailableError, ReplicaUnavailableError)
RETRY_PAUSE_S = 0.05


class Model:
    """Asks the model deployment.

    At most `window` texts are with it, so that its router's queue stays empty: a request that the router cannot
    place backs off, and a canary would wait behind it.
    """

    def __init__(self, handle: Any, window: int) -> None:
        self._handle, self._places = handle, asyncio.Semaphore(window)

    async def score(self, encoded: Encoded) -> Scored:
        """One text's answer. A prediction is pure, so a text whose replica dies is asked again elsewhere.

        The caller sets the deadline; on it, or when the client leaves, the call is cancelled down to the replica.
        """
        while True:
            async with self._places:
                try:
                    scored: Scored = await self._ask(self._handle.score, encoded)
                    return scored
                except GONE:
                    await asyncio.sleep(RETRY_PAUSE_S)
                except DeploymentUnavailableError:
                    raise unavailable("the model deployment failed") from None

    async def canary(self) -> Alive:
        """One replica's answer to a canary, outside the window."""
        alive: Alive = await self._ask(self._handle.canary)
        return alive

    async def _ask(self, method: Any, *args: Encoded) -> Any:
        response = method.remote(*args)
        try:
            return await response
        except asyncio.CancelledError:
            response.cancel()
            raise

"""Numbers that follow from the params and so are not asked for."""

import math
import os

from serving.params import ServeParams

# Far above admission: the ingress itself says 429, in our shape.
INGRESS_ROOM = 4
# Room for each ingress's canary (and one that is late) beside the calls that carry texts.
CANARY_ROOM = 4


def texts_per_call(params: ServeParams) -> int:
    """Texts that one handle call may carry: half a batch, so that `@serve.batch` still joins what comes from many.

    A call costs the two processes milliseconds, so texts that wait anyway share one.
    """
    return max(1, params.max_batch_size // 2)


def calls_per_batch(params: ServeParams) -> int:
    """Calls that `@serve.batch` may gather, so that no forward has more than `max_batch_size` texts."""
    return params.max_batch_size // texts_per_call(params)


def max_replicas(params: ServeParams) -> int:
    """Model replicas, at most."""
    return params.autoscaling.max_replicas if params.autoscaling else params.num_replicas


def calls_in_flight(params: ServeParams) -> int:
    """Calls with the model deployment, over all ingresses: for every replica one batch in the model, one gathering."""
    return 2 * calls_per_batch(params) * max_replicas(params)


def calls_per_ingress(params: ServeParams) -> int:
    """One ingress's share of them."""
    return math.ceil(calls_in_flight(params) / params.ingress_replicas)


def max_ongoing_requests(params: ServeParams) -> int:
    """What one replica can hold: all that the ingresses let through, so that nothing ever waits in a router.

    A request that the router cannot place backs off, and a canary would wait behind it.
    """
    return (calls_per_ingress(params) + CANARY_ROOM) * params.ingress_replicas


def target_ongoing_requests(params: ServeParams) -> int:
    """Calls per replica that autoscaling aims at: one batch in the model.

    More means that a batch is always waiting. Serve's default of 2 texts would add replicas before a batch is full.
    """
    return calls_per_batch(params)


def ingress_max_ongoing_requests(params: ServeParams) -> int:
    """Requests that Serve lets into one ingress."""
    return INGRESS_ROOM * params.max_queued_texts


def threads(params: ServeParams) -> int:
    """Threads of one replica: the user's OMP_NUM_THREADS, else the whole CPUs that it was given, at least one.

    Asked where the graph is built and not in the replica: Ray sets the variable in every worker itself.
    """
    chosen = os.environ.get("OMP_NUM_THREADS", "")
    return int(chosen) if chosen.isdigit() and int(chosen) > 0 else max(1, math.floor(params.num_cpus))

"""The faults that a graph must live through: killed processes, texts that break the model, clients without manners."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import httpx

from registry.bundle import VersionRef, encoder_of
from serving import handles, rude
from serving.drill import Fault
from serving.faulty import Faulty
from serving.load import OK
from serving.measure import in_flight
from serving.overload import at_once
from serving.params import ServeParams
from serving.probe import ProbeFault, Target
from serving.sizes import calls_in_flight, max_replicas, texts_per_call
from serving.truth import LAG_S

OVER = 10.0
LEAVERS = 16
SLOW_READERS = 4
POISONS = 8
"""One poison text may be alone in its batch and harm nobody; of several in turn some have batch-mates."""
POISON, HANG = "a text that breaks the model", "a text on which the model hangs"
HUNG_AFTER_S = 10.0
"""The deadline of the app with planted faults: a model whose batch takes longer than any request may counts as hung."""


def on_any(target: Target, texts: Sequence[str]) -> Iterator[Fault]:
    """Faults for any app of ours, each made when the one before it is over."""
    few = list(texts[:LEAVERS])
    limit = target.params.max_queued_texts * target.params.ingress_replicas
    yield _replica_killed(target, "replica killed")
    yield _ingress_killed(target)
    yield Fault(
        "clients leave",
        f"{len(few)} clients hang up while their texts are in the model",
        "nobody else notices",
        partial(rude.leave, target, few),
    )
    yield Fault(
        "half a body",
        f"{len(few)} clients send half a body and wait",
        "nobody else notices",
        partial(rude.half_a_body, target, few),
    )
    yield Fault(
        "slow readers",
        f"{SLOW_READERS} clients read the answer to a list a byte a second",
        "they get it whole and nobody else notices",
        partial(rude.read_slowly, target, few[: target.params.max_texts], SLOW_READERS),
    )
    yield Fault(
        "overload",
        f"{int(OVER * limit):,} texts at once where {limit:,} may queue",
        "some are refused with 429, nothing else",
        partial(_overload, target, sorted(texts, key=len)[: target.params.max_texts]),
        fine=frozenset({OK, "429"}),
    )


def on_planted(target: Target) -> Iterator[Fault]:
    """Faults for an app that was built with `planted`, each made when the one before it is over."""
    # Its share of the calls that may be out, and one more that comes while the router finds all equally busy.
    share = calls_in_flight(target.params) // max_replicas(target.params)
    held = (share + 1) * texts_per_call(target.params)
    if len(handles.processes(target.app, handles.MODEL)) > 1:
        yield _replica_killed(target, "one of several killed")
    yield Fault(
        "poison",
        f"a text makes every forward raise that holds it; asked {POISONS} times",
        "it gets 500 and all others are answered",
        partial(_ask, target, POISON, {"500"}, POISONS),
    )
    yield Fault(
        "hang",
        f"a text hangs the model of one replica for ever (deadline {target.params.request_timeout_s:g} s)",
        f"what that replica holds, at most {held} texts, gets 408; some may get 503 until it is replaced",
        partial(_ask, target, HANG, {"408", "503"}),
        fine=frozenset({OK, "503"}),
        may_lose=held,
        lag_s=LAG_S + target.params.request_timeout_s,
        healed=_replaced(target, handles.MODEL),
    )


def planted(
    version: VersionRef, params: ServeParams, has_room: Callable[[ServeParams], bool]
) -> tuple[ServeParams, Faulty]:
    """How to build the app that fails on purpose: as in production, but two replicas at least where there is room."""
    fixed = params.autoscaling.min_replicas if params.autoscaling else params.num_replicas
    hasty = params.model_copy(
        update={
            "autoscaling": None,
            "num_replicas": fixed,
            "request_timeout_s": min(params.request_timeout_s, HUNG_AFTER_S),
        }
    )
    several = hasty.model_copy(update={"num_replicas": max(2, fixed)})
    raises, hangs = (one.ids for one in encoder_of(version.folder)([POISON, HANG]))
    return several if has_room(several) else hasty, Faulty(raises, hangs)


def _replica_killed(target: Target, name: str) -> Fault:
    alone = len(handles.processes(target.app, handles.MODEL)) == 1
    return Fault(
        name,
        f"SIGKILL of {'the only' if alone else 'one'} model replica",
        "requests wait up to 4 s, then 503 until the next is up" if alone else "every request is answered",
        partial(_kill, target, handles.MODEL),
        # A deadline that is shorter than what /health may take to notice comes first.
        fine=frozenset({OK, "503", *(["408"] if target.params.request_timeout_s <= LAG_S else [])} if alone else {OK}),
        healed=_replaced(target, handles.MODEL),
    )


def _ingress_killed(target: Target) -> Fault:
    return Fault(
        "ingress killed",
        f"SIGKILL of {'the' if target.params.ingress_replicas == 1 else 'an'} ingress",
        "what was inside it is lost",
        partial(_kill, target, handles.INGRESS),
        fine=frozenset({OK, "503"}),
        may_lose=in_flight(target.params),
        healed=_replaced(target, handles.INGRESS),
    )


def _kill(target: Target, deployment: str) -> "Counter[str]":
    handles.kill(next(iter(handles.processes(target.app, deployment).values())))
    return Counter()


def _replaced(target: Target, deployment: str) -> Callable[[], bool]:
    """Whether as many replicas run as now, and not the same."""
    before = handles.processes(target.app, deployment).keys()

    def again() -> bool:
        now = handles.processes(target.app, deployment).keys()
        return len(now) >= len(before) and now != before

    return again


def _overload(target: Target, shortest: Sequence[str]) -> "Counter[str]":
    _, answers = at_once(target, shortest, OVER)
    return Counter(str(answer.status_code) for answer in answers)


def _ask(target: Target, text: str, expected: set[str], times: int = 1) -> "Counter[str]":
    """Ask the text that breaks it, one time after the other; an answer that is not the `expected` error is a loss."""
    with target.client() as client:
        try:
            asked = [str(client.post(f"{target.url}/predict", json={"text": text}).status_code) for _ in range(times)]
        except httpx.HTTPError as error:
            raise ProbeFault(f"{text}: no answer, {type(error).__name__} {error}") from error
    return Counter(f"{status} instead of {' or '.join(sorted(expected))}" for status in asked if status not in expected)

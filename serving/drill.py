"""Faults inflicted on a running app under load -> what each cost, how long it lasted, what `/health` said of it."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from ray.exceptions import RayError

from registry.service_evidence import Drill
from serving.load import OK, Answer, Load
from serving.measure import Rows, in_flight, replicas
from serving.probe import ProbeFault, Target, together
from serving.truth import LAG_S, REFUSED, untrue
from serving.watch import Watch

LOOK_EVERY_S, LOOK_TIMEOUT_S = 0.1, 2.0
FIRST_ANSWERS_S = 30.0
LONGEST_S = 600.0
STEADY_S = 2.0
"""How long nothing may fail before a service counts as recovered."""
POLL_S = 0.2
SHOWN, AFTER_TEXTS = 3, 64


@dataclass(frozen=True)
class Fault:
    """What is done to the app, and the rule that says what it may cost."""

    name: str
    what: str
    rule: str
    inflict: Callable[[], "Counter[str]"]
    """Does it; the statuses of the requests that are part of the fault."""
    fine: frozenset[str] = frozenset({OK})
    """Statuses that lose nothing here."""
    may_lose: int = 0
    """Requests that may get another status, or none."""
    lag_s: float = LAG_S
    """How long `/health` may take to notice."""
    healed: Callable[[], bool] = field(default=lambda: True)
    """Whether all that was broken stands again."""


class Drills:
    """A steady load on a running app, and `/health` watched beside it, for the faults that are inflicted meanwhile."""

    def __init__(self, target: Target, golden: Rows, recovery_s: float, bound: float) -> None:
        """`recovery_s`: how long a fault may last; `bound`: how far a score may move with its batch-mates."""
        self._target, self._golden, self._recovery_s, self._bound = target, golden, recovery_s, bound
        # Room for the lists that are asked beside the load, which must not be refused for want of it.
        room = target.params.max_queued_texts - 2 * target.params.max_texts
        self._clients = max(1, min(in_flight(target.params), room))
        self._load = Load(target.url, golden.texts, self._clients, LONGEST_S, target.headers)
        self._watch = Watch(target, LOOK_EVERY_S, LOOK_TIMEOUT_S)

    def __enter__(self) -> Self:
        """Raises ProbeFault when the app does not answer."""
        with ExitStack() as ends:
            self._load.start()
            ends.callback(self._load.stop)
            if not self._load.wait_for(2 * self._clients, FIRST_ANSWERS_S):
                raise ProbeFault(f"no load was answered within {FIRST_ANSWERS_S:g} s, before any fault")
            ends.enter_context(self._watch)
            # As long as /health may lag, so that every look has a past to be judged by.
            time.sleep(LAG_S)
            self._ends = ends.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.close()

    def hold(self, fault: Fault) -> Drill:
        """Inflict it, wait until answers are steady again or the time is up, ask some of the golden rows.

        Raises ProbeFault when the app does not answer at all after it.
        """
        seen, struck = len(self._load.answers), time.monotonic()
        try:
            own = fault.inflict()
        except (RayError, OSError) as error:
            raise ProbeFault(f"{fault.what}: {type(error).__name__} {error}") from error
        recovered = _wait(lambda: fault.healed() and _steady(self._load.answers[seen:], struck), self._recovery_s)
        over = time.monotonic()
        few = slice(0, AFTER_TEXTS)
        after = together(self._target, self._golden.texts[few], self._golden.expected[few], self._bound)
        since = [answer for answer in self._load.answers[seen:] if struck <= answer.ended <= over]
        looks = [look for look in self._watch.looks if struck <= look.began <= over]
        lies = untrue(looks, list(self._load.answers), fault.lag_s)
        return Drill(
            what=fault.what,
            rule=fault.rule,
            replicas=replicas(self._target.params),
            clients=self._clients,
            statuses=dict(Counter(answer.status for answer in since) + own),
            fine=tuple(sorted(fault.fine)),
            may_lose=fault.may_lose,
            recovered=recovered,
            recovery_s=round(_lasted(since, struck), 2),
            slowest_s=round(max((answer.ended - answer.began for answer in since), default=0.0), 2),
            looks=len(looks),
            untrue=len(lies),
            untrue_examples=tuple(lies[:SHOWN]),
            after=after,
        )


def _steady(since: Sequence[Answer], struck: float) -> bool:
    good = any(answer.status == OK and answer.began >= struck for answer in since)
    return good and time.monotonic() - max(struck, _last_failure(since, struck)) >= STEADY_S


def _last_failure(since: Sequence[Answer], struck: float) -> float:
    return max((answer.ended for answer in since if answer.status not in {OK, *REFUSED}), default=struck)


def _lasted(since: Sequence[Answer], struck: float) -> float:
    """Seconds from the fault to the first answer of those asked after it, and to the last failure."""
    first = min((answer.ended for answer in since if answer.status == OK and answer.began >= struck), default=None)
    return max(_last_failure(since, struck), first if first is not None else time.monotonic()) - struck


def _wait(true: Callable[[], bool], at_most_s: float) -> bool:
    until = time.monotonic() + at_most_s
    while not (met := true()) and time.monotonic() < until:
        time.sleep(POLL_S)
    return met

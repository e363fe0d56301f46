"""The order of a measurement: probe, then latency and load, each beside the bare model in the same minute."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from registry import behaviour
from registry.contract import Prediction
from registry.evidence import Measured
from registry.reference import Pace, Reference
from registry.service_evidence import Batching, Behaviour, Identity, Latency, Parity, Throughput, Way
from serving import memory, probe
from serving.load import OK, Answer, Load
from serving.overload import overload
from serving.params import ServeParams
from serving.probe import ProbeFault, Target
from serving.sizes import threads

REPEATS = 3
ALONE_TEXTS = 34
"""Golden rows of one repeat, asked one by one."""
LOAD_S, RAW_S = 2.5, 1.5

Say = Callable[[str], None]


@dataclass(frozen=True)
class Rows:
    """Texts with the answers that they should get."""

    texts: Sequence[str]
    expected: Sequence[Prediction]

    def askable(self, target: Target) -> "Rows":
        """Those that the app takes."""
        kept = probe.askable(target, self.texts)
        return Rows([self.texts[row] for row in kept], [self.expected[row] for row in kept])


@dataclass(frozen=True)
class Repeat:
    """One round: one client and the bare model on the same rows, then many clients and the bare model again."""

    alone: list[Answer]
    raw_ms: list[float]
    load: list[Answer]
    raw: Pace

    @property
    def served_per_s(self) -> float:
        """Texts answered a second."""
        took_s = max(a.ended for a in self.load) - min(a.began for a in self.load)
        return sum(a.status == OK for a in self.load) / took_s


@dataclass(frozen=True)
class Inquiry:
    """What a running app is asked, and what its answers are held against."""

    reference: Reference
    """The registered bundle in a clean process."""
    golden: Rows
    test: Rows
    cases: behaviour.Cases
    bound: float
    """How far a score may move with its batch-mates."""
    say: Say
    memory: bool = False
    faults: bool = False


def measure(target: Target, inquiry: Inquiry) -> Measured:
    """Everything but the faults and the shutdown.

    Raises ProbeFault when the app stops answering or a replica dies: then nothing is known about the model.
    """
    reference, bound, say = inquiry.reference, inquiry.bound, inquiry.say
    golden, test = inquiry.golden.askable(target), inquiry.test.askable(target)
    say("asking the app who it is, and the table of good and bad requests")
    who, requests = probe.identity(target), probe.contract(target)
    say("asking the behaviour cases")
    behaves = _behaviour(target, inquiry.cases)
    say("asking the golden rows through the handle, in lists, shuffled, between odd neighbours")
    ways = probe.in_company(target, golden.texts, golden.expected, bound)
    repeats = [_repeat(target, reference, golden.texts, test.texts, number, say) for number in range(REPEATS)]
    say("asking for more than it may queue")
    too_much = overload(target, golden.texts)
    resident = None
    if inquiry.memory:
        say(f"watching its memory under steady load for {memory.MEMORY_S:g} s")
        resident = memory.memory(target, golden.texts, in_flight(target.params))
    _same_replicas(target, who)
    ways |= {
        "alone": _way([a for repeat in repeats for a in repeat.alone], golden, bound),
        "test rows under load": _way([a for repeat in repeats for a in repeat.load], test, bound),
    }
    return Measured(
        identity=who,
        contract=requests,
        behaviour=behaves,
        parity=Parity(runtime=target.engine.runtime, rounding=target.engine.rounding, ways=ways),
        batching=_batching(target, repeats),
        latency=_latency(repeats),
        throughput=_pace(target, repeats),
        overload=too_much,
        memory=resident,
    )


def _behaviour(target: Target, cases: behaviour.Cases) -> Behaviour:
    if not cases.are_about(target.contract.labels):
        return behaviour.not_asked(cases)
    texts, nothing = cases.texts(), dict.fromkeys(target.contract.labels, 0.0)
    answers = {
        # A refusal is an answer too, and never the wanted one.
        texts[a.text]: Prediction(a.label or f"status {a.status}", 0.0, dict(a.scores or nothing), truncated=False)
        for a in probe.alone(target, texts, range(len(texts)))
    }
    return behaviour.seen(cases, answers)


def _repeat(
    target: Target, reference: Reference, golden: Sequence[str], test: Sequence[str], number: int, say: Say
) -> Repeat:
    say(f"measuring latency and load, round {number + 1} of {REPEATS}")
    rows = [row % len(golden) for row in range(number * ALONE_TEXTS, (number + 1) * ALONE_TEXTS)]
    alone = probe.alone(target, golden, rows)
    raw_ms = reference.alone_ms([golden[row] for row in rows])
    # Each round begins elsewhere, so that more of the test rows are asked.
    start = number * len(test) // REPEATS
    load = Load(target.url, test, in_flight(target.params), LOAD_S, target.headers, start).run()
    if silent := Counter(a.status for a in load if not a.status.isdigit()):
        raise ProbeFault(f"requests got no answer while it was measured: {dict(silent)}")
    rotated = [*test[start:], *test[:start]]
    return Repeat(alone, raw_ms, load, reference.pace(rotated, target.params.max_batch_size, RAW_S))


def replicas(params: ServeParams) -> int:
    """Model replicas that a graph begins with."""
    return params.autoscaling.min_replicas if params.autoscaling else params.num_replicas


def in_flight(params: ServeParams) -> int:
    """Texts that keep every replica busy with one batch while the next gathers, as far as admission allows."""
    return min(2 * params.max_batch_size * replicas(params), params.max_queued_texts * params.ingress_replicas)


def bare_threads(params: ServeParams) -> int:
    """Threads of the bare model: those of all replicas together."""
    return threads(params) * replicas(params)


def _same_replicas(target: Target, who: Identity) -> None:
    """Raises ProbeFault when a replica was replaced while it was measured (killed, out of memory, unhealthy)."""
    gone = who.loaded.keys() - probe.replicas(target).keys()
    if gone and not target.params.autoscaling:
        raise ProbeFault(f"replica {', '.join(sorted(gone))} died while it was measured")


def _way(answers: Sequence[Answer], rows: Rows, bound: float) -> Way:
    return probe.compare([a.scores for a in answers], [rows.expected[a.text] for a in answers], bound)


def _batching(target: Target, repeats: Sequence[Repeat]) -> Batching:
    sizes = Counter(a.batch for repeat in repeats for a in repeat.load if a.batch)
    began = [min(a.began for a in repeat.load) for repeat in repeats]
    return Batching(
        max_batch_size=target.params.max_batch_size,
        in_flight=in_flight(target.params),
        texts_by_size=dict(sizes),
        over_time=tuple(
            (round(a.ended - start, 3), a.batch)
            for repeat, start in zip(repeats, began, strict=True)
            for a in repeat.load
            if a.batch
        ),
    )


def _latency(repeats: Sequence[Repeat]) -> Latency:
    p50, p95, p99 = (
        tuple(float(np.quantile([a.ms for a in repeat.alone], share)) for repeat in repeats)
        for share in (0.5, 0.95, 0.99)
    )
    return Latency(
        requests=sum(len(repeat.alone) for repeat in repeats),
        p50_ms=p50,
        p95_ms=p95,
        p99_ms=p99,
        raw_p50_ms=tuple(float(np.median(repeat.raw_ms)) for repeat in repeats),
        ms=tuple(round(a.ms, 1) for repeat in repeats for a in repeat.alone),
    )


def _pace(target: Target, repeats: Sequence[Repeat]) -> Throughput:
    return Throughput(
        in_flight=in_flight(target.params),
        threads=bare_threads(target.params),
        served=tuple(repeat.served_per_s for repeat in repeats),
        raw=tuple(repeat.raw.texts_per_s for repeat in repeats),
        forward_ms=tuple(repeat.raw.forward_ms for repeat in repeats),
        forward_flops=tuple(repeat.raw.forward_flops for repeat in repeats),
        matmul_flops_per_s=tuple(repeat.raw.matmul_flops_per_s for repeat in repeats),
        statuses=dict(Counter(a.status for repeat in repeats for a in repeat.load)),
    )

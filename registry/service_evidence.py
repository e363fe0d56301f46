"""Evidence about the running app: what each part of a measurement saw."""

from registry.seen import Seen


class Misbehaviour(Seen):
    """A behaviour case that came out wrong."""

    text: str
    wanted: str
    said: str


class BehaviourKind(Seen):
    """The cases of one kind."""

    cases: int
    failing: tuple[Misbehaviour, ...]

    @property
    def pass_rate(self) -> float:
        """Share of the cases that came out right; 1 when there is none."""
        return 1 - len(self.failing) / self.cases if self.cases else 1.0


class Behaviour(Seen):
    """What the running app makes of the behaviour cases."""

    about: tuple[str, ...]
    """The labels that the cases are about."""
    kinds: dict[str, BehaviourKind]
    """Empty: the model has other labels, so nothing was asked."""


class Identity(Seen):
    """Names and digests as given, as computed by each replica from its bytes, and as answered over HTTP."""

    version: str
    digest: str
    graph_digest: str
    nonce: str
    runtime: str
    """The one that `serve.precision` chooses among those that the bundle keeps."""
    loaded: dict[str, str]
    """Replica id -> bundle digest, asked through the model's handle."""
    runtimes: dict[str, str]
    """Replica id -> the runtime that it answers in."""
    ingress: dict[str, str]
    """What the ingress said through its handle for graph_digest and deployment."""
    health: dict[str, str]
    """What `/health` answered for version, digest, graph_digest, nonce and runtime."""
    header_version: str
    """`x-model-version` of an answer."""


class Case(Seen):
    """One request of the contract's table and what came back."""

    name: str
    expected: str
    got: str
    ok: bool


class Way(Seen):
    """Rows asked in one way, against what the registered bytes answer."""

    answers: int
    labels_differ: int
    """Labels that differ although the top two scores are not closer than the bound."""
    worst: float
    """Largest difference of a score."""


class Parity(Seen):
    """Answers of the running app against the same runtime in a clean process."""

    runtime: str
    rounding: float
    """How far this runtime's rounding alone moves a score on the device that serves."""
    ways: dict[str, Way]


class Batching(Seen):
    """Texts that the scorer was given together while `in_flight` texts were waiting."""

    max_batch_size: int
    in_flight: int
    texts_by_size: dict[int, int]
    """Batch size -> texts that rode in a batch of that size."""
    over_time: tuple[tuple[float, int], ...]
    """Seconds since the load began, and the size of the batch of one text answered then; all repeats."""


class Latency(Seen):
    """One client, one text a request; milliseconds, one number a repeat."""

    requests: int
    p50_ms: tuple[float, ...]
    p95_ms: tuple[float, ...]
    p99_ms: tuple[float, ...]
    raw_p50_ms: tuple[float, ...]
    """The same texts one by one through the scorer in the clean process, in the same repeats."""
    ms: tuple[float, ...]
    """Every request of every repeat."""


class Throughput(Seen):
    """Texts/s under load, one number a repeat, each beside the raw forward of the same minute."""

    in_flight: int
    threads: int
    """Threads of the clean process: those of all replicas together."""
    served: tuple[float, ...]
    raw: tuple[float, ...]
    forward_ms: tuple[float, ...]
    """The raw forward of one full batch, encoding and decoding included, on average."""
    forward_flops: tuple[float, ...]
    """Operations of such a forward, counted from the model's own shapes."""
    matmul_flops_per_s: tuple[float, ...]
    """What a fixed matmul makes of the same threads, before and after that forward."""
    statuses: dict[str, int]
    """HTTP status or kind of error -> answers."""


class Overload(Seen):
    """More texts at once than may be queued."""

    texts: int
    limit: int
    """What all ingresses together may queue."""
    statuses: dict[str, int]
    """HTTP status -> requests, each a list of texts."""
    without_retry_after: int
    """Refusals that do not say when to come back."""
    health: dict[str, int]
    """What `/health` answered meanwhile: status or kind of error -> times."""
    health_s: tuple[float, ...]
    """How long each of these took."""
    after: dict[str, int]
    """Status of single texts right after it."""
    after_ms: tuple[float, ...]


class Shutdown(Seen):
    """The app was taken down while requests were in flight."""

    in_flight: int
    finished: int
    refused: int
    """Answered with 503 before they began."""
    lost: dict[str, int]
    """Status or kind of error -> requests in flight that got neither."""
    seconds: float
    """From the order to the app's last answer and its teardown."""
    orphans: tuple[str, ...]
    """Processes that were still there ten seconds after Ray had been left."""
    port_free: bool


class Drill(Seen):
    """One fault inflicted on the running app under load, and what came of it."""

    what: str
    rule: str
    """What it may cost, in words."""
    replicas: int
    clients: int
    statuses: dict[str, int]
    """HTTP status or kind of error -> requests that ended after the fault."""
    fine: tuple[str, ...]
    """The statuses that lose nothing here."""
    may_lose: int
    """Requests that may get another status, or none."""
    recovered: bool
    """Whether what was broken stood again in time and nothing failed any more."""
    recovery_s: float
    """From the fault to the first answer after it, and to the last failure."""
    slowest_s: float
    looks: int
    """How often `/health` was asked."""
    untrue: int
    """How often its answer was not what clients saw."""
    untrue_examples: tuple[str, ...]
    after: Way
    """Some of the golden rows, asked when it was over."""

    @property
    def lost(self) -> dict[str, int]:
        """Requests by the status that lost them."""
        return {status: count for status, count in self.statuses.items() if status not in self.fine}


class Faults(Seen):
    """The drills, in the order in which they were held."""

    rounding: float
    """As in Parity."""
    drills: dict[str, Drill]


class Resident(Seen):
    """Resident memory of one process while it answered."""

    over_time: tuple[tuple[float, int], ...]
    """Seconds since the load began, and bytes."""


class Memory(Seen):
    """Resident memory of every process of the graph under steady load, after it had been warmed up."""

    texts: int
    """Texts answered meanwhile."""
    seconds: float
    processes: dict[str, Resident]
    """Deployment and replica id -> memory."""

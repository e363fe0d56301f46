"""Evidence: what was measured on one version and its graph. Gates judge it and look at nothing else."""

from registry.seen import Seen
from registry.service_evidence import (
    Batching,
    Behaviour,
    Case,
    Faults,
    Identity,
    Latency,
    Memory,
    Overload,
    Parity,
    Shutdown,
    Throughput,
)


class ClassSeen(Seen):
    """How well one class is told from the others; null where it has no rows."""

    f1: float | None
    support: int


class SliceSeen(Seen):
    """How well the rows of one slice are answered."""

    accuracy: float
    support: int


class Bin(Seen):
    """The rows whose top score lies in one tenth of 0..1."""

    rows: int
    score: float
    accuracy: float


class Offline(Seen):
    """What the bundle answered on the test split, as `evaluate` measured it."""

    source: str
    """`data.source`: a built-in corpus has floors of its own."""
    labels: tuple[str, ...]
    rows: int
    accuracy: float
    macro_f1: float
    calibration_error: float
    majority_accuracy: float
    majority_macro_f1: float
    tfidf_accuracy: float
    tfidf_macro_f1: float
    classes: dict[str, ClassSeen]
    slices: dict[str, SliceSeen]
    reliability: tuple[Bin, ...]
    confusion: tuple[tuple[int, ...], ...]
    """Row = truth, column = answer, in the order of `labels`."""
    top_scores: tuple[float, ...]
    """The top score of every test row."""


class Changed(Seen):
    """A test row that the champion and the candidate answer differently."""

    text: str
    truth: str
    theirs: str
    ours: str


class Champion(Seen):
    """The baseline champion and the candidate on the same test rows; class numbers index `labels`."""

    digest: str
    its_labels: tuple[str, ...]
    labels: tuple[str, ...]
    """The labels of either; the rows compared are those whose truth both know."""
    truth: tuple[int, ...]
    ours: tuple[int, ...]
    theirs: tuple[int, ...]
    slices: tuple[str | None, ...]
    """The slice of each row compared."""
    examples: tuple[Changed, ...]
    """Rows whose answer changes, those that become wrong first; texts are cut."""
    left_out: int
    """Test rows that the champion was trained on, or whose label it does not know."""
    training_known: bool
    """Whether it is known which rows the champion was trained on."""


class Measured(Seen):
    """What a running app showed; its end is measured where it ends."""

    identity: Identity
    contract: tuple[Case, ...]
    behaviour: Behaviour
    parity: Parity
    batching: Batching
    latency: Latency
    throughput: Throughput
    overload: Overload
    memory: Memory | None = None
    """None: not in the set of gates that was asked for."""


class AboutService(Measured):
    """All that the service gates look at."""

    faults: Faults | None = None
    """None: not in the set of gates that was asked for."""
    shutdown: Shutdown
    last_words: str
    """Serve's status and the ends of its logs, as they were before it was told to stop; shown when a gate fails."""


class AboutModel(Seen):
    """All that the model gates look at."""

    offline: Offline
    champion: Champion | None
    """None: no champion yet."""


class Evidence(AboutModel, AboutService):
    """Everything that was measured."""

"""What the probes make of answers: near ties are no difference, errors are, and no list is longer than allowed."""

from itertools import pairwise

import pytest

from registry.bundle import VersionRef, read_contract
from registry.contract import Prediction
from registry.runtimes import Engine
from serving import probe
from serving.measure import in_flight
from serving.params import AutoscalingParams, ServeParams
from serving.probe import Target


def target(version: VersionRef, **params: object) -> Target:
    """A target that nobody has to ask."""
    return Target(
        url="http://127.0.0.1:9",
        app="app",
        version=version,
        contract=read_contract(version.folder),
        params=ServeParams.model_validate(params),
        graph_digest="g",
        nonce="n",
        engine=Engine(),
        headers={},
    )


def right(a: float) -> Prediction:
    """An answer with two labels."""
    scores = {"a": a, "b": 1 - a}
    label = max(scores, key=scores.__getitem__)
    return Prediction(label, scores[label], scores, truncated=False)


@pytest.mark.parametrize(
    ("got", "expected", "labels_differ", "worst"),
    [
        ({"a": 0.9, "b": 0.1}, right(0.9), 0, 0.0),
        ({"a": 0.9, "b": 0.1}, right(0.8), 0, 0.1),
        ({"a": 0.2, "b": 0.8}, right(0.8), 1, 0.6),
        ({"a": 0.49999, "b": 0.50001}, right(0.50001), 0, 2e-5),
        (None, right(0.8), 1, 0.0),
    ],
    ids=["equal", "another score", "another label", "a tie within the bound", "an error"],
)
def test_an_answer_is_compared_with_the_right_one(
    got: dict[str, float] | None, expected: Prediction, labels_differ: int, worst: float
) -> None:
    way = probe.compare([got, got], [expected, expected], bound=1e-4)
    assert (way.answers, way.labels_differ) == (2, 2 * labels_differ)
    assert way.worst == pytest.approx(worst)


def test_results_shifted_by_one_are_seen() -> None:
    expected = [right(a / 10) for a in range(1, 9)]
    shifted = [*expected[1:], expected[0]]
    way = probe.compare([one.scores for one in shifted], expected, bound=1e-4)
    assert way.labels_differ >= 2 and way.worst >= 0.1


def test_lists_keep_max_texts_and_max_body_bytes_with_their_neighbours(tiny_version: VersionRef) -> None:
    asked = target(tiny_version, max_texts=10, max_body_bytes=4096)
    texts = ["x" * 60] * 25
    lists = list(probe.chunks(asked, texts, range(25), guests=4))
    assert [row for rows in lists for row in rows] == list(range(25))
    assert max(map(len, lists)) <= 6
    assert all(sum(len(texts[row]) * 6 for row in rows) < 4096 for rows in lists)
    assert all(one[-1] + 1 == other[0] for one, other in pairwise(lists))


def test_only_texts_that_the_app_takes_are_asked(tiny_version: VersionRef) -> None:
    texts = ["good", "word " * 600, "é " * 2500]
    assert probe.askable(target(tiny_version), texts) == [0, 1, 2]
    assert probe.askable(target(tiny_version, on_long_text="reject"), texts) == [0]
    assert probe.askable(target(tiny_version, max_body_bytes=20_000), texts) == [0, 1]


def test_the_load_is_twice_what_all_replicas_take_as_far_as_admission_allows() -> None:
    assert in_flight(ServeParams(max_batch_size=32, num_replicas=1)) == 64
    assert in_flight(ServeParams(max_batch_size=32, num_replicas=2)) == 128
    assert in_flight(ServeParams(max_batch_size=512, max_queued_texts=600)) == 600
    grown = ServeParams(max_batch_size=8, autoscaling=AutoscalingParams(min_replicas=2, max_replicas=4))
    assert in_flight(grown) == 32

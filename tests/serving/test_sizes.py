"""The numbers that follow from the params."""

import pytest

from serving import sizes
from serving.params import AutoscalingParams, ServeParams


@pytest.mark.parametrize("max_batch_size", [1, 2, 3, 5, 8, 32, 511, 512])
@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("ingress_replicas", [1, 2])
def test_a_full_batch_fits_through_every_hop_and_none_is_too_large(
    max_batch_size: int, replicas: int, ingress_replicas: int
) -> None:
    params = ServeParams(max_batch_size=max_batch_size, num_replicas=replicas, ingress_replicas=ingress_replicas)
    per_batch = sizes.texts_per_call(params) * sizes.calls_per_batch(params)
    assert max_batch_size / 2 < per_batch <= max_batch_size or per_batch == max_batch_size == 1
    in_flight = sizes.calls_per_ingress(params) * ingress_replicas
    assert in_flight >= 2 * sizes.calls_per_batch(params) * replicas
    assert sizes.max_ongoing_requests(params) > in_flight


def test_autoscaling_is_given_room_for_all_its_replicas_and_aims_at_a_batch_each() -> None:
    params = ServeParams(max_batch_size=32, autoscaling=AutoscalingParams(max_replicas=3))
    assert sizes.calls_in_flight(params) == 3 * sizes.calls_in_flight(ServeParams(max_batch_size=32, num_replicas=1))
    assert sizes.target_ongoing_requests(params) * sizes.texts_per_call(params) >= 16
    assert sizes.calls_in_flight(params) > sizes.target_ongoing_requests(params) * 2


@pytest.mark.parametrize(
    ("num_cpus", "chosen", "threads"),
    [(1.0, None, 1), (0.5, None, 1), (2.9, None, 2), (4.0, "3", 3), (0.5, "2", 2), (2.0, "", 2), (2.0, "many", 2)],
)
def test_t10_threads_are_the_cpus_assigned_unless_the_user_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, num_cpus: float, chosen: str | None, threads: int
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if chosen is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", chosen)
    assert sizes.threads(ServeParams(num_cpus=num_cpus)) == threads

"""What Prometheus reads: Ray's endpoint tells of texts, waits and padding."""

import re
import time

import httpx
import pytest

from registry.bundle import VersionRef
from serving import metrics
from tests.serving.conftest import Deploy

# Processes hand their numbers on every ten seconds.
HANDED_ON_S = 40


def told(name: str, app: str) -> float:
    """The sum over this app's series, 0 where there is none."""
    page = httpx.get(metrics.url(), timeout=10, trust_env=False).text
    lines = re.findall(rf"^ray_{name}\{{([^}}]*)\}} (\S+)$", page, re.MULTILINE)
    return sum(float(value) for tags, value in lines if f'application="{app}"' in tags)


@pytest.mark.slow
def test_metrics_count_texts_and_not_calls(deploy: Deploy, tiny_version: VersionRef) -> None:
    with deploy(tiny_version) as url:
        app = url.rsplit("/", 1)[1]
        for _ in range(3):
            body = {"texts": ["good", "a film", "it was very bad and sad"]}
            assert httpx.post(f"{url}/predict", json=body, timeout=30).status_code == 200
        until = time.monotonic() + HANDED_ON_S
        while time.monotonic() < until and told("predict_wait_ms_count", app) < 3:
            time.sleep(1)
        assert told("predict_wait_ms_count", app) == 3
        assert told("predict_texts_total", app) == 9
        assert told("predict_batch_texts_count", app) == told("predict_padding_share_count", app) <= 9
        assert told("predict_forward_ms_sum", app) > 0

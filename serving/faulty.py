"""The real scorer with two planted faults: a text on which it raises, and one on which it hangs."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from registry.contract import Encoded, FloatArray
from registry.runtimes import Engine
from serving.replica import load_bundle

if TYPE_CHECKING:
    from registry.scorer import Scorer

FOR_EVER_S = 3600.0


class Planted(Exception):
    """The fault that was asked for."""


@dataclass(frozen=True)
class Faulty:
    """A loader, as `build(load=…)` takes it; all other texts are answered as by the bundle."""

    raises: tuple[int, ...]
    """Token ids of the text on which every forward raises that holds it."""
    hangs: tuple[int, ...]
    """Token ids of the text on which every forward hangs that holds it."""

    def __call__(self, folder: Path, digest: str, engine: Engine) -> "Scorer":
        """Load the bundle. Raises BundleError as `load_bundle` does."""
        scorer = load_bundle(folder, digest, engine)
        real = scorer.forward

        def forward(encoded: Sequence[Encoded]) -> FloatArray:
            ids = {one.ids for one in encoded}
            if self.raises in ids:
                raise Planted
            if self.hangs in ids:
                time.sleep(FOR_EVER_S)
            return real(encoded)

        scorer.forward = forward
        return scorer

"""A registered bundle in a clean process: no Ray, no HTTP, no batch-mates. What a running app is compared with.

`Reference` is the near end; `python -m registry.reference FOLDER DIGEST RUNTIME DEVICE THREADS` is the far one.
They speak JSON, a line a question.
"""

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, cast

from registry.bundle import MODEL, BundleError, VersionRef
from registry.contract import Prediction
from registry.errors import MachineFault
from registry.runtimes import Engine

ROOT = Path(__file__).resolve().parents[1]
LOAD_TIMEOUT_S = 90.0
ANSWER_TIMEOUT_S = 300.0
LABELS_BATCH = 32
MATMUL_S = 0.25


class ReferenceFault(MachineFault):
    """The clean process could not be started, or ended early."""


@dataclass(frozen=True)
class Pace:
    """Encode, forward, decode, beside the yardstick of the same seconds."""

    texts_per_s: float
    forward_ms: float
    forward_flops: float
    matmul_flops_per_s: float


class Reference:
    """The near end; as a context manager it ends the process on every way out."""

    def __init__(self, version: VersionRef, engine: Engine) -> None:
        """Starts loading and returns at once; the first question waits for it."""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - __exit__ closes it
        self._ready = False
        self._model = str(version.folder / MODEL)
        command = [
            sys.executable,
            "-m",
            "registry.reference",
            str(version.folder),
            version.digest,
            engine.runtime,
            engine.device,
            str(engine.threads),
        ]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
        )
        self._questions, self._answers = (cast(IO[bytes], p) for p in (self._process.stdin, self._process.stdout))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def wait_until_loaded(self) -> None:
        """Raises BundleError when the bytes or the canaries are not the registered ones, ReferenceFault otherwise."""
        if not self._ready:
            said = self._read(LOAD_TIMEOUT_S)
            if said != "ready":
                raise BundleError(str(said["bundle_error"]))
            self._ready = True

    def alone(self, texts: Sequence[str]) -> list[Prediction]:
        """Each text in a forward of its own."""
        return [Prediction(**answer) for answer in self._ask("alone", texts=list(texts))]

    def labels(self, texts: Sequence[str]) -> list[str]:
        """The label of each of many texts, like lengths in a forward."""
        return [str(label) for label in self._ask("labels", texts=list(texts))]

    def alone_ms(self, texts: Sequence[str]) -> list[float]:
        """Milliseconds that each takes, one by one: encode, forward, decode."""
        return [float(ms) for ms in self._ask("alone_ms", texts=list(texts))]

    def pace(self, texts: Sequence[str], batch_size: int, at_least_s: float) -> Pace:
        """How fast it is with `batch_size` texts in a forward."""
        given = {"texts": list(texts), "batch_size": batch_size, "at_least_s": at_least_s}
        return Pace(**self._ask("pace", model=self._model, **given))

    def _ask(self, question: str, **given: Any) -> Any:
        self.wait_until_loaded()
        try:
            self._questions.write(json.dumps({"question": question, **given}).encode() + b"\n")
            self._questions.flush()
        except BrokenPipeError as error:
            raise self._fault("has ended") from error
        return self._read(ANSWER_TIMEOUT_S)

    def _read(self, at_most_s: float) -> Any:
        # A question has one line of answer, so nothing ever waits in the buffer where select cannot see it.
        readable, _, _ = select.select([self._answers], [], [], at_most_s)
        line = self._answers.readline() if readable else b""
        if not line.endswith(b"\n"):
            raise self._fault("has ended" if readable else f"did not answer within {at_most_s:g} s")
        return json.loads(line)

    def _fault(self, what: str) -> ReferenceFault:
        self._errors.seek(0)
        tail = self._errors.read()[-2000:].decode(errors="replace")
        return ReferenceFault(f"the clean process that loads the registered bundle {what}:\n{tail}")


def main(folder: str, digest: str, runtime: str, device: str, threads: str) -> None:
    """The far end: load, say so, answer until the near end closes the pipe."""
    # What libraries print must not mix with the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

    import torch

    from registry import scorer

    # The yardstick is torch's, whatever the engine.
    torch.set_num_threads(int(threads))
    try:
        loaded = scorer.load(Path(folder), digest, Engine(runtime, device, int(threads)))
    except BundleError as error:
        _say(answers, {"bundle_error": str(error)})
        return
    _say(answers, "ready")
    for line in sys.stdin:
        asked = json.loads(line)
        _say(answers, QUESTIONS[asked.pop("question")](loaded, **asked))


def _say(answers: IO[str], what: Any) -> None:
    answers.write(json.dumps(what) + "\n")
    answers.flush()


def _alone(loaded: Any, texts: list[str]) -> list[dict[str, Any]]:
    answers = [loaded([text])[0] for text in texts]
    return [{"label": a.label, "score": a.score, "scores": a.scores, "truncated": a.truncated} for a in answers]


def _labels(loaded: Any, texts: list[str]) -> list[str]:
    order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
    labels = [""] * len(texts)
    for start in range(0, len(order), LABELS_BATCH):
        rows = order[start : start + LABELS_BATCH]
        for row, answer in zip(rows, loaded([texts[row] for row in rows]), strict=True):
            labels[row] = answer.label
    return labels


def _alone_ms(loaded: Any, texts: list[str]) -> list[float]:
    taken = []
    for text in texts:
        began = time.perf_counter()
        loaded([text])
        taken.append((time.perf_counter() - began) * 1000)
    return taken


def _pace(loaded: Any, model: str, texts: list[str], batch_size: int, at_least_s: float) -> dict[str, float]:
    from registry import yardstick

    before = yardstick.matmul_flops_per_s(loaded.device, MATMUL_S)
    lengths: list[int] = []
    began = time.perf_counter()
    while (taken := time.perf_counter() - began) < at_least_s:
        encoded = loaded.encode([texts[(len(lengths) + index) % len(texts)] for index in range(batch_size)])
        loaded.score(encoded)
        lengths += [len(text.ids) for text in encoded]
    batches = len(lengths) // batch_size
    after = yardstick.matmul_flops_per_s(loaded.device, MATMUL_S)
    return {
        "texts_per_s": len(lengths) / taken,
        "forward_ms": taken / batches * 1000,
        # Of the texts alone: what is spent on padding is waste.
        "forward_flops": sum(yardstick.flops(Path(model), 1, length) for length in lengths) / batches,
        "matmul_flops_per_s": (before + after) / 2,
    }


QUESTIONS: dict[str, Callable[..., Any]] = {"labels": _labels, "alone": _alone, "alone_ms": _alone_ms, "pace": _pace}

if __name__ == "__main__":
    main(*sys.argv[1:])

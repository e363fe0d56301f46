"""Dials of the graph and of the socket: the `serve` and `listen` branches of params.yaml."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from registry.branch import Branch
from registry.runtimes import BY_PRECISION, Wanted


class AutoscalingParams(Branch):
    """Ray Serve's `autoscaling_config` for the model deployment, under its names."""

    min_replicas: Annotated[int, Field(ge=1)] = 1
    max_replicas: Annotated[int, Field(ge=1)]
    upscale_delay_s: Annotated[float, Field(ge=0)] = 5.0
    downscale_delay_s: Annotated[float, Field(ge=0)] = 60.0

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min_replicas > self.max_replicas:
            raise ValueError("min_replicas must not be above max_replicas")
        return self


class ServeParams(Branch):
    """How a version is served; every field is in the graph digest."""

    num_replicas: Annotated[int, Field(ge=1)] = 1
    """Model replicas; ignored when `autoscaling` is given."""
    autoscaling: AutoscalingParams | None = None
    ingress_replicas: Annotated[int, Field(ge=1)] = 1
    num_cpus: Annotated[float, Field(gt=0)] = 1.0
    """CPUs of one model replica, fractions allowed; its threads are derived from them."""
    num_gpus: Annotated[float, Field(ge=0)] = 0.0
    """GPUs of one model replica, fractions allowed; above 0 the model runs on cuda."""
    precision: Wanted = "auto"
    """fp32, int8 (CPU), bf16 or fp16 (GPU); auto: the fastest that the bundle keeps for the device."""
    max_batch_size: Annotated[int, Field(ge=1, le=512)] = 32
    """Texts in one forward."""
    batch_wait_s: Annotated[float, Field(ge=0, le=1)] = 0.005
    """Longest wait for batch-mates while others are in the model; an idle model is asked at once."""
    max_texts: Annotated[int, Field(ge=1)] = 64
    """Texts in one request."""
    max_body_bytes: Annotated[int, Field(ge=1024)] = 1_048_576
    max_queued_texts: Annotated[int, Field(ge=1)] = 1024
    """Texts in flight in one ingress before 429."""
    request_timeout_s: Annotated[float, Field(gt=0.2)] = 30.0
    on_long_text: Literal["truncate", "reject"] = "truncate"
    graceful_shutdown_s: Annotated[float, Field(gt=0)] = 10.0

    @model_validator(mode="after")
    def _queue_holds_a_request(self) -> Self:
        if self.max_queued_texts < self.max_texts:
            raise ValueError("max_queued_texts must be at least max_texts, or a full request could never be admitted")
        return self

    @model_validator(mode="after")
    def _precision_has_its_device(self) -> Self:
        device = "cuda" if self.num_gpus > 0 else "cpu"
        if self.precision != "auto" and device not in BY_PRECISION[self.precision].devices:
            raise ValueError(
                f"precision {self.precision} does not run on {device}, where num_gpus {self.num_gpus:g} puts it; "
                "take auto or fp32"
            )
        return self


class ListenParams(Branch):
    """Where the service listens; not in the graph digest."""

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=1, le=65535)] = 8000
    route_prefix: Annotated[str, Field(pattern=r"^/([A-Za-z0-9_~.-]+(/[A-Za-z0-9_~.-]+)*)?$")] = "/"

"""The HTTP types: what OpenAPI shows of requests, answers and errors."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema


def _no_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


EXAMPLE_ANSWER: dict[str, Any] = {
    "predictions": [
        {
            "label": "positive",
            "score": 0.93,
            "scores": {"negative": 0.02, "neutral": 0.05, "positive": 0.93},
            "truncated": False,
        }
    ],
    "model": {"name": "sentiment", "version": "3", "digest": "sha256:…"},
}
Missing = SkipJsonSchema[None]
"""null where it may be; not in the schema, which is OpenAPI 3.0 and has no such type."""


class PredictRequest(BaseModel):
    """Exactly one of the two fields. `serving.body` reads it and says what is wrong."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"oneOf": [{"required": ["text"]}, {"required": ["texts"]}]}
    )

    text: str | Missing = Field(default=None, description="One text.", json_schema_extra=_no_default)
    texts: list[str] | Missing = Field(
        default=None, min_length=1, description="Up to serve.max_texts texts.", json_schema_extra=_no_default
    )


class PredictionOut(BaseModel):
    """One text's answer."""

    label: str
    score: float = Field(ge=0, le=1, description="Calibrated probability of `label`.")
    scores: dict[str, float] = Field(description="Probability of every label; they sum to 1.")
    truncated: bool = Field(description="The text was longer than max_tokens and was cut.")


class ModelOut(BaseModel):
    """Which version answered."""

    name: str
    version: str
    digest: str


class PredictResponse(BaseModel):
    """One prediction per text, in order."""

    model_config = ConfigDict(json_schema_extra={"example": EXAMPLE_ANSWER})

    predictions: list[PredictionOut]
    model: ModelOut


class ErrorDetail(BaseModel):
    """What went wrong, where, and what to do."""

    type: str
    message: str
    field: str | Missing


class ErrorResponse(BaseModel):
    """The one shape of every error."""

    error: ErrorDetail
    request_id: str


class HealthResponse(BaseModel):
    """Which version answers, and whether it answers right. With API keys set, a request without one sees `status`."""

    status: Literal["ok", "unhealthy"]
    reason: str | Missing = Field(description="Why it is unhealthy.")
    uptime_s: float
    model: ModelOut
    graph_digest: str = Field(description="How it is served: params, code, libraries.")
    verified: bool = Field(description="The registry holds a passing report for this digest and graph digest.")
    deployment: str = Field(description="The nonce given at deploy.")
    training: dict[str, Any]
    runtime: str
    precision: str
    device: str
    labels: list[str]
    max_tokens: int
    build: dict[str, Any]

"""What OpenAPI says about the routes, with examples that work as they stand."""

from typing import Any

from serving.schema import ErrorResponse, HealthResponse, PredictRequest, PredictResponse

# The Swagger page that we carry along (swagger-ui-bundle) reads 3.0.
VERSION = "3.0.3"
# Relative to openapi.json, so that "Try it out" works below any prefix and behind any proxy.
SERVERS: list[dict[str, Any]] = [{"url": "."}]

EXAMPLES: dict[str, Any] = {
    "one": {"summary": "one text", "value": {"text": "a place to start"}},
    "list": {"summary": "a list of texts", "value": {"texts": ["a place to start", "too tepid"]}},
}
FAULTS = {
    400: "Not JSON, not UTF-8, half a character, or nested beyond sense; a bad header.",
    401: "API keys are set and none, or a wrong one, was given.",
    408: "The deadline passed.",
    413: "The body is too large, or there are too many texts.",
    415: "Not application/json.",
    422: "Wrong fields or types, an empty list, an empty text, a text too long.",
    429: "The queue is full; see Retry-After.",
    500: "A fault of the service.",
    503: "No replica can answer now; see Retry-After.",
}

PREDICT: dict[str, Any] = {
    "response_model": PredictResponse,
    "responses": {status: {"model": ErrorResponse, "description": why} for status, why in FAULTS.items()},
    "openapi_extra": {
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": PredictRequest.model_json_schema(), "examples": EXAMPLES}},
        }
    },
}
HEALTH: dict[str, Any] = {
    "response_model": HealthResponse,
    "responses": {503: {"model": HealthResponse, "description": "The model does not answer, or answers wrongly."}},
}

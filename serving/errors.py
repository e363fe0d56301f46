"""The one shape of every error over HTTP, and the reasons for it."""

from collections.abc import Mapping


class ApiError(Exception):
    """A request that ends with an error of ours. `message` never holds the user's text."""

    def __init__(
        self,
        status: int,
        kind: str,
        message: str,
        field: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.kind, self.message, self.field = status, kind, message, field
        self.headers = dict(headers or {})

    def body(self, request_id: str) -> dict[str, object]:
        """The JSON of the answer."""
        error = {"type": self.kind, "message": self.message, "field": self.field}
        return {"error": error, "request_id": request_id}


# Long enough for a queue to drain, short enough for a replaced replica not to stand idle.
RETRY_AFTER_S = 1


def queue_full(limit: int) -> ApiError:
    """429: admission is at `serve.max_queued_texts`."""
    return ApiError(
        429,
        "queue_full",
        f"{limit} texts are waiting already; try again later",
        headers={"retry-after": str(RETRY_AFTER_S)},
    )


def unavailable(reason: str) -> ApiError:
    """503: no replica can answer now."""
    return ApiError(
        503,
        "unavailable",
        f"no replica can answer now: {reason}",
        # Asked again over a new connection, a balancer can choose another instance.
        headers={"retry-after": str(RETRY_AFTER_S), "connection": "close"},
    )


def deadline_passed(seconds: float) -> ApiError:
    """408: the answer did not come in time."""
    return ApiError(408, "deadline_passed", f"no answer within {seconds:g} s")


def failed() -> ApiError:
    """500: a fault of ours, in words that give nothing away."""
    return ApiError(500, "internal", "the service failed on this request; its log names the fault by request id")

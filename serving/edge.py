"""What every request passes first and every answer last: request id, API key, one error shape, slashes, HEAD."""

import hashlib
import hmac
import logging
import re
import secrets
import traceback
from collections.abc import Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from serving.door import Door
from serving.errors import ApiError, failed

logger = logging.getLogger("ray.serve")

REQUEST_ID = "x-request-id"
_REQUEST_ID = re.compile(r"[\x21-\x7e]{1,128}")
# A watchdog has no key: it may ask whether the process and the model are up, and learns nothing else.
OPEN_PATHS = frozenset({"/live", "/health"})


def digest_of_key(key: str) -> str:
    """What the graph keeps of an API key: hex sha256. Keys themselves stay in the environment."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


class Edge:
    """Pure ASGI, so that it sees the router's own 404 and 405 and every exception."""

    def __init__(self, app: ASGIApp, door: Door, key_digests: Sequence[str] = ()) -> None:
        self._app, self._door, self._key_digests = app, door, tuple(key_digests)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request; lifespan and websocket events pass through."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(scope, send)
        try:
            self._admit(scope)
            if route_path(scope) in OPEN_PATHS:
                await self._app(_plain(scope), receive, answer.send)
                return
            with self._door():
                await self._app(_plain(scope), receive, answer.send)
        except ApiError as error:
            await answer.fail(error, scope, receive)
        except ClientDisconnect:
            return
        except Exception as error:
            _log(error, answer.request_id)
            await answer.fail(failed(), scope, receive)

    def _admit(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        given_id = headers.get(REQUEST_ID)
        if given_id is not None and not _REQUEST_ID.fullmatch(given_id):
            raise ApiError(400, "request_id", f"{REQUEST_ID} must be 1 to 128 visible ASCII characters")
        scope["state"]["authorised"] = authorised = self._knows(headers)
        if not authorised and route_path(scope) not in OPEN_PATHS:
            raise ApiError(
                401,
                "unauthorised",
                "this service asks for an API key: Authorization: Bearer <key>",
                headers={"www-authenticate": "Bearer"},
            )

    def _knows(self, headers: Headers) -> bool:
        if not self._key_digests:
            return True
        scheme, _, key = headers.get("authorization", "").partition(" ")
        given = digest_of_key(key.strip())
        # Every key is compared, each in constant time.
        matches = [hmac.compare_digest(given, known) for known in self._key_digests]
        return scheme.lower() == "bearer" and any(matches)


class _Answer:
    """The way out: sends once, adds the request id where Serve does not."""

    def __init__(self, scope: Scope, send: Send) -> None:
        given = Headers(scope=scope).get(REQUEST_ID)
        # Serve puts the id on the request before and on the answer after us; a second header would be one too many.
        self._add_id = given is None
        valid = given is not None and _REQUEST_ID.fullmatch(given)
        self.request_id = given if given is not None and valid else secrets.token_hex(16)
        scope["state"] = {**scope.get("state", {}), "request_id": self.request_id, "asked_path": scope["path"]}
        self._send, self._started, self._without_body = send, False, scope["method"] == "HEAD"

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._started = True
            if self._add_id:
                MutableHeaders(scope=message)[REQUEST_ID] = self.request_id
        elif self._without_body and message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await self._send(message)

    async def fail(self, error: ApiError, scope: Scope, receive: Receive) -> None:
        if not self._started:
            response = JSONResponse(error.body(self.request_id), error.status, error.headers)
            await response(scope, receive, self.send)


def route_path(scope: Scope) -> str:
    """The path below the route prefix, without a closing slash; `/` for the prefix itself."""
    path, prefix = str(scope["path"]), str(scope.get("root_path", "")).rstrip("/")
    return path.removeprefix(prefix).rstrip("/") or "/"


def service_root(scope: Scope) -> str:
    """The relative URL that leads from what was asked for to the service's root; ends with a slash."""
    asked, prefix = str(scope["state"]["asked_path"]), str(scope.get("root_path", "")).rstrip("/")
    below = asked.removeprefix(prefix)
    # The prefix itself, asked for without a slash: a browser resolves links against its parent.
    return "../" * (below.count("/") - 1) + "./" if below else prefix.rsplit("/", 1)[-1] + "/"


def _plain(scope: Scope) -> Scope:
    """HEAD is routed as GET; `/predict/` is `/predict`: a redirect would lose the prefix behind a stripping proxy."""
    prefix = str(scope.get("root_path", "")).rstrip("/")
    method = "GET" if scope["method"] == "HEAD" else scope["method"]
    return {**scope, "method": method, "path": prefix + route_path(scope)}


def _log(error: Exception, request_id: str) -> None:
    """Where it failed, never its message: that may hold the user's text."""
    frames = traceback.extract_tb(error.__traceback__)[-6:]
    where = " < ".join(f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}" for frame in reversed(frames))
    logger.error("request %s failed: %s at %s", request_id, type(error).__name__, where)

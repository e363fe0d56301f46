"""Many clients at once -> what each got, when, and in which batch. Bounded in count and in time."""

import asyncio
import json
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import aiohttp

_BATCH = re.compile(r'batch;desc="(\d+)"')
REQUEST_TIMEOUT_S = 60.0
OK, REFUSED = "200", "connection refused"
"""Statuses: answered; nobody listened, so that the request never left."""
PAUSE_S, SILENCE_S = 0.05, 0.5
"""What a client waits after a refusal, and when no answer came at all."""
POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Answer:
    """One request with one text; times are seconds of `time.monotonic`."""

    text: int
    """Which of the texts."""
    began: float
    ended: float
    status: str
    """HTTP status, or the kind of error when no answer came."""
    label: str | None = None
    scores: Mapping[str, float] | None = None
    batch: int | None = None
    """Texts in the forward that it rode in."""
    served_by: str | None = None

    @property
    def ms(self) -> float:
        """From the request to its whole answer."""
        return (self.ended - self.began) * 1000


class Load:
    """`in_flight` clients that ask one text a request, each its next when answered, until told or timed to stop.

    `run` it, or `start` it and `stop` it. A missing answer is an `Answer` whose status says why.
    """

    def __init__(
        self,
        url: str,
        texts: Sequence[str],
        in_flight: int,
        at_most_s: float,
        headers: Mapping[str, str] | None = None,
        start: int = 0,
    ) -> None:
        """`start`: the text that is asked first; after the last comes the first again."""
        self._url, self._texts, self._in_flight, self._at_most_s = url, texts, in_flight, at_most_s
        self._headers = dict(headers or {})
        self._turns = count(start)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self.run, daemon=True)
        self.answers: list[Answer] = []

    def run(self) -> list[Answer]:
        """All answers; what began in time is waited for."""
        asyncio.run(self._drive())
        return self.answers

    def start(self) -> None:
        """Run beside the caller, in a thread that ends by itself when the time is up."""
        self._thread.start()

    def wait_for(self, answers: int, at_most_s: float) -> bool:
        """Whether so many came in time."""
        until = time.monotonic() + at_most_s
        while len(self.answers) < answers and time.monotonic() < until:
            time.sleep(POLL_S)
        return len(self.answers) >= answers

    def stop(self) -> list[Answer]:
        """No new requests; all answers, once those that began have ended."""
        self._stop.set()
        self._thread.join(2 * REQUEST_TIMEOUT_S)
        return self.answers

    async def _drive(self) -> None:
        async def ask_on(client: aiohttp.ClientSession, until: float) -> None:
            for turn in self._turns:
                if self._stop.is_set() or time.monotonic() >= until:
                    return
                answer = await self._ask(client, turn % len(self._texts))
                self.answers.append(answer)
                if answer.status != OK:
                    await asyncio.sleep(PAUSE_S if answer.status.isdigit() else SILENCE_S)

        # aiohttp costs a third of httpx: a client that shares the machine must not be what is measured.
        # A connection each, or clients would wait for one another and not for the app.
        connector, timeout = aiohttp.TCPConnector(limit=self._in_flight), aiohttp.ClientTimeout(REQUEST_TIMEOUT_S)
        async with aiohttp.ClientSession(headers=self._headers, connector=connector, timeout=timeout) as client:
            until = time.monotonic() + self._at_most_s
            await asyncio.gather(*(ask_on(client, until) for _ in range(self._in_flight)))

    async def _ask(self, client: aiohttp.ClientSession, text: int) -> Answer:
        began = time.monotonic()
        try:
            async with client.post(f"{self._url}/predict", json={"text": self._texts[text]}) as response:
                body = await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            # A host that is not found or not reached is no refusal: the cause says which it was.
            refused = isinstance(error.__cause__, ConnectionRefusedError)
            return Answer(text, began, time.monotonic(), REFUSED if refused else type(error).__name__)
        return answer_of(text, began, response.status, body, response.headers)


def answer_of(text: int, began: float, status: int, body: bytes, headers: Mapping[str, str]) -> Answer:
    """What a response to a request with one text says."""
    ended = time.monotonic()
    prediction = json.loads(body)["predictions"][0] if str(status) == OK else {}
    batch = _BATCH.search(headers.get("server-timing", ""))
    return Answer(
        text,
        began,
        ended,
        str(status),
        prediction.get("label"),
        prediction.get("scores"),
        int(batch[1]) if batch else None,
        headers.get("x-served-by"),
    )

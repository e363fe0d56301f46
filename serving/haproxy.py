"""Start HAProxy for Serve: without the ports that nobody asked for, with our errors, and only as long as Serve lives.

Runs as `haproxy.py PROGRAM ARGUMENT…`, with nothing but the standard library.
"""

import ctypes
import json
import os
import signal
import sys
from pathlib import Path

SURPLUS = ("frontend prometheus", "listen stats")
"""Sections that would listen on a port of every interface; Serve reads the same through HAProxy's socket."""
ERRORS = {
    502: ("unavailable", "the ingress died under the request; nothing is kept, so ask again"),
    503: ("unavailable", "no ingress can answer now"),
    504: ("unavailable", "the ingress did not answer in time"),
}
"""What HAProxy answers itself, in the one shape of docs/HTTP.md."""
NOT_FOUND = ("not_found", "there is no service below this path")
DECODED = ("x-request-id", "x-session-id", "x-request-timeout-seconds", "x-request-disconnect-disabled",
           "serve_multiplexed_model_id", "serve-multiplexed-model-id")  # fmt: skip
"""Headers that Serve decodes before the ingress sees them: a byte that is not UTF-8 would end in a plain 500."""
NOT_TEXT = ("header", "one of " + ", ".join(DECODED) + " holds something else than visible ASCII characters")
NEW_ID = "%[unique-id]"
UNREAD = (
    "http-request set-var(txn.unread) method if { req.hdr_val(content-length) gt 0 }"
    " || { req.hdr(transfer-encoding) -m found }",
    "http-after-response set-header connection close if { var(txn.unread) -m found } !{ var(txn.unread) -m str POST }",
    "http-after-response set-header connection close if { var(txn.unread) -m found } !{ status 200 422 }",
)
"""HAProxy 2.8 closes a connection without a word when the answer comes before the end of the request's body, and the
client's next request is lost. So an answer that may come early says that it closes; 200 and 422 need the whole body."""
PR_SET_PDEATHSIG = 1


def ours(config: str) -> str:
    """Serve's configuration of HAProxy by our rules; a section ends where the next line begins with a word."""
    kept, section = [], ""
    for line in config.splitlines():
        if line[:1].strip() and not line.startswith("#"):
            section = line
        words = line.split()
        if section.startswith(SURPLUS) or words[:1] == ["errorfile"]:
            continue
        if section == "backend default_backend" and words[:4] == ["http-request", "return", "status", "404"]:
            kept.append(f"    http-request return status 404 {_answer(*NOT_FOUND)}")
            continue
        kept.append(line)
        if line == "defaults":
            kept.append("    unique-id-format %[uuid()]")
            kept += [
                f"    http-error status {status} {_answer(*said)} hdr retry-after 1" for status, said in ERRORS.items()
            ]
        if section == "frontend http_frontend" and words[:1] == ["bind"]:
            kept += [f"    {rule}" for rule in UNREAD]
            wrong = " || ".join(f"{{ req.fhdr({name}) -m reg '[^ -~]' }}" for name in DECODED)
            kept.append(f"    http-request return status 400 {_answer(*NOT_TEXT)} if {wrong}")
    return "\n".join(kept) + "\n"


def _answer(kind: str, message: str) -> str:
    error = {"type": kind, "message": message, "field": None}
    body = json.dumps({"error": error, "request_id": NEW_ID}, separators=(",", ":"))
    return f"content-type application/json lf-string '{body}' hdr x-request-id {NEW_ID}"


def main(program: str, arguments: list[str]) -> None:
    """Become HAProxy; the kernel ends it when the process that started it ends (prctl(2), PR_SET_PDEATHSIG)."""
    config = Path(arguments[arguments.index("-f") + 1])
    config.write_text(ours(config.read_text()))
    started_by = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != started_by:
        sys.exit("the process that started this one has ended already")
    os.execv(program, [program, *arguments])  # noqa: S606 - a program and its arguments, no words of a shell's


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])

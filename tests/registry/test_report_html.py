"""The report's page: one whole file without a network, every gate in it, nothing of a user's taken for markup."""

from html.parser import HTMLParser

from registry import report_html
from registry.evidence import Changed, Evidence
from registry.gates import judge
from registry.report import Report
from tests.registry.test_gates import BROKEN, DIGEST, GOOD, GRAPH, LIMITS, against, answers, with_

VOID = {"meta", "br"}
EVIL = '<script>alert("x")</script>'


class Reader(HTMLParser):
    """Tags must close in order; addresses and texts are kept."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.addresses: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.addresses += [value or "" for name, value in attrs if name in {"src", "href"}]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, _: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def page_of(seen: Evidence) -> str:
    """The page on this evidence."""
    report = Report(
        name="sentiment",
        digest=DIGEST,
        loaded_digest=DIGEST,
        answered_digest=DIGEST,
        graph_digest=GRAPH,
        baseline_digest=None,
        verdicts=judge(seen, LIMITS),
        evidence={"machine": {"cpus": 2}, "batching": {"texts": 3}},
    )
    return report_html.render(report, seen, min_support=30)


def test_the_page_is_whole_and_needs_no_network() -> None:
    page = page_of(GOOD)
    read = Reader(page)
    assert read.open == []
    assert read.addresses == []
    assert "://" not in page and "@import" not in page and "url(" not in page
    assert not {"script", "link", "img", "iframe"} & read.tags
    assert {"svg", "table", "details"} <= read.tags
    assert "prefers-color-scheme: dark" in page and "@media print" in page


def test_every_gate_digest_and_reason_is_shown_with_the_verdict_on_top() -> None:
    read = Reader(page_of(GOOD))
    for verdict in judge(GOOD, LIMITS):
        assert verdict.gate in read.text and verdict.why in read.text and verdict.question in read.text
    assert DIGEST in read.text and GRAPH in read.text
    assert read.text.index("may be promoted") < read.text.index("Gates")


def test_a_failure_is_named_on_top() -> None:
    read = Reader(page_of(BROKEN["a slow answer"][1]))
    top = read.text[: read.text.index("Gates")]
    assert "champion stays" in top and "max_p95_ms" in top


def test_labels_and_slices_are_shown_as_they_are_and_never_run() -> None:
    model = GOOD.offline
    seen = with_(
        "offline",
        labels=(EVIL, "good"),
        classes={EVIL: model.classes["bad"], "good": model.classes["good"]},
        slices={EVIL: model.slices["tweets"]},
    )
    read = Reader(page_of(seen))
    assert "script" not in read.tags
    assert read.text.count(EVIL) >= 3


def test_what_changes_for_users_is_shown_with_examples_that_never_run() -> None:
    truth, ours = answers(400, 0.8, seed=1)
    examples = (Changed(text=EVIL, truth="good", theirs="good", ours="bad"),)
    seen = against(ours, truth, truth, slices=(EVIL,) * 300 + (None,) * 100, examples=examples)
    read = Reader(page_of(seen))
    assert "script" not in read.tags
    assert "Beside the champion" in read.text and "answers change, 0 to right" in read.text
    assert read.text.count(EVIL) >= 2 and "1 of the answers that change" in read.text


def test_many_labels_show_the_commonest_mistakes_instead_of_a_huge_matrix() -> None:
    labels = tuple(f"label {n:02d}" for n in range(40))
    counts = [[10 if row == column else 0 for column in range(40)] for row in range(40)]
    counts[3][7] = 5
    seen = with_("offline", labels=labels, confusion=tuple(map(tuple, counts)))
    read = Reader(page_of(seen))
    assert "label 03label 075" in read.text
    assert len(page_of(seen)) < 60_000

"""What a person reads on MLflow's pages: descriptions in Markdown, and tags."""

from collections.abc import Mapping, Sequence
from typing import Any

from registry.contract import Contract
from registry.journal import Entry
from registry.runs import Record

MODEL = "Texts in, calibrated labels out. The alias `champion` is what production follows; it moves only with a report."
REPORTS = "\n\n### Reports\n"
SHOWN_LABELS, SHOWN_ENTRIES, SHOWN_REPORTS = 12, 20, 8
LONGEST_LINE = 200
"""Characters; a description may have 5,000."""


def short(digest: str) -> str:
    """The first eight hex digits, for names."""
    return digest.removeprefix("sha256:")[:8]


def tags(digest: str, record: Record) -> dict[str, str]:
    """The tags of a version."""
    found = {
        "digest": digest,
        "base": record.base,
        "accuracy": f"{record.scores['accuracy']:.4f}",
        "macro_f1": f"{record.scores['macro_f1']:.4f}",
        "data_digest": f"sha256:{record.data['sha256']}".replace("sha256:sha256:", "sha256:"),
        "git_commit": record.commit,
        "git_changed": str(record.changed).lower(),
    }
    return found | ({"experiment": record.experiment} if record.experiment else {})


def bundle(digest: str, contract: Contract, record: Record) -> str:
    """The description of a bundle's run and version."""
    labels = ", ".join(f"`{label[:40]}`" for label in contract.labels[:SHOWN_LABELS])
    more = f" and {len(contract.labels) - SHOWN_LABELS} more" if len(contract.labels) > SHOWN_LABELS else ""
    settings = ", ".join(f"{name} {value}" for name, value in contract.training.items() if not _nested(value))
    commit = "none" if record.commit == "none" else f"`{record.commit[:12]}`"
    return "\n".join(
        [
            f"**{len(contract.labels)} classes**: {labels}{more}. Fine-tuned from `{record.base}`, "
            f"at most {contract.max_tokens} tokens a text, temperature {contract.temperature}.",
            "",
            f"| on {record.metrics['rows']['test']:,} test rows | accuracy | macro-F1 |",
            "|---|---|---|",
            *_rows(record.metrics),
            "",
            f"* bundle `{digest}`",
            f"* data `{record.data['source']}`, `{record.data['sha256']}`",
            f"* commit {commit}{' with changes on top' if record.changed else ''}",
            _cut(f"* settings: {settings or 'as in params.yaml'}"),
        ]
    )


def with_reports(description: str, lines: Sequence[str]) -> str:
    """A version's description with one line a report below it."""
    return description.split(REPORTS)[0] + REPORTS + "\n".join(lines[-SHOWN_REPORTS:])


def model(entries: Sequence[Entry]) -> str:
    """The description of the registered model: who is champion, and how it came to that."""
    lines = [_cut(f"* {entry}") for entry in reversed(entries[-SHOWN_ENTRIES:])]
    return MODEL + "\n\n### Journal\n" + "\n".join(lines)


def _rows(metrics: Mapping[str, Any]) -> list[str]:
    rows = [(f"**{name}**", row) for name, row in metrics["runtimes"].items()]
    rows += [(f"{name} baseline", row) for name, row in metrics["baselines"].items()]
    return [f"| {name} | {row['accuracy']:.4f} | {row['macro_f1']:.4f} |" for name, row in rows]


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 1] + "…"


def _nested(value: Any) -> bool:
    return isinstance(value, Mapping | list)

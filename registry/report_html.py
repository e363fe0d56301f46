"""A report as one HTML page."""

from registry.report import Report


def render(report: Report) -> str:
    """The page."""
    return f"<pre>{report.model_dump_json()}</pre>"

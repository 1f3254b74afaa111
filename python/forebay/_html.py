"""A report as one HTML page that needs no network: the template report.html, whose script draws the JSON that is put into it."""

from __future__ import annotations

import functools
import html

_TABLE = "table { border-spacing: 12px 5px; margin: 0 -12px; font-size: 14px; }\nth { text-align: left; vertical-align: top; }\nmeter { width: 12em; }\n"
_PLACE = '<script id="report" type="application/json">{}</script>'


@functools.cache
def _template() -> tuple[str, str]:
    import importlib.resources  # slow to import, and few programs draw a report

    text = importlib.resources.files(__package__).joinpath("report.html").read_text(encoding="utf-8")
    before, place, after = text.partition(_PLACE)
    assert place, "report.html has no place for the report"
    return before, after


def page(report: str) -> str:
    """The page of a report that is given as JSON."""
    before, after = _template()
    return before + _PLACE.replace("{}", report.replace("<", "\\u003c")) + after


def table_page(title: str, table: str) -> str:
    """A page with a report's styles around an HTML table."""
    head, end, _ = _template()[0].partition("</style>")
    said = html.escape(title)
    return (
        f"{head.replace('<title>Forebay report', f'<title>{said}')}{_TABLE}{end}\n</head>\n<body>\n<main>\n<h1>{said}</h1>\n"
        f"<section>{table}</section>\n</main>\n</body>\n</html>\n"
    )


def frame(report: str, text: str) -> str:
    """The page inside a notebook's output, apart from its styles; above it the report as text, for where scripts do not run."""
    shown = html.escape(text.rstrip().rsplit("\nverdict  ", 1)[-1].splitlines()[0])
    return (
        f"<details><summary>{shown}</summary><pre>{html.escape(text)}</pre></details>"
        f'<iframe srcdoc="{html.escape(page(report), quote=True)}" style="width:100%;height:720px;border:0" title="Forebay report"></iframe>'
    )

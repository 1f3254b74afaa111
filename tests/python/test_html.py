"""The page of a report: one file with the report in it, and nothing that a network would have to bring."""

import html
import html.parser
import json
import os
import re
import shutil
import subprocess

import pytest

import forebay as fb
from forebay import _html

np = pytest.importorskip("numpy")


@pytest.fixture
def report(parquet):
    path = parquet({"x": np.arange(20_000, dtype="f4")}, row_group_size=2_000)
    with fb.open(path).loader({"x": "x"}, batch_size=500) as loader:
        for _ in range(3):
            for _ in loader:
                with fb.span("</script><b>"):
                    pass
        return loader.report()


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.links, self.scripts, self.open = [], [], {}, None

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append(tag)
        self.links += [value for name, value in attributes.items() if name in ("src", "href")]
        if tag == "script":
            self.open = attributes.get("id", "code")

    def handle_endtag(self, tag):
        self.open = None

    def handle_data(self, data):
        if self.open:
            self.scripts[self.open] = self.scripts.get(self.open, "") + data


def parsed(text):
    page = Page()
    page.feed(text)
    page.close()
    return page


def test_the_page_holds_the_report_and_needs_no_network(report, tmp_path):
    report.html(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    page = parsed(text)
    assert json.loads(page.scripts["report"]) == json.loads(report.to_json())
    assert page.links == [] and "http" not in text.replace(page.scripts["report"], "") and "@import" not in text and "url(" not in text
    assert "prefers-color-scheme: dark" in text and 'name="viewport"' in text
    assert page.tags.count("script") == 2


def test_a_saved_report_is_the_report(report, tmp_path):
    report.save(tmp_path / "run.json")
    assert fb.Report.from_dict(json.loads((tmp_path / "run.json").read_text())) == report
    assert report.waits and sum(n for _, n in report.waits) == report.batches


def test_a_notebook_gets_a_frame_with_the_page_and_the_text(report):
    shown = report._repr_html_()
    (page,) = re.findall(r'srcdoc="([^"]*)"', shown)
    assert json.loads(parsed(html.unescape(page)).scripts["report"])["samples"] == report.samples
    assert html.escape(report.verdict[:40]) in shown


DRAW = """
const fs = require("fs");
const text = fs.readFileSync(process.argv[2], "utf8");
const scripts = [...text.matchAll(/<script[^>]*>([^]*?)<\\/script>/g)].map(match => match[1]);
class Element {
  constructor(tag) { this.tag = tag; this.children = []; this.attributes = {}; }
  setAttribute(name, value) { this.attributes[name] = String(value); }
  append(...children) { this.children.push(...children); }
  replaceChildren(...children) { this.children = children; }
  set className(value) { this.attributes.class = value; }
  text() { return this.textContent ?? this.children.map(c => c instanceof Element ? c.text() : String(c)).join(" "); }
  all() { return [this, ...this.children.flatMap(c => c instanceof Element ? c.all() : [])]; }
}
const page = new Element("main"), report = new Element("script");
report.textContent = scripts[0];
globalThis.document = {getElementById: id => id === "report" ? report : page, createElement: tag => new Element(tag)};
(0, eval)(scripts[1]);
const bad = page.all().flatMap(e => Object.values(e.attributes)).filter(v => /NaN|undefined|Infinity/.test(v));
console.log(JSON.stringify({text: page.text(), headings: page.all().filter(e => e.tag === "h2").map(e => e.text()), bad}));
"""


def drawn(path, tmp_path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node to run the page's script")
    (tmp_path / "draw.js").write_text(DRAW)
    done = subprocess.run([node, tmp_path / "draw.js", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_script_draws_every_panel(report, tmp_path):
    report.html(tmp_path / "report.html")
    page = drawn(tmp_path / "report.html", tmp_path)
    assert {"Epochs", "Where the time goes", "Roofline", "Waits for a batch", "Memory", "Mixing"} <= set(page["headings"])
    assert not page["bad"] and not re.search("NaN|undefined|Infinity", page["text"])
    assert report.verdict in page["text"] and "epoch 2" in page["text"] and "</script><b>" in page["text"]


def test_what_bench_measured_side_by_side_is_drawn(report, tmp_path):
    rows = [{"name": name, "samples_per_second": 1e6 * n, "runs": [1e6 * n] * n, "lowest": 9e5 * n, "highest": 1.1e6 * n, "factor": n,
             "epoch_seconds": 7200.0 / n} for n, name in enumerate(("shuffle=full", "shuffle=none"), 1)]  # fmt: skip
    compared = {"title": "Side by side", "note": "In turn.", "baseline": "shuffle=full", "rows": [*rows, {"name": "grain", "skipped": "not installed"}]}
    page = json.dumps({**report.to_dict(), "comparison": compared, "batch_times": [[100_000, 3], [1_000_000, 5]]})
    (tmp_path / "bench.html").write_text(_html.page(page))
    drawn_page = drawn(tmp_path / "bench.html", tmp_path)
    assert {"Side by side", "Time from batch to batch"} <= set(drawn_page["headings"]) and not drawn_page["bad"]
    assert "2.00 M/s" in drawn_page["text"] and "grain: not installed" in drawn_page["text"] and "utilisation" not in drawn_page["text"]
    assert drawn_page["text"].split().count("-") == 2  # the spread of one run, and the loader that was left out
    assert "7,200 s" in drawn_page["text"] and not re.search(r"NaN|undefined|Infinity|\de\+", drawn_page["text"])


def test_figures_have_no_exponents(report, tmp_path):
    cure = {"change": "memory=1GiB", "samples_per_second": 999.7, "factor": 123.4, "why": "It helps."}
    odd = {**report.to_dict(), "cures": [cure], "budget_bytes": 1023 << 20, "wait_max_ns": 1_234_567_890_123, "elapsed_ns": 10**13}
    (tmp_path / "report.html").write_text(_html.page(json.dumps(odd)))
    text = drawn(tmp_path / "report.html", tmp_path)["text"]
    assert "1,023 MiB" in text and "× 123" in text and "1,235 s" in text and "1,000" in text and not re.search(r"\de\+", text)
    again = fb.Report.from_dict(odd)
    assert "× 123, 1,000 samples/s" in str(again)
    cli = os.environ.get("FOREBAY_CLI")
    if cli:
        again.save(tmp_path / "odd.json")
        assert "× 123, 1 k/s" in subprocess.run([cli, "report", tmp_path / "odd.json"], capture_output=True, text=True, check=True).stdout


def test_a_report_of_nothing_is_drawn_too(parquet, tmp_path):
    with fb.open(parquet({"x": np.arange(100.0)})).loader("x", batch_size=10, shuffle=False) as loader:
        loader.report().html(tmp_path / "report.html")
    page = drawn(tmp_path / "report.html", tmp_path)
    assert not page["bad"] and not re.search("NaN|undefined|Infinity", page["text"])


def test_the_command_draws_the_same_page_and_says_it_in_words(report, tmp_path):
    cli = os.environ.get("FOREBAY_CLI")
    if not cli:
        pytest.skip("FOREBAY_CLI is not set")

    def run(*arguments):
        return subprocess.run([cli, "report", *map(str, arguments)], capture_output=True, text=True, check=False)

    report.save(tmp_path / "run.json")
    done = run(tmp_path / "run.json", "--html", tmp_path / "page.html")
    assert done.returncode == 0, done.stderr
    report.html(tmp_path / "report.html")
    ours, theirs = (parsed((tmp_path / name).read_text()) for name in ("report.html", "page.html"))
    assert theirs.scripts["code"] == ours.scripts["code"] and json.loads(theirs.scripts["report"]) == json.loads(ours.scripts["report"])
    words = run(tmp_path / "run.json").stdout
    assert f"limit    {report.limit}" in words and report.verdict in words
    assert json.loads(run(tmp_path / "run.json", "--json").stdout)["samples"] == report.samples
    (tmp_path / "inside.json").write_text(json.dumps({"command": "bench", "report": report.to_dict()}))
    assert report.verdict in run(tmp_path / "inside.json").stdout
    (tmp_path / "other.json").write_text("{}")
    (tmp_path / "no.json").write_text("{,}")
    for name, said in (("other.json", "has no report"), ("no.json", "is no JSON: line 1"), ("missing.json", "cannot read")):
        done = run(tmp_path / name)
        assert done.returncode == 1 and said in done.stderr
    assert run().returncode == 2
    assert "cannot write" in run(tmp_path / "run.json", "--html", "/nowhere/report.html").stderr

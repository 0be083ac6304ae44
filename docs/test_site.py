"""The built site in a real browser: `make test-site` builds it and runs this.

The browser is the one that FGMP_BROWSER names, or a Chromium or Chrome that is installed, or playwright's own.
"""

import os
import shutil
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import nbformat
import pytest
from playwright.sync_api import TimeoutError, sync_playwright

ROOT = Path(__file__).parents[1]
SITE = ROOT / "build" / "site" / "html"
# This page only leads on to the front page.
PAGES = sorted(
    path.relative_to(SITE).as_posix()
    for path in SITE.rglob("*.html")
    if path != SITE / "index.html"
)
BOOKS = [
    path.relative_to(ROOT).with_suffix(".html").as_posix()
    for pattern in ("notebooks/*.ipynb", "notebooks/results/*.ipynb")
    for path in sorted(ROOT.glob(pattern))
]
# The chapter on few rows follows the first one.
BOOKS.insert(1, BOOKS.pop(BOOKS.index("notebooks/19_how_few_rows.html")))
NAMES = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
)
PHONE = 390

LOOK = """() => {
  const all = (what) => [...document.querySelectorAll(what)];
  return {
    title: document.title,
    ids: all("[id]").map((one) => one.id),
    links: all("a[href]").map((one) => one.getAttribute("href")),
    formulas: all(".math").length,
    set: all("mjx-container").length,
    faults: all("mjx-merror, [data-mjx-error]").length,
    empty: all("img").filter((one) => one.complete && !one.naturalWidth).length,
    figures: all("article img").length,
    silent: all("article img").filter((one) => !one.alt.trim()).length,
    cut: all("article div.highlight pre").filter((one) => one.scrollWidth > one.clientWidth + 1).length,
    next: document.querySelector("a.next-page")?.getAttribute("href"),
  };
}"""

# What sticks out of the page on the right, but for what scrolls by itself; the whole article must not. And lines of
# code that are cut, and figures of many panels that are shown too small to be read.
STICKS_OUT = """() => {
  const edge = document.documentElement.clientWidth;
  const scrolls = (one) => {
    for (let up = one; up && !up.matches("article"); up = up.parentElement) {
      if (["auto", "scroll"].includes(getComputedStyle(up).overflowX)) return true;
      if (up.matches("mjx-assistive-mml")) return true;
    }
    return false;
  };
  const out = [...document.querySelectorAll("article *")].filter(
    (one) => one.getClientRects().length && one.getBoundingClientRect().right > edge + 1 && !scrolls(one));
  return {
    width: document.documentElement.scrollWidth,
    cut: [...document.querySelectorAll("article div.highlight pre")].filter(
      (one) => one.scrollWidth > one.clientWidth + 1).length,
    small: [...document.querySelectorAll(".cell_output img.wide")].filter(
      (one) => one.clientWidth < 600).length,
    out: out.slice(0, 5).map((one) => one.tagName + ": " + one.textContent.trim().slice(0, 60)),
  };
}"""

# By then the page has been laid out anew.
TWO_FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


class Quiet(SimpleHTTPRequestHandler):
    """A server that keeps no log, has no icon, and whose scripts a browser need not ask for again."""

    def do_GET(self):
        if self.path == "/favicon.ico":
            self.send_response(204)
            self.end_headers()
        else:
            super().do_GET()

    def end_headers(self):
        self.send_header("Cache-Control", "max-age=600")
        super().end_headers()

    def log_message(self, *words):
        pass


@pytest.fixture(scope="module")
def address():
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser():
    found = os.environ.get("FGMP_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no Chromium or Chrome is installed; FGMP_BROWSER names one elsewhere")
    quiet = [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    ]
    with sync_playwright() as playwright:
        one = playwright.chromium.launch(executable_path=found, args=quiet)
        yield one
        one.close()


@pytest.fixture(scope="module")
def visits(browser, address):
    """What every page shows on a screen and on a phone, and all that went wrong on the way."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    wrong = []
    page.on(
        "console",
        lambda message: message.type in ("error", "warning") and wrong.append(message.text),
    )
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("requestfailed", lambda request: wrong.append(f"failed: {request.url}"))
    page.on(
        "response",
        lambda answer: answer.status >= 400 and wrong.append(f"{answer.status}: {answer.url}"),
    )

    # A route that looks at each request turns off the browser's cache, and each page reads its scripts anew.
    page.on(
        "request",
        lambda request: (
            request.url.startswith((address, "data:", "blob:"))
            or wrong.append(f"another host: {request.url}")
        ),
    )
    found = {}
    for name in PAGES:
        wrong.clear()
        page.set_viewport_size({"width": 1280, "height": 900})
        page.goto(address + name)
        if page.locator("script[src*=mathjax]").count():
            try:
                page.wait_for_function(
                    "() => document.documentElement.dataset.formulas === 'set'", timeout=20_000
                )
            except TimeoutError:
                wrong.append("the formulas are not set after 20 seconds")
        seen = page.evaluate(LOOK)
        page.set_viewport_size({"width": PHONE, "height": 800})
        page.evaluate(TWO_FRAMES)
        seen["phone"] = page.evaluate(STICKS_OUT)
        found[name] = seen | {"wrong": list(wrong)}
    page.close()
    return found


@pytest.mark.parametrize("name", PAGES)
def test_page_opens_without_a_fault_and_fits_a_phone(visits, name):
    seen = visits[name]
    assert seen["wrong"] == []
    assert seen["title"] and not seen["empty"]
    assert (seen["silent"], seen["cut"]) == (0, 0)
    assert seen["faults"] == 0 and seen["set"] == seen["formulas"]
    assert seen["phone"] == {"width": PHONE, "cut": 0, "small": 0, "out": []}


@pytest.mark.parametrize("name", BOOKS)
def test_all_figures_of_a_notebook_are_there(visits, name):
    committed = nbformat.read(ROOT / name.replace(".html", ".ipynb"), as_version=4)
    outputs = [output for cell in committed.cells for output in cell.get("outputs", [])]
    words = "".join(cell.source for cell in committed.cells if cell.cell_type == "markdown")
    data = [output.get("data", {}) for output in outputs]
    drawn = sum("image/png" in one for one in data)
    drawn += sum(one.get("text/html", "").count("<img ") for one in data)  # the pictures of sliders
    assert visits[name]["figures"] == drawn + words.count("![")


def test_links_lead_somewhere(visits):
    lost = []
    for name, seen in visits.items():
        for link in seen["links"]:
            where = urlsplit(urljoin(f"http://here/{name}", link))
            if where.netloc != "here" or where.scheme != "http":
                continue
            target = unquote(where.path).lstrip("/") or "index.html"
            there = target in visits and (
                not where.fragment or unquote(where.fragment) in visits[target]["ids"]
            )
            if not there and not (target not in visits and (SITE / target).is_file()):
                lost.append(f"{name}: {link}")
    assert lost == []


def test_one_can_leaf_through_the_book(visits):
    """From the front page by "next" through every notebook in order, and on to the rest."""
    path, name = ["docs/index.html"], "docs/index.html"
    while following := visits[name]["next"]:
        assert len(path) < len(PAGES)
        name = urljoin(f"http://here/{name}", following).removeprefix("http://here/")
        path.append(name)
    assert path[1 : 1 + len(BOOKS)] == BOOKS
    assert {"CLAIMS.html", "ERRATA.html", "benchmarks/README.html", "docs/reference.html"} <= set(
        path
    )
    assert sum(seen["set"] for seen in visits.values()) > 500


def test_search_finds_a_notebook_and_a_name(browser, address):
    page = browser.new_page()
    for words, expected in (("heterogeneity", "notebooks/"), ("SharedSupportGradMP", "docs/api/")):
        page.goto(f"{address}search.html?q={words}")
        page.wait_for_selector("#search-results li a")
        page.wait_for_function(
            "() => !document.querySelector('#search-progress')?.textContent.includes('Searching')"
        )
        links = page.locator("#search-results li a").evaluate_all(
            "found => found.map((one) => one.href)"
        )
        assert any(expected in link for link in links), links
    page.close()

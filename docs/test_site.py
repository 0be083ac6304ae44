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

import ledger
import nbformat
import pytest
from playwright.sync_api import TimeoutError, sync_playwright
from site_notebooks import anchor
from site_sources import notebooks

ROOT = Path(__file__).parents[1]
SITE = ROOT / "build" / "site" / "html"
PAGES = sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html"))
BOOKS = [place.replace(".ipynb", ".html") for place in notebooks(ROOT)]
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
PHONE = 380

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
    figures: all("article img").length - all("figure.animation img").length,
    next: document.querySelector("a.next-page")?.getAttribute("href"),
    previous: document.querySelector("a.prev-page")?.getAttribute("href"),
  };
}"""

# What sticks out of the page on the right, but for what scrolls by itself; the whole article must not.
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
    out: out.slice(0, 5).map((one) => one.tagName + ": " + one.textContent.trim().slice(0, 60)),
  };
}"""

# By then the page has been laid out anew.
TWO_FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


class Quiet(SimpleHTTPRequestHandler):
    """A server that keeps no log."""

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
    quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    with sync_playwright() as playwright:
        one = playwright.chromium.launch(executable_path=found, args=quiet)
        yield one
        one.close()


@pytest.fixture(scope="module")
def visits(browser, address):
    """What every page shows on a screen and on a phone, and all that went wrong on the way."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    wrong = []
    page.on("console", lambda message: message.type in ("error", "warning") and wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("requestfailed", lambda request: wrong.append(f"failed: {request.url}"))
    page.on("response", lambda answer: answer.status >= 400 and wrong.append(f"{answer.status}: {answer.url}"))

    def only_here(route):
        if not route.request.url.startswith(address):
            wrong.append(f"another host: {route.request.url}")
        route.continue_() if route.request.url.startswith(address) else route.abort()

    page.route(lambda url: not url.startswith(address) and not url.startswith("data:"), only_here)
    found = {}
    for name in PAGES:
        wrong.clear()
        page.set_viewport_size({"width": 1280, "height": 900})
        page.goto(address + name)
        if page.locator("script[src*=mathjax]").count():
            try:
                page.wait_for_function("() => document.documentElement.dataset.formulas === 'set'", timeout=20_000)
            except TimeoutError:
                wrong.append("the formulas are not set after 20 seconds")
        seen = page.evaluate(LOOK)
        page.set_viewport_size({"width": PHONE, "height": 800})
        page.evaluate(TWO_FRAMES)
        seen["phone"] = page.evaluate(STICKS_OUT)
        found[name] = seen | {"wrong": list(wrong)}
    page.close()
    return found


def test_the_site_is_there():
    assert {"index.html", "CLAIMS.html", "ERRATA.html", "search.html", "reference/index.html", *BOOKS} <= set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_page_opens_without_a_fault(visits, name):
    seen = visits[name]
    assert seen["wrong"] == []
    assert seen["title"] and not seen["empty"]
    assert seen["faults"] == 0 and seen["set"] == seen["formulas"]


@pytest.mark.parametrize("name", PAGES)
def test_page_fits_a_phone(visits, name):
    assert visits[name]["phone"] == {"width": PHONE, "out": []}


@pytest.mark.parametrize("name", BOOKS)
def test_all_figures_of_a_notebook_are_there(visits, name):
    committed = nbformat.read(ROOT / name.replace(".html", ".ipynb"), as_version=4)
    outputs = [output for cell in committed.cells for output in cell.get("outputs", [])]
    words = "".join(cell.source for cell in committed.cells if cell.cell_type == "markdown")
    drawn = sum("image/png" in output.get("data", {}) for output in outputs)
    assert drawn > 0 or "/results/" in name  # a run that differs in numbers alone shows these
    assert visits[name]["figures"] == drawn + words.count("![")


def test_some_formulas_are_there(visits):
    assert sum(seen["set"] for seen in visits.values()) > 500


def test_links_lead_somewhere(visits):
    lost = []
    for name, seen in visits.items():
        for link in seen["links"]:
            where = urlsplit(urljoin(f"http://here/{name}", link))
            if where.netloc != "here" or where.scheme != "http":
                continue
            target = unquote(where.path).lstrip("/") or "index.html"
            there = target in visits and (not where.fragment or unquote(where.fragment) in visits[target]["ids"])
            if not there and not (target not in visits and (SITE / target).is_file()):
                lost.append(f"{name}: {link}")
    assert lost == []


def test_one_can_leaf_through_the_book_and_back(visits):
    """From the first page by "next" through every notebook in order, and back by "previous"."""
    path, name = ["index.html"], "index.html"
    while following := visits[name]["next"]:
        assert len(path) < len(PAGES)
        before, name = name, urljoin(f"http://here/{name}", following).removeprefix("http://here/")
        back = urljoin(f"http://here/{name}", visits[name]["previous"]).removeprefix("http://here/")
        assert (back or "index.html") == before
        path.append(name)
    assert path[1 : 1 + len(BOOKS)] == BOOKS
    assert {"CLAIMS.html", "ERRATA.html", "benchmarks/README.html", "reference/index.html"} <= set(path)


def test_the_verdict_of_every_claim_is_where_the_table_says(visits):
    for run, claim in ledger.distinct(ledger.runs()):
        folder = "notebooks/results" if run.kept else "notebooks"
        assert f"{folder}/{run.name}.html#{anchor(claim)}" in visits["CLAIMS.html"]["links"]
        assert (
            f"../{'../' * bool(run.kept)}CLAIMS.html#{run.name}-{claim.id}"
            in visits[f"{folder}/{run.name}.html"]["links"]
        )


def test_claims_filter_by_verdict_and_figure(browser, address):
    pairs = ledger.distinct(ledger.runs())
    page = browser.new_page()
    page.goto(address + "CLAIMS.html")
    shown = "table.claims tbody tr:visible"
    assert page.locator(shown).count() == len(pairs)
    page.select_option("[name=verdict]", "not reproduced")
    missed = [claim for _, claim in pairs if claim.verdict == "not reproduced"]
    assert page.locator(shown).count() == len(missed) > 0
    page.select_option("[name=figure]", ledger.group(missed[0]))
    both = [claim for claim in missed if ledger.group(claim) == ledger.group(missed[0])]
    assert page.locator(shown).count() == len(both) > 0
    assert page.locator("form.claims-filter output").inner_text() == f"{len(both)} of {len(pairs)} claims"
    page.goto(page.url)  # the address keeps the choices
    assert page.locator(shown).count() == len(both)
    page.locator(shown).first.locator("a").first.click()
    assert page.locator(".claim:target").inner_text().startswith("not reproduced")
    page.close()


def test_search_finds_a_notebook_and_a_name(browser, address):
    page = browser.new_page()
    for words, expected in (("heterogeneity", "notebooks/"), ("SharedSupportGradMP", "reference/")):
        page.goto(f"{address}search.html?q={words}")
        page.wait_for_selector("#search-results li a")
        page.wait_for_function("() => !document.querySelector('#search-progress')?.textContent.includes('Searching')")
        links = page.locator("#search-results li a").evaluate_all("found => found.map((one) => one.href)")
        assert any(expected in link for link in links), links
    page.close()


def test_the_page_follows_light_and_dark(browser, address):
    """Background and words change places; figures keep a white frame in both."""
    brightness = {}
    for scheme in ("light", "dark"):
        page = browser.new_page(color_scheme=scheme)
        page.goto(address + BOOKS[0])
        colour = "(what, of) => getComputedStyle(document.querySelector(what))[of].match(/[0-9.]+/g).map(Number)"
        ground, words, frame = (
            page.evaluate(f"() => ({colour})('{what}', '{of}')")[:3]
            for what, of in (("body", "backgroundColor"), ("article p", "color"), ("article img", "backgroundColor"))
        )
        brightness[scheme] = sum(ground), sum(words)
        assert frame == [255, 255, 255]
        page.close()
    assert brightness["light"][0] > 600 > 300 > brightness["light"][1]
    assert brightness["dark"][1] > 500 > 200 > brightness["dark"][0]

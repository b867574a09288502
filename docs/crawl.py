"""Every page of the built site in Chromium, at 1280 and 390 pixels: what is wrong with it?

Usage: make docs-check. Looks for links and anchors that lead nowhere, requests to other hosts, errors in the console, pages
that scroll sideways, and pictures that are not there.
"""

import argparse
import functools
import http.server
import os
import shutil
import sys
import threading
import time
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin

from playwright.sync_api import Page, sync_playwright

SITE = Path(__file__).parent / "_build" / "html"
LINKS = "[...document.querySelectorAll('a[href]')].map(a => a.getAttribute('href'))"
ANCHORS = "[...document.querySelectorAll('[id],a[name]')].map(e => e.id || e.name)"
PICTURES = "[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None: ...


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pictures", help="a folder for pictures of some pages")
    asked = parser.parse_args()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=SITE))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    home = f"http://127.0.0.1:{server.server_port}/"
    pages = sorted(str(page.relative_to(SITE)) for page in SITE.rglob("*.html") if "_static" not in page.parts)
    problems, anchors, links, began = [], {}, {}, time.perf_counter()
    with sync_playwright() as play:
        executable = os.environ.get("CHROMIUM") or shutil.which("chromium")
        browser = play.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        for width in (1280, 390):
            tab = browser.new_page(viewport={"width": width, "height": 900})
            watch(tab, home, problems)
            for page in pages:
                place = f"{page} at {width}"
                tab.goto(home + page, wait_until="load")
                if (beyond := tab.evaluate(WIDE)) > 1:
                    problems.append(f"{place}: scrolls sideways by {beyond} pixels")
                problems += [f"{place}: no picture {src}" for src in tab.evaluate(PICTURES)]
                anchors[page], links[page] = set(tab.evaluate(ANCHORS)), tab.evaluate(LINKS)
                if asked.pictures and page in SHOWN:
                    Path(asked.pictures).mkdir(parents=True, exist_ok=True)
                    tab.screenshot(
                        path=f"{asked.pictures}/{page.replace('/', '-')[:-5]}-{width}.png", full_page=page in WHOLE
                    )
            tab.close()
        browser.close()
    for page, found in links.items():
        for link in found:
            address, anchor = urldefrag(urljoin(home + page, link))
            if not address.startswith(home):
                continue
            target = unquote(address[len(home) :]) or "index.html"
            if not (SITE / target).exists():
                problems.append(f"{page}: link to {link} leads nowhere")
            elif anchor and target in anchors and unquote(anchor) not in anchors[target]:
                problems.append(f"{page}: no anchor {link}")
    size = sum(file.stat().st_size for file in SITE.rglob("*") if file.is_file())
    print(
        f"{len(pages)} pages, {sum(map(len, links.values()))} links, two widths, {time.perf_counter() - began:.0f} s; {size / 1e6:.0f} MB"
    )
    print("\n".join(dict.fromkeys(problems)) or "nothing is wrong")
    return bool(problems)


def watch(tab: Page, home: str, problems: list[str]) -> None:
    """Note errors and requests to other hosts."""

    def note(what: str, text: str) -> None:
        problems.append(f"{tab.url.removeprefix(home)}: {what} {text[:150]}")

    tab.on("console", lambda message: note("console:", message.text) if message.type == "error" else None)
    tab.on("pageerror", lambda error: note("error:", str(error)))
    tab.on("request", lambda request: note("request to", request.url) if outside(request.url, home) else None)


SHOWN = ("index.html", "how-to/quantify-a-model.html", "gallery/index.html", "reference/api/aleator.LossQuantifier.html",
         "benchmarks/quantifier.html", "concepts.html", "gallery/01_houses.html", "how-to/report.html", "theory/method.html")  # fmt: skip
WHOLE = ("index.html", "gallery/index.html", "concepts.html", "gallery/01_houses.html")


def outside(url: str, home: str) -> bool:
    return not url.startswith((home, "data:", "blob:", "about:"))


if __name__ == "__main__":
    sys.exit(main())

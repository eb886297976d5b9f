"""The page in a real browser: nothing blocked or asked for, no overflow, no finding of axe."""

from __future__ import annotations

import shutil
from importlib.util import find_spec

import pytest

from tests.conftest import require
from tests.reports.make_campaign import KINDS

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic"]


@pytest.fixture(scope="module")
def browser():
    require("chromium", CHROMIUM is not None, "no chromium is installed")
    require("chromium", find_spec("playwright") is not None, "playwright is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@pytest.mark.parametrize("kind", KINDS)
def test_no_message_no_request_no_overflow(made, browser, kind):
    address = made(kind)[1].path.as_uri()
    for width in (360, 900, 1400):
        context = browser.new_context(viewport={"width": width, "height": 900})
        page, heard = context.new_page(), []
        page.on("console", lambda message, heard=heard: heard.append(message.text))
        page.on("request", lambda request, heard=heard: heard.append(request.url))
        page.goto(address)
        assert heard == [address]
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width
        context.close()


@pytest.mark.parametrize(
    ("kind", "scheme"), [*((kind, "light") for kind in KINDS), ("fail", "dark")]
)
def test_axe_finds_nothing(made, browser, kind, scheme):
    require("chromium", find_spec("axe_playwright_python") is not None, "axe is not installed")
    from axe_playwright_python.sync_playwright import Axe

    # axe is a script, which the page's own policy would not let run.
    context = browser.new_context(color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    page.goto(made(kind)[1].path.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    context.close()

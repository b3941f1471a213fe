"""A Chromium that looks at a page and tells what happened. It is needed only where a browser test is asked for."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NO_BROWSER = (
    "browser tests need a browser: set CHROMIUM to the path of a Chromium or Chrome, "
    "or install one as chromium or google-chrome; got {}"
)
NO_PACKAGES = "browser tests need playwright and axe-playwright-python: pip install -c constraints.txt -e '.[browser]'"
# Chromium cannot take pictures of any height.
_TALLEST = 8000
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def executable() -> str:
    """The browser's path: CHROMIUM, or the first name on PATH; raises LookupError saying what is missing."""
    named = os.environ.get("CHROMIUM", "")
    found = shutil.which(named) if named else next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise LookupError(NO_BROWSER.format(f"CHROMIUM={named!r}" if named else "none of them on PATH"))
    return found


@contextmanager
def browser() -> Iterator[Any]:
    """A browser without a window; raises LookupError where there is none, or no package to drive it."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise LookupError(NO_PACKAGES) from None
    path = executable()
    # Chromium's own sandbox refuses to run as root.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=path, args=arguments)
        yield opened
        opened.close()


@dataclass(frozen=True)
class Violation:
    """A rule of axe that a page breaks, and where."""

    rule: str
    impact: str
    where: tuple[str, ...]


class Visit:
    """One page, open: what it asked for, said and did, and what can be asked of it."""

    def __init__(self, opened: Any, url: str, width: int, scheme: str, *, scripts: bool = True) -> None:
        self.url = url
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.dialogs: list[str] = []
        self.width = width
        self.context = opened.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            reduced_motion="reduce",
            java_script_enabled=scripts,
        )
        self.page = self.context.new_page()
        self.page.set_default_timeout(20_000)
        self.page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("dialog", self._close)
        self.page.on("popup", lambda other: self.requests.append(other.url))
        self.context.route("**/*", self._pass_the_page_alone)
        self.page.goto(url)

    def _close(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def _pass_the_page_alone(self, route: Any) -> None:
        self.requests.append(route.request.url)
        if route.request.url == self.url:
            route.continue_()
        else:
            route.abort()

    def close(self) -> None:
        """Close the page."""
        self.context.close()

    def ask(self, script: str) -> Any:
        """What an expression of JavaScript gives in the page."""
        return self.page.evaluate(script)

    def shoot(self, path: Path) -> None:
        """Keep a picture of the page; of a very long one, its beginning."""
        tall = min(self.ask("document.scrollingElement.scrollHeight"), _TALLEST)
        path.parent.mkdir(exist_ok=True)
        self.page.screenshot(path=path, full_page=True, clip={"x": 0, "y": 0, "width": self.width, "height": tall})

    def violations(self) -> list[Violation]:
        """What axe-core finds, of every impact."""
        from axe_playwright_python.sync_playwright import Axe

        found = Axe().run(self.page).response["violations"]
        return [
            Violation(one["id"], one["impact"], tuple(" ".join(map(str, node["target"])) for node in one["nodes"][:3]))
            for one in found
        ]

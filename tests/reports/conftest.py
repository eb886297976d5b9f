"""Made-up campaigns, and a page read back as a reader would meet it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

from reports.campaign import build
from tests.reports.make_campaign import make_campaign

if TYPE_CHECKING:
    from collections.abc import Callable

VOID = frozenset(("br", "hr", "img", "input", "link", "meta"))


@dataclass
class Element:
    tag: str
    attributes: dict[str, str | None]
    text: str = ""


@dataclass
class Page(HTMLParser):
    """Elements in order, each with the text within it; and whether every tag is closed."""

    path: Path
    elements: list[Element] = field(default_factory=list)
    stack: list[Element] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.raw = self.path.read_text(encoding="utf-8")
        self.feed(self.raw)
        self.close()
        assert self.stack == [], "a tag was not closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs))
        self.elements.append(element)
        if tag not in VOID:
            self.stack.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop().tag == tag

    def handle_data(self, data: str) -> None:
        for element in self.stack:
            element.text += data

    def all(self, *tags: str) -> list[Element]:
        return [element for element in self.elements if element.tag in tags]

    def by_id(self, identity: str) -> Element:
        (found,) = [e for e in self.elements if e.attributes.get("id") == identity]
        return found

    @property
    def text(self) -> str:
        return " ".join(self.all("body")[0].text.split())


def edit(path: Path, change: Callable[[Any], None]) -> None:
    """Change a JSON document in place."""
    body = json.loads(path.read_text(encoding="utf-8"))
    change(body)
    path.write_text(json.dumps(body, ensure_ascii=False), encoding="utf-8")


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CERTIFY_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CERTIFY_DATABASE", raising=False)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Page]]:
    """kind -> (campaign folder, its page); each is made once and must not be changed."""
    root = tmp_path_factory.mktemp("campaigns")
    known: dict[str, tuple[Path, Page]] = {}

    def of(kind: str) -> tuple[Path, Page]:
        if kind not in known:
            folder = make_campaign(root / kind, kind)
            known[kind] = folder, Page(build(folder, folder / "page"))
        return known[kind]

    return of

"""From a template to a page: everything escaped, no script, no request to anywhere."""

from __future__ import annotations

import base64
import hashlib
import os
from functools import cache
from importlib import resources
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from certify.errors import InfrastructureError, UsageError
from reports import numbers
from reports.svg import STYLE

if TYPE_CHECKING:
    from pathlib import Path

    from jinja2 import Environment

TEMPLATES = resources.files("reports") / "templates"


def require_report() -> None:
    """Raises UsageError when the libraries of the extra ``report`` are not installed."""
    for name in ("jinja2", "matplotlib"):
        if find_spec(name) is None:
            raise UsageError(
                f"pages need {name}, which is not installed",
                expected="the extra 'report'",
                hint='pip install "ascend-certify[report]"',
            )


@cache
def style_sheet() -> str:
    """The CSS of a page, figures included."""
    return (TEMPLATES / "page.css").read_text(encoding="utf-8") + STYLE


@cache
def palette() -> str:
    """The part of the CSS that names the colours, for pictures in files of their own."""
    sheet = (TEMPLATES / "page.css").read_text(encoding="utf-8")
    return sheet[: sheet.index("/* end of palette */")]


def security_policy() -> str:
    """Content-Security-Policy: our own style, known by its digest, and nothing else."""
    digest = base64.b64encode(hashlib.sha256(style_sheet().encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(lambda name: (TEMPLATES / name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "plain": numbers.plain,
        "seconds": numbers.seconds,
        "size": numbers.size,
        "moment": numbers.moment,
    }
    environment.globals |= {"interval": numbers.interval}
    return environment


def render(template: str, **values: Any) -> str:
    """The text of a page. Values are escaped; markup of our own must come as `Markup`."""
    from markupsafe import Markup

    return (
        _environment()
        .get_template(template)
        .render(
            **values,
            style=Markup(style_sheet()),
            security_policy=security_policy(),
        )
    )


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all. Raises InfrastructureError."""
    staged = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        staged.write_text(text, encoding="utf-8")
        os.replace(staged, path)
    except OSError as error:
        raise InfrastructureError(
            f"cannot write the page: {error.strerror}",
            where=str(path),
            hint="name another folder: certify report build DIR OUT",
        ) from None

"""The commands that download the weights of a published row. Nothing here runs them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from urllib.parse import urlparse

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


@dataclass(frozen=True)
class Download:
    """hub: ModelScope or Hugging Face; published: the list links to this hub, else the name is
    assumed to be the same there."""

    hub: str
    repository: str
    command: str
    published: bool


def downloads_of(link: str, folder: str) -> tuple[Download, ...]:
    """Commands for both hubs from a published link; empty for a row without one.

    folder: where the files shall lie.
    """
    url = urlparse(link)
    host = (url.hostname or "").removeprefix("www.")
    path = url.path.strip("/").removeprefix("models/")
    match = _NAME.match(path)
    if match is None or host not in ("huggingface.co", "modelscope.cn"):
        return ()
    name, target = match.group(0), shlex.quote(folder)
    return (
        Download(
            "ModelScope",
            name,
            f"modelscope download --model {name} --local_dir {target}",
            host == "modelscope.cn",
        ),
        Download(
            "Hugging Face",
            name,
            f"hf download {name} --local-dir {target}",
            host == "huggingface.co",
        ),
    )

"""The published support list: one row per combination that upstream lists, as published."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from matrices import files

if TYPE_CHECKING:
    from datetime import date

# The folder of the list in upstream's repository, to which relative links refer.
LIST_PATH = "docs/zh/pytorch/models/supported_models.md"
# The language of the document that matrices/support_list.tsv was read from.
OUR_LANGUAGE = "zh"
_TREE = re.compile(r"/tree/([^/]+)/(.+)$")


@dataclass(frozen=True)
class Branch:
    """Maintenance of one upstream branch.

    end: last day of maintenance (ISO), empty for master. kind: ``published`` when upstream
    states that it ended, ``announced`` when it was only planned, ``living`` for master.
    """

    branch: str
    tag: str
    released: str
    end: str
    kind: str
    source: str

    def retired_on(self, today: date) -> str | None:
        """The end of maintenance (ISO date) when it is past on ``today``, else None."""
        ended = self.end and self.end <= today.isoformat()
        return self.end if ended else None


@dataclass(frozen=True)
class Row:
    """One published row.

    Published as they stand in the document: model, size (with the link of the weights), script
    (with its link), seq, backend_published, cluster, version (empty: maintained to master),
    contributor, status. supported_until is the branch whose script the recipe was read from;
    product (A2, A3, A5) is what the script is for, by its name, else by its NPUs a node.
    """

    id: str
    row: int
    category: str
    model: str
    model_link: str
    size: str
    weights: str
    script: str
    script_link: str
    seq: str
    backend_published: str
    cluster: str
    version: str
    version_link: str
    contributor: str
    status: str
    supported_until: str
    product: str

    @property
    def backend(self) -> str:
        """The published training backend: legacy, mcore or fsdp2."""
        return self.backend_published.lower()

    @property
    def script_backend(self) -> str:
        """The backend of the folder the script lies in (differs from `backend` for Mamba3)."""
        part = self.script_dir.split("/")
        return part[1] if len(part) > 1 else self.backend

    @property
    def seq_length(self) -> int:
        """The published sequence length in tokens (``4k`` is 4096)."""
        return int(self.seq[:-1]) * 1024

    @property
    def nodes(self) -> int:
        return int(self.cluster.split("x")[0])

    @property
    def npus_per_node(self) -> int:
        return int(self.cluster.split("x")[1])

    @property
    def world_size(self) -> int:
        return self.nodes * self.npus_per_node

    @property
    def script_branch(self) -> str:
        """The branch the published link of the script leads to."""
        found = _TREE.search(self.script_link)
        return found.group(1) if found else "master"

    @property
    def script_dir(self) -> str:
        """The folder of the script inside upstream's repository."""
        found = _TREE.search(self.script_link)
        return found.group(2) if found else self.script_link.replace("../", "")

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """The id split at its hyphens."""
        return tuple(self.id.split("-"))

    @property
    def model_key(self) -> str:
        """The id without sequence length and backend: the key of ``matrices/models``."""
        return "-".join(self.tokens[:-2])


@lru_cache(maxsize=1)
def load_support_list() -> tuple[Row, ...]:
    """All published rows in the order of the list."""
    rows = files.read_tsv("support_list.tsv")
    return tuple(
        Row(
            row=int(fields.pop("row")),
            backend_published=fields.pop("backend"),
            **fields,
        )
        for fields in rows
    )


@lru_cache(maxsize=1)
def load_branches() -> dict[str, Branch]:
    """Upstream's branches with their maintenance dates, by branch name."""
    return {fields["branch"]: Branch(**fields) for fields in files.read_tsv("branches.tsv")}


def branch_of(row: Row) -> Branch:
    """The branch whose script the row's recipe was read from."""
    return load_branches()[row.supported_until]

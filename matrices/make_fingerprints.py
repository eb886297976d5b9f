"""Rewrites matrices/fingerprints.tsv: which files tell the releases of a source tree apart.

    python -m matrices.make_fingerprints mindspeed_core=PATH/MindSpeed.git:mindspeed \\
        mindspeed_llm=PATH/MindSpeed-LLM.git:mindspeed_llm

For a copied folder without .git (``cp -r`` is in the install guides) the release is found by the
git blob ids of a few files. Files are chosen greedily: each next one separates the most pairs of
releases that are still alike. Maintainers run this when a release appears; it needs git and the
clones, the result does not.
"""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import combinations
from pathlib import Path

_RELEASE = re.compile(r"(?:refs/heads/|refs/tags/v)((?:\d+\.\d+\S*|core_r[\d.]+|master))$")
_MOST_FILES = 14


def _git(repo: str, *words: str) -> str:
    return subprocess.run(
        ["git", "-C", repo, *words], check=True, capture_output=True, text=True
    ).stdout


def _releases(repo: str) -> dict[str, str]:
    """Release name -> ref. A tag is the release as published, so it wins over the branch."""
    found: dict[str, str] = {}
    for line in _git(repo, "for-each-ref", "--format=%(refname)").splitlines():
        match = _RELEASE.match(line.replace("refs/heads/master", "refs/heads/master"))
        if line == "refs/heads/master":
            found["master"] = line
        elif match:
            name = match.group(1)
            if name not in found or "/tags/" in line:
                found[name] = line
    return found


def _tree(repo: str, ref: str, package: str) -> dict[str, str]:
    """Path inside the package -> blob id, Python files only."""
    rows = {}
    for line in _git(repo, "ls-tree", "-r", ref, f"{package}/").splitlines():
        meta, _, path = line.partition("\t")
        if path.endswith(".py"):
            rows[path.removeprefix(f"{package}/")] = meta.split()[2]
    return rows


def choose(trees: dict[str, dict[str, str]]) -> list[str]:
    """Paths that together separate as many pairs of releases as any files can."""
    names = [name for name, tree in trees.items() if tree]
    alike = set(combinations(names, 2))
    paths = sorted({path for tree in trees.values() for path in tree})
    chosen: list[str] = []
    while alike and len(chosen) < _MOST_FILES:
        gains = {
            path: sum(trees[a].get(path) != trees[b].get(path) for a, b in alike) for path in paths
        }
        best = max(paths, key=lambda path: (gains[path], -len(path)))
        if not gains[best]:
            break
        chosen.append(best)
        alike = {(a, b) for a, b in alike if trees[a].get(best) == trees[b].get(best)}
    return chosen


def rows_for(component: str, repo: str, package: str) -> list[str]:
    """One row for each chosen file and blob, with the releases that have it."""
    trees = {name: _tree(repo, ref, package) for name, ref in _releases(repo).items()}
    rows = []
    for path in choose(trees):
        blobs: dict[str, list[str]] = {}
        for name, tree in sorted(trees.items()):
            if path in tree:
                blobs.setdefault(tree[path], []).append(name)
        rows += [
            f"{component}\t{path}\t{blob[:16]}\t{'|'.join(names)}"
            for blob, names in sorted(blobs.items())
        ]
    return rows


def main(words: list[str]) -> int:
    """Write the file beside this module."""
    if not words:
        print(__doc__, file=sys.stderr)
        return 2
    lines = ["component\tpath\tblob\treleases"]
    for word in words:
        component, _, place = word.partition("=")
        repo, _, package = place.rpartition(":")
        lines += rows_for(component, repo, package)
    Path(__file__).with_name("fingerprints.tsv").write_text("\n".join(lines) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Branch, commit and tag of a source checkout, read from .git without running git."""

from __future__ import annotations

from certify.environment.files import join

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import dataclass

    from certify.environment.files import Root
else:
    from certify.light import dataclass

_LEVELS = 8


@dataclass(frozen=True)
class Checkout:
    """top: the folder that holds .git; branch: None when HEAD is detached; tag: one that points
    at the commit (the highest name when several do)."""

    top: str
    branch: str | None
    commit: str | None
    tag: str | None


def find_checkout(root: Root, folder: str) -> Checkout | None:
    """The checkout that `folder` (links followed) lies in, None for a plain copy."""
    place = root.resolve(folder)
    for _ in range(_LEVELS):
        if place in (None, "/"):
            return None
        assert place is not None
        git = _git_folder(root, place)
        if git is not None:
            return _read(root, place, git)
        place = place.rsplit("/", 1)[0] or "/"
    return None


def _git_folder(root: Root, top: str) -> str | None:
    """.git itself, or where a .git file (submodule, worktree) points."""
    git = join(top, ".git")
    if root.is_dir(git):
        return git
    text = root.read(git, 4096)
    if text and text.startswith("gitdir:"):
        target = join(top, text.partition(":")[2].strip())
        return target if root.is_dir(target) else None
    return None


def _common(root: Root, git: str) -> str:
    """The folder with refs: a worktree keeps them in the main one."""
    text = root.read(join(git, "commondir"), 4096)
    return join(git, text.strip()) if text else git


def _read(root: Root, top: str, git: str) -> Checkout:
    head = (root.read(join(git, "HEAD"), 4096) or "").strip()
    common = _common(root, git)
    packed = root.read(join(common, "packed-refs"), 4 << 20) or ""
    if head.startswith("ref:"):
        name = head.partition(":")[2].strip()
        branch = name.removeprefix("refs/heads/")
        loose = root.read(join(git, name), 256) or root.read(join(common, name), 256)
        commit = (loose or "").strip() or _packed(packed, name)
    else:
        branch, commit = None, head or None
    tag = _tag_of(root, common, packed, commit) if commit else None
    return Checkout(top, branch, commit, tag)


def _packed(packed: str, name: str) -> str | None:
    for line in packed.splitlines():
        sha, _, ref = line.partition(" ")
        if ref == name:
            return sha
    return None


def _tag_of(root: Root, common: str, packed: str, commit: str) -> str | None:
    """Annotated tags stand in packed-refs with the commit on the ``^`` line below."""
    found: list[str] = []
    last = ""
    for line in packed.splitlines():
        if line.startswith("^"):
            if line[1:] == commit and last.startswith("refs/tags/"):
                found.append(last.removeprefix("refs/tags/"))
            continue
        sha, _, last = line.partition(" ")
        if sha == commit and last.startswith("refs/tags/"):
            found.append(last.removeprefix("refs/tags/"))
    for name in root.names(join(common, "refs/tags"))[:2000]:
        if (root.read(join(common, "refs/tags", name), 256) or "").strip() == commit:
            found.append(name)
    return max(found) if found else None

"""Which file system a path is on: SQLite's write-ahead log needs shared memory, hence a local one.

On a network file system two hosts would each see their own log and corrupt the database.
"""

from __future__ import annotations

from pathlib import Path

NETWORK = frozenset(
    [
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "fhgfs",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "ocfs2",
        "orangefs",
        "panfs",
        "pvfs2",
        "smb2",
        "smb3",
        "smbfs",
        "virtiofs",
        "wekafs",
    ]
)
MOUNTS = Path("/proc/self/mountinfo")


def _unescape(text: str) -> str:
    """mountinfo writes blanks, tabs, newlines and backslashes as octal escapes."""
    for code, plain in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, plain)
    return text


def filesystem_of(path: Path, mounts: str | None = None) -> str:
    """The type of the file system that holds a path, such as ``ext4``; empty where unknown.

    mounts: the text of mountinfo (proc(5)), by default of this process. The path need not exist.
    """
    if mounts is None:
        try:
            mounts = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return ""
    resolved = path.resolve()
    best, kind = -1, ""
    for line in mounts.splitlines():
        left, separator, right = line.partition(" - ")
        fields = left.split(" ")
        if not separator or len(fields) < 5:
            continue
        mount = Path(_unescape(fields[4]))
        # Of two mounts on the same point the later line is the one that is seen.
        if (resolved == mount or mount in resolved.parents) and len(mount.parts) >= best:
            best, kind = len(mount.parts), right.split(" ")[0]
    return kind


def is_network(kind: str) -> bool:
    """Whether a file system type is shared between hosts; user-space ones count when named so."""
    name = kind.removeprefix("fuse.")
    return name in NETWORK or name in ("sshfs", "s3fs", "juicefs", "gcsfuse", "alluxio-fuse")

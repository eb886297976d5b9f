"""Reading files of a host, an unpacked image or a fake tree, without ever leaving it.

Every path given to `Root` is absolute *inside* the root. Symbolic links are followed inside the
root only: an absolute target starts again at the root and ``..`` stops there, as a container
would see it. Nothing here raises for what it finds: what cannot be read is None or empty, and
the reason is kept in `Root.denied` when it was a matter of permission.
"""

from __future__ import annotations

import os
import stat as stat_bits

MAX_FILE_BYTES = 1 << 20
MAX_ENTRIES = 20_000
MAX_LINKS = 40
# O_NONBLOCK: opening a pipe that replaced the file must not wait for a writer.
_LIVE = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


class Root:
    """The file system below `path` ("/" is the live host).

    denied: paths that exist but could not be opened, in the order met.
    """

    def __init__(self, path: str = "/") -> None:
        self.path = os.path.realpath(path)
        self.live = self.path == "/"
        self.denied: list[str] = []
        self._names: dict[str, list[str]] = {}

    def _outside(self, path: str) -> str:
        """The path on this machine of a link-free `path` inside the root."""
        return path if self.live else self.path + path

    def resolve(self, path: str) -> str | None:
        """`path` without links, as seen inside the root; None for a loop or a bad name.

        The last part need not exist.
        """
        if "\0" in path:
            return None
        if self.live:
            return os.path.realpath(path)
        todo = [part for part in reversed(path.split("/")) if part not in ("", ".")]
        done: list[str] = []
        links = 0
        while todo:
            part = todo.pop()
            if part == "..":
                if done:
                    done.pop()
                continue
            here = self._outside("/" + "/".join([*done, part]))
            try:
                target = os.readlink(here)
            except OSError:
                done.append(part)
                continue
            links += 1
            if links > MAX_LINKS:
                return None
            if target.startswith("/"):
                done = []
            todo.extend(p for p in reversed(target.split("/")) if p not in ("", "."))
        return "/" + "/".join(done)

    def _real(self, path: str) -> str | None:
        """Where to look on this machine; the live host's links are left to the system."""
        if self.live:
            return None if "\0" in path else path
        inside = self.resolve(path)
        return None if inside is None else self._outside(inside)

    def stat(self, path: str) -> os.stat_result | None:
        """Of what `path` leads to."""
        real = self._real(path)
        if real is None:
            return None
        try:
            return os.stat(real) if self.live else os.lstat(real)
        except (OSError, ValueError):
            return None

    def is_file(self, path: str) -> bool:
        """Whether a regular file is there."""
        found = self.stat(path)
        return found is not None and stat_bits.S_ISREG(found.st_mode)

    def is_dir(self, path: str) -> bool:
        """Whether a folder is there."""
        found = self.stat(path)
        return found is not None and stat_bits.S_ISDIR(found.st_mode)

    def link_target(self, path: str) -> str | None:
        """What the link at `path` itself says, or None when it is no link."""
        parent = self._real(os.path.dirname(path) or "/")
        if parent is None:
            return None
        try:
            return os.readlink(os.path.join(parent, os.path.basename(path)))
        except (OSError, ValueError):
            return None

    def read(self, path: str, limit: int = MAX_FILE_BYTES) -> str | None:
        """The first `limit` bytes as text; None if it is no readable regular file."""
        raw = self.read_bytes(path, limit)
        return None if raw is None else raw.decode("utf-8", "replace")

    def read_bytes(self, path: str, limit: int = MAX_FILE_BYTES) -> bytes | None:
        """The first `limit` bytes; devices and pipes are refused, as they could block."""
        real = self._real(path)
        if real is None:
            return None
        try:
            handle = os.open(real, _LIVE if self.live else _LIVE | os.O_NOFOLLOW)
        except PermissionError:
            self.denied.append(path)
            return None
        except (OSError, ValueError):
            return None
        try:
            if not stat_bits.S_ISREG(os.fstat(handle).st_mode):
                return None
            parts, left = [], limit
            while left > 0:
                part = os.read(handle, min(left, 1 << 20))
                if not part:
                    break
                parts.append(part)
                left -= len(part)
            return b"".join(parts)
        except OSError:
            return None
        finally:
            os.close(handle)

    def names(self, path: str) -> list[str]:
        """Sorted names in the folder, at most `MAX_ENTRIES`; empty if it cannot be listed.

        Read once: several probes look through the same site-packages.
        """
        if path not in self._names:
            self._names[path] = self._list(path)
        return self._names[path]

    def _list(self, path: str) -> list[str]:
        real = self._real(path)
        if real is None:
            return []
        found = []
        try:
            with os.scandir(real) as entries:
                for entry in entries:
                    found.append(entry.name)
                    if len(found) >= MAX_ENTRIES:
                        break
        except PermissionError:
            self.denied.append(path)
        except (OSError, ValueError):
            return []
        return sorted(found)

    def digest(self, path: str) -> str | None:
        """sha256 of a file in the form RECORD uses (urlsafe base64 without padding)."""
        raw = self.read_bytes(path, 512 << 20)
        if raw is None:
            return None
        import base64
        import hashlib

        return base64.urlsafe_b64encode(hashlib.sha256(raw).digest()).rstrip(b"=").decode()


def join(*parts: str) -> str:
    """Joined with single slashes; a later absolute part starts again."""
    return os.path.normpath(os.path.join(*parts))

"""Only what we would write is read: everything else that a tar file can hold is refused."""

from __future__ import annotations

import io
import tarfile

import pytest

from certify.evidence.archive import DamagedError, read_archive, write_archive

FILES = {"b/one.json": b"1", "a.json": b"x" * 513, "empty": b""}


def archive(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    write_archive(out, files)
    return out.getvalue()


def read(data: bytes):
    return read_archive(io.BytesIO(data), len(data))


def test_what_was_written_is_read_and_any_tar_reads_it():
    data = archive(FILES)
    found = {m.name: data[m.offset : m.offset + m.size] for m in read(data)}
    assert found == FILES
    with tarfile.open(fileobj=io.BytesIO(data)) as other:
        assert other.getnames() == ["a.json", "b/one.json", "empty"]
        assert other.extractfile("a.json").read() == FILES["a.json"]


def test_the_order_of_writing_changes_nothing():
    assert archive(dict(reversed(FILES.items()))) == archive(FILES)


def member(name: str, data: bytes = b"", **fields: object) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in fields.items():
        setattr(info, key, value)
    padding = b"\0" * (-len(data) % 512)
    return info.tobuf(tarfile.USTAR_FORMAT) + data + padding


END = b"\0" * 1024
REFUSED = {
    "parent": (member("../evil", b"x") + END, "leads out of the folder"),
    "parent inside": (member("a/../../evil", b"x") + END, "leads out of the folder"),
    "absolute": (member("/etc/passwd", b"x") + END, "is absolute"),
    "backslash": (member("..\\evil", b"x") + END, "is absolute"),
    "dot": (member("./a", b"x") + END, "characters that no name"),
    "control": (member("a\nb", b"x") + END, "characters that no name"),
    "symlink": (member("a", type=tarfile.SYMTYPE, linkname="/etc/passwd") + END, "symbolic link"),
    "hard link": (member("a", type=tarfile.LNKTYPE, linkname="b") + END, "hard link"),
    "device": (member("a", type=tarfile.CHRTYPE) + END, "a device"),
    "pipe": (member("a", type=tarfile.FIFOTYPE) + END, "a pipe"),
    "folder": (member("a", type=tarfile.DIRTYPE) + END, "a folder"),
    "twice": (member("a", b"1") + member("a", b"2") + END, "there twice"),
    "order": (member("b", b"1") + member("a", b"2") + END, "out of order"),
    "owner": (member("a", b"1", uid=1000) + END, "not in canonical form"),
    "time": (member("a", b"1", mtime=1) + END, "not in canonical form"),
    "executable": (member("a", b"1", mode=0o755) + END, "not in canonical form"),
    "after the end": (archive(FILES) + b"\0", "does not end"),
    "cut off": (archive(FILES)[:-512], "does not end"),
    "cut in a header": (archive(FILES)[:100], "cut off"),
    "empty": (b"", "cut off"),
    "gzip": (b"\x1f\x8b" + b"\0" * 600, "not an archive"),
    "text": (b"hello" * 200, "not an archive"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    data, said = REFUSED[name]
    with pytest.raises(DamagedError, match=said):
        read(data)


def test_a_bomb_is_refused_before_anything_is_read():
    info = tarfile.TarInfo("a")
    info.size = 1 << 40
    with pytest.raises(DamagedError):
        read(info.tobuf(tarfile.GNU_FORMAT) + END)
    info.size, info.mode = 7 << 30, 0o644
    with pytest.raises(DamagedError, match="which are not there"):
        read(info.tobuf(tarfile.USTAR_FORMAT) + END)


def test_a_file_that_is_too_large_is_refused_unread():
    class Unread:
        def read(self, size):
            raise AssertionError("it was read")

    with pytest.raises(DamagedError, match="larger than"):
        read_archive(Unread(), 1 << 40)


def test_what_cannot_be_read_is_not_written():
    with pytest.raises(DamagedError, match="leads out"):
        archive({"../x": b""})
    with pytest.raises(DamagedError, match="too long"):
        archive({"n" * 200: b""})

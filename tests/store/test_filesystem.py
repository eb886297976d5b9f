"""Which file system holds a path, from the text of /proc/self/mountinfo."""

from __future__ import annotations

from pathlib import Path

import pytest

from certify.store.filesystem import filesystem_of, is_network

MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
23 22 0:50 / /mnt/share rw shared:2 - nfs4 server:/export rw,vers=4.2
24 23 0:51 / /mnt/share/my\\040disk rw - xfs /dev/sdb rw
25 22 0:52 / /mnt/twice rw - xfs /dev/sdc rw
26 25 0:53 / /mnt/twice rw master:3 propagate_from:2 - lustre mgs@tcp:/fs rw
27 22 0:54 / /mnt/home rw - fuse.sshfs user@host: rw
broken line
"""


@pytest.mark.parametrize(
    ("path", "kind", "network"),
    [
        ("/mnt/other", "ext4", False),
        ("/mnt/share/certify/store.sqlite", "nfs4", True),
        ("/mnt/share2/store.sqlite", "ext4", False),
        ("/mnt/share/my disk/store.sqlite", "xfs", False),
        ("/mnt/twice/x", "lustre", True),
        ("/mnt/home/x", "fuse.sshfs", True),
    ],
)
def test_the_innermost_mount_counts(path, kind, network):
    found = filesystem_of(Path(path), MOUNTS)
    assert found == kind
    assert is_network(found) is network


def test_an_unknown_file_system_is_taken_as_local():
    assert filesystem_of(Path("/x"), "") == ""
    assert is_network("") is False


def test_this_machine_names_one(tmp_path):
    assert filesystem_of(tmp_path)

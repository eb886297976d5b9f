"""Where state lives: option, environment, platform."""

from __future__ import annotations

from pathlib import Path

import pytest

from certify.errors import UsageError
from certify.home import database_location, home_folder

HOME = Path.home()


@pytest.mark.parametrize(
    ("explicit", "environ", "platform", "expected"),
    [
        (None, {}, "linux", HOME / ".local/share/ascend-certify"),
        (None, {"XDG_DATA_HOME": "/data"}, "linux", Path("/data/ascend-certify")),
        (None, {"XDG_DATA_HOME": "rel"}, "linux", HOME / ".local/share/ascend-certify"),
        (None, {"CERTIFY_HOME": ""}, "linux", HOME / ".local/share/ascend-certify"),
        (None, {"CERTIFY_HOME": "/state"}, "linux", Path("/state")),
        ("/option", {"CERTIFY_HOME": "/state"}, "linux", Path("/option")),
        ("~/x", {}, "linux", HOME / "x"),
        ("x", {}, "linux", Path.cwd() / "x"),
        (None, {"LOCALAPPDATA": "/appdata"}, "win32", Path("/appdata/ascend-certify")),
        (None, {}, "darwin", HOME / "Library/Application Support/ascend-certify"),
    ],
)
def test_home_folder(explicit, environ, platform, expected):
    assert home_folder(explicit, environ, platform) == expected


def test_database_location():
    assert database_location("/h", {}) == Path("/h/certify.sqlite")
    assert database_location("/h", {"CERTIFY_DATABASE": "/d/s.sqlite"}) == Path("/d/s.sqlite")
    assert database_location("/h", {"CERTIFY_DATABASE": "s.sqlite"}) == Path.cwd() / "s.sqlite"
    url = "postgresql://host/name"
    assert database_location("/h", {"CERTIFY_DATABASE": url}) == url


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch):
    def none() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", none)
    with pytest.raises(UsageError, match="no home folder") as caught:
        home_folder(None, {}, "linux")
    assert "CERTIFY_HOME" in caught.value.hint

"""Reading shell scripts without running them."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from certify.errors import UsageError
from certify.recipes.importers.shell import read_script
from certify.recipes.importers.values import UNKNOWN

# Each script ends in a command `out`; the words it gets must be those that bash passes.
SCRIPTS = {
    "plain": "A=1\nout $A ${A} '$A' \"$A b\"",
    "split": 'A="a  b\n c"\nout $A "$A"',
    "continued": 'A="\n  --a 1 \\\n  --b 2 \\\n"\nout $A \\\n  --c "x y"',
    "arithmetic": "A=4\nB=$(($A*3-2))\nout $B $((B/3)) $((A%3)) $((-A)) $(( (A+1)*2 ))",
    "default": "A=\nout ${A:-x y} ${B:-'p q'} \"${C:-z}\"",
    "unassigned": "out a$NOTHING ${NOTHING} b",
    "append": "A=a\nA+=' b'\nout $A",
    "array": 'A=(a "b c")\nout "${A[@]}" ${A[@]} ${#A[@]} ${A[1]}',
    "scalar as array": 'A="a b"\nout ${A[@]}',
    "nested quotes": 'A="--log_dir="runs" \\\n  --join"\nout $A',
    "escape": 'out \\$A "\\$A" \'\\\' a\\ b "a\\b"',
    "empty words": "A=\nout '' \"$A\" $A x",
    "test true": 'A=8\nif [[ "$A" -eq 8 ]]; then B=yes; else B=no; fi\nout $B',
    "test false": 'A=x\nif [ "$A" != "x" ]; then B=yes; elif [ -z "$A" ]; then B=e; else B=no; fi\n'
    "out $B",
    "function": "f() { A=called; }\nf\nout $A",
    "unset": "A=1\nunset A\nout x$A",
    "json": 'out --d \'{"file": "./a.parquet"}\' --e',
    "comment": "A=1 # not A=2\nout $A # tail",
    "export": "export A=1 B=2\nout $A$B",
    "one line": "A=1; B=$A$A; out $B",
    "comments in an array": 'A=(\n  # sizes\n  --a 1  # one\n  --b 2\n)\nout "${A[@]}"',
    "a longer array": 'A=(--a 1)\nA+=(--b "2 3")\nout "${A[@]}" ${A[*]}',
    "an array from nothing": "A+=(--a 1)\nout ${A[@]}",
    "plus sign": "A=1e-5\nout --lr $A --x=-1",
}


def words(text: str) -> list[str]:
    script = read_script(text, "x.sh")
    return [word.text for word in script.commands[-1].words[1:]]


@pytest.mark.parametrize("name", SCRIPTS)
def test_words_are_those_that_bash_passes(name: str) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash here")
    told = "out() { printf '%s\\0' \"$@\"; }\n" + SCRIPTS[name]
    result = subprocess.run([bash, "-c", told], capture_output=True, text=True, check=True, env={})
    expected = result.stdout.split("\0")[:-1]
    assert words(SCRIPTS[name]) == expected


@pytest.mark.parametrize(
    "text",
    ["out $(date)", "out `date`", "out $1", "out $HOME", "out ${A%x}", "A=$(pwd)\nout $A"],
)
def test_what_only_running_could_tell_is_unknown(text: str) -> None:
    assert words(text) == [UNKNOWN]


@pytest.mark.parametrize(
    "text",
    [
        "for A in a b; do out $A; done",
        "read -r A < hosts\nout $A",
        "mapfile -t A < hosts\nout $A",
        'getopts "a:" A\nout $A',
        "printf -v A %d 3\nout $A",
    ],
)
def test_what_a_loop_or_a_builtin_sets_is_assigned_and_unknown(text: str) -> None:
    script = read_script(text, "x.sh")
    assert [word.text for word in script.commands[-1].words[1:]] == [UNKNOWN]
    assert script.unassigned == {}


def test_origins_name_the_line_of_every_word() -> None:
    script = read_script('A="\n  --a 1 \\\n  --b 2\n"\n\nout x \\\n $A y', "s.sh")
    lines = [(word.text, word.origin.line) for word in script.commands[-1].words]
    assert lines == [("out", 6), ("x", 6), ("--a", 2), ("1", 2), ("--b", 3), ("2", 3), ("y", 7)]


def test_exports_sources_pipes_and_pipefail() -> None:
    files = {"lib/env.sh": "export B=2\nexport C=3\n"}
    script = read_script(
        "set -euo pipefail\nsource lib/env.sh\nexport C=4\nsource gone.sh\nD=1 run x | tee log",
        "s.sh",
        lambda name: (name, files[name]) if name in files else None,
    )
    env = {name: (one.value, one.origin.file) for name, one in script.env().items()}
    assert env == {"B": ("2", "lib/env.sh"), "C": ("4", "s.sh")}
    assert [word.text for word in script.missing_sources] == ["gone.sh"]
    run = script.commands[-2]
    assert (run.env, run.pipes_into, run.pipefail) == ({"D": "1"}, ("tee",), True)


def test_an_unknown_branch_is_read_but_not_certain() -> None:
    script = read_script('if [ -z "$1" ]; then A=1; else A=2; fi\nout $A', "s.sh")
    assert [(one.value, one.certain) for one in script.assignments] == [("1", False), ("2", False)]


def test_windows_line_ends_and_placeholders_are_noted() -> None:
    script = read_script("A=1\r\nHOST=<host>\r\nout $A $HOST\r\n", "s.sh")
    assert script.crlf
    assert [origin.line for origin in script.placeholders] == [2]
    assert [word.text for word in script.commands[-1].words] == ["out", "1", "host"]


HOSTILE = {
    "doubling": "A=xxxxxxxxxx\n" + "A=$A$A\n" * 60,
    "recursion": "f() { f; f; }\nf\n",
    "nested substitution": "out " + "$(" * 5000,
    "nested arithmetic": "A=$((" + "(" * 5000,
    "long sum": "A=$((1" + "+1" * 20000 + "))",
    "pipes": "a|" * 20000,
    "heredocs": "cat <<A\n" * 8000,
    "cases": "case $x in a) " * 3000,
    "words": 'A="' + "a " * 20000 + '"\nout ' + "$A " * 500,
    "quotes": '"' * 60000,
    "huge": "A=1\n" * 400000,
    "braces": "out {1..99999999}",
    "numbers": "A=9\n" + "A=$(($A*$A))\n" * 200,
    "self source": "source s.sh\n" * 40,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_script_ends_soon(name: str) -> None:
    start = time.monotonic()
    with contextlib.suppress(UsageError):
        read_script(HOSTILE[name], "s.sh", lambda name: ("s.sh", HOSTILE["self source"]))
    assert time.monotonic() - start < 30


def test_a_refusal_names_the_place() -> None:
    with pytest.raises(UsageError) as caught:
        read_script(HOSTILE["doubling"], "s.sh")
    assert caught.value.where == "s.sh:15"


def test_nothing_is_executed(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    text = f"A=$(touch {mark})\nB=`touch {mark}`\ntouch {mark}\neval 'touch {mark}'\n: > {mark}\n"
    text += f"cat < <(touch {mark})\n[ -z $(touch {mark}) ] && touch {mark}\n. {mark}\n"
    before = dict(os.environ)
    read_script(text, "s.sh")
    assert not mark.exists()
    assert dict(os.environ) == before

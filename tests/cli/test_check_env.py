"""``certify check-env`` as people call it: whole output, exit codes, what it loads and runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from certify.cli import main
from matrices.load import load
from tests.environment import trees
from tests.environment.test_npu_smi import A2

ROOT = Path(__file__).resolve().parents[2]
BROKEN = "torch==2.6.0\ntorch-npu==2.7.1.post2\nCANN 8.5.0\n"


def call(*words: str, text: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "certify", "check-env", *words],
        input=text,
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        env={**os.environ, "LANG": "C.UTF-8", "LC_ALL": "", **environ},
    )


def report(tmp_path: Path, text: str) -> str:
    file = tmp_path / "report.txt"
    file.write_text(text, encoding="utf-8")
    return str(file)


def test_a_conflict_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["check-env", "--report", report(tmp_path, BROKEN), "--lang", "en"])
    lines = capsys.readouterr().out.splitlines()
    assert code == 1
    assert lines[0] == "verdict: incompatible: something cannot work as it is"
    assert "x error [torch-pair]" in lines
    place = lines.index("x error [torch-pair]")
    assert lines[place + 1] == "  found: torch_npu 2.7.1.post2 with PyTorch 2.6.0"
    assert lines[place + 2].startswith("  expected: PyTorch 2.7.1 (for torch_npu 2.7.1.post2) or ")
    assert lines[place + 3].startswith("  source: Ascend/pytorch COMPATIBILITY")
    assert lines[place + 4].startswith("  why: ")
    assert any(line.startswith("  hint: pip install ") for line in lines)
    assert any(line.startswith("smallest change (cost 1") for line in lines)


@pytest.mark.parametrize(
    ("text", "code", "verdict"),
    [
        (BROKEN, 1, "incompatible"),
        ("hello", 3, "unknown"),
        ("torch==2.7.1\ntorch-npu==2.7.1.post2\nCANN 8.5.0\n", 3, "unverified"),
        (
            "torch==2.9.0\ntorch-npu==2.9.0\nCANN 8.5.0\npython 3.11\n"
            + A2.replace("25.3.rc1", "25.5.0").replace("Warning", "OK     "),
            0,
            "reference",
        ),
    ],
)
def test_exit_codes_and_json(tmp_path: Path, text: str, code: int, verdict: str) -> None:
    done = call("--report", "-", "--json", text=text)
    document = json.loads(done.stdout)
    assert (done.returncode, document["verdict"], done.stderr) == (code, verdict, "")
    assert document["schema"] == "certify.check-env/1"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--report", "/no/such/file"], "/no/such/file"),
        (["--root", "/no/such/folder"], "--root"),
        (["--product", "A9"], "--product"),
        (["--keep", "nonsense"], "--keep"),
        (["--for", "no-such-recipe-at-all"], "no-such-recipe-at-all"),
        (["--merge", "/no/such.json"], "--merge"),
        (["--nodes", "n[5-1]"], "--nodes"),
        (["--report", "a", "--root", "b"], "not allowed with"),
    ],
)
def test_usage_errors_are_explained(
    words: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check-env", *words, "--json"]) == 2
    out, err = capsys.readouterr()
    assert named in err
    assert json.loads(out)["error"]["exit_code"] == 2


def test_chinese_by_locale_and_by_option(tmp_path: Path) -> None:
    file = report(tmp_path, BROKEN)
    assert call("--report", file, LC_ALL="zh_CN.UTF-8").stdout.startswith("结论: incompatible")
    assert call("--report", file, "--lang", "zh").stdout.startswith("结论: incompatible")
    assert call("--report", file, LC_ALL="C", LANG="zh_CN.UTF-8").stdout.startswith("verdict:")


@pytest.mark.parametrize(("style", "start"), [("markdown", "**certify"), ("junit", "<?xml")])
def test_other_forms(
    style: str, start: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check-env", "--report", report(tmp_path, BROKEN), "--format", style]) == 1
    assert capsys.readouterr().out.startswith(start)


def test_a_tree_is_judged_like_a_host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trees.reference_host(tmp_path)
    code = main(["check-env", "--root", str(tmp_path), "--product", "A2", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert {f["rule"]: f["found"] for f in document["findings"] if f["severity"] != "info"} == {}
    assert document["stack"]["torch_npu"]["confidence"] == "certain"
    # The product is given as it could have been pasted: a tree has no devices to look at.
    assert (document["verdict"], code, document["missing"]) == ("reference", 0, [])
    code = main(["check-env", "--root", str(tmp_path), "--json"])
    document = json.loads(capsys.readouterr().out)
    assert (document["verdict"], code) == ("unverified", 3)
    assert [item["component"] for item in document["missing"]] == ["product"]


def test_redaction(tmp_path: Path) -> None:
    text = BROKEN + "OSError: /home/alice/x/libhccl.so: cannot open shared object file\n"
    text += "HF_TOKEN=hf_abcdefghijklmnopqrstuvwx No module named 'torch_npu' at 10.2.3.4\n"
    plain = call("--report", "-", text=text).stdout
    hidden = call("--report", "-", "--redact", text=text).stdout
    assert "hf_abcdefgh" not in plain
    assert "alice" in plain
    assert "alice" not in hidden
    assert "10.2.3.4" not in hidden


FORBIDDEN = (
    "torch", "torch_npu", "numpy", "yaml", "sqlalchemy", "importlib.metadata", "pydantic", "rich",
    "jinja2", "transformers", "dataclasses", "inspect", "subprocess", "tomllib", "tomli", "difflib",
    "packaging", "packaging.version", "certify.environment.report", "certify.resolver.change",
    "certify.environment.render.catalog_zh", "xml", "socket", "urllib.request", "asyncio", "ssl",
    "typing", "gettext", "locale", "pathlib", "contextlib", "shutil",
)  # fmt: skip


@pytest.mark.parametrize("style", ["json", "text"])
@pytest.mark.parametrize("variable", ["", "HCCL_CONNECT_TIMEOUT", "CUDA_DEVICE_MAX_CONNECTIONS"])
def test_only_what_is_needed_is_loaded(variable: str, style: str) -> None:
    """On a bare host, and on one that sets a variable that the matrix knows."""
    load()  # the compiled form is made, if this checkout has none yet
    code = (
        f"import sys\nfrom certify.cli import main\n"
        f"main(['check-env', '--no-tools', '--format', '{style}'])\n"
        "print('\\n'.join(sys.modules), file=sys.stderr)"
    )
    # -S: without site, so that start-up files of this environment do not count.
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        env={**os.environ, **({variable: "1200"} if variable else {})},
    )
    if style == "json":
        json.loads(done.stdout)
    loaded = set(done.stderr.split())
    forbidden = sorted(loaded & {*FORBIDDEN, *(["json"] if style == "text" else [])})
    assert not forbidden, (forbidden, done.stdout)
    assert len([name for name in loaded if name.startswith(("certify", "matrices"))]) <= 65
    assert len(loaded) <= 140


def test_what_is_inspected_is_not_imported(tmp_path: Path) -> None:
    """The fake torch and torch_npu raise when they are imported."""
    trees.torch(tmp_path, "2.7.1", site="site-packages")
    trees.torch_npu(tmp_path, "2.7.1", site="site-packages")
    done = call(
        "--no-tools", "--json", PYTHONPATH=f"{tmp_path / 'site-packages'}:{ROOT}", VIRTUAL_ENV=""
    )
    assert json.loads(done.stdout)["stack"]["torch_npu"]["version"] == "2.7.1"


def npu_smi(tmp_path: Path, body: str) -> str:
    tool = tmp_path / "bin/npu-smi"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\n" + body)
    tool.chmod(0o755)
    return f"{tool.parent}:{os.environ['PATH']}"


def test_npu_smi_of_the_path_is_asked(tmp_path: Path) -> None:
    path = npu_smi(tmp_path, f"cat <<'EOF'\n{A2}EOF\n")
    stack = json.loads(call("--json", PATH=path).stdout)["stack"]
    assert (stack["driver"]["version"], stack["devices"]["version"]) == ("25.3.rc1", "2")


def test_a_hanging_npu_smi_is_ended_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from certify.environment.builder import StackBuilder
    from certify.environment.files import Root
    from certify.environment.probes import devices
    from certify.environment.probes.host import Host

    monkeypatch.setenv("PATH", npu_smi(tmp_path, "sleep 60 & sleep 60\n"))
    host = Host(Root("/"), StackBuilder("host"), {}, tools=True)
    start = time.monotonic()
    devices.run_tools(host, timeout_s=0.4)
    assert time.monotonic() - start < 30
    assert {signal.id for signal in host.out.signals} == {"npu-smi-hangs"}
    assert [section.state for section in host.out.sections] == ["unparsed"]


@pytest.mark.parametrize(
    ("body", "signal"),
    [
        ("echo 'dcmi module initialize failed. ret is -8005'; exit 1", "dcmi-failed"),
        ("echo 'npu-smi: error while loading shared libraries: libc_sec.so: cannot open shared "
         "object file: No such file or directory' >&2; exit 127", "library-driver"),
        ("head -c 3000000 /dev/zero", None),
    ],
)  # fmt: skip
def test_a_failing_npu_smi_is_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, signal: str | None
) -> None:
    from certify.environment.probes import inspect

    monkeypatch.setenv("PATH", npu_smi(tmp_path, body + "\n"))
    stack = inspect("/", environ={})
    assert [s.state for s in stack.sections if s.kind == "npu-smi info"] == ["unparsed"]
    assert stack.devices == ()
    assert signal is None or signal in {s.id for s in stack.signals}


def test_nodes_are_merged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = []
    for number, driver in ((1, "25.5.0"), (2, "25.5.0"), (3, "25.2.0")):
        text = f"| npu-smi {driver}     Version: {driver}    |\ntorch==2.9.0\n"
        main(["check-env", "--report", report(tmp_path, text), "--json"])
        file = tmp_path / f"node{number:02d}.json"
        file.write_text(capsys.readouterr().out)
        files.append(str(file))
    assert main(["check-env", "--merge", *files]) == 3
    out = capsys.readouterr().out
    assert "node[03]: driver 25.2.0, the other 2: 25.5.0" in out


_FINDING = {
    "rule": "soc", "severity": "error", "component": "soc", "found": "a", "expected": "b",
    "source": "", "why": [], "hint": "",
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"stack": {"cann": None}}, "stack.cann"),
        ({"stack": {"cann": {"version": 9}}}, "stack.cann"),
        ({"findings": [None]}, "findings[0]"),
        ({"findings": [_FINDING, {"rule": "soc"}]}, "findings[1]"),
        ({"findings": [{**_FINDING, "severity": "mega"}]}, "findings[0].severity"),
        ({"findings": [{**_FINDING, "found": {}}]}, "findings[0]"),
        ({"findings": [{**_FINDING, "why": 2}]}, "findings[0].why"),
        ({"verdict": "fine"}, "verdict"),
    ],
)
def test_a_damaged_answer_of_a_node_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, object], where: str
) -> None:
    whole = {
        "schema": "certify.check-env/1", "verdict": "incompatible", "findings": [_FINDING],
        "stack": {"cann": {"version": "9.1.0"}},
    }  # fmt: skip
    file = tmp_path / "node1.json"
    file.write_text(json.dumps(whole))
    assert main(["check-env", "--merge", str(file)]) == 1
    file.write_text(json.dumps({**whole, **change}))
    assert main(["check-env", "--merge", str(file)]) == 2
    err = capsys.readouterr().err
    assert where in err
    assert str(file) in err


def test_nodes_are_asked_over_ssh(tmp_path: Path) -> None:
    remote = f"{sys.executable} -m certify"
    # Stands for ssh: drops the node's name and runs the rest here.
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\nshift\nexec "$@" --no-tools\n')
    ssh.chmod(0o755)
    done = call("--nodes", "a[1-2]", "--json", CERTIFY_SSH=str(ssh), CERTIFY_REMOTE=remote)
    document: dict[str, Any] = json.loads(done.stdout)
    assert list(document["nodes"]) == ["a1", "a2"]
    assert document["outliers"] == []
    failed = call("--nodes", "a1", CERTIFY_SSH="/bin/false")
    assert failed.returncode == 4
    assert "a1" in failed.stderr


def test_a_silent_node_does_not_hide_the_others(tmp_path: Path) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text(
        '#!/bin/sh\nif [ "$1" = a2 ]; then echo "no route to a2" >&2; exit 255; fi\n'
        'shift\nexec "$@" --no-tools\n'
    )
    ssh.chmod(0o755)
    environ = {"CERTIFY_SSH": str(ssh), "CERTIFY_REMOTE": f"{sys.executable} -m certify"}
    done = call("--nodes", "a[1-3]", "--json", **environ)
    document: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == 4
    assert list(document["nodes"]) == ["a1", "a3"]
    assert document["silent"] == {"a2": "no route to a2"}
    assert document["verdict"] not in ("reference", "compatible")
    assert "a2: no answer (no route to a2)" in call("--nodes", "a[1-3]", **environ).stdout


def test_several_nodes_as_junit_and_markdown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = []
    for number, cann in ((1, "9.0.0"), (2, "9.0.0"), (3, "9.1.0")):
        main(["check-env", "--report", report(tmp_path, f"CANN {cann}\n"), "--json"])
        file = tmp_path / f"node{number}.json"
        file.write_text(capsys.readouterr().out)
        files.append(str(file))
    assert main(["check-env", "--merge", *files, "--format", "junit"]) == 1
    suite = ElementTree.fromstring(capsys.readouterr().out).find("testsuite")
    assert suite is not None
    assert suite.get("failures") == "1"
    names = {case.get("name") for case in suite if case.find("failure") is not None}
    assert names == {"node-differs: cann node[3]"}
    assert main(["check-env", "--merge", *files, "--format", "markdown"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("**certify check-env: incompatible**")
    assert "node[3]: cann 9.1.0, the other 2: 9.0.0" in out


def test_for_a_recipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = report(tmp_path, A2 + "TASK_QUEUE_ENABLE=1\n")
    code = main(
        ["check-env", "--report", file, "--for", "qwen3-235b", "--backend", "fsdp2", "--json"]
    )
    found = {(f["rule"], f["severity"]) for f in json.loads(capsys.readouterr().out)["findings"]}
    assert code == 1
    assert {("soc", "error"), ("recipe-pins", "error"), ("recipe-pins", "warning")} <= found


@pytest.mark.parametrize("python", ["current"])
def test_one_file_runs_everything(tmp_path: Path, python: str) -> None:
    target = tmp_path / "certify.pyz"
    built = subprocess.run(
        [sys.executable, "-m", "certify.pyz", str(target)], cwd=ROOT, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr

    def run(*words: str, text: str = "") -> subprocess.CompletedProcess[str]:
        # -I -S: neither this checkout nor installed packages are on the path.
        return subprocess.run(
            [sys.executable, "-I", "-S", str(target), *words],
            input=text,
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )

    assert run("--version").stdout.startswith("certify ")
    checked = run("check-env", "--report", "-", "--json", text=BROKEN)
    assert (checked.returncode, json.loads(checked.stdout)["verdict"]) == (1, "incompatible")
    assert run("check-env", "--no-tools", "--lang", "zh").stdout.startswith("结论: ")
    assert run("collector").stdout.startswith("#!/bin/sh")
    assert run("recipes", "list", "--json").returncode == 0
    again = tmp_path / "again.pyz"
    subprocess.run([sys.executable, "-m", "certify.pyz", str(again)], cwd=ROOT, check=True)
    assert again.read_bytes() == target.read_bytes()


def test_public_cases(shared: Path) -> None:
    """The score that the shared checker asks for, through the command as it is."""
    environ = {**os.environ, "CERTIFY": f"{sys.executable} -m certify"}
    done = subprocess.run(
        [sys.executable, str(shared / "checks/score_checkenv.py"), "cases/environment",
         "48", "42", "8"],
        cwd=ROOT, capture_output=True, text=True, env=environ, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_two_forms_of_output_are_refused() -> None:
    result = call("--json", "--format", "junit")
    assert result.returncode == 2
    assert "--json and --format junit" in result.stderr

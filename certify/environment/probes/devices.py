"""Device nodes, who may open them, and what npu-smi and hccn_tool say.

npu-smi and hccn_tool are the only programs that certify ever runs on a host, each with a time
limit and without a shell.
"""

from __future__ import annotations

import os
import re

from certify.environment.files import join
from certify.light import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from subprocess import Popen

    from certify.environment.probes.host import Host

_NODE = lazy(r"^(?:v)?davinci(\d+)$")
_NEEDED = ("davinci_manager", "devmm_svm", "hisi_hdc")
_TOOL_PLACES = ("/usr/local/bin/npu-smi", "/usr/local/sbin/npu-smi", "/usr/bin/npu-smi")
TOOL_TIMEOUT_S = 10.0
_MAX_OUTPUT, _CHUNK = 1 << 20, 1 << 16
_LAST_WAIT_S = 0.2


def probe(host: Host) -> None:
    """Device nodes of the tree; on a live host also whether this process may open them."""
    names = host.root.names("/dev")
    nodes = [name for name in names if _NODE.match(name)]
    if not nodes:
        return
    host.out.add("device_nodes", str(len(nodes)), "/dev")
    if not host.root.live:
        return
    present = set(names)
    if "davinci_manager_docker" in present:
        present.add("davinci_manager")
    # The 950 has ummu and uburma instead of devmm_svm.
    lacking = [
        name
        for name in _NEEDED
        if name not in present and not (name == "devmm_svm" and "ummu" in present)
    ]
    if lacking:
        text = ", ".join(f"/dev/{name}" for name in lacking)
        host.out.signal("devices-not-mounted", f"no {text}", "/dev", lacking=text)
    _permissions(host, nodes[0])


def _permissions(host: Host, node: str) -> None:
    path = join("/dev", node)
    if os.access(path, os.R_OK | os.W_OK):
        return
    found = host.root.stat(path)
    if found is None:
        return
    from certify.environment.permissions import closed_reason

    caps = re.search(r"CapEff:\s*([0-9a-f]+)", host.root.read("/proc/self/status", 65_536) or "")
    mode = found.st_mode & 0o777
    reason = closed_reason(
        (path, str(found.st_uid), str(found.st_gid), mode),
        (str(os.geteuid()), None, {str(group) for group in os.getgroups()}),
        int(caps.group(1), 16) if caps else None,
    )
    host.out.signal(
        "device-nodes-closed", f"{path} {found.st_uid}:{found.st_gid} {mode:04o}", path,
        path=path, owner=f"{found.st_uid}:{found.st_gid}", mode=f"{mode:04o}",
        uid=str(os.geteuid()), reason=reason or "the device group of the container refuses",
    )  # fmt: skip


def find_tool() -> str | None:
    """Where npu-smi is, None when it is not there."""
    on_path = [
        join(p, "npu-smi") for p in os.environ.get("PATH", "").split(":") if p.startswith("/")
    ]
    return next((p for p in (*on_path, *_TOOL_PLACES) if os.access(p, os.X_OK)), None)


def run_tools(host: Host, timeout_s: float = TOOL_TIMEOUT_S) -> None:
    """Ask npu-smi for its table, and hccn_tool for the links if it is there; both at once."""
    tool = find_tool()
    if tool is None:
        if host.out.has("device_nodes"):
            host.out.signal("npu-smi-absent", "npu-smi: not found", "PATH")
        return
    jobs = {"npu-smi info": [tool, "info"]}
    network = next(
        (p for p in ("/usr/local/Ascend/driver/tools/hccn_tool",) if os.access(p, os.X_OK)), None
    )
    if network:
        jobs["hccn_tool"] = [network, "-i", "0", "-link", "-g"]
    results = _run_all(jobs, timeout_s)
    _use_table(host, results["npu-smi info"], timeout_s)
    link = results.get("hccn_tool")
    if link and "DOWN" in link.upper() and "LINK STATUS" in link.upper():
        host.out.signal("link-down", link.strip()[:200], "hccn_tool -i 0 -link -g", device="0")


def _run_all(jobs: dict[str, list[str]], timeout_s: float) -> dict[str, str | None]:
    """Output of each program (both streams), None for one that did not end in time."""
    import subprocess
    from time import monotonic

    # The tool needs its own libraries; nothing else of the environment changes.
    running = {}
    results: dict[str, str | None] = {}
    for name, words in jobs.items():
        try:
            running[name] = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            results[name] = str(error)
    end = monotonic() + timeout_s
    taken = _read_all(running, end)
    for name, process in running.items():
        ended, raw = taken[name]
        if not ended:
            _stop(process.pid)
        results[name] = raw.decode("utf-8", "replace") if ended or len(raw) >= _MAX_OUTPUT else None
        _reap(process)
    return results


def _read_all(running: dict[str, Popen[bytes]], end: float) -> dict[str, tuple[bool, bytes]]:
    """What each program prints until it closes its output, the cap or the time is reached, and
    whether it closed it. Never more than the cap is held."""
    from selectors import EVENT_READ, DefaultSelector
    from time import monotonic

    taken = {name: bytearray() for name in running}
    ended = dict.fromkeys(running, False)
    with DefaultSelector() as selector:
        for name, process in running.items():
            if process.stdout is not None:
                selector.register(process.stdout, EVENT_READ, name)
        while selector.get_map() and (left := end - monotonic()) > 0:
            for key, _ in selector.select(left):
                name = key.data
                chunk = os.read(key.fd, min(_CHUNK, _MAX_OUTPUT - len(taken[name])))
                taken[name] += chunk
                ended[name] = not chunk
                if ended[name] or len(taken[name]) >= _MAX_OUTPUT:
                    selector.unregister(key.fileobj)
    return {name: (ended[name], bytes(taken[name])) for name in running}


def _reap(process: Popen[bytes]) -> None:
    """Take the exit status of a program that has ended; one stuck in the kernel is left."""
    from subprocess import TimeoutExpired

    if process.stdout is not None:
        process.stdout.close()
    try:
        process.wait(_LAST_WAIT_S)
    except TimeoutExpired:
        _stop(process.pid)


def _stop(pid: int) -> None:
    """End the tool and what it started; one stuck in the kernel is left behind, not waited for."""
    import signal

    try:
        os.killpg(pid, signal.SIGKILL)
    except (OSError, ValueError):
        return


def _use_table(host: Host, text: str | None, timeout_s: float) -> None:
    # Only here: a check without tools must not pay for the expressions of the parsers.
    from certify.environment.npu_smi import read_table
    from certify.environment.report.tables import add_table
    from certify.environment.symptoms import find_symptoms

    out = host.out
    if text is None:
        out.section("npu-smi info", "unparsed", 0, 0, f"no answer within {timeout_s:g} s")
        out.signal("npu-smi-hangs", f"npu-smi info: no answer in {timeout_s:g} s", "npu-smi info")
        return
    table = read_table(text)
    out.section("npu-smi info", table.state, 0, 0, table.note)
    if table.devices or table.driver:
        add_table(table, "npu-smi info", out, "certain")
    else:
        find_symptoms(text, "npu-smi info", out)

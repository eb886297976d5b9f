"""English texts of findings: key -> (found, expected, hint). ``{name}`` stands for a value of the
finding; `{text}` is the line that was seen. A hint is one command or one change."""

from __future__ import annotations

_SEE = "{text}"
_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
_ASCEND_INDEX = "https://mirrors.huaweicloud.com/ascend/repos/pypi"
_SOURCE_CANN = (
    "source /usr/local/Ascend/cann/set_env.sh || source /usr/local/Ascend/ascend-toolkit/set_env.sh"
)
_REBUILD = _SOURCE_CANN + "; pip install --no-build-isolation --force-reinstall --no-deps ."
_WHERE = "python -c \"import importlib.util as u; print(u.find_spec('{module}'))\""
_RUN_WITH_DEVICES = (
    "docker run --device /dev/davinci0 --device /dev/davinci_manager --device /dev/devmm_svm "
    "--device /dev/hisi_hdc -v /usr/local/Ascend/driver:/usr/local/Ascend/driver:ro "
    "-v /usr/local/bin/npu-smi:/usr/local/bin/npu-smi -v /usr/local/dcmi:/usr/local/dcmi ..."
)

TEXTS: dict[str, tuple[str, str, str]] = {
    "signal-symbol-atb": (
        "the symbol {symbol} belongs to ATB (NNAL), and the ATB that was loaded does not have it",
        "NNAL of the same release as CANN and torch_npu",
        "cat /usr/local/Ascend/nnal/atb/latest/version.info",
    ),
    "signal-symbol-torch": (
        "{library} asks torch for {symbol}, which this torch does not have",
        "torch and torch_npu of one release (torch_npu X.Y.Z is built for torch X.Y.Z only)",
        "pip list | grep -i torch",
    ),
    "signal-symbol-cann": (
        "torch_npu asks CANN for {symbol}, which this CANN does not have",
        "the CANN that this torch_npu, post level included, was built for; for this CANN the "
        "tables "
        "name torch_npu {paired}",
        "certify resolve --keep torch",
    ),
    "signal-symbol-cann-internal": (
        "a library of CANN ({library}) misses {symbol} of another CANN library: two versions are "
        "mixed",
        "all CANN libraries from one version and prefix",
        "echo $LD_LIBRARY_PATH | tr : '\\n' | grep -i ascend",
    ),
    "signal-symbol-driver": (
        "CANN asks the driver for {symbol}, which this driver does not have",
        "a driver at least as new as this CANN declares",
        "npu-smi info",
    ),
    "signal-symbol-abi": (
        "{library} misses {symbol}: it was built with the other C++ ABI",
        "ATB's cxx_abi folder equal to torch's ABI flag",
        "source /usr/local/Ascend/nnal/atb/set_env.sh",
    ),
    "signal-symbol-extension": (
        "the extension {library} misses {symbol} of CANN: it was built for another CANN",
        "an extension built for the installed CANN",
        _REBUILD,
    ),
    "signal-symbol-unnamed": (
        "an undefined symbol that the text does not name: " + _SEE,
        "the whole line with the symbol and the library",
        'TORCH_DEVICE_BACKEND_AUTOLOAD=0 python -c "import torch, torch_npu"',
    ),
    "signal-function-not-in-cann": (
        "torch_npu calls {name}, which the installed CANN does not offer",
        "the CANN that this torch_npu was built for (toolkit and ops package); for this CANN the "
        "tables name torch_npu {paired}",
        "certify resolve --keep torch_npu",
    ),
    "signal-libstdcxx-old": (
        "{need} is not in the libstdc++ of this system",
        "a libstdc++ with {need}",
        "strings $(gcc -print-file-name=libstdc++.so.6) | grep GLIBCXX | tail -1",
    ),
    "signal-glibc-old": (
        "{need} is not in the C library of this system",
        "a system with {need} or newer, such as the official images",
        "ldd --version",
    ),
    "signal-library-driver": (
        "{library} belongs to the driver and cannot be loaded: npu-smi present is not driver "
        "present",
        "driver/lib64 mounted and on the loader path",
        _RUN_WITH_DEVICES,
    ),
    "signal-library-cann": (
        "{library} belongs to CANN and is not on the loader path",
        "CANN's set_env.sh sourced in the process that starts the training",
        _SOURCE_CANN,
    ),
    "signal-library-nnal": (
        "{library} belongs to NNAL (ATB) and is not on the loader path",
        "NNAL of CANN's release installed and its set_env.sh sourced",
        "source /usr/local/Ascend/nnal/atb/set_env.sh",
    ),
    "signal-library-cuda": (
        "{library} is a CUDA library: a package built for NVIDIA is in use",
        "CPU builds of torch, and no CUDA-only packages",
        "pip list | grep -Ei 'cu1|nvidia|\\+cu'",
    ),
    "signal-module-cann": (
        "the module {module} comes with CANN and cannot be imported",
        "CANN's Python folders on PYTHONPATH, in the process that trains and in its workers",
        _SOURCE_CANN,
    ),
    "signal-module-cann-deps": (
        "{module}, which CANN's operator compiler imports, is not installed in this Python",
        "the Python packages of CANN's install guide",
        "pip install attrs cloudpickle decorator 'numpy<2' psutil scipy sympy cffi absl-py "
        "ml-dtypes",
    ),
    "signal-module-triton-backend": (
        "the triton that is imported has no Ascend backend: plain triton was installed over it",
        "the files of triton-ascend in the folder triton/",
        "pip uninstall -y triton triton-ascend && pip install --no-deps --force-reinstall "
        "triton-ascend",
    ),
    "signal-module-triton-damaged": (
        "triton is incomplete: " + _SEE,
        "all files of triton-ascend",
        "pip uninstall -y triton triton-ascend && pip install --no-deps --force-reinstall "
        "triton-ascend",
    ),
    "signal-module-triton-absent": (
        "triton cannot be imported: needed where triton kernels are used",
        "triton-ascend of the CANN in use, where the framework asks for it",
        "pip show triton-ascend",
    ),
    "signal-accelerator-unknown": (
        "the framework found no accelerator: " + _SEE,
        "torch_npu that can be imported in that process",
        'python -c "import torch, torch_npu; print(torch.npu.device_count())"',
    ),
    "signal-module-torch-npu": (
        "torch_npu cannot be imported in this Python: " + _SEE,
        "torch_npu installed for the Python that trains",
        'python -c "import torch, torch_npu; print(torch_npu.__version__)"',
    ),
    "signal-module-torch-npu-partial": (
        "the torch_npu that is imported is not the installed one or not whole: " + _SEE,
        "torch_npu from site-packages, with its compiled module",
        "cd / && TORCH_DEVICE_BACKEND_AUTOLOAD=0 "
        "python -c \"import importlib.util as u; print(u.find_spec('torch_npu'))\"",
    ),
    "signal-module-not-built": (
        "{module} is made when the package is installed: the source folder is imported instead",
        "the framework installed, and its pinned packages with it",
        "cd / && python -m pip show vllm-ascend",
    ),
    "signal-module-mindspeed": (
        "what is asked of MindSpeed is not in the MindSpeed Core that is imported: " + _SEE,
        "the MindSpeed Core branch that this MindSpeed-LLM branch is published with",
        "git -C MindSpeed log -1 --format='%D %h'",
    ),
    "signal-module-megatron": (
        "what is asked of Megatron is not in the Megatron that is imported: " + _SEE,
        "the Megatron core (and bridge) that MindSpeed and the framework name",
        "python -c \"import importlib.util as u; print(u.find_spec('megatron.core'))\"",
    ),
    "signal-module-transformers": (
        "the transformers in use does not have what is asked of it: " + _SEE,
        "the transformers that the framework was written for",
        "pip show transformers",
    ),
    "signal-module-framework": (
        "a framework does not have what another package asks of it: " + _SEE,
        "the versions of one published row",
        "pip list | grep -Ei 'vllm|verl|sglang|swift|llama'",
    ),
    "signal-module-torch-too-old": (
        "torch {torch} does not have what a framework imports: " + _SEE,
        "a torch that the framework supports, with its torch_npu",
        "pip list | grep -Ei 'torch|deepspeed'",
    ),
    "signal-module-cuda-only": (
        "a CUDA-only package is asked for: " + _SEE,
        "the NPU path of the framework (sdpa or npu attention)",
        "grep -rn flash_attn .  # and choose sdpa or the NPU attention of the framework",
    ),
    "signal-module-shadowed": (
        "a module is shadowed by a file or folder of the same name: " + _SEE,
        "the installed module first on the path",
        "cd /  # and start again from there",
    ),
    "signal-namespace-residue": (
        "{module} is an empty leftover: Python reports an unknown location for it",
        "no folder of that name, or a whole package",
        "pip uninstall -y {module}; "
        'python -c "import {module}; print({module}.__path__)"  # and remove that folder',
    ),
    "signal-distribution-twice": (
        _SEE + "; its own version file says {there}",
        "one record of each distribution",
        "python -m pip show -f {module}",
    ),
    "signal-namespace-folder": (
        _SEE,
        "a whole package, or no folder of that name",
        _WHERE,
    ),
    "signal-module-shadow-path": (
        _SEE + ": it comes before the installed package on the import path",
        "the installed {module} first on the path",
        "cd / && unset PYTHONPATH",
    ),
    "signal-module-link-name": (_SEE, "links that carry the name that is imported", "ls -l"),
    "signal-attribute-torch-npu-op": (
        "torch_npu {wheel} has no {name}, which the caller expects",
        "the torch_npu build that the framework's row pins",
        "pip show torch_npu vllm-ascend",
    ),
    "signal-attribute-numpy": (
        "the code uses {name}, which this numpy no longer has",
        "numpy older than the release that removed it",
        "pip install 'numpy==1.26.4'",
    ),
    "signal-numpy-abi": (
        "a module was built against numpy 1 and runs with numpy 2: " + _SEE,
        "numpy below 2",
        "pip install 'numpy==1.26.4'",
    ),
    "signal-dcmi-failed": (
        "DCMI could not open the device ({code}): held by another container, or no right to it",
        "device nodes given to this container, and no other holder",
        "fuser -v /dev/davinci*  # on the host; then start the container with --device options",
    ),
    "signal-device-used": (
        "the device is in use by another process or container",
        "one holder of the device",
        "fuser -v /dev/davinci*  # on the host",
    ),
    "signal-device-permission": (
        "the process may not open {path}",
        "a user that owns the node or is in its group (1000 by default)",
        "docker run --group-add 1000 ...",
    ),
    "signal-device-nodes-closed": (
        "{path} is {owner} {mode} and cannot be opened: {reason}",
        "a process that may read and write the device nodes",
        "docker run --user 1000:1000 ...  # or: --cap-add DAC_OVERRIDE",
    ),
    "signal-uid-without-name": (
        "the user id has no entry in /etc/passwd: " + _SEE,
        "an entry: parts of the stack look the user up when several devices are used",
        "echo 'npu:x:1000:1000::/tmp:/bin/sh' >> /etc/passwd  # when the image is built",
    ),
    "signal-devices-not-mounted": (_SEE, "all device nodes and the driver", _RUN_WITH_DEVICES),
    "signal-no-devices-seen": (
        "no device is visible to the process: " + _SEE + " (cause {place} of {count}: {causes})",
        "npu-smi info that works in the same container",
        "ls -l /dev/davinci* && npu-smi info",
    ),
    "signal-npu-smi-absent": (
        "npu-smi is not there",
        "npu-smi and the driver mounted into the container",
        _RUN_WITH_DEVICES,
    ),
    "npu-smi-absent-on-host": (
        "npu-smi is not there, on a host that has or is meant to have NPUs",
        "the driver, with npu-smi in /usr/local/bin or /usr/local/sbin",
        "ls /usr/local/Ascend/driver /usr/local/*bin/npu-smi; lspci | grep -i accelerators",
    ),
    "no-npu-seen": (
        "npu-smi is not there, and nothing else speaks of an NPU on this machine",
        "a report of the machine that has the NPUs, if there is one",
        "certify collector | ssh HOST sh > report.txt",
    ),
    "firmware-out-of-range": (
        "driver {driver} takes firmware {wanted}, firmware {firmware} takes drivers {listed}",
        "driver and firmware of one HDK: {need}",
        "npu-smi info -t board -i 0",
    ),
    "mindspeed-pip": (
        "mindspeed {number} is the number of a Megatron line, and pip does not tell its branch",
        "MindSpeed Core installed from the branch {wanted} (MindSpeed-LLM {llm})",
        "git clone -b {wanted} https://gitcode.com/Ascend/MindSpeed.git; pip install -e MindSpeed",
    ),
    "mindspeed-checkout": (
        "mindspeed {number} is the number of a Megatron line; it is installed from {path}, whose "
        "branch is not told",
        "the branch {wanted} (MindSpeed-LLM {llm})",
        "git -C {path} log -1 --format='%D %h'",
    ),
    "mindspeed-megatron-tag": (
        "{commit} is a tag of Megatron; MindSpeed Core is taken to be a branch of that line",
        "the branch {wanted} (MindSpeed-LLM {llm})",
        "git -C MindSpeed log -1 --format='%D %h'",
    ),
    "mindspeed-commit": (
        "MindSpeed Core at commit {commit}, of no branch or tag that is known here",
        "the branch {wanted} (MindSpeed-LLM {llm})",
        "git -C {path} branch -r --contains {commit}",
    ),
    "determinism-on": (
        "{settings}: collectives reduce in a fixed order, which is slower",
        "for bitwise runs the switch of the framework as well: --npu-deterministic, or "
        "torch.use_deterministic_algorithms(True)",
        "certify explain HCCL_DETERMINISTIC",
    ),
    "determinism-off": (
        "{settings}: reductions of HCCL have no fixed order",
        "HCCL_DETERMINISTIC=true where results have to repeat bit by bit",
        "export HCCL_DETERMINISTIC=true",
    ),
    "determinism-strict": (
        "{settings} on {product}: HCCL is reported to refuse strict outside of A2 and A3",
        "HCCL_DETERMINISTIC=true",
        "export HCCL_DETERMINISTIC=true",
    ),
    "determinism-unset": (
        "HCCL_DETERMINISTIC is not true: two runs of {recipe} differ in the last bits",
        "HCCL_DETERMINISTIC=true for bitwise comparisons; unset is right for throughput",
        "export HCCL_DETERMINISTIC=true",
    ),
    "signal-module-several": (
        "two trees of {module} can be imported: {text}; {first} comes first",
        "one",
        "python -c \"import importlib.util as u; print(u.find_spec('{module}'))\"",
    ),
    "signal-no-topology-in-container": (
        "lscpu shows no sockets or threads: this container sees little of its host",
        "the driver version of the host, and the options of docker run",
        "docker run --privileged=true ...  # an option of docker run, not of the program",
    ),
    "signal-device-lost": (
        "npu-smi does not know the card: " + _SEE,
        "as many cards as lspci shows",
        "lspci | grep accel; npu-smi info -m",
    ),
    "signal-device-alarm": (_SEE, "health OK", "npu-smi info -t health -i 0"),
    "signal-driver-firmware-mismatch": (
        _SEE,
        "Compatibility: OK",
        "npu-smi info -t board -i 0",
    ),
    "signal-driver-not-supported": (
        "the driver does not support a call of CANN: " + _SEE,
        "a driver that CANN's table declares",
        "npu-smi info",
    ),
    "signal-driver-not-on-path": (
        "driver/lib64 is mounted and not on the loader path",
        "LD_LIBRARY_PATH or ld.so.conf.d with driver/lib64",
        "export LD_LIBRARY_PATH=/usr/local/Ascend/driver/lib64:"
        "/usr/local/Ascend/driver/lib64/common:"
        "/usr/local/Ascend/driver/lib64/driver:$LD_LIBRARY_PATH",
    ),
    "signal-device-open-failed": (
        "the device could not be set up ({code}; cause {place} of {count}: {causes})",
        "npu-smi info that works in the same container",
        "npu-smi info; ls -l /dev/davinci*",
    ),
    "signal-npu-smi-hangs": (_SEE, "an answer within seconds", "dmesg | tail -50"),
    "signal-link-down": (_SEE, "link status UP", "hccn_tool -i 0 -link -g"),
    "signal-soc-unsupported": (
        "this build does not know the device {soc}",
        "a torch_npu and CANN that list the device",
        "certify matrix show torch_npu --where product",
    ),
    "signal-kernels-missing": (
        "the ops (kernels) package lacks what is asked for: " + _SEE,
        "the ops package of this chip and of the toolkit's version",
        "ls /usr/local/Ascend/cann/opp/built-in/op_impl/ai_core/tbe/kernel",
    ),
    "signal-kernels-absent": (
        _SEE,
        "the ops package (Ascend-cann-<chip>-ops, before 8.5 Ascend-cann-kernels-<chip>) installed",
        "ls {path}/opp/built-in/op_impl/ai_core/tbe/kernel",
    ),
    "signal-op-unsupported": (
        "CANN has no kernel for an operator: " + _SEE + " (cause {place} of {count}: {causes})",
        "ops package and toolkit of one version, and the CANN of this torch_npu",
        "cat /usr/local/Ascend/cann/*-linux/*_install.info",
    ),
    "signal-op-compile-failed": (
        "an operator failed to compile (cause {place} of {count}: {causes})",
        "one CANN of torch_npu's row, numpy 1, and the Python packages that the compiler needs",
        'python -c "import numpy, decorator, attrs, psutil, scipy, sympy, cffi, cloudpickle; '
        'print(numpy.__version__)"',
    ),
    "signal-compile-option-failed": (
        "CANN refused a compile option ({code}); this text has several causes "
        "(cause {place} of {count}: {causes})",
        "numpy 1, the Python packages of CANN's compiler, and a container that may use the device",
        'python -c "import numpy, decorator, attrs, psutil, scipy, sympy, cffi, cloudpickle; '
        'print(numpy.__version__)"',
    ),
    "signal-jit-default-failed": (
        "a first call into the driver failed (cause {place} of {count}: {causes})",
        "the host's driver version, and the rights of the container",
        "npu-smi info  # on the host and in the container",
    ),
    "signal-tbe-signature": (
        "Python parts of CANN do not fit each other: " + _SEE,
        "toolkit and ops package of one version, on PYTHONPATH once",
        "echo $PYTHONPATH | tr : '\\n' | grep -i ascend",
    ),
    "signal-cann-required": (
        "the message asks for CANN {need}; CANN {cann} is there",
        "CANN {need}",
        "certify resolve --keep driver",
    ),
    "signal-autoload-failed": (
        "this line is a wrapper: the cause is the exception above it in the traceback",
        "the traceback above 'The above exception was the direct cause'",
        'TORCH_DEVICE_BACKEND_AUTOLOAD=0 python -c "import torch, torch_npu"',
    ),
    "signal-collective-timeout": (
        "{code}: another rank did not answer in time",
        "not a version matter: find the first rank that failed",
        "grep -l ERROR ~/ascend/log/debug/plog/*",
    ),
    "signal-aicore-error": (
        "{code}: an operator failed on the device",
        "not a version matter by itself: first settle the findings above",
        "certify explain {code}",
    ),
    "signal-no-distribution": (
        "{name}{spec} is not on the package index in use",
        "an index that has the build for this Python and architecture",
        "pip install '{name}{spec}' --extra-index-url {url}",
    ),
    "signal-local-version-conflict": (
        "torch-npu {version} for x86_64 asks for torch=={need}, which PyPI does not have",
        "the index of PyTorch's CPU builds",
        "pip install 'torch=={need}' 'torch-npu=={version}' --extra-index-url {url}",
    ),
    "signal-dependency-conflict": (
        "pip: {name} {version} asks for {needs}{spec}, {have} is installed",
        "the judged versions decide; frameworks ask for the torch of their CUDA build",
        "pip install --no-deps",
    ),
    "signal-triton-uninstalled": (
        "removing plain triton deletes files that triton-ascend has in the same folder",
        "triton-ascend installed again afterwards",
        "pip uninstall -y triton-ascend && pip install --no-deps --force-reinstall triton-ascend",
    ),
    "signal-python-required": (
        "Python {have} is outside what the package allows",
        "a Python that the package has wheels for",
        "python -V",
    ),
    "signal-placeholder-package": (
        "a placeholder from PyPI is installed: " + _SEE,
        "the project's own repository",
        "pip uninstall -y {name}",
    ),
    "signal-built-for": (
        "the extension was built for CANN {built}; CANN {cann} is there",
        "an extension built for the installed CANN",
        _REBUILD,
    ),
    "signal-accelerator-cpu": (
        "the accelerator falls back to CPU: torch_npu was not importable in that process",
        "accelerator npu",
        'python -c "import torch, torch_npu; print(torch.npu.device_count())"',
    ),
    "signal-cuda-not-compiled": (
        "a device was sent to CUDA: torch {torch}, transformers {transformers}",
        "transformers from 4.50 on needs torch 2.5.1 on NPU; otherwise the application names cuda",
        "pip list | grep -Ei 'torch|transformers'",
    ),
    "signal-architecture-unknown": (
        "this transformers does not know the model type {model}",
        "a transformers that has it",
        "pip show transformers",
    ),
    "signal-benign-vllm-c": (
        "vllm._C is not there: harmless, NPU does not use it",
        "nothing to do",
        "",
    ),
    "signal-benign-triton-absent": (
        "vLLM found no triton: harmless where no triton kernel is used",
        "nothing to do",
        "",
    ),
    "signal-unreadable": (
        "not readable: {text}",
        "read permission",
        "id  # and run it as the training user",
    ),
    "signal-cann-several": (
        "several CANN versions are installed: {text}",
        "the one in force named by ASCEND_HOME_PATH",
        "echo $ASCEND_HOME_PATH",
    ),
    "signal-cann-env-differs": (
        _SEE,
        "a CANN tree that exists",
        _SOURCE_CANN,
    ),
    "signal-cann-field-empty": (
        "the report has no CANN version: that script reads one old path only",
        "unknown, not absent: CANN from 8.5 on lies in cann-<version>",
        "cat /usr/local/Ascend/cann/*-linux/ascend_toolkit_install.info",
    ),
    "signal-cann-parts-differ": (_SEE, "all parts of one version", "certify collector"),
    "signal-cann-paths-mixed": (
        "paths of different CANN trees are in force: {text}",
        "one tree",
        "env -i bash --noprofile --norc  # and source one set_env.sh there",
    ),
    "signal-cann-paths-repeated": (
        "{text}: set_env.sh was sourced more than once",
        "each entry once",
        "env -i bash --noprofile --norc  # and source set_env.sh once there",
    ),
    "signal-cann-env-unset": (
        "CANN is installed and its environment is not in force in this shell",
        "set_env.sh sourced",
        "source {path}",
    ),
    "signal-triton-files-foreign": (
        "{text}",
        "the libtriton of triton-ascend, installed after triton",
        "pip uninstall -y triton triton-ascend && pip install --no-deps triton-ascend",
    ),
    "signal-triton-files-missing": (
        "files of triton-ascend are missing: {text}",
        "all files of its RECORD",
        "pip install --no-deps --force-reinstall triton-ascend",
    ),
    "signal-megatron-several": (
        "several Megatron trees can be imported: {text}",
        "one",
        "python -c \"import importlib.util as u; print(u.find_spec('megatron.core'))\"",
    ),
    "cann-sightings-differ": (
        "the report names different CANN versions: {versions}",
        "the version of the tree that ASCEND_HOME_PATH names",
        "cat $ASCEND_HOME_PATH/*-linux/ascend_toolkit_install.info",
    ),
    "kernels-other-chip": (
        "the ops package holds kernels for {chips}, the device is {product}",
        "kernels for {wanted}",
        "certify explain cann-kernels",
    ),
    "compiler-needs": (
        "not installed in this Python: {absent}",
        "the packages that CANN's operator compiler imports",
        "pip install {absent}",
    ),
    "abi-unknown": (
        "ATB's cxx_abi_{folder} is in force; torch's ABI flag was not seen",
        "the same number on both sides",
        'python -c "import torch; print(torch.compiled_with_cxx11_abi())"',
    ),
    "abi-differs": (
        "ATB's cxx_abi_{folder} is in force, torch was built with ABI {flag}",
        "cxx_abi_{flag}",
        "source /usr/local/Ascend/nnal/atb/set_env.sh --cxx_abi={flag}",
    ),
    "prebuilt-binary": (
        "{name} {version} is built for one CANN, which the text does not name; CANN {cann} is "
        "there",
        "the build for this CANN",
        "strings -a $(command -v {name}) | grep -im1 cann",
    ),
    "memory-shrunk": (
        "devices {devices} show {low} MB, the others {high} MB",
        "equal memory on all devices",
        "npu-smi info -t health -i {devices}",
    ),
    "card-lost-on-bus": (
        "lspci shows {seen} cards",
        "{usual} on a full server",
        "dmesg | tail -50",
    ),
    "card-without-driver": (
        "lspci shows {pci} cards, npu-smi {devices}",
        "all cards known to the driver",
        "npu-smi info -m",
    ),
    "image-other-product": (
        "the image ({tag}) is built for {image}, the device is {product}",
        "an image for {product}",
        "docker pull quay.io/ascend/cann:TAG  # with the tag of your chip",
    ),
    "wheel-arch": (
        "{wheel} is for another architecture than {arch}",
        "the wheel for {arch}",
        "uname -m",
    ),
    "wheel-python": (
        "{wheel} is for another Python than {python}",
        "a wheel for Python {python}",
        "python -V",
    ),
    "wheel-unclear": (
        "pip refuses {wheel}: other Python or other architecture",
        "the wheel for this Python and architecture",
        "python -V; uname -m",
    ),
    "row-build-not-public": (
        "vllm {vllm} goes with torch_npu {pins}; {wheel} is installed and {hidden} is not on PyPI",
        "the pinned build, from the Ascend index",
        "pip install torch-npu=={hidden} --extra-index-url {url}",
    ),
    "torch-cuda-build": (
        "torch {version} is a CUDA build",
        "the CPU build, which torch_npu is made for",
        "pip install torch=={base} --index-url {url}",
    ),
    "nvidia-wheels": (
        "{count} CUDA packages are installed: {names}",
        "none: they came with a CUDA build of torch",
        "pip list | grep nvidia",
    ),
    "triton-beside": (
        "triton ({triton}) and triton-ascend ({ascend}) share one folder",
        "up to triton-ascend 3.2.0 triton-ascend alone; later triton first, triton-ascend after it",
        "pip uninstall -y triton triton-ascend && pip install --no-deps triton-ascend",
    ),
    "torch-requirements-differ": (
        "packages ask for different torch versions: {specs}",
        "the torch of torch_npu; install the framework with --no-deps",
        "pip list | grep -i torch",
    ),
    "python-not-seen": ("the Python version is not in the text", "python -V", "python -V"),
    "cuda-message-explained": (
        "the CUDA message follows from torch {torch} under transformers {transformers}",
        "see the finding on transformers-range",
        "",
    ),
    "cuda-hard-coded": (
        "torch {torch} sends devices to the NPU by itself: the application names cuda",
        "not a fault of the environment",
        "grep -rn torch.cuda .  # in the application, or take a newer release of it",
    ),
    "megatron-two": (
        "{first} on PYTHONPATH and {second}: which Megatron is imported depends on the order",
        "one Megatron, the one that MindSpeed names",
        "pip uninstall -y megatron-core  # or take the checkout out of PYTHONPATH",
    ),
    "megatron-undecided": (
        "{first} and {second} are of different versions as far as the text shows",
        "the core version that MindSpeed and the bridge both support; there may be none",
        "git -C {first} log -1 --format='%D %h'",
    ),
    "framework-unlisted": (
        "{name} {version} is in no table: a development build, or a candidate that was dropped",
        "a published release",
        "certify matrix show {name}",
    ),
    "torch-npu-not-seen": (
        "torch {torch} and CANN {cann} without the torch_npu version",
        "torch_npu {wheels}, which the tables pair with them",
        "pip show torch_npu",
    ),
    "document-differs": (
        "a document names {component} {stated}, {found} is there",
        "what is installed counts; key rows by image digest",
        "",
    ),
    "sources-disagree": ("published sources disagree ({conflict})", "{handling}", ""),
    "hdk-not-reference": (
        "driver {driver} is declared compatible with CANN {cann}; it was released with HDK "
        "{reference}",
        "HDK {reference} when a driver fault is suspected",
        "certify resolve --to hdk={best}",
    ),
    "variable-range": (
        "{name}={value} is outside what is accepted",
        "{expected}",
        "certify explain {name}",
    ),
    "variable-excludes": (
        "{name}: {one} and {other} exclude each other",
        "one of the two",
        "certify explain {name}",
    ),
    "variable-only": (
        "{name}: beside {one} every other option is ignored",
        "{one} alone, or the others without it",
        "certify explain {name}",
    ),
    "variable-needs": (
        "{name}: {value} needs {expected}; {found} is there",
        "{expected}",
        "certify explain {name}",
    ),
    "variable-greater": (
        "{name}={value} is not greater than {other}={limit}",
        "{name} greater than {other}",
        "unset {name}",
    ),
    "variable-debug": (
        "{name}={value} runs operators one by one and switches the task queue off",
        "unset outside of debugging",
        "unset {name}",
    ),
    "variable-discouraged": (
        "{name}={value} is not recommended by its documentation, though published scripts set it",
        "1, or unset",
        "unset {name}",
    ),
    "variable-slow-log": (
        "{name}={value} writes so much that training slows down and disks fill up",
        "3, or unset",
        "export {name}=3",
    ),
    "variable-zero-copy": (
        "{name}={value} works on A3 with expandable segments only",
        "PYTORCH_NPU_ALLOC_CONF=expandable_segments:True on A3",
        "export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True",
    ),
    "variable-inf-nan": (
        "{name}={value} is refused on A2 and A3",
        "1, or INF_NAN_MODE_FORCE_DISABLE=1 with it",
        "unset {name}",
    ),
    "variable-overridden": (
        "{name}={value} is overridden by {by}",
        "one of the two",
        "unset {name}",
    ),
    "variable-aiv": (
        "{name}={value} is for inference with one communicator on A2",
        "unset for training",
        "unset {name}",
    ),
    "variable-both": (
        "{name} and {other} are both set: an error from TorchNPU 26.2.0 and torch 2.10 on",
        "{other} alone",
        "unset {name}",
    ),
    "variable-no-effect": (
        "{name}={value} has no effect with {found}",
        "unset",
        "unset {name}",
    ),
    "recipe-product": (
        "the recipe {recipe} is for {wanted}, the device is {product}",
        "{wanted}",
        "certify recipes list --product {wanted}",
    ),
    "recipe-devices": (
        "{found} devices; the recipe {recipe} uses {wanted} on each node",
        "{wanted} devices (A3 counts dies)",
        "npu-smi info -m",
    ),
    "recipe-healthy-devices": (
        "{found} healthy devices; the recipe {recipe} uses {wanted} on each node",
        "{wanted} healthy devices",
        "npu-smi info -t health -i 0",
    ),
    "recipe-memory": (
        "{found} MB a device; the largest chip of the family has {wanted} MB, and the recipe "
        "{recipe} does not state what it was run on",
        "{wanted} MB, unless memory was planned for less",
        "certify plan {recipe} --suggest",
    ),
    "recipe-branch": (
        "MindSpeed-LLM is {found}; the recipe {recipe} was read from {wanted}",
        "{wanted}",
        "git -C MindSpeed-LLM checkout {wanted}",
    ),
    "recipe-variable": (
        "{name}={value}; the published script of {recipe} sets {wanted}",
        "{name}={wanted}",
        "export {name}={wanted}",
    ),
    "recipe-variable-unset": (
        "{name} is unset in this shell; without it FSDP2 scripts take the Megatron path",
        "{name}={wanted}, which the published script of {recipe} exports",
        "export {name}={wanted}",
    ),
    "missing-torch": ("torch", "decides the pair with torch_npu", ""),
    "missing-torch_npu": ("torch_npu", "post level included, decides the CANN", ""),
    "missing-cann": ("CANN toolkit and ops package", "decides what the driver must be", ""),
    "missing-driver": ("driver of the host", "decides whether CANN can run", ""),
    "missing-product": ("device", "the same packages may fit one chip and not another", ""),
    "missing-python": ("Python version", "decides which wheels exist", ""),
    "missing-cuda_driver": ("NVIDIA driver", "decides whether the CUDA runtime can start", ""),
    "missing-nnal": ("NNAL (ATB) version", "must be of CANN's release", ""),
    "missing-traceback": ("the exception behind the wrapper", "names the cause", ""),
    "missing-torch_abi": ("torch's C++ ABI flag", "must equal ATB's folder", ""),
    "missing-numpy": ("numpy version", "numpy 2 breaks older CANN compilers", ""),
    "missing-compiler-deps": ("packages of CANN's compiler", "their absence gives this error", ""),
    "missing-container": (
        "device nodes, user and capabilities",
        "decide whether it may open them",
        "",
    ),
    "missing-branches": (
        "branches or commits of the trees",
        "pip versions do not tell releases",
        "",
    ),
    "missing-unparsed": ("text that could not be read", "paste it as the tool printed it", ""),
}


# What one of several causes of an error text asks for: rule -> (expected, Chinese, hint).
CAUSES: dict[str, tuple[str, str, str]] = {
    "numpy": (
        "numpy below 2 under CANN up to 8.2",
        "CANN 8.2 及以前使用 numpy 2 以下版本",
        'python -c "import numpy; print(numpy.__version__)"',
    ),
    "cann-python-deps": (
        "the Python packages that CANN's compiler imports, in the same Python",
        "同一 Python 中安装 CANN 编译器导入的包",
        'python -c "import decorator, attrs, psutil, scipy, sympy, cffi, absl, cloudpickle"',
    ),
    "container-devices": (
        "a container that may use the device",
        "容器有权使用设备",
        "docker run --privileged=true ...  # an option of docker run, not of the program",
    ),
    # The same, while nothing says that it is a container.
    "device-nodes": (
        "device nodes that the process may open",
        "进程可打开设备节点",
        "ls -l /dev/davinci* /dev/devmm_svm /dev/hisi_hdc; npu-smi info",
    ),
    "container-permissions": (
        "a user that may open the device nodes",
        "用户有权打开设备节点",
        "ls -l /dev/davinci*; id; grep Cap /proc/self/status",
    ),
    "cann-driver": (
        "a driver of the host that CANN's table declares",
        "宿主机驱动在 CANN 配套表中",
        "npu-smi info  # on the host",
    ),
    "torch-npu-cann": (
        "the CANN of this torch_npu, toolkit and ops package",
        "与该 torch_npu 配套的 CANN（toolkit 与算子包）",
        "cat /usr/local/Ascend/cann/*-linux/*_install.info; pip show torch_npu",
    ),
    "cann-kernels": (
        "the ops package of this chip and of the toolkit's version",
        "与芯片、toolkit 版本一致的算子包",
        "ls $ASCEND_OPP_PATH/built-in/op_impl/ai_core/tbe/kernel",
    ),
    "torch-pair": (
        "torch and torch_npu of one release",
        "torch 与 torch_npu 版本一致",
        "pip list | grep -i torch",
    ),
}

"""Who should have had a missing symbol or library.

Each function takes the named parts of a match and the line it stood in, and returns the id of a
signal, or None when the text says nothing about the stack.
"""

from __future__ import annotations

import re

# --- owners of symbols -------------------------------------------------------------------------
_ATB = re.compile(
    r"^_ZNK?(?:3atb|3Mki|6AsdOps|6AsdSip|4Lcal|3LCL)|^(?:atb|Mki|AsdOps|AsdSip)::|^_ZNK?\d+atb_"
)
# A string type in a mangled name: ``Ss`` of the old C++ ABI, ``__cxx11`` of the new one.
_STRING = re.compile(r"__cxx11|(?<![A-Za-z])S[as]|[EKR]Ss")
_TORCH = re.compile(
    r"^_ZNK?(?:R|O)?(?:3c10|2at|5torch|8autograd)|^(?:c10|at|torch|caffe2)::|^_ZT[VI]N(?:3c10|2at|5torch)"
    r"|^THP|^_ZN6caffe2"
)
_DRIVER = re.compile(r"^(?:hal[A-Z]|drv[A-Z]|dsmi_|dcmi|dms_|_ZN3hal)")
_GE = re.compile(
    r"^_ZNK?(?:2ge|4gert|2fe|8optiling|4hccl|4HCCL|5rts\w|7runtime)|^(?:ge|gert|optiling)::"
)
_CANN_C = re.compile(
    r"^(?:acl[a-zA-Z]|rt[A-Z]|Hccl|hccl|Hcom|Msprof|MsProf|aclnn|GE[A-Z]|ge[A-Z]|mm[A-Z]|Ascend|ascendc"
    r"|profAcl|Adx|Dlog|dlog|CheckLogLevel|RegisterProfiling|Analysis)"
)
_CXX11 = "__cxx11"


def symbol_signal(data: dict[str, str], line: str) -> str:
    """The signal of an ``undefined symbol`` by owner of the symbol and asker.

    The library that is named asks for the symbol; at fault is the one that should have had it.
    """
    symbol = data.get("symbol", "").strip("'\"`")
    library = data.get("library", "") or _library_of(line)
    data["library"] = library
    base = library.rsplit("/", 1)[-1]
    asker_torch = "torch" in base and "_C" not in base
    inside_cann = _inside_cann(library)
    if not symbol:
        return "symbol-unnamed"
    if _ATB.search(symbol):
        # A function that takes a string and is missing exists with the other kind of string.
        outside = bool(base) and "/nnal/" not in library and "torch_npu" not in library
        return "symbol-abi" if outside and _STRING.search(symbol) else "symbol-atb"
    if _DRIVER.search(symbol):
        return "symbol-driver"
    if _TORCH.search(symbol):
        return "symbol-torch"
    if _GE.search(symbol) or _CANN_C.search(symbol):
        if inside_cann:
            return "symbol-cann-internal"
        if base and not asker_torch and "torch_npu" not in library:
            return "symbol-extension"
        return "symbol-cann"
    if "atb" in base and _CXX11 in symbol:
        return "symbol-abi"
    if inside_cann:
        return "symbol-cann-internal"
    if "torch_npu" in library:
        return "symbol-cann"
    return "symbol-unnamed"


def string_abi(symbol: str) -> str | None:
    """``1`` or ``0`` by the string type in a mangled name, None when there is no string in it."""
    if _CXX11 in symbol:
        return "1"
    return "0" if _STRING.search(symbol) else None


def _inside_cann(library: str) -> bool:
    low = library.lower()
    return (
        any(
            part in low
            for part in ("ascend-toolkit/", "/cann-", "/cann/", "/nnae/", "/opp/", "latest/lib64")
        )
        and "/nnal/" not in low
    )


_LIBRARY = re.compile(r"([\w./+~-]{2,200}\.so(?:\.\d+){0,4})")


def _library_of(line: str) -> str:
    before = line.split("undefined symbol", 1)[0]
    found = _LIBRARY.findall(before[-600:])
    return found[-1] if found else ""


# --- owners of libraries -----------------------------------------------------------------------
_DRIVER_LIBRARIES = (
    "libascend_hal",
    "libc_sec",
    "libdrvdsmi",
    "libdcmi",
    "libmmpa",
    "libdrv",
    "libdevmmap",
    "libascend_kms",
    "libdrvupgrade",
    "libtsdaemon",
    "libummu",
    "liburma",
)
_NNAL_LIBRARIES = ("libatb", "libasdops", "libasdsip", "liblcal", "libasdops_", "libmki")
_CUDA_LIBRARIES = (
    "libcuda",
    "libcudart",
    "libcublas",
    "libcudnn",
    "libnccl",
    "libnvrtc",
    "libcusparse",
    "libcufft",
    "libcurand",
    "libcusolver",
    "libnvtoolsext",
    "libcupti",
    "libnvjitlink",
)
_CANN_LIBRARIES = (
    "libascendcl",
    "libge_",
    "libgraph",
    "libhccl",
    "libopapi",
    "libruntime",
    "libmsprof",
    "libacl",
    "liberror_manager",
    "libregister",
    "libplatform",
    "libtiling",
    "libopp",
    "libop_proto",
    "libascend_protobuf",
    "libprofapi",
    "libascendalog",
    "libslog",
    "libalog",
    "libfmk",
    "libte_",
    "libnnopbase",
    "libhcom",
    "libexe_graph",
    "liblowering",
    "libhybrid_executor",
    "libmetadef",
    "libaicpu",
    "libascend_dump",
    "libadump",
    "libtdt",
    "libdatatransfer",
    "libindextransform",
    "libqueue_manager",
    "libmodel_",
    "libstatic_kernel",
    "libcust_opapi",
    "libaoe",
    "libtune",
    "libunified_dlog",
    "libawatchdog",
    "libparser_common",
    "libascend_trace",
    "libhccp",
    "libra.so",
    "libprofimpl",
    "libprof_common",
    "libcann",
    "libflow_graph",
)


def library_signal(data: dict[str, str], line: str) -> str:
    """The signal of a library that could not be opened, by its owner."""
    name = data.get("library", "").rsplit("/", 1)[-1].lower()
    for prefixes, signal in (
        (_DRIVER_LIBRARIES, "library-driver"),
        (_NNAL_LIBRARIES, "library-nnal"),
        (_CUDA_LIBRARIES, "library-cuda"),
        (_CANN_LIBRARIES, "library-cann"),
    ):
        if name.startswith(prefixes):
            return signal
    return "library-other"

"""Error texts as data: anchors, one bounded expression, and the signal they are.

An expression is compiled and run only on lines that hold one of its anchors.
"""

from __future__ import annotations

from dataclasses import dataclass

from certify.environment.symptoms.modules import (
    attribute_signal,
    module_signal,
    name_signal,
    namespace_signal,
    ops_signal,
    uninstall_signal,
)
from certify.environment.symptoms.symbols import library_signal, symbol_signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Pattern:
    """signal: id, or None when `classify` decides; anchors: lower-case texts of which one must be
    in the line; expression: its named groups become the signal's data."""

    signal: str | None
    anchors: tuple[str, ...]
    expression: str
    classify: Callable[[dict[str, str], str], str | None] | None = None


PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        None,
        ("undefined symbol", "未定义符号", "未定义的符号"),
        r"(?:undefined symbol|未定义的?符号)[:：]?[ \t]{0,3}(?P<symbol>[\w:<>~$@.]{0,400})",
        symbol_signal,
    ),
    Pattern(
        "libstdcxx-old",
        ("glibcxx_", "cxxabi_"),
        r"(?:(?P<library>[\w./+-]{2,200})\s?[:：] )?version [`'\"‘]?"
        r"(?P<need>(?:GLIBCXX|CXXABI)_[\d.]+)['`\"’]? not found",
    ),
    Pattern(
        "glibc-old",
        ("glibc_",),
        r"(?:(?P<library>[\w./+-]{2,200})\s?[:：] )?version [`'\"‘]?(?P<need>GLIBC_[\d.]+)['`\"’]?"
        r" not found",
    ),
    Pattern(
        None,
        ("cannot open shared object file", "无法打开共享对象文件", "无法打开共享目标文件"),
        r"(?P<library>[\w./+-]{3,200}\.so(?:\.\d+){0,4})[:：] "
        r"(?:cannot open shared object|无法打开共享)",
        library_signal,
    ),
    Pattern(
        None,
        ("no module named",),
        r"[Nn]o module named [‘'\"`]?(?P<module>[A-Za-z_][\w.]{0,120})",
        module_signal,
    ),
    Pattern(
        None,
        ("cannot import name",),
        r"cannot import name [‘'\"`]?(?P<name>\w{1,120})['\"`’]? from (?:partially initialized "
        r"module )?"
        r"[‘'\"`]?(?P<module>[A-Za-z_][\w.]{0,160})",
        name_signal,
    ),
    Pattern(
        None,
        ("has no attribute",),
        r"module [‘'\"`]?(?P<module>[A-Za-z_][\w.]{0,120})['\"`’]? has no attribute "
        r"[‘'\"`]?(?P<name>\w{1,120})",
        attribute_signal,
    ),
    Pattern(
        None,
        ("_opnamespace",),
        r"'_OpNamespace' '(?P<module>npu|_C_ascend"
        r"|vllm)' object has no attribute '(?P<name>\w{1,80})'",
        ops_signal,
    ),
    Pattern(
        "function-not-in-cann",
        ("not in libopapi", "not in libascendcl"),
        r"(?P<name>\w{3,120})(?: or \w{3,140})? not in (?P<library>lib\w{3,40}\.so)",
    ),
    Pattern(
        "function-not-in-cann",
        ("failed to find function",),
        r"[Ff]ailed to find function (?P<name>\w{3,120})",
    ),
    Pattern(
        "soc-unsupported",
        (
            "unsupported soc",
            "soc version is not supported",
            "soc_version is not supported",
            "not support soc",
            "不支持的soc",
            "unsupport soc",
        ),
        r"(?:[Uu]nsupport(?:ed)? (?:soc|SOC|SoC)[ _]?(?:version|name)?[:：]?\s{0,3}"
        r"|not support (?:soc|SoC|SOC)[ _]?(?:version)?[:：]?\s{0,3}"
        r"|不支持的\s?[Ss][Oo][Cc]\S{0,6}[:：]?\s?)"
        r"(?P<soc>[\w-]{3,40}(?: \d{3,5})?)",
    ),
    Pattern(
        "compile-option-failed",
        ("aclsetcompileopt",),
        r"AclSetCompileopt[^\n]{0,160}?error code is (?P<code>\d{6})",
    ),
    Pattern(
        "compile-option-failed",
        ("500001",),
        r"(?:result|error code|code|errno|ret)\w{0,4}\s?(?:is|=|:)?\s?:?\s?(?P<code>500001)\b",
    ),
    Pattern(
        None,
        ("(namespace)", "_namespacepath("),
        r"<module [‘'\"]?(?P<module>[A-Za-z_][\w.]{0,120})['\"’]? \(namespace\)"
        r"|_NamespacePath\(\[['\"]?(?P<path>[^'\"\],\n]{1,200})",
        namespace_signal,
    ),
    Pattern(
        "kernels-missing",
        ("310p",),
        r"(?:[Kk]ernels?|[Bb]inary|op_impl|算子)[^\n]{0,160}?(?P<soc>[Aa]scend310[Pp]\w{0,6})[^\n]{0,80}?"
        r"(?:not (?:found|exist|support\w{0,3})|does not (?:exist|support)|missing|[Nn]o such file"
        r"|不存在|不支持|找不到)"
        r"|(?:[Nn]o|(?:[Ff]ailed to|[Cc]annot) (?:find|load|open)|[Nn]ot found|找不到|缺少)"
        r"[^\n]{0,120}?(?:kernels?|binary|算子)[^\n]{0,80}?(?P<soc2>[Aa]scend310[Pp]\w{0,6})",
    ),
    Pattern(
        "soc-unsupported",
        ("is not implemented",),
        r"support for (?P<soc>Ascend\w{2,20}) is not implemented",
    ),
    Pattern(
        "kernels-missing",
        ("any binary", "parse dynamic kernel config", "aclopkernelinit failed"),
        r"Op (?P<name>\w{1,60}) does not ha(?:s|ve) any binary|Parse dynamic kernel config fail"
        r"|AclOpKernelInit failed",
    ),
    Pattern(
        "accelerator-unknown",
        ("failed to infer device type", "failed to import torch_npu", "no platform detected"),
        r"Failed to infer device type|Failed to import torch_npu|No platform detected",
    ),
    Pattern(
        "built-for",
        ("build version is",),
        r"[Bb]uild version is (?P<version>\d[\w.]{1,20})[^\n]{0,40}?(?:current|environment)"
        r"[^\n]{0,30}? version is (?P<have>\d[\w.]{1,20})",
    ),
    Pattern(
        "compile-option-failed",
        ("setprecisionmode", "set precision mode"),
        r"SetPrecisionMode[^\n]{0,200}?(?:error code|ret(?:ult)?)\D{0,10}(?P<code>500001)",
    ),
    Pattern(
        "jit-default-failed",
        ("jitcompile default value failed", "jit compile default value"),
        r"Get ACL [Jj]it ?[Cc]ompile default value failed",
    ),
    Pattern(
        "op-compile-failed",
        ("e40021", "failed to compile op"),
        r"(?P<code>E40021)|[Ff]ailed to compile [Oo]p \[?(?P<name>\w{1,80})",
    ),
    Pattern(
        "op-unsupported",
        ("ez3002", "ez3003", "ops kernel"),
        r"(?P<code>EZ300[23])[:：][^\n]{0,40}?(?:[Oo]p ?[Tt]ype \[(?P<name>\w{1,80})\])?",
    ),
    Pattern(
        "kernels-missing",
        (
            "binary_info_config.json",
            "kernel package",
            "kernels package",
            "opp_kernel",
            "ops package",
            "算子包",
        ),
        r"binary_info_config\.json (?:of socVersion \[(?P<soc>\w{1,40})\] )?"
        r"(?:does not support|does not exist|not exist|is not exist)[^\n]{0,80}"
        r"|(?:kernels?|ops) package[^\n]{0,40}(?:not installed|not found|missing|is not installed)"
        r"|(?:未安装|缺少|没有安装)[^\n]{0,12}(?:算子包|kernels? ?包|ops ?包)",
    ),
    Pattern(
        "tbe-signature",
        ("positional argument", "unexpected keyword argument"),
        r"(?P<name>\w{0,40}(?:init_\w{0,30}env|init_\w{0,20}process\w{0,20}|_worker_init"
        r"|init_worker\w{0,20}|te_fusion\w{0,40}|parallel_compil\w{0,30}))\(\) "
        r"(?:takes [^\n]{0,40}positional arguments?,? but|missing \d[^\n]{0,20}positional argument"
        r"|got an unexpected keyword argument)[^\n]{0,60}",
    ),
    Pattern(
        "autoload-failed",
        ("failed to load the backend extension",),
        r"Failed to load the backend extension: (?P<module>\w{1,40})",
    ),
    Pattern(
        "autoload-trace",
        ("_import_device_backends",),
        r"in _import_device_backends",
    ),
    Pattern(
        "device-used",
        ("device is used", "ret is -8020", "设备被占用"),
        r"because the device is used[^\n]{0,60}|ret(?:urn)? (?:is |code )?(?P<code>-8020)",
    ),
    Pattern(
        "dcmi-failed",
        ("dcmi mod", "dcmi init", "dcmi_init"),
        r"dcmi (?:module|model|init)\w{0,10} ?(?:initialized?|init)?\w{0,3} ?fail(?:ed)?"
        r"[^\n]{0,60}?ret(?: is|=|:)? ?(?P<code>-?\d{3,6})",
    ),
    Pattern(
        "device-permission",
        ("permission denied", "operation not permitted", "权限不够", "权限不足", "没有权限"),
        r"(?P<path>/dev/(?:davinci|devmm|hisi_hdc|vdavinci|dvpp|ummu|uburma)\w{0,20})[^\n]{0,80}"
        r"(?:[Pp]ermission denied|not permitted|权限)"
        r"|(?:[Pp]ermission denied|not permitted|权限)[^\n]{0,80}"
        r"(?P<path2>/dev/(?:davinci|devmm|hisi_hdc|vdavinci|dvpp)\w{0,20})",
    ),
    Pattern(
        "no-devices-seen",
        (
            "ascend_hal device count",
            "device_count() == 0",
            "device_count()==0",
            "no npu device",
            "npu is not available",
            "is_available() false",
            "no ascend device",
            "device count is 0",
            "未检测到npu",
            "找不到npu",
            "没有可用的npu",
            "获取设备数量失败",
            "no npus",
            "0 npu",
        ),
        r"[Cc]an'?t get ascend_hal device count|device_count\(\) ?(?:==|=|:|返回|is)? ?0"
        r"|[Nn]o (?:NPU|npu|Ascend|ascend) devices?[^\n]{0,20}|NPU is not available"
        r"|is_available\(\) ?(?:==|:|=|返回|is)? ?[Ff]alse|[Dd]evice count is 0|No NPUs"
        r"|未检测到 ?NPU|找不到 ?NPU|没有可用的 ?NPU",
    ),
    Pattern(
        "npu-smi-absent",
        ("npu-smi",),
        r"npu-smi['’]?[:：] ?(?:command not found|not found|未找到命令)|No such file or directory: "
        r"'?npu-smi|which: no npu-smi",
    ),
    Pattern(
        "driver-not-supported",
        ("65534", "feature not support", "drv_error_not_support"),
        r"drvRet(?:Code)?[ =:]{1,3}65534|DRV_ERROR_NOT_SUPPORT"
        r"|drv(?:er)? [^\n]{0,60}[Ff]eature not support",
    ),
    Pattern(
        "device-open-failed",
        ("507033", "open device"),
        r"(?:open device (?P<device>\d{1,3}) failed)?[^\n]{0,40}(?:result|code|ret)\w{0,4} ?(?:is"
        r"|=|:)? ?"
        r"(?P<code>507033)",
    ),
    Pattern(
        "collective-timeout",
        ("ei0006", "ei0002", "getting socket times out"),
        r"(?P<code>EI000[26])",
    ),
    Pattern("aicore-error", ("507015", "507014", "507018"), r"\b(?P<code>50701[458])\b"),
    Pattern(
        "no-distribution",
        ("no matching distribution", "could not find a version"),
        r"(?:No matching distribution found for|satisfies the requirement) "
        r"(?P<name>[A-Za-z][\w.-]{0,60})(?P<spec>(?:[=<>!~]=?=?[\w.*+-]{1,60},?){0,3})",
    ),
    Pattern(
        "local-version-conflict",
        ("+cpu",),
        r"(?P<name>torch[-_]npu) (?P<version>[\w.]{1,40}) (?:depends on|requires) "
        r"torch ?\(?==(?P<need>[\w.]{1,30}\+cpu)\)?",
    ),
    Pattern(
        "dependency-conflict",
        ("depends on", "but you have"),
        r"(?P<name>[A-Za-z][\w.-]{0,50})(?:==| )(?P<version>[\w.+!-]{1,60}) (?:depends on"
        r"|requires) "
        r"(?P<needs>[A-Za-z][\w.-]{0,50})(?P<spec> ?\(?[=<>!~]=?=?[\w.*+-]{1,60}[^\n]{0,60}?)"
        r"(?:,? but you (?:have|'ll have|will have) (?:[\w.-]{1,50} )?(?P<have>[\w.+!-]{1,60})"
        r"|(?=$|\n|,|;|\)))",
    ),
    Pattern(
        None,
        (
            "uninstalled triton-",
            "uninstalling triton-",
            "uninstall triton",
            "卸载triton",
            "卸载 triton",
            "卸载了triton",
            "卸载了 triton",
        ),
        r"(?:[Ss]uccessfully uninstalled|Uninstalling|pip3? uninstall(?: -y)?"
        r"|卸载了?) ?triton(?P<version>-[\d.]+\S{0,20})?"
        r"(?![\w-]*ascend)",
        uninstall_signal,
    ),
    Pattern(
        "python-required",
        (
            "requires a different python",
            "requires-python",
            "python version should",
            "requires python",
            "python版本",
        ),
        r"requires a different [Pp]ython[:：] (?P<have>\d[\w.]{0,20}) not in "
        r"'?(?P<need>[^'\n]{1,40})"
        r"|[Pp]ython version should (?:be )?(?:above|>=?|at least|over) ?(?P<need2>3\.\d{1,2})"
        r"|[Rr]equires [Pp]ython ?(?P<need3>>=? ?3\.\d{1,2})",
    ),
    Pattern(
        "wheel-not-for-here",
        ("is not a supported wheel",),
        r"(?P<wheel>[\w.+-]{5,200}\.whl) is not a supported wheel",
    ),
    Pattern(
        "placeholder-package",
        ("placeholder f",),
        r"not functional and is a placeholder f[^\n]{0,60}",
    ),
    Pattern(
        "numpy-abi",
        (
            "compiled using numpy 1",
            "numpy.dtype size changed",
            "_array_api not found",
            "numpy.core.multiarray failed",
            "removed in the numpy 2",
        ),
        r"compiled using NumPy 1\.x|numpy\.dtype size changed|_ARRAY_API not found"
        r"|numpy\.core\.multiarray failed to import|removed in the NumPy 2(?:\.0)?",
    ),
    Pattern(
        "accelerator-cpu",
        ("accelerator to cpu", "accelerator: cpu", "ds_accelerator to cpu"),
        r"[Ss]etting (?:ds_)?accelerator to (?:CPU|cpu)|accelerator[:=] ?cpu\b",
    ),
    Pattern(
        "cuda-not-compiled",
        ("torch not compiled with cuda",),
        r"Torch not compiled with CUDA enabled",
    ),
    Pattern(
        "architecture-unknown",
        ("does not recognize this architecture", "不识别该架构"),
        r"(?:model type [`'\"](?P<model>[\w.-]{1,60})[`'\"][^\n]{0,60})?does not recognize this "
        r"architecture",
    ),
    Pattern(
        "benign-vllm-c",
        ("vllm._c",),
        r"Failed to import from vllm\._(?:moe_)?C",
    ),
    Pattern(
        "benign-triton-absent",
        ("triton not installed", "triton is not installed"),
        r"[Tt]riton (?:is )?not installed or not compatible",
    ),
    Pattern(
        "benign-log-level",
        ("drvmnggetconsoleloglevel",),
        r"DrvMngGetConsoleLogLevel failed",
    ),
    Pattern(
        "module-triton-backend",
        ("active drivers",),
        r"\b0 active drivers",
    ),
    Pattern(
        "module-triton-backend",
        ("libtriton' is not a package",),
        r"'triton\._C\.libtriton' is not a package",
    ),
    Pattern(
        "cann-required",
        ("cann",),
        r"(?:requires?|needs?|only works? (?:on|with)|at least|需要|要求|依赖)[^\n]{0,24}?"
        r"(?P<op>>=|==|<=)? ?"
        r"CANN[ :：-]{0,3}(?:version ?)?(?P<op2>>=|==|<=)? ?(?P<version>\d\.\d[\w.-]{0,20})",
    ),
    Pattern(
        "built-for",
        ("cann",),
        r"(?:[Bb]uilt|[Cc]ompiled|编译)[^\n]{0,30}(?:on|for|with|against|基于|使用|于)[ :：]{0,2}"
        r"(?:Ascend )?CANN[ :：-]{0,3}(?P<version>\d\.\d[\w.-]{0,30})",
    ),
    Pattern(
        "device-lost",
        ("invalid card id",),
        r"Invalid card id",
    ),
    Pattern(
        "module-cuda-only",
        ("flashattention2",),
        r"FlashAttention2 has been toggled on, but it cannot be used",
    ),
    # Which machine it is: evidence for CUDA, and any word of an NPU.
    Pattern(
        "cuda-host",
        ("nvidia", "geforce", "tesla ", "cuda available", "cuda is available"),
        r"NVIDIA[- ](?:[AHBLTVP]\d{1,4}\w{0,2}\b|GB\d{2,3}|GeForce|RTX|TITAN|Tesla|Quadro|Graphics)"
        r"|\bTesla [VTPKM]\d{1,3}|GeForce [RG]TX|[Ii]s CUDA available: ?True"
        r"|CUDA (?:is )?available ?[:=] ?(?:True|yes)"
        r"|NVIDIA-SMI \d[^\n]{0,80}?Driver Version: (?P<driver>\d{3}\.\d[\d.]{0,12})"
        r"|N(?:vidia|VIDIA) [Dd]river [Vv]ersion ?[:=] ?(?P<driver2>\d{3}\.\d[\d.]{0,12})",
    ),
    Pattern(
        "cuda-host",
        ("driver version:",),
        r"NVIDIA-SMI \d[^\n]{0,80}?Driver Version: (?P<driver>\d{3}\.\d[\d.]{0,12})",
    ),
    Pattern(
        "cuda-host",
        ("(gpu?)", "(gpu)", "cuda)"),
        r"[Tt]orch version \(GPU\?\): \S{1,40} \(True\)"
        r"|[Tt]orch`? version: \d\S{0,40} \((?:GPU|CUDA)\)",
    ),
    Pattern(
        "npu-named",
        ("npu", "ascend", "昇腾", "cann", "davinci", "hccl", "mindspeed"),
        r"^(?!.*(?:: ?False|: ?No\b|[Nn]ot (?:installed|found|available)|: ?N/?A\b|: ?None"
        r"|not supported))"
        r".*(?<![A-Za-z])(?:(?i:npu|torch[_-]?npu|npu-smi|ascend(?:_\w{1,30}|\d\w{0,8}|c)?"
        r"|davinci\d{0,2}"
        r"|hccl|mindspeed)(?![A-Za-z])|CANN(?![A-Za-z])|昇腾|vllm[_-]ascend|triton[_-]ascend"
        r"|torch_npu\w{0,20}|libascend\w{0,20})",
    ),
)

"""Chinese texts of findings: key -> (found, expected). Hints are commands, shared with the English
catalogue."""

from __future__ import annotations

_SEE = "{text}"

TEXTS: dict[str, tuple[str, str]] = {
    "signal-symbol-atb": (
        "符号 {symbol} 属于 ATB（NNAL），当前加载的 ATB 中没有该符号",
        "NNAL 与 CANN、torch_npu 使用同一版本",
    ),
    "signal-symbol-torch": (
        "{library} 需要 torch 的符号 {symbol}，当前 torch 中没有",
        "torch 与 torch_npu 版本一致（torch_npu X.Y.Z 只配套 torch X.Y.Z）",
    ),
    "signal-symbol-cann": (
        "torch_npu 需要 CANN 的符号 {symbol}，当前 CANN 中没有",
        "与该 torch_npu（含 post 号）配套的 CANN；该 CANN 的配套表为 torch_npu {paired}",
    ),
    "signal-symbol-cann-internal": (
        "CANN 自身的库（{library}）缺少符号 {symbol}：混用了两个 CANN 版本",
        "所有 CANN 库来自同一版本、同一路径",
    ),
    "signal-symbol-driver": (
        "CANN 需要驱动的符号 {symbol}，当前驱动中没有",
        "不低于该 CANN 所声明版本的驱动",
    ),
    "signal-symbol-abi": (
        "{library} 缺少 {symbol}：C++ ABI 不一致",
        "ATB 的 cxx_abi 目录与 torch 的 ABI 标志一致",
    ),
    "signal-symbol-extension": (
        "扩展库 {library} 缺少 CANN 的符号 {symbol}：该扩展为其他 CANN 版本编译",
        "为已安装的 CANN 编译的扩展",
    ),
    "signal-symbol-unnamed": ("未给出名称的未定义符号：" + _SEE, "包含符号名和库名的完整一行"),
    "signal-function-not-in-cann": (
        "torch_npu 调用 {name}，已安装的 CANN 不提供",
        "与该 torch_npu 配套的 CANN（toolkit 与算子包）；该 CANN 的配套表为 torch_npu {paired}",
    ),
    "signal-libstdcxx-old": ("系统的 libstdc++ 没有 {need}", "提供 {need} 的 libstdc++"),
    "signal-glibc-old": ("系统的 C 库没有 {need}", "提供 {need} 或更新版本的系统，如官方镜像"),
    "signal-library-driver": (
        "{library} 属于驱动，无法加载：有 npu-smi 不等于有驱动",
        "挂载 driver/lib64 并加入加载路径",
    ),
    "signal-library-cann": (
        "{library} 属于 CANN，不在加载路径中",
        "在启动训练的进程中 source CANN 的 set_env.sh",
    ),
    "signal-library-nnal": (
        "{library} 属于 NNAL（ATB），不在加载路径中",
        "安装与 CANN 同版本的 NNAL 并 source 其 set_env.sh",
    ),
    "signal-library-cuda": (
        "{library} 是 CUDA 库：正在使用为 NVIDIA 构建的包",
        "CPU 版 torch，不安装仅支持 CUDA 的包",
    ),
    "signal-module-cann": (
        "模块 {module} 随 CANN 提供，无法导入",
        "CANN 的 Python 目录在 PYTHONPATH 中（训练进程及其子进程）",
    ),
    "signal-module-cann-deps": (
        "CANN 算子编译器依赖的 {module} 未安装在该 Python 中",
        "CANN 安装指南要求的 Python 包",
    ),
    "signal-module-triton-backend": (
        "导入的 triton 没有昇腾后端：被社区版 triton 覆盖",
        "triton/ 目录中为 triton-ascend 的文件",
    ),
    "signal-module-triton-damaged": ("triton 不完整：" + _SEE, "triton-ascend 的全部文件"),
    "signal-module-triton-absent": (
        "无法导入 triton：使用 triton 算子时需要",
        "框架需要时，安装与 CANN 配套的 triton-ascend",
    ),
    "signal-accelerator-unknown": ("框架没有找到加速器：" + _SEE, "该进程能够导入 torch_npu"),
    "signal-module-torch-npu": (
        "该 Python 无法导入 torch_npu：" + _SEE,
        "在训练所用的 Python 中安装 torch_npu",
    ),
    "signal-module-torch-npu-partial": (
        "导入的 torch_npu 不是已安装的那一个，或不完整：" + _SEE,
        "site-packages 中带编译模块的 torch_npu",
    ),
    "signal-module-not-built": (
        "{module} 在安装时生成：当前导入的是源码目录",
        "安装该框架及其指定的依赖版本",
    ),
    "signal-module-mindspeed": (
        "所导入的 MindSpeed Core 没有被请求的内容：" + _SEE,
        "与该 MindSpeed-LLM 分支配套的 MindSpeed Core 分支",
    ),
    "signal-module-megatron": (
        "所导入的 Megatron 没有被请求的内容：" + _SEE,
        "MindSpeed 与框架所指定的 Megatron core（及 bridge）",
    ),
    "signal-module-transformers": (
        "当前 transformers 没有被请求的内容：" + _SEE,
        "框架所适配的 transformers 版本",
    ),
    "signal-module-framework": ("框架之间版本不匹配：" + _SEE, "同一配套行中的版本"),
    "signal-module-torch-too-old": (
        "torch {torch} 没有框架要导入的内容：" + _SEE,
        "框架支持的 torch 及其 torch_npu",
    ),
    "signal-module-cuda-only": ("请求了仅支持 CUDA 的包：" + _SEE, "框架的 NPU 实现"),
    "signal-module-shadowed": ("模块被同名文件或目录遮蔽：" + _SEE, "优先导入已安装的模块"),
    "signal-namespace-residue": (
        "{module} 只剩空目录：Python 报告其位置未知",
        "没有该目录，或安装完整的包",
    ),
    "signal-distribution-twice": (
        _SEE + "；其自身的版本文件为 {there}",
        "每个包只有一份记录",
    ),
    "signal-namespace-folder": (_SEE, "完整的包，或没有该目录"),
    "signal-module-shadow-path": (
        _SEE + "：在导入路径上先于已安装的包",
        "优先导入已安装的 {module}",
    ),
    "signal-module-link-name": (_SEE, "链接名与导入名一致"),
    "signal-attribute-torch-npu-op": (
        "torch_npu {wheel} 没有调用方需要的 {name}",
        "框架配套行所指定的 torch_npu 构建",
    ),
    "signal-attribute-numpy": ("代码使用了该 numpy 已移除的 {name}", "移除之前的 numpy 版本"),
    "signal-numpy-abi": ("按 numpy 1 编译的模块运行在 numpy 2 上：" + _SEE, "numpy 2 以下"),
    "signal-dcmi-failed": (
        "DCMI 无法打开设备（{code}）：被其他容器占用，或没有权限",
        "设备节点已分配给该容器，且没有其他占用者",
    ),
    "signal-device-used": ("设备被其他进程或容器占用", "设备只有一个占用者"),
    "signal-device-permission": ("进程无权打开 {path}", "属主或属组用户（默认 1000）"),
    "signal-device-nodes-closed": (
        "{path} 为 {owner} {mode}，无法打开：{reason}",
        "进程可读写设备节点",
    ),
    "signal-uid-without-name": (
        "该用户号在 /etc/passwd 中没有条目：" + _SEE,
        "添加条目：多卡时部分组件会查询用户名",
    ),
    "signal-devices-not-mounted": (_SEE, "全部设备节点和驱动目录"),
    "signal-no-devices-seen": (
        "进程看不到设备：" + _SEE + "（可能原因 {place}/{count}：{causes}）",
        "同一容器内 npu-smi info 正常",
    ),
    "signal-npu-smi-absent": ("没有 npu-smi", "容器中挂载 npu-smi 和驱动"),
    "signal-no-topology-in-container": (
        "lscpu 没有显示插槽或线程数：容器几乎看不到宿主机",
        "宿主机驱动版本，以及 docker run 的参数",
    ),
    "signal-device-lost": ("npu-smi 不认识该卡：" + _SEE, "与 lspci 显示的卡数一致"),
    "signal-device-alarm": (_SEE, "健康状态 OK"),
    "npu-smi-absent-on-host": (
        "宿主机有或应有 NPU，但没有 npu-smi",
        "已安装驱动，npu-smi 位于 /usr/local/bin 或 /usr/local/sbin",
    ),
    "no-npu-seen": (
        "没有 npu-smi，也没有其他迹象表明该机器有 NPU",
        "如另有带 NPU 的机器，请提供该机器的报告",
    ),
    "firmware-out-of-range": (
        "驱动 {driver} 支持的固件为 {wanted}，固件 {firmware} 支持的驱动为 {listed}",
        "驱动与固件来自同一 HDK：{need}",
    ),
    "mindspeed-pip": (
        "mindspeed {number} 只是 Megatron 版本号，pip 未记录其分支",
        "从分支 {wanted} 安装的 MindSpeed Core（MindSpeed-LLM {llm}）",
    ),
    "mindspeed-checkout": (
        "mindspeed {number} 只是 Megatron 版本号；它从 {path} 安装，分支未知",
        "分支 {wanted}（MindSpeed-LLM {llm}）",
    ),
    "mindspeed-megatron-tag": (
        "{commit} 是 Megatron 的标签；按该版本线的 MindSpeed Core 分支理解",
        "分支 {wanted}（MindSpeed-LLM {llm}）",
    ),
    "mindspeed-commit": (
        "MindSpeed Core 为提交 {commit}，不属于已知分支或标签",
        "分支 {wanted}（MindSpeed-LLM {llm}）",
    ),
    "determinism-on": (
        "{settings}：集合通信按固定顺序归约，性能下降",
        "需要逐比特复现时，还须打开框架开关：--npu-deterministic 或 "
        "torch.use_deterministic_algorithms(True)",
    ),
    "determinism-off": (
        "{settings}：HCCL 归约顺序不固定",
        "需要逐比特复现时设置 HCCL_DETERMINISTIC=true",
    ),
    "determinism-strict": (
        "{product} 上设置了 {settings}：据报 HCCL 仅在 A2、A3 上接受 strict",
        "HCCL_DETERMINISTIC=true",
    ),
    "determinism-unset": (
        "HCCL_DETERMINISTIC 不为 true：{recipe} 两次运行的末位可能不同",
        "逐比特比较时设置 HCCL_DETERMINISTIC=true；追求性能时不设置",
    ),
    "signal-module-several": (
        "可导入两份 {module}：{text}；先找到的是 {first}",
        "只有一份",
    ),
    "signal-driver-firmware-mismatch": (_SEE, "Compatibility: OK"),
    "signal-driver-not-supported": ("驱动不支持 CANN 的调用：" + _SEE, "CANN 配套表声明的驱动"),
    "signal-driver-not-on-path": (
        "driver/lib64 已挂载但不在加载路径中",
        "LD_LIBRARY_PATH 或 ld.so.conf.d 包含 driver/lib64",
    ),
    "signal-device-open-failed": (
        "设备无法初始化（{code}；可能原因 {place}/{count}：{causes}）",
        "同一容器内 npu-smi info 正常",
    ),
    "signal-npu-smi-hangs": (_SEE, "数秒内返回"),
    "signal-link-down": (_SEE, "链路状态 UP"),
    "signal-soc-unsupported": ("该构建不支持设备 {soc}", "支持该设备的 torch_npu 与 CANN"),
    "signal-kernels-missing": (
        "算子包（kernels）缺少所需内容：" + _SEE,
        "与芯片、toolkit 版本一致的算子包",
    ),
    "signal-kernels-absent": (
        _SEE,
        "安装算子包（8.5 起为 Ascend-cann-<chip>-ops，之前为 Ascend-cann-kernels-<chip>）",
    ),
    "signal-op-unsupported": (
        "CANN 没有该算子的内核：" + _SEE + "（可能原因 {place}/{count}：{causes}）",
        "算子包与 toolkit 同版本，且 CANN 与 torch_npu 配套",
    ),
    "signal-op-compile-failed": (
        "算子编译失败（可能原因 {place}/{count}：{causes}）",
        "与 torch_npu 配套的单一 CANN、numpy 1，以及编译器所需的 Python 包",
    ),
    "signal-compile-option-failed": (
        "CANN 拒绝编译选项（{code}）；该报错有多种原因（{place}/{count}：{causes}）",
        "numpy 1、CANN 编译器的 Python 依赖，以及可使用设备的容器",
    ),
    "signal-jit-default-failed": (
        "首次调用驱动失败（可能原因 {place}/{count}：{causes}）",
        "宿主机的驱动版本，以及容器权限",
    ),
    "signal-tbe-signature": (
        "CANN 的 Python 部分相互不匹配：" + _SEE,
        "toolkit 与算子包同版本，且在 PYTHONPATH 中只出现一次",
    ),
    "signal-cann-required": ("报错要求 CANN {need}，当前为 CANN {cann}", "CANN {need}"),
    "signal-autoload-failed": (
        "这一行只是外层包装：真正原因是其上方的异常",
        "“The above exception was the direct cause” 之前的堆栈",
    ),
    "signal-collective-timeout": (
        "{code}：其他 rank 未及时响应",
        "与版本无关：请找到最先失败的 rank",
    ),
    "signal-aicore-error": ("{code}：算子在设备上执行失败", "本身与版本无关：请先处理上面的问题"),
    "signal-no-distribution": (
        "当前软件源没有 {name}{spec}",
        "提供该 Python 与架构构建的软件源",
    ),
    "signal-local-version-conflict": (
        "x86_64 的 torch-npu {version} 要求 torch=={need}，PyPI 上没有",
        "PyTorch 的 CPU 软件源",
    ),
    "signal-dependency-conflict": (
        "pip：{name} {version} 要求 {needs}{spec}，已安装 {have}",
        "以版本判定为准；框架声明的是其 CUDA 构建所需的 torch",
    ),
    "signal-triton-uninstalled": (
        "卸载社区版 triton 会删除同一目录中 triton-ascend 的文件",
        "之后重新安装 triton-ascend",
    ),
    "signal-python-required": ("Python {have} 不在该包支持的范围内", "该包有对应构建的 Python"),
    "signal-placeholder-package": ("安装了 PyPI 上的占位包：" + _SEE, "项目自己的仓库"),
    "signal-built-for": (
        "该扩展为 CANN {built} 编译，当前为 CANN {cann}",
        "为已安装 CANN 编译的扩展",
    ),
    "signal-accelerator-cpu": (
        "加速器退回 CPU：该进程无法导入 torch_npu",
        "加速器为 npu",
    ),
    "signal-cuda-not-compiled": (
        "设备被指向 CUDA：torch {torch}，transformers {transformers}",
        "transformers 4.50 起在 NPU 上需要 torch 2.5.1；否则是应用写死了 cuda",
    ),
    "signal-architecture-unknown": (
        "该 transformers 不认识模型类型 {model}",
        "支持它的 transformers",
    ),
    "signal-benign-vllm-c": ("没有 vllm._C：无害，NPU 不使用", "无需处理"),
    "signal-benign-triton-absent": ("vLLM 未找到 triton：不使用 triton 算子时无害", "无需处理"),
    "signal-unreadable": ("无法读取：{text}", "读取权限"),
    "signal-cann-several": ("安装了多个 CANN 版本：{text}", "以 ASCEND_HOME_PATH 指向的为准"),
    "signal-cann-env-differs": (_SEE, "存在的 CANN 目录"),
    "signal-cann-field-empty": (
        "报告中没有 CANN 版本：该脚本只读取一个旧路径",
        "未知，而不是没有：CANN 8.5 起位于 cann-<version>",
    ),
    "signal-cann-parts-differ": (_SEE, "各部分版本一致"),
    "signal-cann-paths-mixed": ("多个 CANN 目录的路径同时生效：{text}", "只有一个目录"),
    "signal-cann-paths-repeated": ("{text}：set_env.sh 被 source 多次", "每个条目只出现一次"),
    "signal-cann-env-unset": ("已安装 CANN，但当前 shell 中环境未生效", "source set_env.sh"),
    "signal-triton-files-foreign": ("{text}", "triton-ascend 的 libtriton（在 triton 之后安装）"),
    "signal-triton-files-missing": ("triton-ascend 的文件缺失：{text}", "RECORD 中的全部文件"),
    "signal-megatron-several": ("可导入多个 Megatron：{text}", "只有一个"),
    "cann-sightings-differ": (
        "报告中出现不同的 CANN 版本：{versions}",
        "以 ASCEND_HOME_PATH 指向目录的版本为准",
    ),
    "kernels-other-chip": ("算子包含 {chips} 的内核，设备为 {product}", "{wanted} 的内核"),
    "compiler-needs": ("该 Python 未安装：{absent}", "CANN 算子编译器导入的包"),
    "abi-unknown": ("当前使用 ATB 的 cxx_abi_{folder}；未看到 torch 的 ABI 标志", "两边数字相同"),
    "abi-differs": ("当前使用 ATB 的 cxx_abi_{folder}，torch 的 ABI 为 {flag}", "cxx_abi_{flag}"),
    "prebuilt-binary": (
        "{name} {version} 为某个 CANN 版本构建，文本未给出；当前为 CANN {cann}",
        "对应该 CANN 的构建",
    ),
    "memory-shrunk": ("设备 {devices} 显示 {low} MB，其余 {high} MB", "所有设备显存一致"),
    "card-lost-on-bus": ("lspci 显示 {seen} 张卡", "满配服务器为 {usual} 张"),
    "card-without-driver": ("lspci 显示 {pci} 张卡，npu-smi 显示 {devices} 个", "驱动识别全部卡"),
    "image-other-product": ("镜像（{tag}）为 {image} 构建，设备为 {product}", "{product} 的镜像"),
    "wheel-arch": ("{wheel} 的架构不是 {arch}", "{arch} 的 wheel"),
    "wheel-python": ("{wheel} 的 Python 不是 {python}", "Python {python} 的 wheel"),
    "wheel-unclear": ("pip 拒绝 {wheel}：Python 或架构不符", "对应 Python 与架构的 wheel"),
    "row-build-not-public": (
        "vllm {vllm} 配套 torch_npu {pins}；已安装 {wheel}，而 {hidden} 不在 PyPI 上",
        "从昇腾软件源安装指定构建",
    ),
    "torch-cuda-build": ("torch {version} 是 CUDA 构建", "torch_npu 所配套的 CPU 构建"),
    "nvidia-wheels": ("安装了 {count} 个 CUDA 包：{names}", "不应存在：随 CUDA 版 torch 装入"),
    "triton-beside": (
        "triton（{triton}）与 triton-ascend（{ascend}）共用一个目录",
        "triton-ascend 3.2.0 及之前只装 triton-ascend；之后先装 triton 再装 triton-ascend",
    ),
    "torch-requirements-differ": (
        "各包要求的 torch 版本不同：{specs}",
        "以 torch_npu 的 torch 为准；框架用 --no-deps 安装",
    ),
    "python-not-seen": ("文本中没有 Python 版本", "python -V"),
    "cuda-message-explained": (
        "该 CUDA 报错源于 torch {torch} 与 transformers {transformers}",
        "见 transformers-range",
    ),
    "cuda-hard-coded": ("torch {torch} 会自行使用 NPU：应用写死了 cuda", "不是环境问题"),
    "megatron-two": (
        "PYTHONPATH 中有 {first}，另有 {second}：导入哪个 Megatron 取决于顺序",
        "只保留 MindSpeed 指定的 Megatron",
    ),
    "megatron-undecided": (
        "从文本看 {first} 与 {second} 版本不同",
        "MindSpeed 与 bridge 都支持的 core 版本；可能不存在",
    ),
    "framework-unlisted": (
        "{name} {version} 不在配套表中：开发版本或已撤下的候选版本",
        "正式发布的版本",
    ),
    "torch-npu-not-seen": (
        "有 torch {torch} 与 CANN {cann}，没有 torch_npu 版本",
        "配套表中的 torch_npu {wheels}",
    ),
    "document-differs": ("文档写 {component} {stated}，实际为 {found}", "以实际安装为准"),
    "sources-disagree": ("公开资料之间有冲突（{conflict}）", "{handling}"),
    "hdk-not-reference": (
        "驱动 {driver} 声明与 CANN {cann} 兼容；其配套 HDK 为 {reference}",
        "怀疑驱动问题时使用 HDK {reference}",
    ),
    "variable-range": ("{name}={value} 超出取值范围", "{expected}"),
    "variable-excludes": ("{name}：{one} 与 {other} 互斥", "二者取一"),
    "variable-only": ("{name}：设置 {one} 后其他选项不生效", "只用 {one}，或去掉它"),
    "variable-needs": ("{name}：{value} 需要 {expected}，当前为 {found}", "{expected}"),
    "variable-greater": ("{name}={value} 不大于 {other}={limit}", "{name} 大于 {other}"),
    "variable-debug": ("{name}={value} 使算子同步执行并关闭任务队列", "仅用于调试，平时不设置"),
    "variable-discouraged": ("文档不推荐 {name}={value}，但公开脚本有使用", "1，或不设置"),
    "variable-slow-log": ("{name}={value} 日志过多，拖慢训练并占满磁盘", "3，或不设置"),
    "variable-zero-copy": (
        "{name}={value} 仅在 A3 且启用 expandable segments 时可用",
        "A3 上设置 PYTORCH_NPU_ALLOC_CONF=expandable_segments:True",
    ),
    "variable-inf-nan": (
        "A2、A3 拒绝 {name}={value}",
        "1，或同时设置 INF_NAN_MODE_FORCE_DISABLE=1",
    ),
    "variable-overridden": ("{name}={value} 被 {by} 覆盖", "二者取一"),
    "variable-aiv": ("A2 上 {name}={value} 仅用于单通信域推理", "训练时不设置"),
    "variable-both": (
        "同时设置了 {name} 与 {other}：TorchNPU 26.2.0 且 torch 2.10 起报错",
        "只用 {other}",
    ),
    "variable-no-effect": ("{name}={value} 在 {found} 下不生效", "不设置"),
    "recipe-product": ("配方 {recipe} 面向 {wanted}，设备为 {product}", "{wanted}"),
    "recipe-devices": (
        "共 {found} 个设备；配方 {recipe} 每节点使用 {wanted} 个",
        "{wanted} 个设备（A3 按 die 计）",
    ),
    "recipe-healthy-devices": (
        "健康设备 {found} 个；配方 {recipe} 每节点使用 {wanted} 个",
        "{wanted} 个健康设备",
    ),
    "recipe-memory": (
        "每个设备 {found} MB；该系列最大为 {wanted} MB，配方 {recipe} 未写明所用显存",
        "{wanted} MB，除非已按更小显存规划",
    ),
    "recipe-branch": ("MindSpeed-LLM 为 {found}；配方 {recipe} 取自 {wanted}", "{wanted}"),
    "recipe-variable": ("{name}={value}；{recipe} 的公开脚本设为 {wanted}", "{name}={wanted}"),
    "recipe-variable-unset": (
        "当前 shell 未设置 {name}；缺少它时 FSDP2 脚本会走 Megatron 路径",
        "{name}={wanted}（{recipe} 的公开脚本会导出）",
    ),
    "missing-torch": ("torch", "决定与 torch_npu 是否配套"),
    "missing-torch_npu": ("torch_npu", "其版本（含 post 号）决定 CANN"),
    "missing-cann": ("CANN toolkit 与算子包", "决定所需驱动"),
    "missing-driver": ("宿主机驱动", "决定 CANN 能否运行"),
    "missing-product": ("设备型号", "同样的包未必适用于不同芯片"),
    "missing-python": ("Python 版本", "决定有哪些 wheel"),
    "missing-cuda_driver": ("NVIDIA 驱动", "决定 CUDA 运行时能否启动"),
    "missing-nnal": ("NNAL（ATB）版本", "必须与 CANN 同版本"),
    "missing-traceback": ("包装背后的异常", "给出真正原因"),
    "missing-torch_abi": ("torch 的 C++ ABI 标志", "必须与 ATB 目录一致"),
    "missing-numpy": ("numpy 版本", "numpy 2 会使旧版 CANN 编译器出错"),
    "missing-compiler-deps": ("CANN 编译器的依赖包", "缺少时会出现该报错"),
    "missing-container": ("设备节点、用户与权能", "决定能否打开设备"),
    "missing-branches": ("各源码目录的分支或提交", "pip 版本号无法区分发布版本"),
    "missing-unparsed": ("无法读取的文本", "请按工具原样粘贴"),
}

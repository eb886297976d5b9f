#!/bin/sh
# certify collector: prints what `certify check-env --report` needs, and changes nothing.
#
#   sh collect.sh > report.txt                          on the host or inside a container
#   docker exec NAME sh -s < collect.sh >> report.txt   a container's view beside the host's
#
# Reads files and runs npu-smi with a time limit. Needs no Python, no root, no network. Only
# variables on the list below are printed, none whose name looks like a secret. PYTHON=/path/python
# chooses the Python that trains; it is asked for its paths, and nothing is imported into it.
LC_ALL=C
export LC_ALL

section() { printf '\n=== certify:%s ===\n' "$1"; }
show() { if [ -r "$1" ] && [ -f "$1" ]; then section "file $1"; head -c 65536 "$1"; printf '\n'; fi; }
limited() {
    if command -v timeout >/dev/null 2>&1; then timeout -k 2 15 "$@" </dev/null 2>&1
    else "$@" </dev/null 2>&1; fi
}

# Names and passwords in addresses are masked in everything that is printed.
mask() { sed -e 's#//[^/[:space:]]*@#//***@#g'; }

collect() {
view=host
if [ -e /.dockerenv ] || [ -e /run/.containerenv ]; then view=container
elif grep -qE 'docker|kubepods|containerd|libpod' /proc/1/cgroup 2>/dev/null; then view=container; fi
section "collector 1"
echo "view: $view"

section system
for file in /etc/os-release /usr/lib/os-release; do
    if [ -r "$file" ]; then grep -E '^(NAME|ID|VERSION_ID|VERSION|PRETTY_NAME)=' "$file"; break; fi
done
echo "Architecture: $(uname -m)"
echo "kernel: $(uname -r)"
libc=$(getconf GNU_LIBC_VERSION 2>/dev/null) && echo "Libc version: glibc-${libc#glibc }"
for folder in /lib64 /usr/lib64 /usr/lib/x86_64-linux-gnu /usr/lib/aarch64-linux-gnu; do
    link=$(readlink "$folder/libstdc++.so.6" 2>/dev/null) && { echo "libstdc++: $link"; break; }
done

section user
id
grep -E '^Cap(Prm|Eff):' /proc/self/status 2>/dev/null

section devices
ls -ln /dev/davinci* /dev/vdavinci* /dev/devmm_svm /dev/hisi_hdc /dev/ummu /dev/uburma 2>/dev/null
if command -v lspci >/dev/null 2>&1; then limited lspci | grep -i 'accelerators'; fi

section "npu-smi info"
if command -v npu-smi >/dev/null 2>&1; then
    limited npu-smi info || echo "npu-smi info: exit $?"
else
    echo "npu-smi: command not found"
fi

base=/usr/local/Ascend
if [ -r /etc/ascend_install.info ]; then
    section "file /etc/ascend_install.info"
    grep -E '^(Driver|Firmware)_Install' /etc/ascend_install.info
    named=$(sed -n 's/^Driver_Install_Path_Param=//p' /etc/ascend_install.info | head -1)
    [ -n "$named" ] && base=$named
fi
show "$base/driver/version.info"
show "$base/firmware/version.info"

section cann
ls -ld "$base"/cann "$base"/cann-* "$base"/ascend-toolkit/* "$base"/nnae/* 2>/dev/null
for tree in "$ASCEND_HOME_PATH" "$ASCEND_TOOLKIT_HOME" "$base"/cann "$base"/cann-* \
    "$base"/ascend-toolkit/latest "$base"/ascend-toolkit/[0-9]* "$base"/nnae/latest \
    "$HOME"/Ascend/cann "$HOME"/Ascend/cann-* "$HOME"/Ascend/ascend-toolkit/latest; do
    [ -d "$tree" ] || continue
    real=$(cd "$tree" 2>/dev/null && pwd -P) || continue
    case " $seen " in *" $real "*) continue ;; esac
    seen="$seen $real"
    for info in "$real"/*-linux/ascend_*_install.info "$real"/version.cfg; do show "$info"; done
    show "$real/opp_kernel/version.info"
    # Of the tree in force, which comes first: the chips that it has operators for.
    if [ "$seen" = " $real" ]; then
        chips=$(ls "$real/opp/built-in/op_impl/ai_core/tbe/kernel" 2>/dev/null | grep '^ascend')
        ops=$(ls "$real"/*-linux/ascend_ops_install.info "$real/opp_kernel/version.info" 2>/dev/null)
        if [ -n "$chips" ]; then section "kernels $real"; echo $chips
        elif [ -z "$ops" ] && [ -r "$real" ] && ls "$real"/*-linux/ascend_toolkit_install.info >/dev/null 2>&1
        then section "kernels $real"; echo none; fi
    fi
done
for info in "$ATB_HOME_PATH/../../version.info" "$base/nnal/atb/latest/version.info"; do
    if [ -r "$info" ]; then show "$info"; break; fi
done

section environment
env | grep -E '^(ASCEND|ATB_|HCCL_|LCCL_|ACL_|TORCH|PYTORCH_|NPU_|TRITON_|GLOO_|P2P_HCCL|TASK_QUEUE|INF_NAN|MULTI_STREAM|STREAMS_PER|COMBINED_|PER_STREAM|CPU_AFFINITY|OOM_SNAPSHOT|CUDA_DEVICE_MAX|TRAINING_BACKEND|TOOLCHAIN_HOME|LD_LIBRARY_PATH|PYTHONPATH|VIRTUAL_ENV|CONDA_PREFIX|RANK_TABLE_FILE|MEGATRON)[A-Z0-9_]*=' |
    grep -vE '^[A-Z0-9_]*(TOKEN|SECRET|PASSW|_KEY|CREDENTIAL|AUTH|COOKIE)'

section python
python=${PYTHON:-$(command -v python3 || command -v python)}
if [ -n "$python" ]; then
    "$python" -V 2>&1
    # -I -S: isolated and without site, so that no .pth file of a broken environment runs.
    sites=$("$python" -I -S -c 'import sys
v = "python%d.%d" % sys.version_info[:2]
print("\n".join(p + "/lib/" + v + "/" + k for p in (sys.prefix, "/usr/local") for k in ("site-packages", "dist-packages")))' 2>/dev/null)
    section packages
    printf '%s\n' "$sites" | sort -u | while read -r site; do
        [ -d "$site" ] || continue
        for info in "$site"/*.dist-info "$site"/*.egg-info; do
            [ -e "$info" ] || continue
            name=$(basename "$info"); name=${name%.dist-info}; name=${name%.egg-info}
            case "$name" in *-[0-9]*) echo "${name%%-[0-9]*}==${name#"${name%%-[0-9]*}"-}" ;; esac
        done | sed -e 's/===*-*/==/' -e 's/-py3\.[0-9]*$//'
        for module in torch_npu torch; do
            if [ -r "$site/$module/version.py" ]; then
                section "file $site/$module/version.py"
                grep -E "^(__version__|git_version|cuda)" "$site/$module/version.py"
            fi
        done
        config="$site/torch/share/cmake/Torch/TorchConfig.cmake"
        if [ -r "$config" ]; then grep -o '_GLIBCXX_USE_CXX11_ABI=[01]' "$config" | head -1; fi
        if [ -d "$site/triton" ] && [ ! -d "$site/triton/backends/ascend" ]; then
            echo "triton: no backends/ascend in $site/triton"
        fi
    done
fi

section checkouts
# Where editable installs lie: their number in the list above names no branch.
editable=$(printf '%s\n' "$sites" | sort -u | while read -r site; do
    for direct in "$site"/[Mm]ind[Ss]peed*.dist-info/direct_url.json \
        "$site"/[Mm]egatron*.dist-info/direct_url.json; do
        [ -r "$direct" ] && sed -n 's#.*"url": *"file://\([^"]*\)".*#\1#p' "$direct"
    done
done)
for entry in $(printf '%s' "$PYTHONPATH" | tr ':' ' ') $editable MindSpeed-LLM MindSpeed Megatron-LM FSDPTurbo; do
    top=$entry
    for level in 1 2 3; do
        if [ -e "$top/.git" ]; then
            head=$(cat "$top/.git/HEAD" 2>/dev/null)
            echo "checkout: $top ${head#ref: refs/heads/}"
            break
        fi
        top=$top/..
    done
done
section end
}
collect | mask

"""Who may open a device node, by owner, group, mode bits and capabilities."""

from __future__ import annotations

_DAC_OVERRIDE = 1 << 1
# Who owns the nodes by default: the driver's run user has id 1000.
_OWNER_IDS = {"HwHiAiUser": "1000", "root": "0"}


def closed_reason(
    node: tuple[str, str, str, int],
    user: tuple[str, str | None, set[str]],
    capabilities: int | None,
) -> str | None:
    """Why this user cannot read and write the node, None when it can (or may)."""
    _, owner, group, mode = node
    uid, name, groups = user
    owner_id = _OWNER_IDS.get(owner, owner)
    group_id = _OWNER_IDS.get(group, group)
    if uid == "0" and (capabilities is None or capabilities & _DAC_OVERRIDE):
        return None
    if uid == owner_id or (name and name == owner):
        return None if mode & 0o600 == 0o600 else f"uid {uid} may not by mode {mode:04o}"
    if group_id in groups:
        return None if mode & 0o060 == 0o060 else f"group {group_id} may not by mode {mode:04o}"
    if mode & 0o006 == 0o006:
        return None
    if uid == "0":
        return "root without CAP_DAC_OVERRIDE"
    return f"uid {uid} is neither owner nor in group {group}"

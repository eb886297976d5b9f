"""Does an offer fit the memory of a device, by the closed formula of `certify.plan`?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from certify.errors import CannotJudgeError
from certify.plan.devices import Device, device_of
from certify.plan.make import make
from certify.plan.memory import GIB, MIB
from certify.plan.of_name import Options, question_of
from certify.recipes.load import load_recipe
from certify.recipes.recommend import Reason, Remark

if TYPE_CHECKING:
    from certify.recipes.recommend import Offer, Wanted

# The formula trains every parameter and keeps one copy of the model: these stages do otherwise.
_OTHERWISE = {
    "lora": "LoRA trains adapters only",
    "dpo": "DPO keeps a frozen reference beside the model",
}


def _device(memory_mb: int | None) -> Device:
    if memory_mb is None:
        return device_of(None)
    gib = memory_mb * MIB / GIB
    return Device(f"{gib:g} GB", float(memory_mb * MIB), "the chip that was named")


def planned_fit(offer: Offer, wanted: Wanted) -> Reason | Remark | None:
    """Plan the offered script on its own cluster with the memory of the wanted device.

    A reason when it does not fit or its sizes do not divide; a remark with the planned memory
    when it fits, or with what kept the formula from an answer.
    """
    recipe = load_recipe(offer.recipe)
    for stage in (recipe.stage, "lora" if "lora-r" in recipe.raw.get("other_options", {}) else ""):
        if stage in _OTHERWISE:
            return Remark(f"memory not planned: {_OTHERWISE[stage]}")
    device = _device(wanted.memory_mb)
    try:
        asked = question_of(recipe, recipe.backend, Options())
    except CannotJudgeError as unknown:
        return Remark(f"memory not planned: {unknown.what}")
    setting = asked.setting
    plan = make(setting, asked.layout)
    if plan.problems:
        return Reason("plan", "; ".join(plan.problems))
    usable = device.memory * setting.usable
    need = f"{plan.memory.total / GIB:.1f} GiB of {usable / GIB:.1f} usable"
    bound = any(note.startswith("an upper bound") for note in asked.notes)
    if plan.memory.total <= usable:
        return Remark(f"planned: {need} an NPU, mostly {plan.memory.dominant}")
    if bound:
        # A saving that no formula here knows: a number that is only an upper bound refuses nobody.
        return Remark(f"planned: at most {need} an NPU; the script saves memory in other ways too")
    return Reason("plan", f"{need}, mostly {plan.memory.dominant}")

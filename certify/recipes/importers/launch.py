"""Find the command of a script that starts training, and what starts it."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from certify.recipes.importers.options import is_option

if TYPE_CHECKING:
    from certify.recipes.importers.shell_facts import Command, ShellScript
    from certify.recipes.importers.values import Word

# Entry scripts of upstream that train, and the backend each one runs.
TRAINING = {
    "pretrain_gpt.py": "mcore",
    "posttrain_gpt.py": "mcore",
    "pretrain_mamba.py": "mcore",
    "pretrain_deepseek4.py": "mcore",
    "train_fsdp2.py": "fsdp2",
}
# Entry scripts that do something else, and what to say of them.
OTHER = {
    "convert_ckpt.py": "it converts a checkpoint",
    "convert_ckpt_v2.py": "it converts a checkpoint",
    "preprocess_data.py": "it prepares data",
    "preprocess_prompt.py": "it prepares data",
    "inference.py": "it generates text",
    "inference_fsdp2.py": "it generates text",
    "inference_deepseek4.py": "it generates text",
    "evaluation.py": "it evaluates a model",
    "rlhf_gpt.py": "reinforcement learning is the business of MindSpeed-RL",
    "ray_gpt.py": "reinforcement learning is the business of MindSpeed-RL",
}
_STEMS = {
    "convert_ckpt": "it converts a checkpoint",
    "ckpt_dequant": "it converts a checkpoint",
    "preprocess": "it prepares data",
    "lm_eval": "it evaluates a model",
}
_LAUNCHERS = ("torchrun", "msrun", "accelerate", "python", "python3", "deepspeed")


@dataclass(frozen=True)
class Launch:
    """One command that runs a Python program.

    launcher: its first word; launcher_options: of torchrun or msrun, dashes as underscores;
    entry: the program; arguments: the words after it.
    """

    launcher: str
    launcher_options: dict[str, str]
    entry: Word
    arguments: tuple[Word, ...]
    command: Command

    @property
    def name(self) -> str:
        """File name of the program."""
        return self.entry.text.rsplit("/", 1)[-1]

    @property
    def trains(self) -> bool:
        return self.name in TRAINING

    @property
    def meant(self) -> str | None:
        """The training entry that a misspelt name stands for."""
        if self.trains or self.refusal:
            return None
        close = get_close_matches(self.name, TRAINING, n=1, cutoff=0.85)
        return close[0] if close else None

    @property
    def refusal(self) -> str | None:
        """Why this program is no training, None when it may be one."""
        if self.name in OTHER:
            return OTHER[self.name]
        return next((text for stem, text in _STEMS.items() if stem in self.name), None)


def _launcher_options(words: tuple[Word, ...]) -> dict[str, str]:
    options: dict[str, str] = {}
    i = 0
    while i < len(words):
        name, equals, value = words[i].text.partition("=")
        i += 1
        if not name.startswith("-"):
            continue
        if not equals and i < len(words) and not is_option(words[i].text):
            value = words[i].text
            i += 1
        options[name.lstrip("-").replace("-", "_")] = value
    return options


def _launch_of(command: Command) -> Launch | None:
    words = command.words
    first = 0
    while first < len(words) and words[first].text in ("nohup", "exec", "time", "env"):
        first += 1
    if first >= len(words):
        return None
    launcher = words[first].text.rsplit("/", 1)[-1]
    if launcher not in _LAUNCHERS:
        return None
    for i in range(first + 1, len(words)):
        text = words[i].text
        if text.endswith(".py") or (text == "lm_eval" and i > first):
            options = _launcher_options(words[first + 1 : i])
            return Launch(launcher, options, words[i], words[i + 1 :], command)
    return None


def launches(script: ShellScript) -> list[Launch]:
    """All commands that run a Python program, in order."""
    found = [_launch_of(command) for command in script.commands]
    return [launch for launch in found if launch is not None]


def training_launch(script: ShellScript) -> Launch | None:
    """The command that trains: a known entry, else one whose name is close to one."""
    every = launches(script)
    for launch in every:
        if launch.trains:
            return launch
    return next((launch for launch in every if launch.meant), None)

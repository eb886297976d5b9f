"""MindSpeed-LLM's FSDP2 YAML as the configuration of a run: read, refused or accepted as is."""

from certify.recipes.configuration.datasets import Datasets, datasets_of
from certify.recipes.configuration.read import Configuration, is_configuration, read_configuration
from certify.recipes.configuration.recipe import recipe_of_configuration
from certify.recipes.configuration.standing import notes_of

__all__ = [
    "Configuration",
    "Datasets",
    "datasets_of",
    "is_configuration",
    "notes_of",
    "read_configuration",
    "recipe_of_configuration",
]

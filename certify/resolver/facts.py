"""A stack as the rules see it: one canonical version per component, signals by id, the context."""

from __future__ import annotations

from certify.light import lazy
from certify.resolver.model import Context
from certify.resolver.view import MEGATRON_LINE
from certify.versions import from_free_text, parse, release

TYPE_CHECKING = False
if TYPE_CHECKING:
    from certify.environment.stack import Found, Signal, Stack
    from certify.resolver.model import PairResult
    from matrices.load import Matrix

NPU_FAMILIES = ("910", "A2", "A3", "950", "310P", "310B", "310")
# Sightings that show that this is an Ascend machine or meant to be one.
_NPU_COMPONENTS = (
    "torch_npu", "cann", "driver", "triton_ascend", "mindspeed_core", "mindspeed_llm", "nnal",
    "vllm_ascend", "cann_ops", "device_nodes", "atb_abi", "torch_npu_present", "firmware",
)  # fmt: skip
# What metadata of a development tree says, whichever the branch.
_DEVELOPED = lazy(r"^\d+(?:\.\d+)*\.?dev\d*$")
# Megatron's tag, where people mean the MindSpeed that is built for it.
_MEGATRON_TAG = lazy(r"^core_v(\d+(?:\.\d+)+)$")
_COMMIT = lazy(r"^(?:commit )?([0-9a-f]{7,40})$")


class Facts:
    """have: component key -> version in the grammar of its family, unreadable ones left out."""

    def __init__(
        self,
        stack: Stack,
        matrix: Matrix,
        product: str | None = None,
        model_type: str | None = None,
    ) -> None:
        self.stack = stack
        self.matrix = matrix
        self.have: dict[str, str] = {}
        self.unreadable: dict[str, str] = {}
        # Components of which only a package's metadata tells, which does not name the release.
        self.from_metadata: set[str] = set()
        for name, sightings in stack.components.items():
            version = self._canonical(name, sightings)
            if version is not None:
                self.have[name] = version
        # A model that a report mentions is no requirement: only a recipe makes it one.
        self.have.pop("model_type", None)
        self.model_type = model_type
        self.stated_product = product
        # Where no device was seen, the image's tag says what it was meant for.
        self.product = product or self.version("product") or self.version("image_product")
        self.arch = self.version("arch")
        self._signals: dict[str, list[Signal]] = {}
        for signal in stack.signals:
            self._signals.setdefault(signal.id, []).append(signal)
        self.pairs: list[PairResult] = []

    def _canonical(self, name: str, sightings: tuple[Found, ...]) -> str | None:
        """The first sighting that can be read, in its family's usual spelling."""
        row = self.matrix.components.get(name)
        numbers = []
        for found in sightings:
            text = found.version
            if text in ("unknown", ""):
                continue
            if row is not None and row["family"] == "branch" and MEGATRON_LINE.match(text):
                # MindSpeed's metadata and readers of it name the Megatron line, not a release.
                numbers.append(text)
                continue
            tag = _MEGATRON_TAG.match(text) if name == "mindspeed_core" else None
            if tag:
                numbers.append(tag.group(1))
                continue
            if row is None or row["family"] == "name":
                return text
            spelled = self._spelled(name, row["family"], text)
            if spelled is not None:
                return spelled
            self.unreadable.setdefault(name, text)
        if numbers:
            self.from_metadata.add(name)
            return f"core_r{numbers[0]}"
        return None

    def _spelled(self, name: str, family: str, text: str) -> str | None:
        vague = _COMMIT.match(text) or _DEVELOPED.match(text) or "|" in text
        if family == "branch" and vague:
            return None
        version = parse(family, text)
        if version is not None and not (name in ("torch", "torch_npu") and text.count(".") == 1):
            return text
        loose = from_free_text(family, text)
        return None if loose is None else loose.raw

    def version(self, name: str) -> str | None:
        """The version in force, None when it was not seen or could not be read."""
        return self.have.get(name)

    def found(self, name: str) -> Found | None:
        """The sighting that `version` comes from (or the first one)."""
        sightings = self.stack.components.get(name, ())
        return sightings[0] if sightings else None

    def known(self, name: str) -> bool:
        """Whether a core component was seen, or was given by the user as the product can be."""
        return name in self.have or (name == "product" and self.stated_product is not None)

    def statements(self, name: str) -> tuple[Found, ...]:
        """The sightings that speak of the release: numbers of MindSpeed's metadata do not, where a
        branch is named as well."""
        sightings = self.stack.components.get(name, ())
        row = self.matrix.components.get(name)
        if row is None or row["family"] != "branch" or name in self.from_metadata:
            return sightings
        return tuple(found for found in sightings if not MEGATRON_LINE.match(found.version))

    def seen(self, name: str) -> bool:
        """Whether the component was sighted at all, readable or not."""
        return name in self.stack.components

    def signals(self, *ids: str) -> list[Signal]:
        """Sightings of these signals."""
        return [signal for name in ids for signal in self._signals.get(name, ())]

    def has(self, *ids: str) -> bool:
        """Whether one of these signals was seen."""
        return any(name in self._signals for name in ids)

    def package(self, name: str) -> str | None:
        """The version of a Python package by normalised name."""
        return self.stack.packages.get(name)

    @property
    def packages_listed(self) -> bool:
        """Whether the package list is long enough that an absent name means absence."""
        return self.stack.view != "report" or len(self.stack.packages) >= 25

    @property
    def npu_evidence(self) -> bool:
        """Whether anything that was seen or said belongs to an NPU."""
        return (
            self.product in NPU_FAMILIES
            or any(map(self.seen, _NPU_COMPONENTS))
            or self.seen("npu_named")
        )

    @property
    def in_container(self) -> bool:
        """Whether what was seen is a container's view, or speaks of starting one."""
        return (
            self.stack.view == "container"
            or self.version("collected_view") == "container"
            or self.seen("container_command")
            or self.seen("image_product")
            or self.has("no-topology-in-container", "devices-not-mounted")
        )

    @property
    def accelerator(self) -> str:
        """``npu``, ``cuda`` or ``cpu``: what this machine is for, by what was seen."""
        if self.npu_evidence:
            return "npu"
        told = self.seen("cuda_driver") or self.seen("cuda_host") or self.seen("collected_view")
        if self.stack.view == "report" and not told:
            return "npu"
        if self.seen("cuda_host") or self.seen("cuda") or self.seen("cuda_driver"):
            return "cuda"
        return "cpu"

    @property
    def context(self) -> Context:
        """Conditions under which claims apply here."""
        product = self.product
        if product is None and self.accelerator in ("cuda", "cpu"):
            product = self.accelerator
        return Context(product=product, arch=self.arch, model_type=self.model_type)

    def pair(self, rule: str, *components: str) -> PairResult | None:
        """The judged pair of a rule, of these components where they are given."""
        for result in self.pairs:
            if result.rule == rule and (
                not components or set(components) == set(result.components)
            ):
                return result
        return None

    def paired_wheels(self) -> list[str]:
        """torch_npu wheels of this torch release that a table pairs with this CANN."""
        torch = parse("pep440", self.have.get("torch") or self.have.get("torch_npu", ""))
        cann = parse("cann", self.have.get("cann", ""))
        if torch is None or cann is None:
            return []
        wheels: dict[str, None] = {}
        for claim in self.matrix.about("torch_npu", "cann"):
            wheel = parse("pep440", claim.components["torch_npu"])
            paired = parse("cann", claim.components["cann"])
            if wheel is None or paired is None or claim.kind != "reference":
                continue
            if release(wheel) == release(torch) and paired.train == cann.train:
                wheels.setdefault(claim.components["torch_npu"])
        return list(wheels)

    def citation(self, claims: tuple[str, ...]) -> str:
        """Document, table and date of the first claim that is known."""
        for name in claims:
            claim = self.matrix.claim(name)
            if claim is not None:
                return claim.citation()
        return ""

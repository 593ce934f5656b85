"""The roles of the library and what each promises to the others.

A sampler is *target x proposal x acceptance test*. The three rooms never import each other; they meet through the
roles of this room, which imports nothing of ours but the errors, so that every other can import it.

A component (proposal, test, sampler) is a frozen dataclass of plain settings. What it computes with is made for a
target: compiled functions, and a named tuple of numbers and arrays which they read and write (`compiled`). Settings
travel between processes and into files; what is compiled never does.
"""

from approxmcmc.contracts.acceptance import AcceptanceTest, DecisionLaw, Population
from approxmcmc.contracts.compiled import CompiledCoupling, CompiledProposal, CompiledTest
from approxmcmc.contracts.component import Component
from approxmcmc.contracts.finding import VERDICTS, Finding, Verdict
from approxmcmc.contracts.foreign import ForeignSampler
from approxmcmc.contracts.hashing import arrays_hashed_once, content_hash
from approxmcmc.contracts.latents import LatentTarget
from approxmcmc.contracts.proposal import Proposal
from approxmcmc.contracts.records import CORE_COUNTS, COUNT_NAMES, OPTIONAL_COUNTS, VALUE_NAMES
from approxmcmc.contracts.sampler import (
    Auditor,
    Chain,
    Decision,
    Program,
    ProposalSampler,
    Sampler,
    SamplingResult,
    Streams,
    TestedSampler,
    TransitionMatrix,
)
from approxmcmc.contracts.special_target import (
    CompiledConditionals,
    CompiledEstimator,
    DiscreteTarget,
    DoublyIntractableTarget,
    EstimatedTarget,
    Simulator,
)
from approxmcmc.contracts.target import (
    BoundedDifferencesTarget,
    BoundedTarget,
    BoundedTermsTarget,
    CompiledBound,
    CompiledDifferenceBound,
    CompiledGradient,
    CompiledSurrogate,
    CompiledTarget,
    CompiledTermRange,
    DifferentiableTarget,
    SurrogateTarget,
    Target,
    TermWork,
    TwinnedTarget,
)
from approxmcmc.contracts.variables import Variables
from approxmcmc.contracts.whole import NamedDraws, WholeRun, WholeSampler

__all__ = [
    "CORE_COUNTS",
    "COUNT_NAMES",
    "OPTIONAL_COUNTS",
    "VALUE_NAMES",
    "VERDICTS",
    "AcceptanceTest",
    "Auditor",
    "BoundedDifferencesTarget",
    "BoundedTarget",
    "BoundedTermsTarget",
    "Chain",
    "CompiledBound",
    "CompiledConditionals",
    "CompiledCoupling",
    "CompiledDifferenceBound",
    "CompiledEstimator",
    "CompiledGradient",
    "CompiledProposal",
    "CompiledSurrogate",
    "CompiledTarget",
    "CompiledTermRange",
    "CompiledTest",
    "Component",
    "Decision",
    "DecisionLaw",
    "DifferentiableTarget",
    "DiscreteTarget",
    "DoublyIntractableTarget",
    "EstimatedTarget",
    "Finding",
    "ForeignSampler",
    "LatentTarget",
    "NamedDraws",
    "Population",
    "Program",
    "Proposal",
    "ProposalSampler",
    "Sampler",
    "SamplingResult",
    "Simulator",
    "Streams",
    "SurrogateTarget",
    "Target",
    "TermWork",
    "TestedSampler",
    "TransitionMatrix",
    "TwinnedTarget",
    "Variables",
    "Verdict",
    "WholeRun",
    "WholeSampler",
    "arrays_hashed_once",
    "content_hash",
]

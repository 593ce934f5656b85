"""The roles of the library, and what each guarantees to the others.

A sampler is *target x proposal x acceptance test*. The three subpackages never import each other; they share the
roles in this one, which imports only the errors, so that every other subpackage can import it.

A component (proposal, test, sampler) is a frozen dataclass of plain settings. For a target it builds compiled
functions, and a named tuple of the numbers and arrays that they read and write (see `contracts.proposal`). Settings are
sent to other processes and stored with results; compiled functions are not.
"""

from approxmcmc.contracts.acceptance import AcceptanceTest, CompiledTest, DecisionLaw, Population
from approxmcmc.contracts.chain import Auditor, Chain, Program, Streams
from approxmcmc.contracts.component import Component
from approxmcmc.contracts.finding import VERDICTS, Finding, Verdict
from approxmcmc.contracts.hashing import arrays_hashed_once, content_hash
from approxmcmc.contracts.pointwise import PointwiseLikelihood
from approxmcmc.contracts.predictive import PredictiveTarget, RowsToPredict
from approxmcmc.contracts.proposal import CompiledProposal, Proposal
from approxmcmc.contracts.records import CORE_COUNTS, COUNT_NAMES, OPTIONAL_COUNTS, VALUE_NAMES
from approxmcmc.contracts.returned import ReturnedVariables
from approxmcmc.contracts.sampler import (
    AnySampler,
    CompiledCoupling,
    Decision,
    ProposalSampler,
    Sampler,
    TestedSampler,
    TransitionMatrix,
)
from approxmcmc.contracts.special_target import (
    CompiledConditionals,
    CompiledEstimator,
    DiscreteTarget,
    DoublyIntractableTarget,
    EstimatedTarget,
    LatentTarget,
    MovableTerms,
    Simulator,
    TwinnedTarget,
    pymc_model_of,
)
from approxmcmc.contracts.target import (
    LARGEST_DISTANCE_TO_MODEL,
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
    ExpandableTarget,
    SurrogateTarget,
    Target,
)
from approxmcmc.contracts.variables import Variables, as_labels
from approxmcmc.contracts.whole import NamedDraws, SamplingResult, WholeRun, WholeSampler
from approxmcmc.contracts.work import TermWork, WrittenWork

__all__ = [
    "CORE_COUNTS",
    "COUNT_NAMES",
    "LARGEST_DISTANCE_TO_MODEL",
    "OPTIONAL_COUNTS",
    "VALUE_NAMES",
    "VERDICTS",
    "AcceptanceTest",
    "AnySampler",
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
    "ExpandableTarget",
    "Finding",
    "LatentTarget",
    "MovableTerms",
    "NamedDraws",
    "PointwiseLikelihood",
    "Population",
    "PredictiveTarget",
    "Program",
    "Proposal",
    "ProposalSampler",
    "ReturnedVariables",
    "RowsToPredict",
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
    "WrittenWork",
    "arrays_hashed_once",
    "as_labels",
    "content_hash",
    "pymc_model_of",
]

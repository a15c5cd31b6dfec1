# The public names of `tracebraid.chakra`, and where each is loaded from when it is first used.

from .as_json import from_json as from_json
from .as_json import to_json as to_json
from .checking.check_job import check as check
from .checking.lint import ChakraCheck as ChakraCheck
from .checking.lint import CheckedChakraRank as CheckedChakraRank
from .checking.lint import LintCode as LintCode
from .checking.lint import LintFinding as LintFinding
from .checking.lint import RankNode as RankNode
from .checking.lint import Simulator as Simulator
from .codes import CollectiveCommType as CollectiveCommType
from .codes import Detail as Detail
from .codes import Dialect as Dialect
from .codes import MissingRanks as MissingRanks
from .codes import NodeType as NodeType
from .conversion import ConvertedChakra as ConvertedChakra
from .conversion import ConvertedCounts as ConvertedCounts
from .conversion import convert as convert
from .exporting.replay import ChakraReplay as ChakraReplay
from .exporting.replay import ReplayedStep as ReplayedStep
from .feeding import Feeder as Feeder
from .generating.generate import GeneratedChakra as GeneratedChakra
from .generating.generate import accelerator as accelerator
from .generating.generate import generate as generate
from .generating.generate import links_of_text as links_of_text
from .generating.workloads import Accelerator as Accelerator
from .generating.workloads import ChainJob as ChainJob
from .generating.workloads import CollectiveLink as CollectiveLink
from .generating.workloads import ComputeLink as ComputeLink
from .generating.workloads import MessageJob as MessageJob
from .generating.workloads import MessagePattern as MessagePattern
from .generating.workloads import Parallelism as Parallelism
from .generating.workloads import TrainingSteps as TrainingSteps
from .generating.workloads import Transformer as Transformer
from .generating.workloads import TransformerJob as TransformerJob
from .graphs import ShownChakra as ShownChakra
from .graphs import show as show
from .options import ChakraOptions as ChakraOptions
from .options import SimulatorOptions as SimulatorOptions
from .part import PartChoice as PartChoice
from .running.network import Algorithm as Algorithm
from .running.network import CollectiveSettings as CollectiveSettings
from .running.network import Dimension as Dimension
from .running.network import Lanes as Lanes
from .running.network import Network as Network
from .running.network import Topology as Topology
from .running.results import ChakraRun as ChakraRun
from .running.results import ChakraRunNote as ChakraRunNote
from .running.run import ChakraHardware as ChakraHardware
from .running.run import run as run
from .schema import ChakraRank as ChakraRank
from .schema import NodeDeps as NodeDeps
from .statistics import ChakraStats as ChakraStats
from .statistics import stats as stats
from .wire.reading import read as read
from .wire.writing import write as write

__all__ = [
    "Accelerator",
    "Algorithm",
    "ChainJob",
    "ChakraCheck",
    "ChakraHardware",
    "ChakraOptions",
    "ChakraRank",
    "ChakraReplay",
    "ChakraRun",
    "ChakraRunNote",
    "ChakraStats",
    "CheckedChakraRank",
    "CollectiveCommType",
    "CollectiveLink",
    "CollectiveSettings",
    "ComputeLink",
    "ConvertedChakra",
    "ConvertedCounts",
    "Detail",
    "Dialect",
    "Dimension",
    "Feeder",
    "GeneratedChakra",
    "Lanes",
    "LintCode",
    "LintFinding",
    "MessageJob",
    "MessagePattern",
    "MissingRanks",
    "Network",
    "NodeDeps",
    "NodeType",
    "Parallelism",
    "PartChoice",
    "RankNode",
    "ReplayedStep",
    "ShownChakra",
    "Simulator",
    "SimulatorOptions",
    "Topology",
    "TrainingSteps",
    "Transformer",
    "TransformerJob",
    "accelerator",
    "check",
    "convert",
    "from_json",
    "generate",
    "links_of_text",
    "read",
    "run",
    "show",
    "stats",
    "to_json",
    "write",
]

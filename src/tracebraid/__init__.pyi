# The public names, and where each is loaded from when it is first used.

from . import analyses as analyses
from . import chakra as chakra
from . import errors as errors
from . import plugins as plugins
from . import results as results
from .analyses import analyze as analyze
from .api.advising import advise as advise
from .api.building import build_recorder as build_recorder
from .api.caching import cache_info as cache_info
from .api.caching import clear_cache as clear_cache
from .api.checking import capture as capture
from .api.checking import check as check
from .api.comparing import diff as diff
from .api.exports.export import ExportOptions as ExportOptions
from .api.exports.export import export as export
from .api.graphing import critical_path as critical_path
from .api.graphing import dependency_graph as dependency_graph
from .api.graphing import graph_coverage as graph_coverage
from .api.measuring import metrics as metrics
from .api.packing import pack as pack
from .api.querying import sql as sql
from .api.repairing import repair as repair
from .api.reporting import report as report
from .api.reporting import write_report as write_report
from .api.simulating import serving as serving
from .api.simulating import straggler_metrics as straggler_metrics
from .api.simulating import sweep as sweep
from .api.simulating import what_if as what_if
from .api.traces import demo_path as demo_path
from .api.traces import info as info
from .api.traces import link as link
from .api.traces import open as open
from .errors import ArgumentError as ArgumentError
from .errors import InputError as InputError
from .errors import TracebraidError as TracebraidError
from .exporters.et_plus import write_et_plus as write_et_plus
from .exporters.path_overlay import write_path_overlay as write_path_overlay
from .importers.execution_trace.reader import read_execution_trace as read_execution_trace
from .importers.kineto.reader import read_timeline as read_timeline
from .model.engine import Job as Job
from .model.execution_trace import ExecutionTrace as ExecutionTrace
from .model.graph import DependencyGraph as DependencyGraph
from .model.linked_trace import LinkedTrace as LinkedTrace
from .model.matching import Matching as Matching
from .model.timeline import Timeline as Timeline
from .recorders.observer import ExecutionTraceObserver as ExecutionTraceObserver
from .recorders.session.capture import Capture as Capture
from .reports.sections.comparison import comparison_report as comparison_report
from .version import __version__ as __version__

__all__ = [
    "ArgumentError",
    "Capture",
    "DependencyGraph",
    "ExecutionTrace",
    "ExecutionTraceObserver",
    "ExportOptions",
    "InputError",
    "Job",
    "LinkedTrace",
    "Matching",
    "Timeline",
    "TracebraidError",
    "__version__",
    "advise",
    "analyses",
    "analyze",
    "build_recorder",
    "cache_info",
    "capture",
    "chakra",
    "check",
    "clear_cache",
    "comparison_report",
    "critical_path",
    "demo_path",
    "dependency_graph",
    "diff",
    "errors",
    "export",
    "graph_coverage",
    "info",
    "link",
    "metrics",
    "open",
    "pack",
    "plugins",
    "read_execution_trace",
    "read_timeline",
    "repair",
    "report",
    "results",
    "serving",
    "sql",
    "straggler_metrics",
    "sweep",
    "what_if",
    "write_et_plus",
    "write_path_overlay",
    "write_report",
]

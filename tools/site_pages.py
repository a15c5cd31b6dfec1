"""A hook of mkdocs: builds the pages that repeat the code, fills the tables that do, and mends links out of `docs/`.

`PAGES` are pages of the site that lie in no file. A line `{{ name }}` of a page becomes the table of `TABLES`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType
from typing import Any

import tracebraid.analysis
import tracebraid.graph
import tracebraid.model.answers
import tracebraid.simulation
from tracebraid.analysis.catalog import all_analyses
from tracebraid.analysis.metrics.catalog import built_in_metrics
from tracebraid.chakra import CollectiveCommType, LintCode
from tracebraid.chakra import schema as chakra
from tracebraid.chakra import statistics as chakra_stats
from tracebraid.chakra.checking.lint import LINT_RULES
from tracebraid.chakra.plan.job_plan import MAPPINGS, TypeMapping
from tracebraid.chakra.running import results as chakra_answers
from tracebraid.model import report, schema
from tracebraid.model.analysis import Analysis, Family, Need
from tracebraid.model.collectives import CollectiveType
from tracebraid.model.column import Table
from tracebraid.model.device_peaks import DEVICE_PEAKS, DevicePeaks, Precision
from tracebraid.model.finding import ALONE_REASONS, AloneReason
from tracebraid.model.schema import context, ledger
from tracebraid.queries.views import VIEWS
from tracebraid.simulation.changes.verbs import verbs

_OUTSIDE = re.compile(
    r"\]\((?:\.\./)+((?:README|CONTRIBUTING|SECURITY|CHANGELOG|CODE_OF_CONDUCT|benchmarks|examples)[^)#\s]*)"
)
_TABLE = re.compile(r"^\{\{ (\w+) \}\}$", re.M)


def on_files(files: Any, *, config: Any) -> Any:
    """Add the generated pages to those of the folder."""
    from mkdocs.structure.files import File  # of the extra `docs`; tests read `PAGES` without it

    for path, content in PAGES.items():
        files.append(File.generated(config, path, content=content()))
    return files


def on_page_markdown(markdown: str, *, config: Any, **_: Any) -> str:
    """Fill the tables of a page, and turn its links to files outside of `docs/` into links to the repository."""
    filled = _TABLE.sub(lambda match: "\n".join(TABLES[match[1]]()), markdown)
    return _OUTSIDE.sub(rf"]({config['repo_url']}/blob/main/\1", filled)


def _rows(columns: str, rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """A Markdown table; `columns` are separated by `|`."""
    yield f"| {columns} |"
    yield "|" + "---|" * (columns.count("|") + 1)
    for row in rows:
        yield f"| {' | '.join(text.replace('|', chr(92) + '|') for text in row)} |"


# Tables of columns

_TABLES_HEAD = """# Tables

Every table and column, as declared in the code. `tracebraid sql --schema NAME` prints one on the terminal.
Times are int64 nanoseconds on the unix clock; sizes are bytes. The type in brackets is the Polars dtype.
Columns of JSON text hold the file's text, on one line.
"""

_PARTS = (
    ("Kineto trace: `Timeline`", schema.kineto),
    ("Execution Trace: `ExecutionTrace`", schema.execution_trace),
    (
        "Links, ranks of a job, dependency graph: `LinkedTrace`, `LinkedRanks`, `DependencyGraph`",
        schema.links,
    ),
    ("Chakra nodes: `ChakraRank`", chakra),
    ("Runs of Chakra traces: `ChakraRun`", chakra_answers),
    ("Numbers of `.et` files: `ChakraStats`", chakra_stats),
    ("Beside the tables of an export", ledger),
    ("Context of events, in SQL", context),
)


def tables_page() -> str:
    """Columns of every table, by noun and family."""
    parts = [_TABLES_HEAD]
    for title, module in _PARTS:
        parts += _part(title, _tables(module))
    parts += _part("Views, in SQL", [view.table for view in VIEWS])
    answers = _tables_of_answers()
    for family in Family:
        of_family = [analysis.table for analysis in _analyses() if analysis.family is family]
        own = [table for table in dict.fromkeys(of_family) if table in answers]
        parts += _part(f"Answers: {family.value}", own)
        answers = [table for table in answers if table not in own]
    return "\n".join(
        [*parts, *_part("Answers: advice, comparison, dependency graph, metrics, serving", answers)]
    )


def _tables_of_answers() -> list[Table]:
    """Tables of the rooms that answer: those in `model.answers`, and those beside their function."""
    rooms = (tracebraid.analysis, tracebraid.graph, tracebraid.model.answers, tracebraid.simulation)
    modules = [
        import_module(found.name)
        for room in rooms
        for found in walk_packages(room.__path__, f"{room.__name__}.")
    ]
    others = {table for module in (report, *dict(_PARTS).values()) for table in _tables(module)}
    tables = {table for module in modules for table in _tables(module)} - others
    return sorted(tables, key=lambda table: table.name)


def _tables(module: ModuleType) -> list[Table]:
    return [value for value in vars(module).values() if isinstance(value, Table)]


def _part(title: str, tables: list[Table]) -> list[str]:
    return [f"\n## {title}\n", *map(_table, tables)] if tables else []


def _table(table: Table) -> str:
    dtypes = table.polars_schema()
    rows = [
        (
            f"`{column.name}` ({_short(str(dtypes[column.name]))})",
            column.doc,
            ", ".join(f"`{key}`" for key in column.keys),
        )
        for column in table.columns
    ]
    return "\n".join(
        [f"\n### `{table.name}`\n\n{table.doc}\n", *_rows("column | meaning | in the file", rows)]
    )


def _short(dtype: str) -> str:
    return dtype.split("(")[0] if dtype.startswith("Categorical") else dtype


# Analyses, metrics, Chakra's codes

_ANALYSES_HEAD = """# All analyses

`tracebraid analyze --list` prints this list. Each analysis is a function (`tracebraid.analyses.kernels(traces)`),
takes a linked trace or a job, and returns the table of its name in [tables](../tables.md). Without what it *needs* the
answer is empty and says so; with what it is *better with* it says more.
"""


def analyses_page() -> str:
    """All analyses by family."""
    parts = [_ANALYSES_HEAD]
    for family in Family:
        rows = [_analysis_row(analysis) for analysis in _analyses() if analysis.family is family]
        title = f"[{family.value.capitalize()}]({family.value}.md)"
        parts += (
            [f"\n## {title}\n", *_rows("analysis | question | needs | better with | options", rows)]
            if rows
            else []
        )
    return "\n".join(parts)


def _analyses() -> tuple[Analysis, ...]:
    return all_analyses()


def _analysis_row(analysis: Analysis) -> tuple[str, ...]:
    options = ", ".join(f"`{option}`" for option in analysis.options)
    return f"`{analysis.name}`", analysis.question, _needs(analysis.needs), _needs(analysis.uses), options


def _needs(needs: tuple[Need, ...]) -> str:
    return ", ".join(need.value for need in needs)


_METRICS_HEAD = """# All metrics

`tracebraid metrics --list` prints them, with those of installed packages. Terms: [metrics](metrics.md).
"""


def metrics_page() -> str:
    """All metrics."""
    rows = [
        (f"`{metric.name}`", metric.unit_text, metric.formula, metric.over_ranks.value, _needs(metric.needs))
        for metric in built_in_metrics()
    ]
    return "\n".join([_METRICS_HEAD, *_rows("metric | unit | formula | over ranks | needs", rows)])


def lint_codes_page() -> str:
    """Codes of `tracebraid chakra check`."""
    rows = []
    for code in LintCode:
        rule = LINT_RULES[code]
        sentence = rule.template.replace("!r}", "}").replace(":,}", "}")
        rows.append((f"`{code}`", rule.severity.value, sentence, rule.meaning, f"{rule.advice}."))
    head = "# Codes of chakra check\n\nThe codes of [`tracebraid chakra check`](check.md).\n"
    return "\n".join([head, *_rows("code | severity | message | why | what to do", rows)])


# The reference

_REFERENCE_HEAD = """# Python API

The names of `import tracebraid`. Every DataFrame has a declared schema: see [tables](tables.md).
"""


_REFERENCE_OPTIONS = {
    "Capture": '    options:\n      filters: ["!^_", "!^begin$", "!^count_from$", "!^finish$"]\n',
}
"""What mkdocstrings leaves out of a class: methods that only the launcher calls."""


def reference_page() -> str:
    """All public names, by module and by what they are."""
    parts = [_REFERENCE_HEAD, *_of_module("", tracebraid)]
    for family in Family:
        of_family = [
            f"{found.answer.__module__[11:]}.{found.name}" for found in _analyses() if found.family is family
        ]
        parts += [f"\n## Analyses: {family.value}\n", *map(_reference, of_family)]
    parts += _of_module("plugins", tracebraid.plugins)
    parts += _of_module("results", tracebraid.results)
    parts += _of_module("chakra", tracebraid.chakra)
    parts += ["\n## Errors\n", "::: tracebraid.errors\n    options:\n      show_root_heading: false\n"]
    return "\n".join(parts)


def _of_module(name: str, module: ModuleType) -> Iterator[str]:
    """The names of a public module: functions, classes, codes."""
    names = [found for found in module.__all__ if found not in _ELSEWHERE and not found.startswith("__")]
    for kind in ("Functions", "Classes", "Codes"):
        own = [found for found in names if _kind(module, found) == kind]
        if own:
            title = f"`tracebraid.{name}`: {kind.lower()}" if name else kind
            yield f"\n## {title}\n"
            yield from (_reference(f"{name}.{found}".lstrip(".")) for found in own)


_ELSEWHERE = {"analyses", "chakra", "errors", "plugins", "results", *tracebraid.errors.__all__}
"""Names of the top that have sections of their own."""


def _reference(name: str) -> str:
    return f"::: tracebraid.{name}\n{_REFERENCE_OPTIONS.get(name, '')}"


def _kind(module: ModuleType, name: str) -> str:
    if not name[0].isupper():
        return "Functions"
    try:
        value = getattr(module, name)
    except tracebraid.errors.MissingLibraryError:
        return "Classes"  # of capturing, which needs torch
    return "Codes" if issubclass(value, Enum) else "Classes"


# Tables inside of pages


def _device_peaks() -> Iterator[str]:
    precisions = [precision for precision in Precision if precision is not Precision.VECTOR]
    columns = " | ".join(["device", "memory, TB/s", *(precision.value for precision in precisions), "source"])
    yield from _rows(columns, [_peaks_row(peaks, precisions) for peaks in DEVICE_PEAKS])


def _peaks_row(peaks: DevicePeaks, precisions: Sequence[Precision]) -> list[str]:
    flops = [peaks.flops_per_s.get(precision) for precision in precisions]
    figures = [f"{value / 1e12:.6g}" if value else "-" for value in flops]
    return [peaks.device, f"{peaks.bytes_per_s / 1e12:.6g}", *figures, peaks.source]


def _chakra_types() -> Iterator[str]:
    columns = "in the trace | `chakra` | `astra-sim` | `comm_size` | why another type"
    yield from _rows(columns, map(_mapping_row, MAPPINGS))


def _mapping_row(mapping: TypeMapping) -> tuple[str, ...]:
    def node(comm_type: CollectiveCommType | None) -> str:
        direction = "SEND" if mapping.type is CollectiveType.SEND else "RECV"
        return f"`COMM_{direction}_NODE`" if comm_type is None else f"`{comm_type.name}`"

    return (
        f"`{mapping.type.value}`",
        node(mapping.comm_type),
        node(mapping.astra_sim),
        mapping.rule.value,
        mapping.why,
    )


def _alone_reasons() -> Iterator[str]:
    yield from _rows(
        "counted as | when", [(f"`alone.{reason.value}`", ALONE_REASONS[reason]) for reason in AloneReason]
    )


PAGES: dict[str, Callable[[], str]] = {
    "tables.md": tables_page,
    "reference.md": reference_page,
    "metrics_list.md": metrics_page,
    "analyses/list.md": analyses_page,
    "chakra/codes.md": lint_codes_page,
}


def _changes() -> Iterator[str]:
    rows = ((f"`{verb.usage}`", verb.docs[0].rstrip(".")) for verb in verbs().values())
    return _rows("change | what it does", rows)


def _change_assumptions() -> Iterator[str]:
    return (f"- **{verb.name}**: {verb.docs[1]}" for verb in verbs().values() if verb.docs[1])


def _absences() -> Iterator[str]:
    rows = (
        (f"`{analysis.name}`", analysis.when_empty, _needs(analysis.needs), _needs(analysis.uses))
        for analysis in _analyses()
        if analysis.when_empty
    )
    return _rows("analysis | without rows | needs | uses", rows)


TABLES: dict[str, Callable[[], Iterator[str]]] = {
    "absences": _absences,
    "changes": _changes,
    "change_assumptions": _change_assumptions,
    "device_peaks": _device_peaks,
    "chakra_types": _chakra_types,
    "alone_reasons": _alone_reasons,
}

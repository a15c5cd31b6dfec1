"""Writes `docs/tables.md` from the schema, and the lists of analyses and metrics from their catalogs.

Run `python tools/write_tables_doc.py` after a change of either.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path
from types import ModuleType

from tracebraid.analysis.catalog import ANALYSES
from tracebraid.analysis.job_catalog import JOB_ANALYSES
from tracebraid.analysis.metrics.catalog import METRICS
from tracebraid.model import answers, schema
from tracebraid.model.answers import chakra as chakra_answers
from tracebraid.model.answers import chakra_stats
from tracebraid.model.answers import graph as graph_answers
from tracebraid.model.chakra.lint_code import LintCode
from tracebraid.model.chakra.lint_rules import LINT_RULES
from tracebraid.model.column import Table
from tracebraid.model.questions.analysis import Analysis, Family, Need
from tracebraid.model.questions.job_analysis import JobAnalysis
from tracebraid.model.questions.metric import Metric
from tracebraid.model.schema import chakra, context, ledger
from tracebraid.queries.views import VIEWS

DOCS = Path(__file__).resolve().parents[1] / "docs"

HEAD = """# Tables

Made from `src/tracebraid/model/schema` and `model/answers/` by `tools/write_tables_doc.py`.
Times are int64 nanoseconds on the unix clock; sizes are bytes. The type in brackets is the polars dtype.
Columns of JSON text hold the text of the file, on one line.
"""

PARTS = (
    ("Kineto trace: `Timeline`", schema.kineto),
    ("Execution Trace: `ExecutionTrace`", schema.execution_trace),
    ("Links: `LinkedTrace`", schema.links),
    ("Ranks of a job: `LinkedRanks`", schema.ranks),
    ("Dependency graph: `DependencyGraph`", schema.graph),
    ("Chakra nodes: `ChakraRank`", chakra),
    ("Runs of Chakra traces: `ChakraRun`", chakra_answers),
    ("Numbers of `.et` files: `ChakraStats`", chakra_stats),
    ("Beside the tables of an export", ledger),
    ("Context of events, in SQL", context),
)


def main() -> int:
    """Write the files; with `--check`, say instead whether they are up to date."""
    texts = {
        DOCS / "tables.md": render(),
        DOCS / "analyses" / "list.md": render_analyses(),
        DOCS / "metrics_list.md": render_metrics(),
        DOCS / "chakra_check.md": render_chakra_codes((DOCS / "chakra_check.md").read_text()),
    }
    if "--check" in sys.argv[1:]:
        return int(any(not path.exists() or path.read_text() != text for path, text in texts.items()))
    for path, text in texts.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return 0


def render() -> str:
    """The whole document."""
    parts = [HEAD]
    for title, module in PARTS:
        parts += _part(title, _tables(module))
    parts += _part("Views, in SQL", [view.table for view in VIEWS])
    answered = _tables(answers)
    for family in Family:
        of_family = [analysis.table for analysis in _analyses() if analysis.family is family]
        own = [table for table in dict.fromkeys(of_family) if table in answered]
        answered = [table for table in answered if table not in own]
        parts += _part(f"Answers: {family.value}", own)
    own = [table for table in _tables_of_package(graph_answers) if table in answered]
    answered = [table for table in answered if table not in own]
    parts += _part("Answers: dependency graph", own)
    return "".join([*parts, *_part("Answers: advice, comparison, metrics", answered)])


def _tables(module: ModuleType) -> list[Table]:
    return [value for name in module.__all__ if isinstance(value := getattr(module, name), Table)]


def _tables_of_package(package: ModuleType) -> list[Table]:
    names = [entry.name for entry in pkgutil.iter_modules(package.__path__)]
    modules = [importlib.import_module(f"{package.__name__}.{name}") for name in names]
    return [table for module in modules for table in _tables(module)]


def _part(title: str, tables: list[Table]) -> list[str]:
    return [f"\n## {title}\n", *map(_table, tables)] if tables else []


def _analyses() -> tuple[Analysis | JobAnalysis, ...]:
    return (*ANALYSES, *JOB_ANALYSES)


LIST_HEAD = """# All analyses

Made from the catalog in `src/tracebraid/analysis` by `tools/write_tables_doc.py`; `tracebraid analyze --list` prints
it. Each is a function of the package (`tracebraid.kernels(traces)`), takes a linked trace or a job, and answers with
the table of its name in [tables](../tables.md). Without what it *needs* it answers nothing, and says so; with what it
is *better with* it answers more.
"""
LIST_COLUMNS = "| analysis | question | needs | better with | options |\n|---|---|---|---|---|\n"


def render_analyses() -> str:
    """The list of all analyses by family."""
    parts = [LIST_HEAD]
    for family in Family:
        rows = [_row(analysis) for analysis in _analyses() if analysis.family is family]
        page = f"{family.value}.md"
        title = f"[{family.value.capitalize()}]({page})" if (DOCS / "analyses" / page).exists() else page
        parts += [f"\n## {title}\n\n", LIST_COLUMNS, *rows] if rows else []
    return "".join(parts)


def _row(analysis: Analysis | JobAnalysis) -> str:
    options = ", ".join(f"`{option}`" for option in analysis.options)
    question = analysis.question.replace("|", "\\|")
    return f"| `{analysis.name}` | {question} | {_needs(analysis.needs)} | {_needs(analysis.uses)} | {options} |\n"


def _needs(needs: tuple[Need, ...]) -> str:
    return ", ".join(need.value for need in needs)


METRICS_HEAD = """# All metrics

Made from the catalog in `src/tracebraid/analysis/metrics` by `tools/write_tables_doc.py`; `tracebraid metrics --list`
prints it, with those of installed packages. What the words mean: [metrics](metrics.md).

| metric | unit | formula | over ranks | needs |
|---|---|---|---|---|
"""


def render_metrics() -> str:
    """The list of all metrics."""
    return METRICS_HEAD + "".join(map(_metric, METRICS))


def _metric(metric: Metric) -> str:
    words = (metric.unit_text, metric.formula, metric.over_ranks.value, _needs(metric.needs))
    return f"| `{metric.name}` | {' | '.join(words)} |\n"


def _table(table: Table) -> str:
    dtypes = table.polars_schema()
    lines = [f"\n### `{table.name}`\n\n{table.doc}\n\n| column | meaning | in the file |\n|---|---|---|\n"]
    for column in table.columns:
        keys = ", ".join(f"`{key}`" for key in column.keys)
        meaning = column.doc.replace("|", "\\|")
        lines.append(f"| `{column.name}` ({_short(str(dtypes[column.name]))}) | {meaning} | {keys} |\n")
    return "".join(lines)


def _short(dtype: str) -> str:
    return dtype.split("(")[0] if dtype.startswith("Categorical") else dtype


def render_chakra_codes(text: str) -> str:
    """The document of `tracebraid chakra check`: as it is, with the codes anew."""
    head, mark, _ = text.partition("## Codes\n")
    return f"{head}{mark}\n" + "\n".join(map(_chakra_code, LintCode))


def _chakra_code(code: LintCode) -> str:
    rule = LINT_RULES[code]
    said = rule.template.replace("!r}", "}").replace(":,}", "}")
    return (
        f"### {code}\n\n{rule.severity.value.capitalize()}: `{said}`\n\n{rule.meaning}\n\n"
        f"What to do: {rule.advice}.\n"
    )


if __name__ == "__main__":
    sys.exit(main())

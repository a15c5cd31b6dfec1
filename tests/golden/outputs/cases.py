"""The table of command lines whose outputs are golden, by topic: a golden file each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tests.golden.outputs.inputs import DAMAGED, REAL
from tests.planted.patterns import PATTERNS

__all__ = ["NEEDS_MORE", "SLOW", "TOPICS", "Case", "commands_in"]

TERMINALS = "80 120 200"
NEEDS_MORE = {"capture", "build-recorder", "view"}
"""Commands that run torch, a compiler or a server: of them only the help is golden."""
SLOW = {"advise_patterns", "damaged", "export", "report", "real_traces"}

Printed = Callable[[str], str]
"""Standard output of a command line."""


@dataclass(frozen=True)
class Case:
    """A command line, and how much of its output is kept.

    Args:
        line: without `tracebraid`.
        forms: how it is run: the columns of a terminal; `pipe`; `json` and `csv`, which add that option and print into
            a pipe.
        kept: lines of the first form that stand in the golden file as they are.
        members: of JSON, of a page, of a folder of tables, and of rows that begin with the name of a table, a hash of
            each part, not only one of the whole.
        name: what stands for the line in the golden file; by default the line itself.
    """

    line: str
    forms: str = TERMINALS
    kept: int = 0
    members: bool = False
    name: str = ""


def commands_in(help_text: str) -> list[str]:
    """The commands that a help lists."""
    listed = help_text.partition("\n  -h, --help")[2]
    return re.findall(r"^  ([a-z][a-z-]*)  +\S", listed, re.MULTILINE)


def _help(printed: Printed) -> Iterator[Case]:
    yield Case("--help", kept=90)
    yield Case("chakra --help", kept=40)
    for name in commands_in(printed("--help")):
        if name != "chakra":
            yield Case(f"{name} --help")
    for name in commands_in(printed("chakra --help")):
        yield Case(f"chakra {name} --help")
    yield Case("--version", "pipe", 2)


def _demo(_: Printed) -> Iterator[Case]:
    yield Case("demo", "80 json", 60)
    yield Case("demo copied", "80", 4)


def _summary(_: Printed) -> Iterator[Case]:
    yield Case("summary demo", f"{TERMINALS} json", 60, members=True)
    yield Case("summary job", "80 json", 60)
    for name in ("fsdp2", "training", "memory"):
        yield Case(f"summary {name}", "120", 8)
    for options in ("--rank 1 --top 3", "--ranks 1", "--sample 2", "--annotation nothing"):
        yield Case(f"summary small {options}", "80", 6)


def _advise(_: Printed) -> Iterator[Case]:
    yield Case("advise demo", f"{TERMINALS} json csv", 60)
    yield Case("advise job", "80 csv", 60)
    for name in ("fsdp2", "training", "memory"):
        yield Case(f"advise {name}", "120", 8)
    yield Case("advise job --min-saving 20% --top 1", "80", 20)


def _advise_patterns(_: Printed) -> Iterator[Case]:
    for name in sorted(PATTERNS):
        yield Case(f"advise planted-{name}", "100", 4)


def _info(_: Printed) -> Iterator[Case]:
    yield Case("info demo", f"{TERMINALS} json", 20, members=True)
    yield Case("info job", f"{TERMINALS} json", 12)
    for name in ("fsdp2", "training", "job.tbstore", "et/job.0.et", "plus/et_plus_0.json"):
        yield Case(f"info {name}", "80 json", 6)


def _check(_: Printed) -> Iterator[Case]:
    for name in ("demo", "job"):
        yield Case(f"check {name}", f"{TERMINALS} json", 40)
    for name in ("fsdp2", "all_to_all3", "training", "demo.tbstore"):
        yield Case(f"check {name}", "80 json", 8)
    yield Case("check demo --match approximate", "80", 6)
    yield Case("check own-fsdp2 --repair", "80", 20)


def _metrics(_: Printed) -> Iterator[Case]:
    yield Case("metrics --list", f"{TERMINALS} json", 12)
    yield Case("metrics demo", f"{TERMINALS} json csv", 12)
    yield Case("metrics job", f"{TERMINALS} json csv", 40)
    for name in ("fsdp2", "all_to_all3", "training", "memory"):
        yield Case(f"metrics {name}", "80 json", 2)
    for options in (
        "--per-rank",
        "--only step_time_mean,idle_share",
        "--peak-flops 312e12 --peak-bandwidth 50e9",
    ):
        yield Case(f"metrics job {options}", "80 csv", 2)


def _critical_path(_: Printed) -> Iterator[Case]:
    yield Case("critical-path demo", f"{TERMINALS} json csv", 40)
    yield Case("critical-path job", "80 json", 40)
    for name in ("fsdp2", "training"):
        yield Case(f"critical-path {name}", "80 json", 6)
    yield Case("critical-path job --step 2 --rank 0", "80 csv", 12)
    yield Case("critical-path job --replays 0 --top 2 -o out.json", "80", 12)


def _analyses(printed: Printed) -> Iterable[str]:
    return re.findall(r'^    "name": "(\w+)"', printed("analyze --list --json"), re.MULTILINE)


def _analyze(printed: Printed) -> Iterator[Case]:
    yield Case("analyze --list", f"{TERMINALS} json", 12)
    for name in _analyses(printed):
        yield Case(f"analyze {name} job", "80 120 200 csv", 4)
    for options in ("--rank 1", "--per-step", "--step 2", "--with-doubtful", "--top 2"):
        yield Case(f"analyze breakdown job {options}", "80 csv", 6)
    yield Case("analyze roofline job --peak-flops 1e14 --peak-bandwidth 1e12", "120", 6)
    yield Case("analyze short_kernels job --set max_ns=500000", "120", 6)
    for end in ("parquet", "json", "csv"):
        yield Case(f"analyze breakdown job -o out.{end}", "pipe")
    for name in ("breakdown", "kernels", "collectives", "idle_causes", "steps"):
        yield Case(f"analyze {name} job.tbstore", "80 csv", 4)


def _analyze_others(printed: Printed) -> Iterator[Case]:
    """The other traces: what a table of the job has no rows for has some here, or a sentence that says why not."""
    for name in _analyses(printed):
        for other in ("demo", "training", "memory"):
            yield Case(f"analyze {name} {other}", "100")


def _diff(_: Printed) -> Iterator[Case]:
    yield Case("diff demo demo", f"{TERMINALS} json", 30)
    yield Case("diff training job", f"{TERMINALS} json", 50, members=True)
    yield Case("diff training job -o out.html", "pipe", 4, members=True)
    yield Case("diff job job --fail-on-regression 5%", "pipe", 8)
    yield Case("diff training job --fail-on-regression 5% --top 2", "pipe", 8)


def _what_if(_: Printed) -> Iterator[Case]:
    yield Case("what-if job --change 'scale 0.5 family=gemm'", f"{TERMINALS} json csv", 40)
    for name, change in (
        ("job", "remove op=aten::mm"),
        ("job", "remove op=nothing"),
        ("job", "nothing"),
        ("job", "stretch 2"),
        ("training", "merge 25MB"),
        ("demo", "bandwidth 2"),
    ):
        yield Case(f"what-if {name} --change '{change}'", "80 json", 12)
    yield Case("what-if job --sweep", f"{TERMINALS} json", 30)
    yield Case("what-if job --stragglers", f"{TERMINALS} json", 30)
    yield Case("what-if fsdp2 --sweep --by op", "80 json", 12)


def _serving(_: Printed) -> Iterator[Case]:
    yield Case("serving server", f"{TERMINALS} json csv", 40)
    yield Case("serving server --max-batch 2,16 --rate 5,40 --policy mixed --requests 200", "80 json", 30)
    yield Case("serving server --output-tokens ~20 --prompt-tokens 0 --policy static --scale 0.5", "100", 30)
    yield Case("serving job", "80", 6)


def _link(_: Printed) -> Iterator[Case]:
    yield Case("link demo", f"{TERMINALS} json", 30)
    for line in ("pipeline2", "fsdp2 --match exact", "demo --min-coverage 1.0", "job"):
        yield Case(f"link {line}", "80 json", 12)
    pair = "demo/torch_et_0.json.gz", "demo/kineto_trace_0.json.gz"
    yield Case("link demo --align-clocks -o out", "pipe", 6)
    yield Case(f"link {pair[0]} {pair[1]} -o out.json", "pipe", 6)
    own = "own-demo/torch_et_0.json.gz", "own-demo/kineto_trace_0.json.gz"
    yield Case(f"trace-link --et-file {own[0]} --kineto-file {own[1]}", "pipe", 6)
    hosts = f"--chakra-host-trace {pair[0]} --chakra-device-trace {pair[1]}"
    yield Case(f"chakra-trace-link {hosts} --output-file out.json", "pipe", 6)


def _export(_: Printed) -> Iterator[Case]:
    yield Case("export job --to parquet -o out", "pipe", 6, members=True)
    ends = {
        "perfetto": ".pftrace.gz",
        "chrome": ".json.gz",
        "arrow": "",
        "csv": "",
        "json": "",
        "sqlite": ".sqlite",
        "speedscope": ".speedscope.json",
        "collapsed": ".collapsed.txt",
        "dot": ".dot",
        "graphml": ".graphml",
    }
    for form, end in ends.items():
        yield Case(f"export job --to {form} -o out{end}", "pipe", 6)
    for form in ("perfetto", "parquet", "speedscope", "graphml"):
        yield Case(f"export pipeline2 --to {form} -o out{ends.get(form, '')}", "pipe", 6)
    yield Case("export job --to dot -o out.dot --rank 0 --step 2 --top 5", "pipe", 6)
    for options in (
        "",
        " --steps 2..3 --detail merged --simulator astra-sim",
        " --world-size 8 --missing replicate",
    ):
        yield Case(f"export job --to chakra -o out --allow-replay-error{options}", "pipe", 12)


def _chakra(_: Printed) -> Iterator[Case]:
    for line in ("check et", "run et", "stats et"):
        yield Case(f"chakra {line}", f"{TERMINALS} json", 40)
    yield Case("chakra check et --simulator astra-sim", "80 json", 12)
    yield Case("chakra run et --network ring,50GB/s,500ns --network measured --lanes streams", "80 json", 30)
    for end in (".svg", ".dot", ".graphml"):
        yield Case(f"chakra show et/job.0.et -o out{end} --top 8", "pipe", 4)
    yield Case("chakra json et/job.0.et -o out.json", "pipe", 4)
    yield Case("chakra json et/job.0.et --lines", "pipe", 2)
    for line in (
        "chain --chain 'COMP 100us > ALL_REDUCE 1MiB > COMP 50us' --ranks 2",
        "ring-all-reduce --ranks 4",
        "tree-broadcast --ranks 4 --steps 2",
        "transformer --layers 2 --hidden 128 --heads 4 --sequence 64 --data 2 --pipeline 2 --micro-batches 2",
    ):
        yield Case(f"chakra generate {line} -o out", "pipe", 4)
    yield Case("chakra convert plus -o out", "pipe", 6)
    yield Case("chakra convert plus -o out --simulator astra-sim", "pipe", 6)
    plus = "plus/et_plus_0.json"
    yield Case(f"chakra-converter PyTorch --input {plus} --output out.et --simulate", "pipe", 6)
    yield Case("chakra-jsonizer --input_filename et/job.0.et --output_filename out.json", "pipe", 6)
    yield Case("chakra-generator --num_npus 2", "pipe", 6)
    yield Case("chakra-visualizer --input_filename et/job.0.et --output_filename out.dot", "pipe", 6)


def _sql(printed: Printed) -> Iterator[Case]:
    yield Case("sql --tables", f"{TERMINALS} json", 12)
    yield Case("sql --schema kernels", f"{TERMINALS} json", 60)
    counts = "'select rank, step, count(*) as ops from ops group by all order by all'"
    yield Case(f"sql demo {counts}", f"{TERMINALS} json csv", 12)
    yield Case(f"sql job.tbstore {counts} --top 3", "80 csv", 12)
    for name in ("job", "fsdp2"):
        line = f"sql {name} '{_all_rows(printed)}' --csv"
        yield Case(line, "pipe", members=name == "job", name=f"sql {name} (all rows of all tables) --csv")


def _all_rows(printed: Printed) -> str:
    tables = re.findall(r'"full_name": "([\w.]+)"', printed("sql --tables --json"))
    return " union all ".join(
        f'select "{table}" as name, to_json(t)::varchar as row from {table} t'.replace('"', "''")
        for table in tables
    )


def _report(_: Printed) -> Iterator[Case]:
    yield Case("report demo --text", "80 200", 12)
    yield Case("report job --text", "80", 60)
    yield Case("report job --json", "pipe", members=True)
    for name in ("demo", "job"):
        yield Case(f"report {name} -o out.html", "pipe", 4, members=True)
    yield Case("report job -o out.html --title Own --rank 1 --steps 2-3 --no-critical-path", "pipe", 4)


def _stores(_: Printed) -> Iterator[Case]:
    yield Case("pack demo -o out.tbstore", "pipe", 6)
    yield Case("pack job -o out.tbstore --steps 2-3 --ranks 0-1", "pipe", 6)
    for line in ("summary demo.tbstore", "advise demo.tbstore", "report demo.tbstore --text"):
        yield Case(line, "80", 4)
    yield Case("summary own-small --cache", "80", 4)
    yield Case("cache small", "pipe json", 6)
    yield Case("cache small --clear", "pipe", 6)


def _wrong_usage(_: Printed) -> Iterator[Case]:
    yield Case("", "pipe", 2, name="(no command)")
    for line in (
        "summery",
        "job",
        "--nothing",
        "summary",
        "summary nothing",
        "summary empty",
        "summary small --nothing",
        "summary small --rank 7",
        "summary small --rank one",
        "summary small --ranks 5-3",
        "summary small --ranks 9",
        "summary small --top 0",
        "summary small --engine fast",
        "summary small --window 3",
        "summary small --device nothing",
        "analyze",
        "analyze small",
        "analyze breakdwon small",
        "analyze breakdown",
        "analyze breakdown small --set no=1",
        "analyze breakdown small --set no",
        "analyze short_kernels small --set max_ns=many",
        "analyze breakdown small --step 9",
        "analyze breakdown small --csv --json",
        "analyze breakdown small -o out.txt",
        "analyze breakdown small -o small",
        "analyze breakdown small -o no/out.csv",
        "analyze breakdown small -o small/torch_et_0.json",
        "analyze roofline small --peak-flops -1",
        "advise small --min-saving half",
        "metrics small --only nothing",
        "critical-path small --step 9",
        "critical-path small --rank 9",
        "critical-path small -o out.txt",
        "diff small",
        "diff small nothing",
        "diff small small -o out.txt",
        "diff small small --fail-on-regression much",
        "what-if small",
        "what-if small --change explode",
        "what-if small --change 'scale many family=gemm'",
        "what-if small --change 'scale 0.5 colour=red'",
        "what-if small --sweep --by colour",
        "what-if small --sweep --stragglers",
        "serving small",
        "serving server --rate many",
        "serving server --max-batch 1.5",
        "serving server --policy lifo",
        "serving server --step-pattern (",
        "serving server --output-tokens 5-2",
        "serving server --json --csv",
        "link small/torch_et_0.json",
        "link small --match somehow",
        "link small --min-coverage 2",
        "check small --match somehow",
        "check",
        "check nothing",
        "info nothing",
        "export small --to paper -o out",
        "export small --to csv",
        "export small --to csv -o small",
        "export small --to csv -o out.dot",
        "export small --to dot -o out.csv",
        "export small --to parquet -o out --top 3",
        "export small --to chakra -o out --network nonsense",
        "export small --to chakra -o out --steps 9",
        "report small -o out.txt",
        "report small --rank 9",
        "report small --steps 9 -o out.html",
        "sql",
        "sql small",
        "sql small 'select nothing from ops'",
        "sql small 'select * from nothing'",
        "sql small 'selec 1'",
        "sql small 'drop table ops'",
        "sql --schema nothing",
        "pack small",
        "pack small -o small",
        "pack small -o out.tbstore --steps 9",
        "cache nothing",
        "capture",
        "capture --steps-by moon -- true",
        "view nothing",
        "chakra",
        "chakra nothing",
        "chakra check nothing",
        "chakra check small",
        "chakra run et --network nonsense",
        "chakra run et --lanes many",
        "chakra show et/job.0.et -o out.png",
        "chakra show et/job.0.et -o out.svg --ids 9-3",
        "chakra json small/torch_et_0.json",
        "chakra generate spiral -o out",
        "chakra generate chain -o out",
        "chakra generate chain --chain 'JUMP 5us' --ranks 2 -o out",
        "chakra generate transformer --data 2 --hidden 100 --heads 7 -o out",
        "chakra convert small -o out",
        "chakra-converter PyTorch --input nothing --output out.et",
        "chakra-converter Text --input small --output out.et",
        "trace-link --et-file nothing --kineto-file nothing",
        "chakra-jsonizer",
    ):
        yield Case(line, "pipe", 30)


def _damaged(_: Printed) -> Iterator[Case]:
    for name in DAMAGED:
        yield Case(f"check {name}", "80", 12)
        for command in ("info", "link", "summary", "analyze breakdown"):
            yield Case(f"{command} {name}", "80", 2)
    for name in ("cut", "no_kineto", "twice"):
        for line in ("critical-path", "report --text", "analyze stragglers", "export --to csv -o out"):
            yield Case(f"{line} {name}", "80", 2)
        yield Case(f"sql {name} 'select count(*) from kernels'", "80", 6)
    yield Case("diff small cut", "80", 12)
    for command in ("summary", "info", "check"):
        yield Case(f"{command} cut.tbstore", "80", 6)
    for command in ("check", "run", "stats"):
        yield Case(f"chakra {command} cut_nodes", "80 json", 6)
    yield Case("chakra json cut_nodes/job.0.et", "pipe", 4)


def _real(_: Printed) -> Iterator[Case]:
    for name in REAL:
        for command in ("summary", "advise", "check", "info", "metrics"):
            yield Case(f"{command} {name}", "80 json", 3)
        yield Case(f"critical-path {name}", "80")
        yield Case(f"report {name} --text", "120")
        yield Case(f"export {name} --to parquet -o out", "pipe")


TOPICS: dict[str, Callable[[Printed], Iterable[Case]]] = {
    "help": _help,
    "demo": _demo,
    "summary": _summary,
    "advise": _advise,
    "advise_patterns": _advise_patterns,
    "info": _info,
    "check": _check,
    "metrics": _metrics,
    "critical-path": _critical_path,
    "analyze": _analyze,
    "analyze_others": _analyze_others,
    "diff": _diff,
    "what-if": _what_if,
    "serving": _serving,
    "link": _link,
    "export": _export,
    "chakra": _chakra,
    "sql": _sql,
    "report": _report,
    "stores": _stores,
    "wrong_usage": _wrong_usage,
    "damaged": _damaged,
    "real_traces": _real,
}
"""Case tables by topic; lists of commands, analyses and tables come from the command line itself."""

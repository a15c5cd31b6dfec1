"""Take the outputs of this checkout as the golden ones, and print which command lines changed."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.conftest import find_real_traces
from tests.golden.outputs.cases import TOPICS
from tests.golden.outputs.records import EXPECTED, sections_of, text_of
from tests.golden.outputs.running import Runner


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.golden.outputs", description=__doc__)
    parser.add_argument(
        "topics", nargs="*", metavar="TOPIC", help="only these, such as summary; by default all"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="write each output in full there, too")
    options = parser.parse_args()
    if unknown := set(options.topics) - set(TOPICS):
        parser.error(f"no topic {', '.join(unknown)}; there are {', '.join(TOPICS)}")
    EXPECTED.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder:
        runner = Runner(Path(folder), options.keep)
        for topic in options.topics or TOPICS:
            if topic == "real_traces" and find_real_traces() is None:
                print("real_traces stays as it is: the folder of the real traces is not there")
                continue
            begin = time.process_time()
            found = dict(runner.sections(topic))
            path = EXPECTED / f"{topic}.txt"
            golden = sections_of(path.read_text("utf-8")) if path.exists() else {}
            for line in {**golden, **found}:
                if golden.get(line) != found.get(line):
                    print(f"{topic}: {line[:100]}")
            path.write_text(text_of(found.items()), "utf-8")
            print(f"{topic}: {len(found)} command lines in {time.process_time() - begin:.0f} s", flush=True)
    for path in EXPECTED.glob("*.txt"):
        if path.stem not in TOPICS:
            path.unlink()


if __name__ == "__main__":
    main()

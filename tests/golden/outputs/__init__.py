"""Golden outputs of every command: what a user sees, frozen.

    pytest tests/golden/outputs                             # compare
    python -m tests.golden.outputs [TOPIC ...]              # take the outputs of this checkout; prints what changed
    python -m tests.golden.outputs --keep FOLDER            # also write each output in full

`cases` is the table of command lines by topic, `inputs` makes the traces that they name, `running` runs one in this
process, `shortened` makes a few lines of what it printed and wrote, and `expected/` holds them: a file for each topic,
and in it a section for each command line. First in a section stands, for each form (the columns of a terminal, `pipe`,
`json`, `csv`), a hash of the whole with its shape; then the text of the first form (`|` standard output, `!` standard
error), as many lines of it as the table says; then a line for each file that was written.
"""

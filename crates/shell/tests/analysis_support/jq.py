"""Runs a filter of jq by the Python module: flags, filter, file."""

import sys

import jq

*flags, program, file = sys.argv[1:]
compiled = jq.compile(program)
given = compiled.input_value(None) if "-n" in flags else compiled.input_text(open(file).read())
for value in given:
    print(value)

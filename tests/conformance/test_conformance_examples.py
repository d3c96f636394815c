"""Every example of the instruction table, on every instance of ``Lanes``."""

from __future__ import annotations

import pytest
from forms import READ, Example, as_ints, candidate, chosen, column, entries, examples, number_of, output_widths, pure, variants
from instances import INSTANCES


def _inputs(example: Example) -> list:
    form = example.form
    types = [role.type for role in form.roles if role.kind in READ]
    assert len(types) == len(example.inputs), f"{example.opcode} has {len(types)} inputs, its example {len(example.inputs)}"
    return [column([bits], t.width) for bits, t in zip(example.inputs, types, strict=True) if t is not None]


@pytest.mark.parametrize("instance", INSTANCES)
def test_examples(instance: str) -> None:
    rows = examples()
    results = INSTANCES[instance]([(row.form, _inputs(row)) for row in rows])
    wrong = []
    for row, outputs in zip(rows, results, strict=True):
        widths = output_widths(row.form)
        assert len(outputs) == len(row.outputs) == len(widths), f"{row.opcode} has {len(widths)} outputs"
        want = [bits & ((1 << width) - 1) for bits, width in zip(row.outputs, widths, strict=True)]
        got = [as_ints(o) for o in outputs]
        # All lanes had the same inputs.
        if any(set(lanes) != {bits} for lanes, bits in zip(got, want, strict=True)):
            wrong.append(f"{row.opcode} {[hex(v) for v in row.inputs]}: {[hex(v[0]) for v in got]}, wanted {[hex(v) for v in want]}")
    assert len(rows) > 400
    assert not wrong, "\n".join(wrong)


def test_what_computes_has_examples() -> None:
    """An entry with a meaning on values alone states at least one example."""
    missing = []
    for entry in filter(candidate, entries()):
        opcode = chosen(entry)[0]
        if not entry.examples and pure(opcode, number_of(entry, opcode)):
            missing.append(f"{entry.family}: {entry.spelling}")
    assert not missing, "\n".join(missing)


def test_an_example_is_of_its_own_entry() -> None:
    """A spelling that an earlier entry takes with the same operands would test that one instead."""
    for entry in entries():
        for opcode, *_ in entry.examples:
            number = number_of(entry, opcode)
            assert number >= 0, f"{opcode} has an example, but the table does not know it there"
            if pure(opcode, number):
                counts = [len(form.roles) for form in variants(opcode)]
                assert counts.index(counts[number]) == number, f"{opcode} is taken by an entry before {entry.spelling}"

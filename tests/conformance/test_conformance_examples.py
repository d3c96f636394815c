"""Every example of the instruction table, on every instance of ``Lanes``."""

from __future__ import annotations

import pytest
from forms import READ, Example, as_ints, candidate, chosen, column, entries, examples, output_widths, pure
from instances import INSTANCES

from ptxgraft.isa import form_of


def _inputs(example: Example) -> list:
    form = form_of(example.opcode)
    assert form is not None, f"{example.opcode} has an example, but the table does not know it"
    types = [role.type for role in form.roles if role.kind in READ]
    assert len(types) == len(example.inputs), f"{example.opcode} has {len(types)} inputs, its example {len(example.inputs)}"
    return [column([bits], t.width) for bits, t in zip(example.inputs, types, strict=True) if t is not None]


@pytest.mark.parametrize("instance", INSTANCES)
def test_examples(instance: str) -> None:
    rows = examples()
    forms = [form_of(row.opcode) for row in rows]
    results = INSTANCES[instance]([(form, _inputs(row)) for form, row in zip(forms, rows, strict=True) if form is not None])
    wrong = []
    for row, form, outputs in zip(rows, forms, results, strict=True):
        assert form is not None
        widths = output_widths(form)
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
        if not entry.examples and pure(chosen(entry)[0]):
            missing.append(f"{entry.family}: {entry.spelling}")
    assert not missing, "\n".join(missing)


def test_an_example_is_of_its_own_entry() -> None:
    """A spelling that an earlier entry takes would test that one instead."""
    for entry in entries():
        for opcode, *_ in entry.examples:
            form = form_of(opcode)
            assert form is not None, opcode
            if pure(opcode):
                assert form.entry is entry, f"{opcode} is taken by {form.entry.spelling}, its example stands at {entry.spelling}"

"""The one place that knows what an instruction means.

Invariant: importing this package fills the table; adding an instruction touches one file of it, the family it belongs to.
"""

import importlib
import pkgutil

from ptxgraft.isa.binding import bind
from ptxgraft.isa.operands import (
    Address,
    Group,
    Imm,
    Operand,
    Part,
    Reg,
    Resource,
    Sink,
    Special,
    Symbol,
    Var,
    Vector,
    registers_of,
)
from ptxgraft.isa.program import Instruction, Program, Register, Variable, align_up, parameter_layout
from ptxgraft.isa.table import ENTRIES, Entry, Form, Role, form_of
from ptxgraft.isa.types import TYPES, Type, type_of

__all__ = [
    "ENTRIES", "TYPES", "Address", "Entry", "Form", "Group", "Imm", "Instruction", "Operand", "Part", "Program", "Reg", "Register", "Resource", "Role",
    "Sink", "Special", "Symbol", "Type", "Var", "Variable", "Vector", "align_up", "bind", "form_of", "parameter_layout", "registers_of", "type_of",
]  # fmt: skip


def _load_families() -> None:
    """Import every family module, so that its declarations reach the table."""
    from ptxgraft.isa import families

    for module in pkgutil.iter_modules(families.__path__):
        importlib.import_module(f"{families.__name__}.{module.name}")


_load_families()

"""The lossless text layer: bytes to statements and scopes with spans, and edits that leave every other byte alone.

Invariant: nothing here knows an instruction by name.
"""

from ptxgraft.text.declarations import (
    RegisterDeclaration,
    Variable,
    directives_in,
    parse_prototype,
    parse_registers,
    parse_variables,
    register_declarations,
    variable_declarations,
)
from ptxgraft.text.document import Document
from ptxgraft.text.edit import EditScript
from ptxgraft.text.heads import extents, is_number
from ptxgraft.text.model import Function, Kind, Parameter, Scope, Statement
from ptxgraft.text.names import FreshNames
from ptxgraft.text.operands import split_operands

__all__ = [
    "Document",
    "EditScript",
    "FreshNames",
    "Function",
    "Kind",
    "Parameter",
    "RegisterDeclaration",
    "Scope",
    "Statement",
    "Variable",
    "directives_in",
    "extents",
    "is_number",
    "parse_prototype",
    "parse_registers",
    "parse_variables",
    "register_declarations",
    "split_operands",
    "variable_declarations",
]

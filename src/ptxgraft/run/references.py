"""Texture, sampler and surface references: module variables that name an image, to which a launch binds one.

Invariant: a reference's handle is its variable's address, so that a name in brackets and a pointer to the variable mean the same; what is bound has the
reference's kind. A sampler that nothing was bound to is as its initialiser says.
Source: PTX ISA manual, "Texture, Sampler and Surface Types".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias

from ptxgraft.errors import SourceError, UsageError
from ptxgraft.isa.program import Program, Variable
from ptxgraft.run.images import Sampler, Surface, Texture
from ptxgraft.run.memory import Allocation

Bound: TypeAlias = Texture | Surface | Sampler
"""What a launch can bind to a reference."""

KINDS: dict[str, type[Texture] | type[Surface] | type[Sampler]] = {"texref": Texture, "surfref": Surface, "samplerref": Sampler}

_SETTING = re.compile(r"^(\w+)\s*=\s*(\w+)$")
_ADDRESS = {"wrap": "wrap", "mirror": "mirror", "clamp_to_edge": "clamp", "clamp_to_border": "border"}
_FILTER = {"nearest": "point", "linear": "linear"}


def references_of(program: Program) -> dict[str, Variable]:
    """The references that a program names."""
    return {v.name: v for v in program.variables if v.type in KINDS}


def bound_images(program: Program, given: Mapping[str, Bound], placed: Mapping[str, Allocation]) -> dict[int, Bound]:
    """What is behind each reference, by handle. Raises ``UsageError`` for a name that is no reference of the program, or something of another kind."""
    known = references_of(program)
    for name, image in given.items():
        if name not in known:
            listed = ", ".join(f"{v.name} (.{v.type})" for v in known.values()) or "none"
            raise UsageError(f"{program.name} has no reference {name!r} to bind to", hint=f"references that it names: {listed}")
        wanted = KINDS[known[name].type]
        if not isinstance(image, wanted):
            raise UsageError(
                f"{name!r} is a .{known[name].type}; a {type(image).__name__} cannot be bound to it", hint=f"give a {wanted.__name__}"
            )
    found: dict[int, Bound] = {placed[name].base: image for name, image in given.items()}
    for name, variable in known.items():
        if variable.type == "samplerref" and name not in given:
            found[placed[name].base] = _initial_sampler(program, variable)
    return found


def _initial_sampler(program: Program, variable: Variable) -> Sampler:
    """The sampler that a ``.samplerref``'s initialiser describes: ``{ addr_mode_0 = wrap, filter_mode = linear }``."""
    made = Sampler()
    modes = ["clamp"] * 3
    for text in (variable.init or "{}").strip().removeprefix("{").removesuffix("}").split(","):
        match = _SETTING.match(text.strip())
        if not text.strip():
            continue
        name, word = (match[1], match[2]) if match else ("", "")
        if name == "filter_mode" and word in _FILTER:
            made.filter = _FILTER[word]
        elif name in ("addr_mode_0", "addr_mode_1", "addr_mode_2") and word in _ADDRESS:
            modes[int(name[-1])] = _ADDRESS[word]
        elif name == "force_unnormalized_coords" and word in ("0", "1"):
            made.unnormalized = word == "1"
        else:
            raise SourceError(
                f"cannot read {text.strip()!r} in the initialiser of {variable.name!r} of {program.document.name}",
                hint=f"addr_mode_0 to 2 are one of {', '.join(_ADDRESS)}, filter_mode one of {', '.join(_FILTER)}",
            )
    made.address = tuple(modes)
    return made

"""LLVM-IR text under construction: a module's tables and functions, one function's lines, and the values in them.

Invariant: every name that a line uses is defined by a line written before it. A value whose line nobody needs is never written
(``Emitter.deferred``), and the allocations of a function stand in its entry block, whichever block asked for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

VECTOR = 32
"""Lanes of a warp: the length of every vector that a PTX value becomes."""

MANY_CALLS = 8
"""Calls of an outlined function that LLVM may put its body in place of."""

_BITS = {"half": 16, "float": 32, "double": 64}


@dataclass(slots=True)
class IrModule:
    """One LLVM module. ``declares``, ``globals`` and ``functions`` map a name (without its sigil) to its complete text."""

    declares: dict[str, str] = field(default_factory=dict)
    globals: dict[str, str] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)
    results: dict[str, list[Val]] = field(default_factory=dict)
    """The shapes of what an outlined function gives back, by its name."""
    calls: dict[str, int] = field(default_factory=dict)
    """How many calls of an outlined function there are."""

    def text(self) -> str:
        functions = (self.kept_apart(name, text) for name, text in self.functions.items())
        return "\n".join((*self.globals.values(), *self.declares.values(), *functions, ""))

    def kept_apart(self, name: str, text: str) -> str:
        """A function's text; one that many places call must stay a function, for each copy of it takes as long to compile as it does."""
        if self.calls.get(name, 0) <= MANY_CALLS:
            return text
        head, body = text.split("\n", 1)
        return f"{head.replace(' nounwind', ' nounwind noinline')}\n{body}"

    def table(self, values: Sequence[int], width: int) -> str:
        """A constant array of ``i<width>``, one for equal contents; returns its name with the sigil."""
        entries = ", ".join(f"i{width} {v & ((1 << width) - 1)}" for v in values)
        initial = f"private unnamed_addr constant [{len(values)} x i{width}] [{entries}], align 64"
        for name, text in self.globals.items():
            if text.endswith(initial):
                return f"@{name}"
        name = f"table{len(self.globals)}"
        self.globals[name] = f"@{name} = {initial}"
        return f"@{name}"


class Deferred:
    """A line that is written only if its result is used: ``make`` gives the text right of the ``=`` when the name is first asked for."""

    __slots__ = ("_make", "_name", "text")

    def __init__(self, name: str, make: Callable[[], str]) -> None:
        self._name, self._make, self.text = name, make, ""

    def use(self) -> str:
        if not self.text:
            self.text = f"  {self._name} = {self._make()}"
        return self._name


class Val:
    """A value in the text: ``count`` elements (1 when ``uniform``: a scalar that holds for every lane) of LLVM type ``elem``.

    What the lanes protocol sees has integer elements (``i1`` for a predicate). ``const`` are known bits: one number for all lanes, or
    one per lane.
    """

    __slots__ = ("_name", "const", "count", "elem", "width")

    def __init__(
        self,
        name: str | Deferred,
        width: int,
        uniform: bool = False,
        *,
        elem: str = "",
        count: int = 0,
        const: int | tuple[int, ...] | None = None,
    ) -> None:
        self._name = name
        self.width = width
        self.elem = elem or f"i{width}"
        self.count = count or (1 if uniform else VECTOR)
        self.const = const

    @property
    def uniform(self) -> bool:
        return self.count == 1

    @property
    def name(self) -> str:
        """The name or literal; asking for it means using it."""
        return self._name if isinstance(self._name, str) else self._name.use()

    @property
    def type(self) -> str:
        return vector_type(self.elem, self.count)

    @property
    def typed(self) -> str:
        """Type and name, as an operand in text."""
        return f"{self.type} {self.name}"

    def __repr__(self) -> str:
        known = "" if self.const is None else f" = {self.const}"
        return f"<{self.type}{known}>"


def vector_type(elem: str, count: int) -> str:
    """The IR type of ``count`` elements; of one, the element itself."""
    return elem if count == 1 else f"<{count} x {elem}>"


def element_width(elem: str) -> int:
    """Bits of an IR scalar type."""
    return _BITS.get(elem) or int(elem[1:])


def literal(bits: int, width: int) -> Val:
    """A uniform constant."""
    bits &= (1 << width) - 1
    return Val(integer_text(bits, width), width, True, const=bits)


def integer_text(bits: int, width: int) -> str:
    """An integer as the IR writes it."""
    return ("true" if bits else "false") if width == 1 else str(bits)


def lane_constants(values: Sequence[int], width: int) -> Val:
    """A constant of its own for each lane."""
    bits = tuple(v & ((1 << width) - 1) for v in values)
    text = ", ".join(f"i{width} {integer_text(v, width)}" for v in bits)
    return Val(f"<{text}>", width, count=len(bits), const=bits)


class Emitter:
    """The lines of one function's body. ``cache`` holds what is known in the current block and is emptied by ``label``. ``raw``: of f32 values (as i32) whose
    NaNs were made the GPU's, the floats before that, for operations that make NaNs of theirs so anyway."""

    def __init__(self, module: IrModule) -> None:
        self.module = module
        self.block = "entry"
        self.cache: dict[object, Val] = {}
        self.raw: dict[Val, Val] = {}
        self._lines: list[str | Deferred] = []
        self._allocas: list[str] = []
        self._slots: dict[object, str] = {}
        self._names = 0

    def emit(self, text: str) -> None:
        """An instruction without a result."""
        self._lines.append("  " + text)

    def value(self, text: str) -> str:
        """An instruction with a result; returns its name."""
        name = self.fresh()
        self._lines.append(f"  {name} = {text}")
        return name

    def deferred(self, make: Callable[[], str]) -> Deferred:
        """An instruction here whose result may never be used."""
        line = Deferred(self.fresh(), make)
        self._lines.append(line)
        return line

    def fresh(self, hint: str = "v") -> str:
        self._names += 1
        return f"%{hint}{self._names}"

    def fresh_label(self, hint: str = "L") -> str:
        self._names += 1
        return f"{hint}{self._names}"

    def label(self, name: str) -> None:
        """Start the block ``name``. The block before must have its terminator."""
        self._lines.append(f"{name}:")
        self.block = name
        self.cache = {}

    def alloca(self, type: str, align: int = 64) -> str:
        name = self.fresh("a")
        self._allocas.append(f"  {name} = alloca {type}, align {align}")
        return name

    def slot(self, key: object, type: str) -> str:
        """The same allocation for the same key: scratch that lives from a store to the call or load right after it."""
        if key not in self._slots:
            self._slots[key] = self.alloca(type)
        return self._slots[key]

    def declare(self, line: str) -> None:
        name = line[line.index("@") + 1 : line.index("(", line.index("@"))]
        self.module.declares.setdefault(name, line)

    def body(self) -> str:
        """The whole body, beginning with the entry block's label."""
        lines = [line if isinstance(line, str) else line.text for line in self._lines]
        return "\n".join(["entry:", *self._allocas, *filter(None, lines)])

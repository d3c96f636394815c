"""PTX text that the recipes beside this file share: values as 32-bit words in shared memory, and calls."""

SPLIT = {
    "b32": ["st.shared.b32 [{row}+{at}], {name};"],
    "f32": ["st.shared.f32 [{row}+{at}], {name};"],
    "b64": ["mov.b64 {{low, high}}, {name};", "st.shared.v2.b32 [{row}+{at}], {{low, high}};"],
    "pred": ["selp.b32 low, 1, 0, {name};", "st.shared.b32 [{row}+{at}], low;"],
}
JOIN = {
    "b32": ["ld.shared.b32 {name}, [{row}+{at}];"],
    "f32": ["ld.shared.f32 {name}, [{row}+{at}];"],
    "b64": ["ld.shared.v2.b32 {{low, high}}, [{row}+{at}];", "mov.b64 {name}, {{low, high}};"],
    "pred": ["ld.shared.b32 low, [{row}+{at}];", "setp.ne.u32 {name}, low, 0;"],
}


def moved(table, registers, row, at):
    """Statements that move registers, (name, type) each, to or from words of a row, from byte ``at`` on."""
    lines = []
    for name, kind in registers:
        lines += [line.format(name=name, row=row, at=at) for line in table[kind]]
        at += 8 if kind == "b64" else 4
    return lines


def words(registers):
    return sum(2 if kind == "b64" else 1 for _, kind in registers)


def declaration(callee, types, head=".extern .func"):
    return f"{head} {callee}(\n" + ",\n".join(f"\t.param .{kind} {callee}_{i}" for i, kind in enumerate(types)) + "\n)"


def call(callee, values):
    """A call of a function without results; ``values`` are (value, type) each."""
    lines = ["{"]
    for i, (value, kind) in enumerate(values):
        lines += [f".param .{kind} given{i};", f"st.param.{kind} [given{i}], {value};"]
    return [*lines, f"call.uni {callee}, ({', '.join(f'given{i}' for i in range(len(values)))});", "}"]


def block(*statements):
    """A block of PTX text, a statement a line."""
    return "\t{\n" + "".join(f"\t{line}\n" for line in statements) + "\t}\n"

"""The scanner: one pass of one regular expression over the masked text gives statements, scopes and functions.

Invariant: every byte of the text is in exactly one statement, is blank, or is in a comment; what fits nowhere is an error at its place,
after which scanning goes on with the next statement. Instructions are not known by name here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from sys import intern

from ptxgraft.collector import collector_paused
from ptxgraft.errors import SourceError
from ptxgraft.text.heads import parse_head
from ptxgraft.text.lines import Lines
from ptxgraft.text.mask import mask, tidy
from ptxgraft.text.model import Function, Kind, Scope, Statement

# Character classes are spelled out: the regular expression engine tests such a class with one table look-up.
_WS = r"[ \t\r\n\f\v]"
_ID = "[A-Za-z0-9_$%]"
_IN = r"[A-Za-z0-9_ \t\r\n\f\v$%,.\[\]()+\-*/|!<>=&^~?]"  # what may stand in an instruction's operands, braces apart
_DATA = r"\.b(?:8|16|32|64)\b"
_LOC = (
    rf"{_WS}++\d++{_WS}++\d++{_WS}++\d++(?:{_WS}*+,{_WS}*+function_name{_WS}++[A-Za-z0-9_$%.]++(?:{_WS}*+\+{_WS}*+\w++)?+"
    rf"{_WS}*+,{_WS}*+inlined_at{_WS}++\d++{_WS}++\d++{_WS}++\d++)?+"
)
_GUARD = rf"@{_WS}*+(!?{_WS}*+{_ID}++){_WS}++"
_OPCODE = r"[A-Za-z_][A-Za-z0-9_.]*+(?:(?:::|(?<=::[0-9]):(?=[0-9]))[A-Za-z0-9_.]++)*+"  # sp::2:4 has a ratio in it
_STATEMENT = re.compile(
    rf"{_WS}*+()(?:"
    rf"(?:{_GUARD})?+({_OPCODE})(?!{_WS}*+:)({_IN}*+(?:\{{{_IN}*+\}}{_IN}*+)*+);"
    rf"|({_ID}++){_WS}*+:(?!:)"
    r"|([{}])"
    rf"|(\.loc)({_LOC})|({_DATA})([^\n{{}};.]*+(?:(?!{_DATA})\.[^\n{{}};.]*+)*+)"
    r"|(\.[A-Za-z_]\w*+)"
    r"|(\Z)"
    r"|([^ \t\r\n\f\v]))",
    re.ASCII,
)
_INSTRUCTION, _LABEL, _BRACE, _LOCATION, _ITEM, _WORD, _END = 4, 5, 6, 8, 10, 11, 12

# Two operand words with nothing but a line end between them: the ';' of the first line is missing.
_NO_COMMA = re.compile(rf"[A-Za-z0-9_$%)\]}}]{_WS}*\n{_WS}*+(?=[A-Za-z0-9_$%.{{])")
_NEXT_OPCODE = re.compile(rf"{_WS}*\n{_WS}*+(?=[a-z]\w*(?:(?:\.|::)\w+)+[ \t]+[%$\[{{(A-Za-z0-9_-])", re.ASCII)
_NO_SEMICOLON = re.compile(rf"(?:(?<![\w.$%])[A-Za-z_$%][\w$%]*|[>\]}}\"]){_WS}*\n{_WS}*+(?=[\w$%.@])", re.ASCII)
_HEAD_OF_INSTRUCTION = re.compile(rf"(?:{_GUARD})?+(?:{_OPCODE})?+(?P<operands>{_IN}*+(?:\{{{_IN}*+\}}{_IN}*+)*+)(?P<open>\{{{_IN}*+)?+")
_SPLIT_OPCODE = re.compile(rf"({_WS}*+\.\w++)++", re.ASCII)
_LABEL_LINE = re.compile(rf"\n{_WS}*+{_ID}++{_WS}*+\Z")
_LINKING = re.compile(rf"\.(visible|extern|weak|common){_WS}++(?=\.)")
_DIRECTIVE = re.compile(r"\.[A-Za-z_]\w*", re.ASCII)
_PRAGMA_TAIL = re.compile(rf"\.pragma{_WS}*+\"[^\"\n]*+\"(?:{_WS}*+,{_WS}*+\"[^\"\n]*+\")*+{_WS}*+\Z")
_STOP = re.compile("[;{}]")
_STRAY_RUN = re.compile(r";++|[^\x00-\x7f]++")
_LINE_MARK = re.compile(r"#[ \t]*+(?:line[ \t]++)?\d")
_REST_OF_LINE = re.compile(r"[^\n]*")
_TO_NEXT = re.compile(r"[^;\n{}]*+;?")
_MOST_ERRORS = 1000
_HEAD_STOP = re.compile(rf"[;{{}}]|(?:\.(?:visible|extern|weak|common){_WS}++)?\.(?:entry|func)\b")

_SHAPES: dict[str, tuple[re.Pattern[str], str]] = {
    ".version": (re.compile(rf"{_WS}++(\d{{1,4}})\.(\d{{1,4}})\b"), "'.version major.minor'"),
    ".target": (re.compile(rf"{_WS}++{_ID}++(?:{_WS}*+,{_WS}*+{_ID}++)*+"), "'.target sm_NN'"),
    ".address_size": (re.compile(rf"{_WS}++(32|64)\b"), "'.address_size 32' or '.address_size 64'"),
    ".file": (re.compile(rf"{_WS}++\d++{_WS}*+\"[^\"\n]*\"(?:{_WS}*+,{_WS}*+\d++{_WS}*+,{_WS}*+\d++)?+"), "'.file number \"name\"'"),
    ".section": (re.compile(rf"{_WS}++[\w$.]++(?={_WS}*+\{{)", re.ASCII), "'.section name {'"),
}
_ENDED = frozenset(
    [
        ".reg",
        ".local",
        ".shared",
        ".global",
        ".const",
        ".param",
        ".tex",
        ".sampler",
        ".surf",
        ".pragma",
        ".branchtargets",
        ".calltargets",
        ".callprototype",
        ".alias",
    ]
)


@dataclass(slots=True)
class Scan:
    """What one pass over a text found."""

    statements: list[Statement] = field(default_factory=list)
    scopes: list[Scope] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    directives: dict[str, list[int]] = field(default_factory=dict)
    errors: list[SourceError] = field(default_factory=list)
    masked: str = ""
    version: tuple[int, int] | None = None
    target: tuple[str, ...] = ()
    address_size: int = 32


def scan(text: str, lines: Lines) -> Scan:
    """Scan a whole text (one character per byte). All errors are in the result, in file order."""
    scanner = _Scanner(text, lines)
    with collector_paused():  # hundreds of thousands of objects and not one cycle
        try:
            scanner.run()
        except _TooManyErrors:
            scanner.finish(whole=False)
    errors = scanner.result.errors
    errors.sort(key=lambda e: (e.place.line, e.place.column) if e.place else (0, 0))
    if len(errors) >= _MOST_ERRORS:
        errors.append(SourceError("too many errors, the rest of the file was not read", place=errors[-1].place, hint="is it a PTX text?"))
    return scanner.result


class _TooManyErrors(Exception):
    """Control flow: ends the scan of a text that is not PTX at all, whose every line is an error and costs a look at what follows."""


class _Scanner:
    def __init__(self, text: str, lines: Lines) -> None:
        self.text, self.lines = text, lines
        self.result = Scan()
        self.masked = ""
        self.result.scopes.append(Scope(0, -1, "module", 0, -1))
        self.scope = 0
        self.pending = "block"  # kind of the next '{'
        self.function: Function | None = None  # the function whose body comes next or is open
        self.stray = False  # an instruction outside every body was already reported

    def report(self, offset: int, message: str, hint: str = "") -> None:
        if len(self.result.errors) >= _MOST_ERRORS:
            raise _TooManyErrors
        self.result.errors.append(SourceError(message, place=self.lines.place(offset), hint=hint))

    def trim(self, end: int) -> int:
        """``end`` without the blanks before it."""
        while end and self.masked[end - 1] in " \t\r\n\f\v":
            end -= 1
        return end

    def run(self) -> None:
        """The hot loop: instructions, labels, braces and line items here, everything rarer in a method that says where to go on."""
        # Drivers pass modules with their terminating zero byte; it is kept and means nothing.
        bare = self.text.rstrip("\0")
        masked, whole = mask(bare, self.report)
        masked += "\n" * (len(self.text) - len(bare))
        self.masked = self.result.masked = masked
        finditer = _STATEMENT.finditer
        append, statements = self.result.statements.append, self.result.statements
        instruction, label, directive = Kind.INSTRUCTION, Kind.LABEL, Kind.DIRECTIVE
        at, end = 0, len(masked)
        while at < end:
            for m in finditer(masked, at):
                what = m.lastindex
                if what == _INSTRUCTION:
                    start, guard, opcode, operands = m.start(1), m[2], m[3], m[4]
                    if "\n" in operands:
                        ran = self.runs_on(m)
                        if ran:
                            at = ran
                            break
                    operands = operands.strip()
                    if "  " in operands or "\n" in operands or "\t" in operands:
                        operands = " ".join(operands.split())
                    if operands[:1] == ".":
                        opcode, operands = _join_opcode(opcode, operands)
                    if self.scope == 0:
                        self.outside(start)
                    guard = "".join(guard.split()) if guard else ""
                    append(Statement(len(statements), instruction, start, m.end(), self.scope, intern(opcode), guard, operands))
                elif what == _LABEL:
                    if self.scope == 0:
                        self.outside(m.start(1))
                    append(Statement(len(statements), label, m.start(1), m.end(), self.scope, m[5], "", ""))
                elif what == _BRACE:
                    self.brace(m[6], m.start(1))
                elif what == _LOCATION:
                    append(Statement(len(statements), directive, m.start(1), m.end(), self.scope, ".loc", "", tidy(m[8])))
                elif what == _ITEM:
                    start, opcode, operands = m.start(1), m[9], m[10].rstrip()
                    if self.result.scopes[self.scope].kind != "section":
                        self.report(start, f"'{opcode}' data outside a section", "expected an instruction or a directive")
                    stop = start + len(opcode) + len(operands)
                    append(Statement(len(statements), directive, start, stop, self.scope, intern(opcode), "", tidy(operands)))
                elif what == _WORD:
                    at = self.directive(m.start(1))
                    break
                elif what == _END:
                    at = end
                    break
                else:
                    at = self.recover(m.start(1))
                    break
        self.finish(whole)

    # -- structure ------------------------------------------------------------------------------------------------------------

    def brace(self, brace: str, start: int) -> None:
        scopes, statements = self.result.scopes, self.result.statements
        index = len(statements)
        if brace == "{":
            kind, self.pending = self.pending, "block"
            function = self.function.index if self.function else -1
            if kind == "block" and self.scope == 0:
                self.report(start, "this '{' opens no body", "expected '.entry', '.func' or '.section' before it")
            elif kind == "function" and self.function:
                self.function.scope = len(scopes)
            scopes.append(Scope(len(scopes), self.scope, kind, index, -1, function))
            self.scope = len(scopes) - 1
            statements.append(Statement(index, Kind.OPEN, start, start + 1, self.scope, "{", "", ""))
            return
        if self.scope == 0:
            if not self.stray:
                self.report(start, "this '}' closes nothing", "remove it, or find the '{' that is missing before it")
            return
        statements.append(Statement(index, Kind.CLOSE, start, start + 1, self.scope, "}", "", ""))
        self.close(index, start + 1)

    def close(self, last: int, end: int) -> None:
        """Leave the innermost scope, whose last statement is ``last`` (its '}', where there is one) and which ends before byte ``end``."""
        scope = self.result.scopes[self.scope]
        scope.last = last
        if scope.kind == "function" and self.function:
            braced = self.result.statements[last].kind is Kind.CLOSE and self.result.statements[last].scope == scope.index
            self.function.body, self.function.end = range(scope.first + 1, last if braced else last + 1), end
            self.function = None
        self.scope = scope.parent

    def outside(self, start: int) -> None:
        if not self.stray:
            self.report(start, "a statement outside every body", "was a body closed too early, or never opened?")
        self.stray = True

    def add(self, start: int, end: int, opcode: str, operands: str) -> int:
        index = len(self.result.statements)
        self.result.statements.append(Statement(index, Kind.DIRECTIVE, start, end, self.scope, intern(opcode), "", operands))
        self.result.directives.setdefault(opcode, []).append(index)
        return end

    def finish(self, whole: bool) -> None:
        """Close what is open. ``whole``: the end of the text is its real end, not hidden by a comment or too many errors."""
        result = self.result
        if self.scope and whole:
            scope = result.scopes[self.scope]
            opened = result.statements[scope.first].start
            what = f"the body of '{self.function.name}'" if self.function else "a section" if scope.kind == "section" else "a block"
            if scope.kind == "block":
                what = f"a block inside {what}" if self.function else what
            end = self.trim(len(self.masked))
            self.report(max(end - 1, 0), f"the file ends inside {what}, opened at line {self.lines.line(opened)}", "is the file truncated?")
        while self.scope:
            self.close(len(result.statements) - 1, len(self.masked))
        result.scopes[0].last = len(result.statements) - 1
        if len(result.errors) >= _MOST_ERRORS:
            return
        self.brackets()
        self.duplicates()
        if not self.text.strip(" \t\r\n\f\v\0"):
            self.report(0, "the file is empty", "expected a PTX module, which begins with '.version'")
        elif result.version is None and ".version" not in result.directives:
            self.report(0, "no '.version' directive", "expected a PTX module, which begins with '.version'")
        elif ".target" not in result.directives:
            self.report(
                result.statements[0].start if result.statements else 0,
                "no '.target' directive",
                "expected '.target sm_NN' after '.version'",
            )

    def brackets(self) -> None:
        """Report instructions with an unbalanced bracket; counting over the whole text first keeps this free for a right one."""
        for pair in ("[]", "()"):
            if self.masked.count(pair[0]) == self.masked.count(pair[1]):
                continue
            for s in self.result.statements:
                excess = s.operands.count(pair[0]) - s.operands.count(pair[1]) if s.kind is Kind.INSTRUCTION else 0
                if excess:
                    lone, missing = (pair[0], pair[1]) if excess > 0 else (pair[1], pair[0])
                    self.report(s.start, f"a '{lone}' in this statement has no '{missing}'", f"expected '{missing}'")

    def duplicates(self) -> None:
        seen: dict[str, Function] = {}
        for function in self.result.functions:
            if function.scope < 0 or not function.name:
                continue
            first = seen.setdefault(function.name, function)
            if first is not function:
                line = self.lines.line(first.name_start)
                self.report(function.name_start, f"'{function.name}' is defined twice", f"the first definition is at line {line}")

    # -- directives -----------------------------------------------------------------------------------------------------------

    def directive(self, start: int) -> int:
        """Read the directive at ``start``; the offset where scanning goes on."""
        masked, at, linking = self.masked, start, ""
        while m := _LINKING.match(masked, at):
            at, linking = m.end(), m[1]
        m = _DIRECTIVE.match(masked, at)
        if m is None:
            return self.recover(start)
        word, at = m.group(), m.end()
        if word in (".entry", ".func"):
            return self.head(start, at, word[1:], linking)
        if word in _SHAPES:
            return self.shaped(start, word, at)
        if word not in _ENDED:
            line = _REST_OF_LINE.match(masked, at)
            stop = line.end() if line else at
            if word == ".loc" or ";" not in masked[at:stop]:
                cut = _STOP.search(masked, at, stop)
                stop = self.trim(cut.start() if cut else stop)
                return self.add(start, stop, word, tidy(self.text[at:stop]))
        return self.declaration(start, word, at)

    def shaped(self, start: int, word: str, at: int) -> int:
        pattern, form = _SHAPES[word]
        m = pattern.match(self.masked, at)
        if m is None:
            self.report(start, f"cannot read this '{word}'", f"expected {form}")
            self.result.directives.setdefault(word, [])
            return self.resume(at)
        operands = tidy(self.text[at : m.end()])
        result = self.result
        if word == ".version":
            if result.version is not None:
                self.report(start, "a second '.version'", "a file holds one module")
            else:
                result.version = int(m[1]), int(m[2])
        elif word == ".target":
            result.target += tuple(p.strip() for p in operands.split(","))
        elif word == ".address_size":
            result.address_size = int(m[1])
        elif word == ".section":
            self.pending = "section"
        return self.add(start, m.end(), word, operands)

    def declaration(self, start: int, word: str, at: int) -> int:
        """A directive that ends with ';' and may hold an initialiser in braces."""
        masked, depth, stop = self.masked, 0, at
        while True:
            m = _STOP.search(masked, stop)
            if m is None or (m.group() == "}" and depth == 0):
                where = m.start() if m else len(masked)
                return self.unended(start, word, self.trim(where), where)
            stop = m.end()
            if m.group() == ";":
                break
            depth += 1 if m.group() == "{" else -1
        if "\n" in masked[at:stop]:
            m = _NO_SEMICOLON.search(masked, at, stop)
            if m:
                return self.unended(start, word, m.start() + len(m.group().rstrip()), m.end())
        if depth:
            self.report(start, f"a '{{' of this '{word}' is not closed before its ';'", "expected '}'")
        return self.add(start, stop, word, tidy(self.text[at : stop - 1]))

    def unended(self, start: int, word: str, end: int, resume: int) -> int:
        self.report(max(end - 1, start), f"'{word}' is not ended", "expected ';'")
        return resume

    def head(self, start: int, at: int, kind: str, linking: str) -> int:
        masked, stop = self.masked, at
        while True:
            m = _HEAD_STOP.search(masked, stop)
            stop = m.start() if m else len(masked)
            if not (m and m.group() == ";" and _PRAGMA_TAIL.search(masked, at, stop)):
                break
            stop += 1
        if m is None or m.group() not in (";", "{"):
            self.report(max(self.trim(stop) - 1, start), f"the head of this .{kind} has neither a body nor a ';'", "expected '{' or ';'")
            return stop
        body = m.group() == "{"
        if self.scope and (body or kind == "entry"):  # a body may hold declarations of functions
            self.leave(start, kind)
        before = len(self.result.errors)
        head = parse_head(masked, self.text, at, self.trim(stop), self.report)
        self.stray = False
        if len(self.result.errors) > before and not body:
            self.stray = True  # what follows may be the body of this head
            return self.resume(self.lines_end(start))
        end = self.trim(stop) if body else stop + 1
        index = len(self.result.statements)
        function = Function(
            len(self.result.functions), kind, head.name, linking, head.params, head.returns, head.directives, start, end,
            range(index, index + 1), name_start=head.name_start,
        )  # fmt: skip
        self.result.functions.append(function)
        self.add(start, end, f".{kind}", tidy(self.text[at:stop]))
        if body:
            self.function, self.pending = function, "function"
        return stop if body else end

    def lines_end(self, offset: int) -> int:
        m = _REST_OF_LINE.match(self.masked, offset)
        return m.end() if m else offset

    def leave(self, start: int, kind: str) -> None:
        """A head inside a body: report the open brace once and close every scope, so that the rest is read as meant."""
        scope = self.result.scopes[self.scope]
        line = self.lines.line(self.result.statements[scope.first].start)
        name = f" of '{self.function.name}'" if self.function else ""
        self.report(start, f"an .{kind} inside the body{name}: the '{{' at line {line} is not closed", "expected '}' before it")
        while self.scope:
            self.close(len(self.result.statements) - 1, start)

    # -- errors ---------------------------------------------------------------------------------------------------------------

    def runs_on(self, m: re.Match[str]) -> int:
        """Where the next statement begins when this one swallowed it for want of a ';', else 0."""
        start, end = m.start(4), m.end(4)
        ran = _NEXT_OPCODE.match(self.masked, start, end) or _NO_COMMA.search(self.masked, start, end)
        if ran is None:
            return 0
        stop = self.trim(ran.end())
        self.report(stop - 1, "this statement is not ended", "expected ';'")
        return ran.end()

    def shown(self, at: int) -> str:
        """The character at ``at`` as a message shows it."""
        if self.masked.startswith("\xef\xbb\xbf", at):
            return "byte order mark"
        character = self.lines.character(at)
        return f"'{character}'" if character.isprintable() else f"byte 0x{ord(self.masked[at]):02x}"

    def resume(self, at: int) -> int:
        m = _TO_NEXT.match(self.masked, at)
        return max(m.end() if m else at, at)

    def recover(self, start: int) -> int:
        """Nothing fits at ``start``: say why, and return where scanning goes on."""
        masked = self.masked
        if masked[start] == "#" or masked.startswith("@@", start):
            stop = self.lines_end(start)
            word = masked[start:stop].split(None, 1)[0]
            if word == "@@DWARF" or _LINE_MARK.match(masked, start):
                end = start + len(masked[start:stop].rstrip())
                return self.add(start, end, word, tidy(self.text[start + len(word) : end]))
            self.report(start, f"'{word[:40]}' is not understood", "preprocess the file first")
            return stop
        m = _HEAD_OF_INSTRUCTION.match(masked, start)
        if m is None or m.end() == start:
            run = _STRAY_RUN.match(masked, start)
            self.report(start, f"unexpected {self.shown(start)}", "expected a statement")
            return run.end() if run else start + 1
        ran = _NO_COMMA.search(masked, *m.span("operands")) or _NEXT_OPCODE.match(masked, *m.span("operands"))
        if ran:
            self.report(self.trim(ran.end()) - 1, "this statement is not ended", "expected ';'")
            return ran.end()
        if m["open"]:
            self.report(m.start("open"), "this '{' is not closed before the end of its statement", "expected '}'")
            return self.resume(m.end("open"))
        stop = m.end()
        found = masked[stop : stop + 1]
        label = _LABEL_LINE.search(masked, start, stop) if found == ":" else None
        stop = label.start() if label else stop
        last = max(self.trim(stop) - 1, start)
        if found == ";":
            self.report(start, "this statement has no opcode", "expected an instruction")
            return stop + 1
        if not found or found in "}@" or label:
            self.report(last, "this statement is not ended", "expected ';'")
            return stop
        self.report(stop, f"unexpected {self.shown(stop)} in a statement", "expected operands or ';'")
        return max(self.resume(stop + 1), stop + 1)


def _join_opcode(opcode: str, operands: str) -> tuple[str, str]:
    """``mov .u32 %r1, 1`` is legal: modifiers apart from the opcode are joined to it."""
    m = _SPLIT_OPCODE.match(operands)
    if m is None:
        return opcode, operands
    return opcode + "".join(m.group().split()), operands[m.end() :].lstrip()

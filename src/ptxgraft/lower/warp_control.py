"""Control operations of threaded code: labels, branches, exits, waiting, barriers.

Invariant: an operation returns the next one, or null when its warp cannot go on for now. Lanes part and wait at labels alone.
"""

from __future__ import annotations

from ptxgraft.lower.warp_access import get
from ptxgraft.lower.warp_scheduler import word
from ptxgraft.lower.warp_state import OPERATION_HEAD, WARP, Fault

OPERATIONS = {
    "label": "count of instructions up to the next label",
    "jump": "target label",
    "branch": "predicate slot, 0 or -1 (to negate it), target label",
    "exit": "",
    "exit_if": "predicate slot, 0 or -1",
    "converge": "slot of b32 member masks, or 0 and the mask itself",
    "barrier": "1 to go on + 2 if there is a count, slot of b32 numbers (0: none), number, slot of b32 counts (0: none), count, predicate slot, 0 or -1; a label follows",
    "tally": "0 (popc), 1 (and) or 2 (or), slot of the result",
    "clear": "slot, bytes",
    "trap": "kind of fault",
    "trap_if": "predicate slot, 0 or -1, kind of fault",
    "call": "",
    "branch_table": "slot of b32 indices, count, targets",
}
"""The control operations and their operands (32-bit words after the head). A target is the offset of a label operation in the stream."""


def _next(op: str, words: int) -> str:
    return f"getelementptr i8, ptr %{op}, i64 {operation_bytes(words)}"


def operation_bytes(words: int) -> int:
    """The size of an operation with so many operand words."""
    return (OPERATION_HEAD + 4 * words + 7) // 8 * 8


_CONTROL = f"""
define internal i32 @condition(ptr %w, ptr %op) alwaysinline {{
  {word("slot", "op", 0)}
  {word("flip", "op", 1)}
  %slot64 = zext i32 %slot to i64
  %p.p = getelementptr i8, ptr %w, i64 %slot64
  %p = load i32, ptr %p.p
  %c = xor i32 %p, %flip
  {get("active", "w", WARP, "active")}
  %r = and i32 %c, %active
  ret i32 %r
}}

define ptr @op_label(ptr %w, ptr %op) {{
entry:
  {get("active", "w", WARP, "active")}
  {get("live", "w", WARP, "live")}
  %together = icmp eq i32 %active, %live
  br i1 %together, label %go, label %apart
go:
  %next = tail call ptr @enter(ptr %w, ptr %op)
  ret ptr %next
apart:
  %pc = call i32 @offset(ptr %w, ptr %op)
  call void @stand(ptr %w, i32 %active, i32 %pc)
  %other = tail call ptr @schedule(ptr %w)
  ret ptr %other
}}

define ptr @op_jump(ptr %w, ptr %op) {{
  {word("pc", "op", 0)}
  %next = call ptr @target(ptr %w, i32 %pc)
  ret ptr %next
}}

define ptr @op_branch(ptr %w, ptr %op) {{
entry:
  %taken = call i32 @condition(ptr %w, ptr %op)
  {word("pc", "op", 2)}
  {get("active", "w", WARP, "active")}
  %next = {_next("op", 3)}
  %none = icmp eq i32 %taken, 0
  br i1 %none, label %fall, label %some
some:
  %all = icmp eq i32 %taken, %active
  br i1 %all, label %jump, label %split
fall:
  ret ptr %next
jump:
  %there = call ptr @target(ptr %w, i32 %pc)
  ret ptr %there
split:
  %rest = xor i32 %active, %taken
  %pc2 = call i32 @offset(ptr %w, ptr %next)
  call void @stand(ptr %w, i32 %taken, i32 %pc)
  call void @stand(ptr %w, i32 %rest, i32 %pc2)
  %other = tail call ptr @schedule(ptr %w)
  ret ptr %other
}}

define internal ptr @leave(ptr %w, i32 %lanes, ptr %next) {{
entry:
  %active = call i32 @remove(ptr %w, i32 %lanes)
  %gone = icmp eq i32 %active, 0
  br i1 %gone, label %others, label %on
others:
  %other = tail call ptr @schedule(ptr %w)
  ret ptr %other
on:
  ret ptr %next
}}

define ptr @op_exit(ptr %w, ptr %op) {{
  {get("active", "w", WARP, "active")}
  %next = call ptr @leave(ptr %w, i32 %active, ptr null)
  ret ptr %next
}}

define ptr @op_exit_if(ptr %w, ptr %op) {{
entry:
  %lanes = call i32 @condition(ptr %w, ptr %op)
  %next = {_next("op", 2)}
  %none = icmp eq i32 %lanes, 0
  br i1 %none, label %on, label %some
on:
  ret ptr %next
some:
  %other = call ptr @leave(ptr %w, i32 %lanes, ptr %next)
  ret ptr %other
}}

define internal ptr @trapped(ptr %w, ptr %op, i32 %lanes, i32 %kind) {{
  %lane = call i32 @llvm.cttz.i32(i32 %lanes, i1 false)
  %index.p = getelementptr i8, ptr %op, i64 8
  %index = load i32, ptr %index.p
  %none = call ptr @fault(ptr %w, i32 %index, i32 %kind, i32 %lane, i64 0, i32 0, i32 0, i32 0)
  ret ptr null
}}

define ptr @op_trap(ptr %w, ptr %op) {{
  {word("kind", "op", 0)}
  {get("active", "w", WARP, "active")}
  %none = call ptr @trapped(ptr %w, ptr %op, i32 %active, i32 %kind)
  ret ptr null
}}

define ptr @op_trap_if(ptr %w, ptr %op) {{
entry:
  %lanes = call i32 @condition(ptr %w, ptr %op)
  {word("kind", "op", 2)}
  %next = {_next("op", 3)}
  %clear = icmp eq i32 %lanes, 0
  br i1 %clear, label %on, label %bad
on:
  ret ptr %next
bad:
  %none = call ptr @trapped(ptr %w, ptr %op, i32 %lanes, i32 %kind)
  ret ptr null
}}

define ptr @op_clear(ptr %w, ptr %op) {{
  {word("slot", "op", 0)}
  {word("bytes", "op", 1)}
  %slot64 = zext i32 %slot to i64
  %bytes64 = zext i32 %bytes to i64
  %d = getelementptr i8, ptr %w, i64 %slot64
  call void @llvm.memset.p0.i64(ptr %d, i8 0, i64 %bytes64, i1 false)
  %next = {_next("op", 2)}
  ret ptr %next
}}

define ptr @op_converge(ptr %w, ptr %op) {{
entry:
  {get("active", "w", WARP, "active")}
  {get("live", "w", WARP, "live")}
  %next = {_next("op", 2)}
  %together = icmp eq i32 %active, %live
  br i1 %together, label %on, label %apart
on:
  ret ptr %next
apart:
  {word("slot", "op", 0)}
  {word("word", "op", 1)}
  %constant = icmp eq i32 %slot, 0
  %slot64 = zext i32 %slot to i64
  %m.p = getelementptr i8, ptr %w, i64 %slot64
  %members = select i1 %constant, ptr null, ptr %m.p
  %go = call i32 @gather(ptr %w, ptr %members, i32 %word)
  %nobody = icmp eq i32 %go, 0
  br i1 %nobody, label %others, label %on
others:
  %other = tail call ptr @schedule(ptr %w)
  ret ptr %other
}}

define ptr @op_call(ptr %w, ptr %op) {{
entry:
  %index.p = getelementptr i8, ptr %op, i64 8
  %index = load i32, ptr %index.p
  %ok = call i1 @serve(ptr %w, i32 %index)
  %next = {_next("op", 0)}
  br i1 %ok, label %on, label %bad
on:
  ret ptr %next
bad:
  ret ptr null
}}

define ptr @op_branch_table(ptr %w, ptr %op) {{
entry:
  {word("slot", "op", 0)}
  {word("count", "op", 1)}
  {get("active", "w", WARP, "active")}
  %slot64 = zext i32 %slot to i64
  %v.p = getelementptr i8, ptr %w, i64 %slot64
  %targets = getelementptr i8, ptr %op, i64 {OPERATION_HEAD + 8}
  br label %each
each:
  %left = phi i32 [ %active, %entry ], [ %left1, %found ]
  %lane = call i32 @llvm.cttz.i32(i32 %left, i1 false)
  %lane64 = zext i32 %lane to i64
  %i.p = getelementptr i32, ptr %v.p, i64 %lane64
  %i = load i32, ptr %i.p
  %inside = icmp ult i32 %i, %count
  br i1 %inside, label %found, label %bad
bad:
  %index.p = getelementptr i8, ptr %op, i64 8
  %index = load i32, ptr %index.p
  %i64 = zext i32 %i to i64
  %none = call ptr @fault(ptr %w, i32 %index, i32 {Fault.INDEX:d}, i32 %lane, i64 %i64, i32 0, i32 0, i32 0)
  ret ptr null
found:
  %n64 = zext i32 %i to i64
  %t.p = getelementptr i32, ptr %targets, i64 %n64
  %t = load i32, ptr %t.p
  %bit = shl nuw i32 1, %lane
  call void @stand(ptr %w, i32 %bit, i32 %t)
  %rest = sub i32 %left, 1
  %left1 = and i32 %left, %rest
  %more = icmp ne i32 %left1, 0
  br i1 %more, label %each, label %end
end:
  %other = tail call ptr @schedule(ptr %w)
  ret ptr %other
}}
"""


_BARRIER = f"""
define internal i32 @first(ptr %w, i32 %slot, i32 %constant, i32 %active) alwaysinline {{
entry:
  %none = icmp eq i32 %slot, 0
  br i1 %none, label %given, label %read
given:
  ret i32 %constant
read:
  %lane = call i32 @llvm.cttz.i32(i32 %active, i1 false)
  %lane64 = zext i32 %lane to i64
  %slot64 = zext i32 %slot to i64
  %v = getelementptr i8, ptr %w, i64 %slot64
  %e = getelementptr i32, ptr %v, i64 %lane64
  %x = load i32, ptr %e
  ret i32 %x
}}

define ptr @op_barrier(ptr %w, ptr %op) {{
entry:
  {word("how", "op", 0)}
  %go = and i32 %how, 1
  {word("id.slot", "op", 1)}
  {word("id.word", "op", 2)}
  {word("count.slot", "op", 3)}
  {word("count.word", "op", 4)}
  {word("p.slot", "op", 5)}
  {word("p.flip", "op", 6)}
  {get("active", "w", WARP, "active")}
  %next = {_next("op", 7)}
  %id = call i32 @first(ptr %w, i32 %id.slot, i32 %id.word, i32 %active)
  %count = call i32 @first(ptr %w, i32 %count.slot, i32 %count.word, i32 %active)
  %index.p = getelementptr i8, ptr %op, i64 8
  %index = load i32, ptr %index.p
  %given = icmp uge i32 %how, 2
  %p.slot64 = zext i32 %p.slot to i64
  %p.p = getelementptr i8, ptr %w, i64 %p.slot64
  %p.raw = load i32, ptr %p.p
  %p.none = icmp eq i32 %p.slot, 0
  %p.sel = select i1 %p.none, i32 0, i32 %p.raw
  %p = xor i32 %p.sel, %p.flip
  %pc = call i32 @offset(ptr %w, ptr %next)
  %ok = call i1 @arrive(ptr %w, i32 %pc, i32 %go, i32 %id, i32 %count, i1 %given, i32 %p, i32 %index)
  br i1 %ok, label %came, label %failed
failed:
  ret ptr null
came:
  %waits = icmp eq i32 %go, 0
  br i1 %waits, label %wait, label %on
on:
  ret ptr %next
wait:
  %other = tail call ptr @schedule(ptr %w)
  ret ptr %other
}}

define ptr @op_tally(ptr %w, ptr %op) {{
  {word("how", "op", 0)}
  {word("slot", "op", 1)}
  {get("votes", "w", WARP, "votes")}
  {get("present", "w", WARP, "present")}
  {get("active", "w", WARP, "active")}
  %every = icmp eq i32 %votes, %present
  %some = icmp ne i32 %votes, 0
  %is.and = icmp eq i32 %how, 1
  %truth = select i1 %is.and, i1 %every, i1 %some
  %truths = sext i1 %truth to i32
  %slot64 = zext i32 %slot to i64
  %d = getelementptr i8, ptr %w, i64 %slot64
  %popc = icmp eq i32 %how, 0
  br i1 %popc, label %number, label %predicate
number:
  %n.i = insertelement <32 x i32> poison, i32 %votes, i64 0
  %n.v = shufflevector <32 x i32> %n.i, <32 x i32> poison, <32 x i32> zeroinitializer
  %old.v = load <32 x i32>, ptr %d, align 4
  %mask = bitcast i32 %active to <32 x i1>
  %new.v = select <32 x i1> %mask, <32 x i32> %n.v, <32 x i32> %old.v
  store <32 x i32> %new.v, ptr %d, align 4
  br label %end
predicate:
  %old = load i32, ptr %d
  %keep.m = xor i32 %active, -1
  %keep = and i32 %old, %keep.m
  %set = and i32 %truths, %active
  %new = or i32 %keep, %set
  store i32 %new, ptr %d
  br label %end
end:
  %next = {_next("op", 2)}
  ret ptr %next
}}
"""


def control_text() -> str:
    """The IR of all this; goes into the runtime module."""
    return _CONTROL + _BARRIER

"""The part of compiled code that is the same for every kernel: the grid loop, the scheduler, control operations.

Invariant: nothing here depends on a program; it is compiled once per machine and kept. Lanes of a warp run by smallest program counter; a warp gives
the host loop back its turn only at a barrier, at its end or at a fault, so that one call runs any number of blocks without Python.
"""

from __future__ import annotations

from ptxgraft.lower.warp_access import access_text, at, get, put
from ptxgraft.lower.warp_state import LAUNCH, OPERATION_HEAD, WARP, WORKER, Fault, Status

LABEL_BYTES = 16
"""A label operation: head and the number of instructions from it to the next label."""

OPERATIONS = {
    "label": "count of instructions up to the next label",
    "jump": "target label",
    "branch": "predicate slot, 0 or -1 (to negate it), target label",
    "exit": "",
    "exit_if": "predicate slot, 0 or -1",
    "converge": "slot of b32 member masks, or 0 and the mask itself",
    "barrier": "0 to wait or 1 to go on, slot of b32 numbers (0: none), number, slot of b32 counts, count (0: all), predicate slot, 0 or -1; a label follows",
    "tally": "0 (popc), 1 (and) or 2 (or), slot of the result",
    "clear": "slot, bytes",
    "trap": "kind of fault",
    "trap_if": "predicate slot, 0 or -1, kind of fault",
    "branch_table": "slot of b32 indices, count, targets",
}
"""The control operations and their operands (32-bit words after the head). A target is the offset of a label operation in the stream."""


def _word(name: str, op: str, number: int) -> str:
    """``%name`` = operand word ``number`` of an operation."""
    return f"%{name}.p = getelementptr i8, ptr %{op}, i64 {OPERATION_HEAD + 4 * number}\n  %{name} = load i32, ptr %{name}.p"


_GRID = f"""
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i32 @llvm.cttz.i32(i32, i1)
declare i32 @llvm.ctpop.i32(i32)
declare i32 @llvm.vector.reduce.umin.v32i32(<32 x i32>)

define void @run_grid(ptr %worker) {{
entry:
  %launch = load ptr, ptr %worker
  {at("stop", "launch", LAUNCH, "stop")}
  {at("next", "launch", LAUNCH, "next_block")}
  {get("count", "launch", LAUNCH, "block_count")}
  {get("list", "launch", LAUNCH, "blocks")}
  {get("gx", "launch", LAUNCH, "grid")}
  {get("gy", "launch", LAUNCH, "grid", 4)}
  %gx64 = zext i32 %gx to i64
  %gy64 = zext i32 %gy to i64
  br label %take
take:
  %stop = load atomic i32, ptr %stop.p monotonic, align 4
  %stopped = icmp ne i32 %stop, 0
  br i1 %stopped, label %end, label %claim
claim:
  %i = atomicrmw add ptr %next.p, i64 1 monotonic
  %more = icmp ult i64 %i, %count
  br i1 %more, label %block, label %end
block:
  %entry.p = getelementptr i64, ptr %list, i64 %i
  %linear = load i64, ptr %entry.p
  %bx = urem i64 %linear, %gx64
  %rest = udiv i64 %linear, %gx64
  %by = urem i64 %rest, %gy64
  %bz = udiv i64 %rest, %gy64
  %bx32 = trunc i64 %bx to i32
  %by32 = trunc i64 %by to i32
  %bz32 = trunc i64 %bz to i32
  {at("b0", "worker", WORKER, "block")}
  {at("b1", "worker", WORKER, "block", 4)}
  {at("b2", "worker", WORKER, "block", 8)}
  store i32 %bx32, ptr %b0.p
  store i32 %by32, ptr %b1.p
  store i32 %bz32, ptr %b2.p
  {put("%linear", "worker", WORKER, "block_linear", "lin")}
  %status = call i32 @run_block(ptr %worker)
  call void @tally(ptr %worker)
  %faulted = icmp eq i32 %status, {Status.FAULT:d}
  br i1 %faulted, label %fault, label %take
fault:
  store atomic i32 1, ptr %stop.p monotonic, align 4
  br label %end
end:
  ret void
}}

define i32 @run_block(ptr %worker) {{
entry:
  %launch = load ptr, ptr %worker
  {get("warps", "worker", WORKER, "warps")}
  {get("n", "worker", WORKER, "warp_count")}
  {get("stride", "worker", WORKER, "warp_bytes")}
  {get("code", "launch", LAUNCH, "code")}
  {get("budget", "launch", LAUNCH, "step_budget")}
  {get("fill32", "launch", LAUNCH, "fill")}
  %fill = trunc i32 %fill32 to i8
  {get("shared", "worker", WORKER, "shared")}
  {get("sb", "launch", LAUNCH, "shared_bytes")}
  %sb64 = zext i32 %sb to i64
  call void @llvm.memset.p0.i64(ptr %shared, i8 %fill, i64 %sb64, i1 false)
  {get("local", "worker", WORKER, "local")}
  {get("lb", "worker", WORKER, "local_total")}
  call void @llvm.memset.p0.i64(ptr %local, i8 %fill, i64 %lb, i1 false)
  {at("arrived", "worker", WORKER, "arrived")}
  call void @llvm.memset.p0.i64(ptr %arrived.p, i8 0, i64 192, i1 false)
  br label %reset
reset:
  %ri = phi i32 [ 0, %entry ], [ %ri1, %reset ]
  %ro = mul i32 %ri, %stride
  %ro64 = zext i32 %ro to i64
  %rw = getelementptr i8, ptr %warps, i64 %ro64
  call void @reset_warp(ptr %rw, ptr %code, i64 %budget)
  %ri1 = add i32 %ri, 1
  %rmore = icmp ult i32 %ri1, %n
  br i1 %rmore, label %reset, label %pass
pass:
  br label %turn
turn:
  %i = phi i32 [ 0, %pass ], [ %i1, %next ]
  %waiting = phi i32 [ 0, %pass ], [ %waiting1, %next ]
  %o = mul i32 %i, %stride
  %o64 = zext i32 %o to i64
  %w = getelementptr i8, ptr %warps, i64 %o64
  {get("st", "w", WARP, "status")}
  %ready = icmp eq i32 %st, {Status.RUNNING:d}
  br i1 %ready, label %run, label %after
run:
  call void @run_warp(ptr %w)
  br label %after
after:
  %st1 = load i32, ptr %st.p
  %fault = icmp eq i32 %st1, {Status.FAULT:d}
  br i1 %fault, label %bad, label %next
next:
  %waits = icmp eq i32 %st1, {Status.BARRIER:d}
  %one = zext i1 %waits to i32
  %waiting1 = add i32 %waiting, %one
  %i1 = add i32 %i, 1
  %more = icmp ult i32 %i1, %n
  br i1 %more, label %turn, label %judge
judge:
  %none = icmp eq i32 %waiting1, 0
  br i1 %none, label %done, label %release
release:
  %ok = call i1 @release(ptr %worker)
  br i1 %ok, label %pass, label %stuck
stuck:
  {put(f"{Fault.BARRIER:d}", "worker", WORKER, "fault_kind", "fk")}
  {get("lin", "worker", WORKER, "block_linear")}
  {put("%lin", "worker", WORKER, "fault_block", "fb")}
  br label %bad
bad:
  ret i32 {Status.FAULT:d}
done:
  ret i32 {Status.EXITED:d}
}}

define internal void @reset_warp(ptr %w, ptr %code, i64 %budget) {{
  {get("initial", "w", WARP, "initial")}
  {put("%initial", "w", WARP, "active", "a")}
  {put("%initial", "w", WARP, "live", "l")}
  {put("0", "w", WARP, "status", "s")}
  {put("0", "w", WARP, "blocked", "b")}
  {put("0", "w", WARP, "waiting", "wt")}
  {put("%code", "w", WARP, "resume", "r")}
  {put("%budget", "w", WARP, "steps", "st")}
  {put("1", "w", WARP, "fresh", "fr")}
  {at("pcs", "w", WARP, "pcs")}
  store <32 x i32> zeroinitializer, ptr %pcs.p
  ret void
}}

define internal void @tally(ptr %worker) {{
entry:
  %launch = load ptr, ptr %worker
  {get("warps", "worker", WORKER, "warps")}
  {get("n", "worker", WORKER, "warp_count")}
  {get("stride", "worker", WORKER, "warp_bytes")}
  {get("budget", "launch", LAUNCH, "step_budget")}
  {get("before", "worker", WORKER, "statements")}
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %i1, %loop ]
  %sum = phi i64 [ %before, %entry ], [ %sum1, %loop ]
  %o = mul i32 %i, %stride
  %o64 = zext i32 %o to i64
  %w = getelementptr i8, ptr %warps, i64 %o64
  {get("steps", "w", WARP, "steps")}
  %spent = sub i64 %budget, %steps
  %sum1 = add i64 %sum, %spent
  %i1 = add i32 %i, 1
  %more = icmp ult i32 %i1, %n
  br i1 %more, label %loop, label %end
end:
  store i64 %sum1, ptr %before.p
  ret void
}}

define internal void @run_warp(ptr %w) {{
entry:
  {get("first", "w", WARP, "resume")}
  br label %loop
loop:
  %op = phi ptr [ %first, %entry ], [ %next, %loop ]
  %fn = load ptr, ptr %op
  %next = call ptr %fn(ptr %w, ptr %op)
  %stop = icmp eq ptr %next, null
  br i1 %stop, label %end, label %loop
end:
  ret void
}}
"""

# A barrier is released when enough warps stand at it: all warps of the block (``barrier_count`` 0), or that many threads, rounded up to warps.
# A warp that has exited never arrives. Warps wait as a whole (all their live lanes): a warp with lanes at two barriers can never go on.
# Every lane of a released warp resumes; reductions (bar.red) have gathered their result in the worker's ``votes``.
_RELEASE = f"""
define internal i1 @release(ptr %worker) {{
entry:
  %launch = load ptr, ptr %worker
  {get("native32", "launch", LAUNCH, "native")}
  %native = icmp ne i32 %native32, 0
  {get("warps", "worker", WORKER, "warps")}
  {get("n", "worker", WORKER, "warp_count")}
  {get("stride", "worker", WORKER, "warp_bytes")}
  br label %each
each:
  %id = phi i32 [ 0, %entry ], [ %id1, %skip ]
  %freed = phi i1 [ false, %entry ], [ %freed1, %skip ]
  br label %count
count:
  %i = phi i32 [ 0, %each ], [ %i1, %counted ]
  %here = phi i32 [ 0, %each ], [ %here1, %counted ]
  %want = phi i32 [ 0, %each ], [ %want1, %counted ]
  %o = mul i32 %i, %stride
  %o64 = zext i32 %o to i64
  %w = getelementptr i8, ptr %warps, i64 %o64
  {get("st", "w", WARP, "status")}
  {get("b", "w", WARP, "barrier")}
  {get("c", "w", WARP, "barrier_count")}
  %waits = icmp eq i32 %st, {Status.BARRIER:d}
  %same = icmp eq i32 %b, %id
  %in = and i1 %waits, %same
  br i1 %in, label %inside, label %counted
inside:
  br label %counted
counted:
  %plus = phi i32 [ 0, %count ], [ 1, %inside ]
  %want1 = phi i32 [ %want, %count ], [ %c, %inside ]
  %here1 = add i32 %here, %plus
  %i1 = add i32 %i, 1
  %more = icmp ult i32 %i1, %n
  br i1 %more, label %count, label %judge
judge:
  {at("arrived", "worker", WORKER, "arrived")}
  %id64 = zext i32 %id to i64
  %arrived.q = getelementptr i32, ptr %arrived.p, i64 %id64
  %arrived = load i32, ptr %arrived.q
  %all = add i32 %here1, %arrived
  %round = add i32 %want1, 31
  %wanted = lshr i32 %round, 5
  %whole = icmp eq i32 %want1, 0
  %needed = select i1 %whole, i32 %n, i32 %wanted
  %met = icmp uge i32 %all, %needed
  %some = icmp ne i32 %here1, 0
  %go = and i1 %met, %some
  br i1 %go, label %free, label %skip
free:
  store i32 0, ptr %arrived.q
  {at("votes", "worker", WORKER, "votes")}
  {at("present", "worker", WORKER, "present")}
  %votes.q = getelementptr i32, ptr %votes.p, i64 %id64
  %present.q = getelementptr i32, ptr %present.p, i64 %id64
  %votes = load i32, ptr %votes.q
  %present = load i32, ptr %present.q
  store i32 0, ptr %votes.q
  store i32 0, ptr %present.q
  br label %each_warp
each_warp:
  %j = phi i32 [ 0, %free ], [ %j1, %freed_warp ]
  %jo = mul i32 %j, %stride
  %jo64 = zext i32 %jo to i64
  %jw = getelementptr i8, ptr %warps, i64 %jo64
  {get("jst", "jw", WARP, "status")}
  {get("jb", "jw", WARP, "barrier")}
  %jwaits = icmp eq i32 %jst, {Status.BARRIER:d}
  %jsame = icmp eq i32 %jb, %id
  %jin = and i1 %jwaits, %jsame
  br i1 %jin, label %wake, label %freed_warp
wake:
  store i32 {Status.RUNNING:d}, ptr %jst.p
  {put("0", "jw", WARP, "waiting", "jwt")}
  {put("%votes", "jw", WARP, "votes", "jv")}
  {put("%present", "jw", WARP, "present", "jn")}
  br i1 %native, label %freed_warp, label %threaded
threaded:
  %op = call ptr @schedule(ptr %jw)
  {put("%op", "jw", WARP, "resume", "jr")}
  br label %freed_warp
freed_warp:
  %j1 = add i32 %j, 1
  %jmore = icmp ult i32 %j1, %n
  br i1 %jmore, label %each_warp, label %skip
skip:
  %freed1 = phi i1 [ %freed, %judge ], [ true, %freed_warp ]
  %id1 = add i32 %id, 1
  %ids = icmp ult i32 %id1, 16
  br i1 %ids, label %each, label %end
end:
  ret i1 %freed1
}}
"""

_SCHEDULER = f"""
define ptr @fault(ptr %w, i32 %index, i32 %kind, i32 %lane, i64 %address, i32 %size, i32 %space, i32 %reason) noinline cold {{
  {get("worker", "w", WARP, "worker")}
  {get("number", "w", WARP, "number")}
  {get("block", "worker", WORKER, "block_linear")}
  {put(f"{Status.FAULT:d}", "w", WARP, "status", "a")}
  {put("%kind", "worker", WORKER, "fault_kind", "b")}
  {put("%index", "worker", WORKER, "fault_index", "c")}
  {put("%lane", "worker", WORKER, "fault_lane", "d")}
  {put("%number", "worker", WORKER, "fault_warp", "e")}
  {put("%size", "worker", WORKER, "fault_size", "f")}
  {put("%space", "worker", WORKER, "fault_space", "g")}
  {put("%reason", "worker", WORKER, "fault_reason", "h")}
  {put("%address", "worker", WORKER, "fault_address", "i")}
  {put("%block", "worker", WORKER, "fault_block", "j")}
  ret ptr null
}}

define ptr @enter(ptr %w, ptr %label) {{
entry:
  {get("steps", "w", WARP, "steps")}
  {_word("count", "label", 0)}
  %count64 = zext i32 %count to i64
  %left = sub i64 %steps, %count64
  store i64 %left, ptr %steps.p
  %over = icmp slt i64 %left, 0
  br i1 %over, label %stop, label %go
stop:
  %index.p = getelementptr i8, ptr %label, i64 8
  %index = load i32, ptr %index.p
  {get("active", "w", WARP, "active")}
  %lane = call i32 @llvm.cttz.i32(i32 %active, i1 false)
  %none = call ptr @fault(ptr %w, i32 %index, i32 {Fault.STEPS:d}, i32 %lane, i64 0, i32 0, i32 0, i32 0)
  ret ptr null
go:
  %next = getelementptr i8, ptr %label, i64 {LABEL_BYTES}
  ret ptr %next
}}

define i32 @pick(ptr %w) {{
entry:
  {get("live", "w", WARP, "live")}
  {get("blocked", "w", WARP, "blocked")}
  {get("waiting", "w", WARP, "waiting")}
  %out = or i32 %blocked, %waiting
  %in = xor i32 %out, -1
  %ready = and i32 %live, %in
  %none = icmp eq i32 %ready, 0
  br i1 %none, label %idle, label %pick
idle:
  %dead = icmp eq i32 %live, 0
  br i1 %dead, label %exited, label %held
exited:
  {put(f"{Status.EXITED:d}", "w", WARP, "status", "s1")}
  ret i32 -1
held:
  %free = icmp eq i32 %blocked, 0
  br i1 %free, label %suspend, label %stuck
suspend:
  {put(f"{Status.BARRIER:d}", "w", WARP, "status", "s2")}
  ret i32 -1
stuck:
  %lane = call i32 @llvm.cttz.i32(i32 %blocked, i1 false)
  %z = call ptr @fault(ptr %w, i32 0, i32 {Fault.CONVERGENCE:d}, i32 %lane, i64 0, i32 0, i32 0, i32 0)
  ret i32 -1
pick:
  {at("pcs", "w", WARP, "pcs")}
  %pcs = load <32 x i32>, ptr %pcs.p
  %mask = bitcast i32 %ready to <32 x i1>
  %candidates = select <32 x i1> %mask, <32 x i32> %pcs, <32 x i32> splat (i32 -1)
  %pc = call i32 @llvm.vector.reduce.umin.v32i32(<32 x i32> %candidates)
  %pc.i = insertelement <32 x i32> poison, i32 %pc, i64 0
  %pc.v = shufflevector <32 x i32> %pc.i, <32 x i32> poison, <32 x i32> zeroinitializer
  %at.v = icmp eq <32 x i32> %pcs, %pc.v
  %at = bitcast <32 x i1> %at.v to i32
  %awake = xor i32 %waiting, -1
  %can = and i32 %live, %awake
  %active = and i32 %at, %can
  {put("%active", "w", WARP, "active", "ac")}
  %others = xor i32 %active, -1
  %still = and i32 %blocked, %others
  store i32 %still, ptr %blocked.p
  ret i32 %pc
}}

define ptr @schedule(ptr %w) {{
entry:
  %pc = call i32 @pick(ptr %w)
  %none = icmp slt i32 %pc, 0
  br i1 %none, label %stop, label %go
stop:
  ret ptr null
go:
  {get("launch", "w", WARP, "launch")}
  {get("code", "launch", LAUNCH, "code")}
  %pc64 = zext i32 %pc to i64
  %label = getelementptr i8, ptr %code, i64 %pc64
  %next = call ptr @enter(ptr %w, ptr %label)
  ret ptr %next
}}

define void @stand_at(ptr %w, i32 %lanes, i32 %pc) {{
  call void @stand(ptr %w, i32 %lanes, i32 %pc)
  ret void
}}

define internal void @spread(ptr %vector, i32 %lanes, i32 %value) alwaysinline {{
  %old = load <32 x i32>, ptr %vector
  %mask = bitcast i32 %lanes to <32 x i1>
  %value.i = insertelement <32 x i32> poison, i32 %value, i64 0
  %value.v = shufflevector <32 x i32> %value.i, <32 x i32> poison, <32 x i32> zeroinitializer
  %new = select <32 x i1> %mask, <32 x i32> %value.v, <32 x i32> %old
  store <32 x i32> %new, ptr %vector
  ret void
}}

define internal void @stand(ptr %w, i32 %lanes, i32 %pc) alwaysinline {{
  {at("pcs", "w", WARP, "pcs")}
  call void @spread(ptr %pcs.p, i32 %lanes, i32 %pc)
  ret void
}}

define internal i32 @offset(ptr %w, ptr %op) alwaysinline {{
  {get("launch", "w", WARP, "launch")}
  {get("code", "launch", LAUNCH, "code")}
  %a = ptrtoint ptr %op to i64
  %b = ptrtoint ptr %code to i64
  %d = sub i64 %a, %b
  %r = trunc i64 %d to i32
  ret i32 %r
}}

define internal ptr @target(ptr %w, i32 %pc) alwaysinline {{
  {get("launch", "w", WARP, "launch")}
  {get("code", "launch", LAUNCH, "code")}
  %pc64 = zext i32 %pc to i64
  %r = getelementptr i8, ptr %code, i64 %pc64
  ret ptr %r
}}

define internal i32 @condition(ptr %w, ptr %op) alwaysinline {{
  {_word("slot", "op", 0)}
  {_word("flip", "op", 1)}
  %slot64 = zext i32 %slot to i64
  %p.p = getelementptr i8, ptr %w, i64 %slot64
  %p = load i32, ptr %p.p
  %c = xor i32 %p, %flip
  {get("active", "w", WARP, "active")}
  %r = and i32 %c, %active
  ret i32 %r
}}
"""


def _next(op: str, words: int) -> str:
    return f"getelementptr i8, ptr %{op}, i64 {operation_bytes(words)}"


def operation_bytes(words: int) -> int:
    """The size of an operation with so many operand words."""
    return (OPERATION_HEAD + 4 * words + 7) // 8 * 8


_CONTROL = f"""
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
  {_word("pc", "op", 0)}
  %next = call ptr @target(ptr %w, i32 %pc)
  ret ptr %next
}}

define ptr @op_branch(ptr %w, ptr %op) {{
entry:
  %taken = call i32 @condition(ptr %w, ptr %op)
  {_word("pc", "op", 2)}
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

define i32 @remove(ptr %w, i32 %lanes) {{
entry:
  {get("live", "w", WARP, "live")}
  {get("active", "w", WARP, "active")}
  %keep = xor i32 %lanes, -1
  %live1 = and i32 %live, %keep
  %active1 = and i32 %active, %keep
  store i32 %live1, ptr %live.p
  store i32 %active1, ptr %active.p
  {put("0", "w", WARP, "blocked", "b")}
  ret i32 %active1
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
  {_word("kind", "op", 0)}
  {get("active", "w", WARP, "active")}
  %none = call ptr @trapped(ptr %w, ptr %op, i32 %active, i32 %kind)
  ret ptr null
}}

define ptr @op_trap_if(ptr %w, ptr %op) {{
entry:
  %lanes = call i32 @condition(ptr %w, ptr %op)
  {_word("kind", "op", 2)}
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
  {_word("slot", "op", 0)}
  {_word("bytes", "op", 1)}
  %slot64 = zext i32 %slot to i64
  %bytes64 = zext i32 %bytes to i64
  %d = getelementptr i8, ptr %w, i64 %slot64
  call void @llvm.memset.p0.i64(ptr %d, i8 0, i64 %bytes64, i1 false)
  %next = {_next("op", 2)}
  ret ptr %next
}}

define i32 @gather(ptr %w, ptr %members.p, i32 %word) {{
entry:
  {get("active", "w", WARP, "active")}
  {get("live", "w", WARP, "live")}
  %constant = icmp eq ptr %members.p, null
  br i1 %constant, label %one, label %each
one:
  %w.i = insertelement <32 x i32> poison, i32 %word, i64 0
  %w.v = shufflevector <32 x i32> %w.i, <32 x i32> poison, <32 x i32> zeroinitializer
  br label %check
each:
  %m.v = load <32 x i32>, ptr %members.p
  br label %check
check:
  %members = phi <32 x i32> [ %w.v, %one ], [ %m.v, %each ]
  %others = xor i32 %active, -1
  %missing = and i32 %live, %others
  %x.i = insertelement <32 x i32> poison, i32 %missing, i64 0
  %x.v = shufflevector <32 x i32> %x.i, <32 x i32> poison, <32 x i32> zeroinitializer
  %lack.v = and <32 x i32> %members, %x.v
  %lack = icmp ne <32 x i32> %lack.v, zeroinitializer
  %lacking = bitcast <32 x i1> %lack to i32
  %wait = and i32 %lacking, %active
  {get("blocked", "w", WARP, "blocked")}
  %blocked1 = or i32 %blocked, %wait
  store i32 %blocked1, ptr %blocked.p
  %go = xor i32 %active, %wait
  store i32 %go, ptr %active.p
  ret i32 %go
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
  {_word("slot", "op", 0)}
  {_word("word", "op", 1)}
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

define ptr @op_branch_table(ptr %w, ptr %op) {{
entry:
  {_word("slot", "op", 0)}
  {_word("count", "op", 1)}
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

define i1 @arrive(ptr %w, i32 %pc, i32 %go, i32 %id, i32 %count, i1 %given, i32 %holds, i32 %index) {{
entry:
  {get("active", "w", WARP, "active")}
  {get("waiting", "w", WARP, "waiting")}
  {get("worker", "w", WARP, "worker")}
  {at("barrier", "w", WARP, "barrier")}
  %lane = call i32 @llvm.cttz.i32(i32 %active, i1 false)
  %known = icmp ult i32 %id, 16
  br i1 %known, label %check, label %bad
bad:
  %id.z = zext i32 %id to i64
  %z = call ptr @fault(ptr %w, i32 %index, i32 {Fault.INDEX:d}, i32 %lane, i64 %id.z, i32 0, i32 0, i32 1)
  ret i1 false
check:
  %part = and i32 %count, 31
  %whole = icmp eq i32 %part, 0
  %nonzero = icmp ne i32 %count, 0
  %fits = and i1 %whole, %nonzero
  %refuse = xor i1 %fits, true
  %odd = and i1 %given, %refuse
  br i1 %odd, label %uneven, label %vote
uneven:
  %count.z = zext i32 %count to i64
  %z3 = call ptr @fault(ptr %w, i32 %index, i32 {Fault.INDEX:d}, i32 %lane, i64 %count.z, i32 0, i32 0, i32 2)
  ret i1 false
vote:
  %id64 = zext i32 %id to i64
  %p.a = and i32 %holds, %active
  %yes = call i32 @llvm.ctpop.i32(i32 %p.a)
  %all = call i32 @llvm.ctpop.i32(i32 %active)
  {at("votes", "worker", WORKER, "votes")}
  {at("present", "worker", WORKER, "present")}
  %votes.q = getelementptr i32, ptr %votes.p, i64 %id64
  %present.q = getelementptr i32, ptr %present.p, i64 %id64
  %votes = load i32, ptr %votes.q
  %present = load i32, ptr %present.q
  %votes1 = add i32 %votes, %yes
  %present1 = add i32 %present, %all
  store i32 %votes1, ptr %votes.q
  store i32 %present1, ptr %present.q
  %waits = icmp eq i32 %go, 0
  br i1 %waits, label %wait, label %pass
pass:
  {at("arrived", "worker", WORKER, "arrived")}
  %arrived.q = getelementptr i32, ptr %arrived.p, i64 %id64
  %arrived = load i32, ptr %arrived.q
  %arrived1 = add i32 %arrived, 1
  store i32 %arrived1, ptr %arrived.q
  ret i1 true
wait:
  %before = load i32, ptr %barrier.p
  %others = icmp ne i32 %waiting, 0
  %differs = icmp ne i32 %before, %id
  %clash = and i1 %others, %differs
  %kept = select i1 %clash, i32 -1, i32 %id
  store i32 %kept, ptr %barrier.p
  {put("%count", "w", WARP, "barrier_count", "bc")}
  %waiting1 = or i32 %waiting, %active
  store i32 %waiting1, ptr %waiting.p
  {at("ids", "w", WARP, "barriers")}
  call void @spread(ptr %ids.p, i32 %active, i32 %id)
  call void @stand(ptr %w, i32 %active, i32 %pc)
  ret i1 true
}}

define ptr @op_barrier(ptr %w, ptr %op) {{
entry:
  {_word("go", "op", 0)}
  {_word("id.slot", "op", 1)}
  {_word("id.word", "op", 2)}
  {_word("count.slot", "op", 3)}
  {_word("count.word", "op", 4)}
  {_word("p.slot", "op", 5)}
  {_word("p.flip", "op", 6)}
  {get("active", "w", WARP, "active")}
  %next = {_next("op", 7)}
  %id = call i32 @first(ptr %w, i32 %id.slot, i32 %id.word, i32 %active)
  %count = call i32 @first(ptr %w, i32 %count.slot, i32 %count.word, i32 %active)
  %index.p = getelementptr i8, ptr %op, i64 8
  %index = load i32, ptr %index.p
  %given.b = or i32 %count.slot, %count.word
  %given = icmp ne i32 %given.b, 0
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
  {_word("how", "op", 0)}
  {_word("slot", "op", 1)}
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


def runtime_text() -> str:
    """The runtime module's IR."""
    return _GRID + _RELEASE + _SCHEDULER + _CONTROL + _BARRIER + access_text()

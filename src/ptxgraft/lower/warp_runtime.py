"""The part of compiled code that is the same for every kernel: here the loops over blocks and warps, and the opening of barriers.

Invariant: nothing in it depends on a program; it is compiled once per machine and kept. A warp gives the loop back its turn only at a barrier, at its end
or at a fault, so that one call runs any number of blocks without Python; where threads may wait for others (a launch with a ``quantum``), after so many
statements too, and the host gives each block its turns.
"""

from __future__ import annotations

from ptxgraft.lower.warp_access import access_text, at, get, put
from ptxgraft.lower.warp_control import control_text
from ptxgraft.lower.warp_scheduler import scheduler_text
from ptxgraft.lower.warp_state import LAUNCH, WARP, WORKER, Fault, Status

PLAIN_MXCSR = 0x1F80
"""The CPU's floating-point state that the text of every operation assumes: nearest, subnormals kept, no traps."""

_GRID = f"""
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i32 @llvm.cttz.i32(i32, i1)
declare i32 @llvm.ctpop.i32(i32)
declare i32 @llvm.vector.reduce.umin.v32i32(<32 x i32>)

declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)

define void @run_grid(ptr %worker) {{
entry:
  ; Some libraries leave the thread flushing subnormals, or rounding in another way.
  %caller = alloca i32
  %plain = alloca i32
  store i32 {PLAIN_MXCSR}, ptr %plain
  call void @llvm.x86.sse.stmxcsr(ptr %caller)
  call void @llvm.x86.sse.ldmxcsr(ptr %plain)
  call void @take_blocks(ptr %worker)
  call void @llvm.x86.sse.ldmxcsr(ptr %caller)
  ret void
}}

define internal void @take_blocks(ptr %worker) noinline {{
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
  br i1 %more, label %number, label %end
number:
  %all = icmp eq ptr %list, null
  br i1 %all, label %block, label %listed
listed:
  %entry.p = getelementptr i64, ptr %list, i64 %i
  %from_list = load i64, ptr %entry.p
  br label %block
block:
  %linear = phi i64 [ %i, %number ], [ %from_list, %listed ]
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
  br i1 %faulted, label %fault, label %logged
logged:
  ; A log that is half full is the host's to empty before the next block.
  {get("noted", "worker", WORKER, "log_count")}
  {get("limit", "worker", WORKER, "log_limit")}
  %half = lshr i64 %limit, 1
  %enough = icmp ugt i64 %noted, %half
  br i1 %enough, label %end, label %take
fault:
  store atomic i32 1, ptr %stop.p monotonic, align 4
  br label %end
end:
  ret void
}}

define i32 @run_block(ptr %worker) {{
entry:
  call void @begin_block(ptr %worker)
  br label %turn
turn:
  %status = call i32 @turn_block(ptr %worker)
  %more = icmp eq i32 %status, {Status.RUNNING:d}
  br i1 %more, label %turn, label %end
end:
  ret i32 %status
}}

define void @run_turn(ptr %worker) {{
entry:
  ; One turn of the block that the host has chosen.
  %caller = alloca i32
  %plain = alloca i32
  store i32 {PLAIN_MXCSR}, ptr %plain
  call void @llvm.x86.sse.stmxcsr(ptr %caller)
  call void @llvm.x86.sse.ldmxcsr(ptr %plain)
  {get("begun", "worker", WORKER, "begun")}
  %fresh = icmp eq i32 %begun, 0
  br i1 %fresh, label %begin, label %turn
begin:
  store i32 1, ptr %begun.p
  call void @begin_block(ptr %worker)
  br label %turn
turn:
  %status = call i32 @turn_block(ptr %worker)
  {put("%status", "worker", WORKER, "status", "st")}
  %more = icmp eq i32 %status, {Status.RUNNING:d}
  br i1 %more, label %end, label %over
over:
  call void @tally(ptr %worker)
  br label %end
end:
  call void @llvm.x86.sse.ldmxcsr(ptr %caller)
  ret void
}}

define internal void @begin_block(ptr %worker) {{
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
  br i1 %rmore, label %reset, label %end
end:
  ret void
}}

define internal i32 @turn_block(ptr %worker) {{
entry:
  %launch = load ptr, ptr %worker
  {get("warps", "worker", WORKER, "warps")}
  {get("n", "worker", WORKER, "warp_count")}
  {get("stride", "worker", WORKER, "warp_bytes")}
  {get("quantum", "launch", LAUNCH, "quantum")}
  %sliced = icmp ne i64 %quantum, 0
  br label %turn
turn:
  %i = phi i32 [ 0, %entry ], [ %i1, %next ]
  %waiting = phi i32 [ 0, %entry ], [ %waiting1, %next ]
  %running = phi i32 [ 0, %entry ], [ %running1, %next ]
  %o = mul i32 %i, %stride
  %o64 = zext i32 %o to i64
  %w = getelementptr i8, ptr %warps, i64 %o64
  {get("st", "w", WARP, "status")}
  %ready = icmp eq i32 %st, {Status.RUNNING:d}
  br i1 %ready, label %run, label %after
run:
  {get("steps", "w", WARP, "steps")}
  %less = sub i64 %steps, %quantum
  %some = icmp sgt i64 %less, 0
  %both = and i1 %some, %sliced
  %floor = select i1 %both, i64 %less, i64 0
  {put("%floor", "w", WARP, "floor", "fl")}
  {put("%steps", "w", WARP, "turn", "tu")}
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
  %runs = icmp eq i32 %st1, {Status.RUNNING:d}
  %two = zext i1 %runs to i32
  %running1 = add i32 %running, %two
  %i1 = add i32 %i, 1
  %more = icmp ult i32 %i1, %n
  br i1 %more, label %turn, label %judge
judge:
  %none = icmp eq i32 %waiting1, 0
  %idle = icmp eq i32 %running1, 0
  br i1 %none, label %free, label %release
free:
  %over = select i1 %idle, i32 {Status.EXITED:d}, i32 {Status.RUNNING:d}
  ret i32 %over
release:
  %opened = call i1 @release(ptr %worker)
  %going = xor i1 %idle, true
  %ok = or i1 %opened, %going
  br i1 %ok, label %again, label %stuck
again:
  ret i32 {Status.RUNNING:d}
stuck:
  {put(f"{Fault.BARRIER:d}", "worker", WORKER, "fault_kind", "fk")}
  {get("lin", "worker", WORKER, "block_linear")}
  {put("%lin", "worker", WORKER, "fault_block", "fb")}
  br label %bad
bad:
  ret i32 {Status.FAULT:d}
}}

define internal void @reset_warp(ptr %w, ptr %code, i64 %budget) {{
  {get("initial", "w", WARP, "initial")}
  {put("%initial", "w", WARP, "active", "a")}
  {put("%initial", "w", WARP, "live", "l")}
  {put("0", "w", WARP, "status", "s")}
  {put("0", "w", WARP, "blocked", "b")}
  {put("0", "w", WARP, "waiting", "wt")}
  {at("mine", "w", WARP, "arrivals")}
  call void @llvm.memset.p0.i64(ptr %mine.p, i8 0, i64 64, i1 false)
  {put("0", "w", WARP, "passed", "ps")}
  {put("%code", "w", WARP, "resume", "r")}
  {put("0", "w", WARP, "floor", "fl")}
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
  {get("kept", "w", WARP, "resume")}
  %turned = icmp eq ptr %kept, null
  br i1 %turned, label %again, label %start
again:
  ; Its last turn ended in the middle.
  %chosen = call ptr @schedule(ptr %w)
  %nobody = icmp eq ptr %chosen, null
  br i1 %nobody, label %end, label %start
start:
  %first = phi ptr [ %kept, %entry ], [ %chosen, %again ]
  br label %loop
loop:
  %op = phi ptr [ %first, %start ], [ %next, %loop ]
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
  %parts = phi i32 [ 0, %each ], [ %parts1, %counted ]
  %o = mul i32 %i, %stride
  %o64 = zext i32 %o to i64
  %w = getelementptr i8, ptr %warps, i64 %o64
  {get("st", "w", WARP, "status")}
  {get("b", "w", WARP, "barrier")}
  {get("c", "w", WARP, "barrier_count")}
  %waits = icmp eq i32 %st, {Status.BARRIER:d}
  %same = icmp eq i32 %b, %id
  %in = and i1 %waits, %same
  br i1 %in, label %counted, label %outside
outside:
  {at("mine", "w", WARP, "arrivals")}
  %mine.q = getelementptr i32, ptr %mine.p, i32 %id
  %mine = load i32, ptr %mine.q
  {get("alive", "w", WARP, "live")}
  %mine.not = xor i32 %mine, -1
  %missing = and i32 %alive, %mine.not
  %complete = icmp eq i32 %missing, 0
  %came = icmp ne i32 %mine, 0
  %late.b = and i1 %complete, %came
  %late = zext i1 %late.b to i32
  br label %counted
counted:
  %plus = phi i32 [ 1, %count ], [ 0, %outside ]
  %gone = phi i32 [ 0, %count ], [ %late, %outside ]
  %want1 = phi i32 [ %c, %count ], [ %want, %outside ]
  %here1 = add i32 %here, %plus
  %parts1 = add i32 %parts, %gone
  %i1 = add i32 %i, 1
  %more = icmp ult i32 %i1, %n
  br i1 %more, label %count, label %judge
judge:
  {at("arrived", "worker", WORKER, "arrived")}
  %id64 = zext i32 %id to i64
  %arrived.q = getelementptr i32, ptr %arrived.p, i64 %id64
  %arrived = load i32, ptr %arrived.q
  %whole.warps = add i32 %here1, %arrived
  %all = add i32 %whole.warps, %parts1
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
  {at("jmine", "jw", WARP, "arrivals")}
  %jmine.q = getelementptr i32, ptr %jmine.p, i32 %id
  store i32 0, ptr %jmine.q
  {get("jst", "jw", WARP, "status")}
  {get("jb", "jw", WARP, "barrier")}
  %jwaits = icmp eq i32 %jst, {Status.BARRIER:d}
  %jsame = icmp eq i32 %jb, %id
  %jin = and i1 %jwaits, %jsame
  br i1 %jin, label %wake, label %freed_warp
wake:
  store i32 {Status.RUNNING:d}, ptr %jst.p
  {put("0", "jw", WARP, "waiting", "jwt")}
  {get("jpassed", "jw", WARP, "passed")}
  %jpassed1 = add i32 %jpassed, 1
  store i32 %jpassed1, ptr %jpassed.p
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


def runtime_text() -> str:
    """The runtime module's IR."""
    return _GRID + _RELEASE + scheduler_text() + control_text() + access_text()

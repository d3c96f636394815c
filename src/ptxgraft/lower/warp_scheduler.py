"""The scheduler of compiled code: which lanes of a warp run next, who waits for whom, and how a fault is written down.

Invariant: the smallest program counter at which a lane that can move stands is chosen, with all lanes that stand there; but from time to time that of
any such lane, so that lanes which wait in a loop for others do not keep these from running. A warp that cannot move has come to an end, to a barrier
or to a fault, and its status says which.
"""

from __future__ import annotations

from ptxgraft.lower.warp_access import at, get, put
from ptxgraft.lower.warp_state import LAUNCH, OPERATION_HEAD, WARP, WORKER, Fault, Status

FAIR_EVERY, FAIR_FOR = 1 << 16, 1 << 12
"""Of so many statements (a power of two), the last so many choose among all lanes that can move."""

LABEL_BYTES = 16
"""A label operation: head and the number of instructions from it to the next label."""


def word(name: str, op: str, number: int) -> str:
    """``%name`` = operand word ``number`` of an operation."""
    return f"%{name}.p = getelementptr i8, ptr %{op}, i64 {OPERATION_HEAD + 4 * number}\n  %{name} = load i32, ptr %{name}.p"


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
  {word("count", "label", 0)}
  %count64 = zext i32 %count to i64
  %left = sub i64 %steps, %count64
  store i64 %left, ptr %steps.p
  {get("floor", "w", WARP, "floor")}
  %over = icmp slt i64 %left, %floor
  br i1 %over, label %late, label %go
late:
  %spent = icmp slt i64 %left, 0
  br i1 %spent, label %stop, label %turn
turn:
  ; What is longer than a whole turn runs all the same.
  {get("begun", "w", WARP, "turn")}
  %first = icmp eq i64 %steps, %begun
  br i1 %first, label %go, label %yield
yield:
  store i64 %steps, ptr %steps.p
  {get("here", "w", WARP, "active")}
  %pc = call i32 @offset(ptr %w, ptr %label)
  call void @stand(ptr %w, i32 %here, i32 %pc)
  {put("null", "w", WARP, "resume", "re")}
  ret ptr null
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

define i1 @serve(ptr %w, i32 %index) noinline {{
entry:
  {get("worker", "w", WARP, "worker")}
  {get("service", "worker", WORKER, "service")}
  %failed = call i32 %service(ptr %w, i32 %index)
  %fine = icmp eq i32 %failed, 0
  br i1 %fine, label %on, label %bad
bad:
  {get("active", "w", WARP, "active")}
  %lane = call i32 @llvm.cttz.i32(i32 %active, i1 false)
  %none = call ptr @fault(ptr %w, i32 %index, i32 {Fault.HOST:d}, i32 %lane, i64 0, i32 0, i32 0, i32 0)
  ret i1 false
on:
  ret i1 true
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
  %first = call i32 @llvm.vector.reduce.umin.v32i32(<32 x i32> %candidates)
  {get("steps", "w", WARP, "steps")}
  {get("launch", "w", WARP, "launch")}
  {get("budget", "launch", LAUNCH, "step_budget")}
  %spent = sub i64 %budget, %steps
  %phase = and i64 %spent, {FAIR_EVERY - 1}
  %fair = icmp uge i64 %phase, {FAIR_EVERY - FAIR_FOR}
  %mixed = mul i64 %steps, 2654435769
  %mixed.s = lshr i64 %mixed, 27
  %start = trunc i64 %mixed.s to i32
  %turned = call i32 @llvm.fshr.i32(i32 %ready, i32 %ready, i32 %start)
  %next = call i32 @llvm.cttz.i32(i32 %turned, i1 false)
  %lane.s = add i32 %next, %start
  %chosen = and i32 %lane.s, 31
  %fair.pc = extractelement <32 x i32> %pcs, i32 %chosen
  %pc = select i1 %fair, i32 %fair.pc, i32 %first
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
  {at("mine", "w", WARP, "arrivals")}
  {get("live", "w", WARP, "live")}
  %mine.q = getelementptr i32, ptr %mine.p, i64 %id64
  %mine = load i32, ptr %mine.q
  %mine1 = or i32 %mine, %active
  %mine.not = xor i32 %mine1, -1
  %missing = and i32 %live, %mine.not
  %every = icmp eq i32 %missing, 0
  %mine2 = select i1 %every, i32 0, i32 %mine1
  store i32 %mine2, ptr %mine.q
  %more = zext i1 %every to i32
  %arrived1 = add i32 %arrived, %more
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
"""


def scheduler_text() -> str:
    """The IR of all this; goes into the runtime module."""
    return _SCHEDULER

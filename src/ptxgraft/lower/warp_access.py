"""Checked memory access, one lane after another: the path that every access may take and that names what is wrong.

Invariant: no address is touched that is not inside one allocation (or segment) as a whole and aligned to the whole access; the first lane that
breaks this, lowest first, is the fault. Faster paths elsewhere may only shortcut what this would do.
"""

from __future__ import annotations

from ptxgraft.lower.warp_state import IMAGE_FIELDS, LAUNCH, RECORD, RECORD_BYTES, WARP, WORKER, Fault, Layout, Space

STORE_BIT = 1 << 20
ATOMIC_BIT = 1 << 21
"""In an access code: element bytes, count << 8, space << 16, and these for a store and for an atomic (which also stores)."""


def access_code(space: str, width: int, count: int, flags: int = 0) -> int:
    """An access as one word: ``width`` bits an element, ``count`` neighbouring elements."""
    return width // 8 | count << 8 | Space[space.upper()] << 16 | flags


def at(name: str, base: str, layout: Layout, field: str, extra: int = 0) -> str:
    """IR: ``%name.p`` = address of a field of the structure at ``%base``."""
    return f"%{name}.p = getelementptr i8, ptr %{base}, i64 {layout[field] + extra}"


def get(name: str, base: str, layout: Layout, field: str, extra: int = 0) -> str:
    """IR: ``%name.p`` = address, ``%name`` = contents of a field."""
    return f"{at(name, base, layout, field, extra)}\n  %{name} = load {layout.types[field]}, ptr %{name}.p"


def put(value: str, base: str, layout: Layout, field: str, tag: str) -> str:
    """IR: store ``value`` into a field; ``tag`` makes the address's name unique."""
    return f"{at(tag, base, layout, field)}\n  store {layout.types[field]} {value}, ptr %{tag}.p"


_FIND = f"""
define internal ptr @find(ptr %table, i64 %count, i64 %address) {{
entry:
  br label %loop
loop:
  %low = phi i64 [ 0, %entry ], [ %low1, %step ]
  %high = phi i64 [ %count, %entry ], [ %high1, %step ]
  %open = icmp ult i64 %low, %high
  br i1 %open, label %step, label %end
step:
  %sum = add i64 %low, %high
  %mid = lshr i64 %sum, 1
  %o = mul i64 %mid, {RECORD_BYTES}
  %r = getelementptr i8, ptr %table, i64 %o
  %base = load i64, ptr %r
  %left = icmp ult i64 %address, %base
  %mid1 = add i64 %mid, 1
  %low1 = select i1 %left, i64 %low, i64 %mid1
  %high1 = select i1 %left, i64 %mid, i64 %high
  br label %loop
end:
  %none = icmp eq i64 %low, 0
  br i1 %none, label %missing, label %found
missing:
  ret ptr null
found:
  %last = sub i64 %low, 1
  %lo = mul i64 %last, {RECORD_BYTES}
  %record = getelementptr i8, ptr %table, i64 %lo
  ret ptr %record
}}

define internal i64 @placed(ptr %table, i64 %count, i64 %address, i64 %bytes) {{
entry:
  %r = call ptr @find(ptr %table, i64 %count, i64 %address)
  %none = icmp eq ptr %r, null
  br i1 %none, label %bad, label %check
check:
  %base = load i64, ptr %r
  {get("end", "r", RECORD, "end")}
  {get("delta", "r", RECORD, "delta")}
  %size = sub i64 %end, %base
  %off = sub i64 %address, %base
  %inside = icmp ule i64 %off, %size
  %room = sub i64 %size, %off
  %fits = icmp uge i64 %room, %bytes
  %ok = and i1 %inside, %fits
  br i1 %ok, label %good, label %bad
good:
  %host = add i64 %address, %delta
  ret i64 %host
bad:
  ret i64 0
}}

define internal i64 @segment(i64 %host, i64 %size, i64 %address, i64 %bytes) {{
  %inside = icmp ule i64 %address, %size
  %room = sub i64 %size, %address
  %fits = icmp uge i64 %room, %bytes
  %ok = and i1 %inside, %fits
  %at = add i64 %host, %address
  %r = select i1 %ok, i64 %at, i64 0
  ret i64 %r
}}
"""

_TRANSLATE = f"""
define internal i64 @translate(ptr %w, i32 %space, i64 %address, i64 %bytes, i32 %lane, i1 %store) {{
entry:
  {get("launch", "w", WARP, "launch")}
  {get("shared_window", "launch", LAUNCH, "shared_window")}
  {get("local_window", "launch", LAUNCH, "local_window")}
  {get("param_window", "launch", LAUNCH, "param_window")}
  {get("window", "launch", LAUNCH, "window_bytes")}
  switch i32 %space, label %global [
    i32 {Space.SHARED:d}, label %shared
    i32 {Space.LOCAL:d}, label %local
    i32 {Space.PARAM:d}, label %param
    i32 {Space.GENERIC:d}, label %generic
    i32 {Space.HOST:d}, label %host
  ]
generic:
  %gs = sub i64 %address, %shared_window
  %is.s = icmp ult i64 %gs, %window
  br i1 %is.s, label %shared, label %generic.l
generic.l:
  %gl = sub i64 %address, %local_window
  %is.l = icmp ult i64 %gl, %window
  br i1 %is.l, label %local, label %generic.p
generic.p:
  %gp = sub i64 %address, %param_window
  %is.p = icmp ult i64 %gp, %window
  br i1 %is.p, label %param, label %global
global:
  {get("table", "launch", LAUNCH, "allocations")}
  {get("count", "launch", LAUNCH, "allocation_count")}
  %g = call i64 @placed(ptr %table, i64 %count, i64 %address, i64 %bytes)
  ret i64 %g
host:
  {get("hosts", "launch", LAUNCH, "hosts")}
  {get("host_count", "launch", LAUNCH, "host_count")}
  %h = call i64 @placed(ptr %hosts, i64 %host_count, i64 %address, i64 %bytes)
  ret i64 %h
shared:
  %sa = phi i64 [ %address, %entry ], [ %gs, %generic ]
  {get("sbase", "w", WARP, "shared")}
  {get("sbytes", "launch", LAUNCH, "shared_bytes")}
  %sbytes64 = zext i32 %sbytes to i64
  %shost = ptrtoint ptr %sbase to i64
  %s = call i64 @segment(i64 %shost, i64 %sbytes64, i64 %sa, i64 %bytes)
  ret i64 %s
local:
  %la = phi i64 [ %address, %entry ], [ %gl, %generic.l ]
  {get("lbase", "w", WARP, "local")}
  {get("lbytes", "launch", LAUNCH, "local_bytes")}
  %lbytes64 = zext i32 %lbytes to i64
  %lane64 = zext i32 %lane to i64
  %skip = mul i64 %lane64, %lbytes64
  %lhost0 = ptrtoint ptr %lbase to i64
  %lhost = add i64 %lhost0, %skip
  %l = call i64 @segment(i64 %lhost, i64 %lbytes64, i64 %la, i64 %bytes)
  ret i64 %l
param:
  %pa = phi i64 [ %address, %entry ], [ %gp, %generic.p ]
  {get("pbase", "launch", LAUNCH, "param")}
  {get("pbytes", "launch", LAUNCH, "param_bytes")}
  %pbytes64 = zext i32 %pbytes to i64
  %phost = ptrtoint ptr %pbase to i64
  %p = call i64 @segment(i64 %phost, i64 %pbytes64, i64 %pa, i64 %bytes)
  %pr = select i1 %store, i64 0, i64 %p
  ret i64 %pr
}}
"""

_PLACE = f"""
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define i1 @place(ptr %w, ptr %addresses, i32 %mask, i32 %index, i32 %code) noinline {{
entry:
  %size = and i32 %code, 255
  %count.s = lshr i32 %code, 8
  %count = and i32 %count.s, 255
  %space.s = lshr i32 %code, 16
  %space = and i32 %space.s, 15
  %bytes = mul i32 %size, %count
  %bytes64 = zext i32 %bytes to i64
  %low = sub i64 %bytes64, 1
  %store.b = and i32 %code, {STORE_BIT}
  %store = icmp ne i32 %store.b, 0
  %any = icmp ne i32 %mask, 0
  br i1 %any, label %kind, label %end
kind:
  %image = icmp eq i32 %space, {Space.HOST:d}
  br i1 %image, label %place, label %check
check:
  %cleft = phi i32 [ %mask, %kind ], [ %cleft1, %fine ]
  %clane = call i32 @llvm.cttz.i32(i32 %cleft, i1 false)
  %clane64 = zext i32 %clane to i64
  %ca.p = getelementptr i64, ptr %addresses, i64 %clane64
  %ca = load i64, ptr %ca.p
  %odd.b = and i64 %ca, %low
  %odd = icmp ne i64 %odd.b, 0
  br i1 %odd, label %misaligned, label %fine
misaligned:
  %z1 = call ptr @fault(ptr %w, i32 %index, i32 {Fault.ALIGNMENT:d}, i32 %clane, i64 %ca, i32 %bytes, i32 %code, i32 0)
  ret i1 false
fine:
  %cless = sub i32 %cleft, 1
  %cleft1 = and i32 %cleft, %cless
  %cmore = icmp ne i32 %cleft1, 0
  br i1 %cmore, label %check, label %place
place:
  %left = phi i32 [ %mask, %kind ], [ %mask, %fine ], [ %left1, %aligned ]
  %lane = call i32 @llvm.cttz.i32(i32 %left, i1 false)
  %lane64 = zext i32 %lane to i64
  %a.p = getelementptr i64, ptr %addresses, i64 %lane64
  %a = load i64, ptr %a.p
  %host = call i64 @translate(ptr %w, i32 %space, i64 %a, i64 %bytes64, i32 %lane, i1 %store)
  %out = icmp eq i64 %host, 0
  br i1 %out, label %outside, label %aligned
outside:
  %z2 = call ptr @fault(ptr %w, i32 %index, i32 {Fault.BOUNDS:d}, i32 %lane, i64 %a, i32 %bytes, i32 %code, i32 0)
  ret i1 false
aligned:
  {at("found", "w", WARP, "found")}
  %f.p = getelementptr i64, ptr %found.p, i64 %lane64
  store i64 %host, ptr %f.p
  %less = sub i32 %left, 1
  %left1 = and i32 %left, %less
  %more = icmp ne i32 %left1, 0
  br i1 %more, label %place, label %end
end:
  ret i1 true
}}
"""

# Elements of an access lie in memory as the rest of the code keeps them: element e of lane l at values + (e * 32 + l) * bytes.
_ACCESS = f"""
define i1 @access(ptr %w, ptr %addresses, ptr %values, i32 %mask, i32 %index, i32 %code) noinline {{
entry:
  %size = and i32 %code, 255
  %count.s = lshr i32 %code, 8
  %count = and i32 %count.s, 255
  %store.b = and i32 %code, {STORE_BIT}
  %store = icmp ne i32 %store.b, 0
  %size64 = zext i32 %size to i64
  %step = shl i64 %size64, 5
  %count64 = zext i32 %count to i64
  %ok = call i1 @place(ptr %w, ptr %addresses, i32 %mask, i32 %index, i32 %code)
  br i1 %ok, label %placed, label %fail
fail:
  ret i1 false
placed:
  {at("found", "w", WARP, "found")}
  %any = icmp ne i32 %mask, 0
  br i1 %any, label %lane.next, label %end
lane.next:
  %left = phi i32 [ %mask, %placed ], [ %left1, %lane.done ]
  %lane = call i32 @llvm.cttz.i32(i32 %left, i1 false)
  %lane64 = zext i32 %lane to i64
  %f.p = getelementptr i64, ptr %found.p, i64 %lane64
  %host.i = load i64, ptr %f.p
  %host = inttoptr i64 %host.i to ptr
  %vo = mul i64 %lane64, %size64
  %v0 = getelementptr i8, ptr %values, i64 %vo
  br label %element
element:
  %e = phi i64 [ 0, %lane.next ], [ %e1, %element.done ]
  %eo = mul i64 %e, %size64
  %m = getelementptr i8, ptr %host, i64 %eo
  %so = mul i64 %e, %step
  %v = getelementptr i8, ptr %v0, i64 %so
  %from = select i1 %store, ptr %v, ptr %m
  %to = select i1 %store, ptr %m, ptr %v
  switch i32 %size, label %by1 [
    i32 2, label %by2
    i32 4, label %by4
    i32 8, label %by8
    i32 16, label %by16
  ]
{
    "".join(
        f'''by{n}:
  %x{n} = load i{n * 8}, ptr %from, align 1
  store i{n * 8} %x{n}, ptr %to, align 1
  br label %element.done
'''
        for n in (1, 2, 4, 8, 16)
    )
}element.done:
  %e1 = add i64 %e, 1
  %emore = icmp ult i64 %e1, %count64
  br i1 %emore, label %element, label %lane.done
lane.done:
  %less = sub i32 %left, 1
  %left1 = and i32 %left, %less
  %more = icmp ne i32 %left1, 0
  br i1 %more, label %lane.next, label %logging
logging:
  br i1 %store, label %note, label %end
note:
  call void @note(ptr %w, i32 %mask, i32 %index, i32 %code)
  br label %end
end:
  ret i1 true
}}

define void @note(ptr %w, i32 %mask, i32 %index, i32 %code) noinline {{
entry:
  {get("launch", "w", WARP, "launch")}
  {get("watches", "launch", LAUNCH, "watch_count")}
  %watched = icmp ne i64 %watches, 0
  %some = icmp ne i32 %mask, 0
  %log = and i1 %watched, %some
  br i1 %log, label %record, label %end
record:
  call void @log_stores(ptr %w, i32 %mask, i32 %index, i32 %code)
  br label %end
end:
  ret void
}}
"""

# A log entry: instruction index, warp, lane, bytes (i32 each), host address, block (i64 each): 32 bytes. Entries past the limit are counted only.
LOG_BYTES = 32
_LOG = f"""
define internal void @log_stores(ptr %w, i32 %mask, i32 %index, i32 %code) noinline {{
entry:
  {get("launch", "w", WARP, "launch")}
  {get("worker", "w", WARP, "worker")}
  {get("watch", "launch", LAUNCH, "watch")}
  {get("watches", "launch", LAUNCH, "watch_count")}
  {get("log", "worker", WORKER, "log")}
  {get("limit", "worker", WORKER, "log_limit")}
  {at("used", "worker", WORKER, "log_count")}
  {get("block", "worker", WORKER, "block_linear")}
  {get("number", "w", WARP, "number")}
  %size = and i32 %code, 255
  %count.s = lshr i32 %code, 8
  %count = and i32 %count.s, 255
  %bytes = mul i32 %size, %count
  %bytes64 = zext i32 %bytes to i64
  br label %lane
lane:
  %left = phi i32 [ %mask, %entry ], [ %left1, %done ]
  %l = call i32 @llvm.cttz.i32(i32 %left, i1 false)
  %l64 = zext i32 %l to i64
  {at("found", "w", WARP, "found")}
  %h.p = getelementptr i64, ptr %found.p, i64 %l64
  %h = load i64, ptr %h.p
  %h1 = add i64 %h, %bytes64
  br label %range
range:
  %i = phi i64 [ 0, %lane ], [ %i1, %range.next ]
  %ro = mul i64 %i, 16
  %r = getelementptr i8, ptr %watch, i64 %ro
  %first = load i64, ptr %r
  %last.p = getelementptr i8, ptr %r, i64 8
  %last = load i64, ptr %last.p
  %before = icmp ult i64 %h, %last
  %after = icmp ugt i64 %h1, %first
  %touches = and i1 %before, %after
  br i1 %touches, label %write, label %range.next
range.next:
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, %watches
  br i1 %more, label %range, label %done
write:
  %used = load i64, ptr %used.p
  %used1 = add i64 %used, 1
  store i64 %used1, ptr %used.p
  %room = icmp ult i64 %used, %limit
  br i1 %room, label %put, label %done
put:
  %eo = mul i64 %used, {LOG_BYTES}
  %e = getelementptr i8, ptr %log, i64 %eo
  store i32 %index, ptr %e
  %e4 = getelementptr i8, ptr %e, i64 4
  store i32 %number, ptr %e4
  %e8 = getelementptr i8, ptr %e, i64 8
  store i32 %l, ptr %e8
  %e12 = getelementptr i8, ptr %e, i64 12
  store i32 %bytes, ptr %e12
  %e16 = getelementptr i8, ptr %e, i64 16
  store i64 %h, ptr %e16
  %e24 = getelementptr i8, ptr %e, i64 24
  store i64 %block, ptr %e24
  br label %done
done:
  %less = sub i32 %left, 1
  %left1 = and i32 %left, %less
  %lanes = icmp ne i32 %left1, 0
  br i1 %lanes, label %lane, label %end
end:
  ret void
}}
"""

_IMAGE = f"""
define ptr @image(ptr %w, i64 %kind, i64 %handle, i32 %lane, i32 %index) noinline {{
entry:
  {get("launch", "w", WARP, "launch")}
  {get("images", "launch", LAUNCH, "images")}
  {get("count", "launch", LAUNCH, "image_count")}
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %look, label %missing
look:
  %o = mul i64 %i, {IMAGE_FIELDS * 8}
  %r = getelementptr i8, ptr %images, i64 %o
  %h = load i64, ptr %r
  %k.p = getelementptr i8, ptr %r, i64 8
  %k = load i64, ptr %k.p
  %same.h = icmp eq i64 %h, %handle
  %same.k = icmp eq i64 %k, %kind
  %same = and i1 %same.h, %same.k
  br i1 %same, label %found, label %next
next:
  %i1 = add i64 %i, 1
  br label %loop
found:
  ret ptr %r
missing:
  %kind32 = trunc i64 %kind to i32
  %z = call ptr @fault(ptr %w, i32 %index, i32 {Fault.HANDLE:d}, i32 %lane, i64 %handle, i32 0, i32 0, i32 %kind32)
  ret ptr null
}}
"""


_CONSTANT = f"""
define i32 @constant(ptr %w, ptr %addresses, i32 %mask) noinline {{
entry:
  {get("launch", "w", WARP, "launch")}
  {get("table", "launch", LAUNCH, "constants")}
  {get("count", "launch", LAUNCH, "constant_count")}
  %some = icmp ne i32 %mask, 0
  br i1 %some, label %lane, label %none
none:
  ret i32 0
lane:
  %left = phi i32 [ %mask, %entry ], [ %left1, %lane ]
  %held = phi i32 [ 0, %entry ], [ %held1, %lane ]
  %l = call i32 @llvm.cttz.i32(i32 %left, i1 false)
  %l64 = zext i32 %l to i64
  %a.p = getelementptr i64, ptr %addresses, i64 %l64
  %a = load i64, ptr %a.p
  %at = call i64 @placed(ptr %table, i64 %count, i64 %a, i64 1)
  %in = icmp ne i64 %at, 0
  %in32 = zext i1 %in to i32
  %bit = shl i32 %in32, %l
  %held1 = or i32 %held, %bit
  %less = sub i32 %left, 1
  %left1 = and i32 %left, %less
  %more = icmp ne i32 %left1, 0
  br i1 %more, label %lane, label %end
end:
  ret i32 %held1
}}
"""


# What an access site remembers is the number of a record: other threads may change it, so it is read and written whole and checked at each use.
_REMEMBER = f"""
define ptr @remember(ptr %w, ptr %addresses, i32 %mask, ptr %site) noinline {{
entry:
  {get("launch", "w", WARP, "launch")}
  {get("table", "launch", LAUNCH, "allocations")}
  {get("count", "launch", LAUNCH, "allocation_count")}
  %lane = call i32 @llvm.cttz.i32(i32 %mask, i1 false)
  %inside = and i32 %lane, 31
  %lane64 = zext i32 %inside to i64
  %a.p = getelementptr i64, ptr %addresses, i64 %lane64
  %a = load i64, ptr %a.p
  %r = call ptr @find(ptr %table, i64 %count, i64 %a)
  %none = icmp eq ptr %r, null
  br i1 %none, label %unknown, label %known
unknown:
  ret ptr %table
known:
  %forget = icmp eq ptr %site, null
  br i1 %forget, label %end, label %note
note:
  {get("number", "r", RECORD, "number")}
  %number32 = trunc i64 %number to i32
  store atomic i32 %number32, ptr %site monotonic, align 4
  br label %end
end:
  ret ptr %r
}}
"""


def access_text() -> str:
    """The IR of all this; goes into the runtime module."""
    return _FIND + _TRANSLATE + _PLACE + _ACCESS + _LOG + _IMAGE + _CONSTANT + _REMEMBER

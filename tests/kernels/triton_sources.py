"""Kernels in Triton. This file is read by Triton's compiler: only a machine that has Triton may import it.

Invariant: every kernel takes its pointers first, then its numbers, then what is fixed when it is compiled.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)


@triton.jit
def softmax(x, out, columns, stride, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * stride + at, mask=at < columns, other=-float("inf"))
    weights = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * stride + at, weights / tl.sum(weights, axis=0), mask=at < columns)


@triton.jit
def layer_norm(x, gain, bias, out, mean_out, columns, epsilon, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    mask = at < columns
    values = tl.load(x + row * columns + at, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(values, axis=0) / columns
    centred = tl.where(mask, values - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / columns + epsilon)
    normal = centred * scale * tl.load(gain + at, mask=mask) + tl.load(bias + at, mask=mask)
    tl.store(out + row * columns + at, normal, mask=mask)
    tl.store(mean_out + row, mean)


@triton.jit
def matmul(
    a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, STAGES: tl.constexpr, PRECISION: tl.constexpr, TOTAL: tl.constexpr
):
    rows, columns = tl.program_id(0) * M + tl.arange(0, M), tl.program_id(1) * N + tl.arange(0, N)
    inner = tl.arange(0, K)
    left = a + rows[:, None] * k + inner[None, :]
    right = b + inner[:, None] * n + columns[None, :]
    total = tl.zeros((M, N), dtype=TOTAL)
    for step in tl.range(0, tl.cdiv(k, K), num_stages=STAGES):
        x = tl.load(left, mask=inner[None, :] < k - step * K, other=0.0)
        y = tl.load(right, mask=inner[:, None] < k - step * K, other=0.0)
        total = tl.dot(x, y, total, input_precision=PRECISION, out_dtype=TOTAL)
        left += K
        right += K * n
    place = c + rows[:, None] * n + columns[None, :]
    tl.store(place, total, mask=(rows[:, None] < m) & (columns[None, :] < n))


@triton.jit
def attention(
    q, k, v, out, length, scale, ROWS: tl.constexpr, KEYS: tl.constexpr, HEAD: tl.constexpr, CAUSAL: tl.constexpr, STAGES: tl.constexpr
):
    start, head = tl.program_id(0) * ROWS, tl.program_id(1) * length * HEAD
    rows, width = start + tl.arange(0, ROWS), tl.arange(0, HEAD)
    query = tl.load(q + head + rows[:, None] * HEAD + width[None, :])
    highest = tl.full((ROWS,), -float("inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    sums = tl.zeros((ROWS, HEAD), tl.float32)
    stop = start + ROWS if CAUSAL else length
    for at in tl.range(0, stop, KEYS, num_stages=STAGES):
        keys = at + tl.arange(0, KEYS)
        key = tl.load(k + head + keys[None, :] * HEAD + width[:, None])
        scores = tl.dot(query, key) * (scale * 1.44269504)
        if CAUSAL:
            scores = tl.where(rows[:, None] >= keys[None, :], scores, -float("inf"))
        top = tl.maximum(highest, tl.max(scores, axis=1))
        weights = tl.exp2(scores - top[:, None])
        keep = tl.exp2(highest - top)
        total = total * keep + tl.sum(weights, axis=1)
        value = tl.load(v + head + keys[:, None] * HEAD + width[None, :])
        sums = tl.dot(weights.to(value.dtype), value, sums * keep[:, None])
        highest = top
    tl.store(out + head + rows[:, None] * HEAD + width[None, :], (sums / total[:, None]).to(out.dtype.element_ty))


@triton.jit
def scan(x, out, reverse_out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at)
    tl.store(out + at, tl.cumsum(values, axis=0))
    tl.store(reverse_out + at, tl.cumsum(values, axis=0, reverse=True))


@triton.jit
def order(x, out, top, place, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * BLOCK
    values = tl.load(x + row + at)
    tl.store(out + row + at, tl.sort(values))
    best, index = tl.max(values, axis=0, return_indices=True)
    tl.store(top + tl.program_id(0), best)
    tl.store(place + tl.program_id(0), index)


@triton.jit
def histogram(x, bins, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < n, other=0)
    counts = tl.histogram(values, BINS, mask=at < n)
    tl.atomic_add(bins + tl.arange(0, BINS), counts)


@triton.jit
def random(out, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.randint(seed, at))


@triton.jit
def functions(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    values = tl.load(x + at)
    tl.store(out + at, tl.sin(values))
    tl.store(out + n + at, tl.log(tl.abs(values)))
    tl.store(out + 2 * n + at, tl.erf(values))
    tl.store(out + 3 * n + at, tl.sigmoid(values))
    tl.store(out + 4 * n + at, tl.rsqrt(tl.abs(values)))
    tl.store(out + 5 * n + at, tl.div_rn(values, tl.abs(values) + 3))
    tl.store(out + 6 * n + at, tl.floor(values) + tl.ceil(values) * 0.5)


@triton.jit
def transpose(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows, columns = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    tile = tl.load(x + rows[:, None] * COLUMNS + columns[None, :])
    tl.store(out + columns[:, None] * ROWS + rows[None, :], tl.trans(tile) * 2)


@triton.jit
def _compose(slope, offset, next_slope, next_offset):
    return slope * next_slope, offset * next_slope + next_offset


@triton.jit
def recurrence(slopes, offsets, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    _, found = tl.associative_scan((tl.load(slopes + at), tl.load(offsets + at)), 0, _compose)
    tl.store(out + at, found)


@triton.jit
def steps_to_one(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    values = tl.load(x + at).to(tl.int64)
    count = tl.zeros((BLOCK,), tl.int32)
    while tl.max((values != 1).to(tl.int32), axis=0) > 0:
        count += (values != 1).to(tl.int32)
        values = tl.where(values == 1, 1, tl.where(values % 2 == 0, values // 2, 3 * values + 1))
    tl.store(out + at, count)


@triton.jit
def small_floats(x, eighths, halves, back, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    values = tl.load(x + at)
    eighth, half = values.to(eighths.dtype.element_ty), values.to(tl.bfloat16)
    tl.store(eighths + at, eighth)
    tl.store(halves + at, half)
    tl.store(back + at, eighth.to(tl.float32))
    tl.store(back + BLOCK + at, half.to(tl.float32))


@triton.jit
def atomics(x, sums, bits, halves, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at)
    tl.atomic_add(sums + (values & 3), values)
    tl.atomic_max(sums + 4 + (values & 1), values)
    tl.atomic_xor(bits + (values & 1), values)
    tl.atomic_or(bits + 2 + (values & 1), values)
    tl.atomic_add(halves + (values & 1), (values & 7).to(tl.float16))

// Fragments, phases and the row operations between them.
// Invariant: a phase's operands are all in registers before its first tensor-core instruction, and nothing stands between its instructions.
//
// Lane = 4 * g + t. Of a 16x8 f16 accumulator tile a lane holds word 0: row g, columns 2t, 2t + 1; word 1: row g + 8, the same columns.
// Of a 16x32 e4m3 A tile: word 0: row g, k 4t..4t+3; word 1: row g + 8; word 2: row g, k 16 + 4t..; word 3: row g + 8.
// Of a 32x8 e4m3 B tile: word 0: k 4t..4t+3 of column g; word 1: k 16 + 4t...
// Column 8n + 2t + i of a 32-column slice carries channel 16 (n / 2) + 4t + 2 (n % 2) + i, so four accumulator tiles, requantised,
// are one A tile of the next product in the same lane, with no exchange between lanes.
#pragma once

#include "ptx.cuh"

namespace denoiser {

constexpr int fragment_b_bytes = 256;  // 32 lanes x 2 words

// Lane constants, in f16 pairs.
DENOISER_FN word pair(float value) { return pack_half(value, value); }

template <int M, int N>
struct Accumulator {
    word tile[M][N][2];
};

template <int M, int K>
struct Rows {  // A operands
    word tile[M][K][4];
};

template <int N, int K>
struct Columns {  // B operands
    word tile[N][K][2];
};

// D += A B over K tiles of 32: one run of M * N * K tensor-core instructions.
template <int M, int N, int K>
DENOISER_FN void phase(Accumulator<M, N>& d, const Rows<M, K>& a, const Columns<N, K>& b) {
#pragma unroll
    for (int k = 0; k < K; ++k) {
#pragma unroll
        for (int m = 0; m < M; ++m) {
#pragma unroll
            for (int n = 0; n < N; ++n) mma(d.tile[m][n], a.tile[m][k], b.tile[n][k], d.tile[m][n]);
        }
    }
}

// A cursor over one warp's slice of the weight image. Every take moves it by a number of bytes known when compiling.
struct Weights {
    const unsigned char* slice;  // start of this warp's slice
    int lane;
    int at;  // bytes from the start of the slice

    // N * K B tiles, stored [k][n / 2][lane][4 words]: two neighbouring column tiles are one 16-byte load.
    template <int N, int K>
    __device__ __forceinline__ Columns<N, K> columns() {
        static_assert(N % 2 == 0, "column tiles come in pairs");
        Columns<N, K> b;
        const uint4* from = reinterpret_cast<const uint4*>(slice + at) + lane;
#pragma unroll
        for (int k = 0; k < K; ++k) {
#pragma unroll
            for (int n = 0; n < N; n += 2) {
                const uint4 w = __ldg(from + (k * (N / 2) + n / 2) * 32);
                b.tile[n][k][0] = w.x;
                b.tile[n][k][1] = w.y;
                b.tile[n + 1][k][0] = w.z;
                b.tile[n + 1][k][1] = w.w;
            }
        }
        at += N * K * fragment_b_bytes;
        return b;
    }

    // One bias per column, as the C operand of every row: stored [n / 4][t][4 words], 64 bytes for 32 columns.
    template <int M, int N>
    __device__ __forceinline__ Accumulator<M, N> bias() {
        Accumulator<M, N> c;
        const uint4* from = reinterpret_cast<const uint4*>(slice + at) + (lane & 3);
#pragma unroll
        for (int n = 0; n < N; n += 4) {
            const uint4 w = __ldg(from + n);
            const word four[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
            for (int m = 0; m < M; ++m) {
#pragma unroll
                for (int i = 0; i < 4 && n + i < N; ++i) c.tile[m][n + i][0] = c.tile[m][n + i][1] = four[i];
            }
        }
        at += ((N + 3) / 4) * 64;
        return c;
    }

    // A whole C operand, stored [m][n / 2][lane][4 words].
    template <int M, int N>
    __device__ __forceinline__ Accumulator<M, N> operand() {
        Accumulator<M, N> c;
        const uint4* from = reinterpret_cast<const uint4*>(slice + at) + lane;
#pragma unroll
        for (int m = 0; m < M; ++m) {
#pragma unroll
            for (int n = 0; n < N; n += 2) {
                const uint4 w = __ldg(from + (m * (N / 2) + n / 2) * 32);
                c.tile[m][n][0] = w.x;
                c.tile[m][n][1] = w.y;
                c.tile[m][n + 1][0] = w.z;
                c.tile[m][n + 1][1] = w.w;
            }
        }
        at += M * N * fragment_b_bytes;
        return c;
    }
};

// No addend: the constant operand of a product's first phase.
template <int M, int N>
DENOISER_FN Accumulator<M, N> nothing() {
    Accumulator<M, N> c;
    const word z = zero();
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
        for (int n = 0; n < N; ++n) c.tile[m][n][0] = c.tile[m][n][1] = z;
    }
    return c;
}

// Four accumulator tiles of one row tile, requantised to e4m3: one A tile.
template <int M, int N>
DENOISER_FN void requantise(word (&a)[4], const Accumulator<M, N>& x, int m, int n) {
    a[0] = join(quantise(x.tile[m][n][0]), quantise(x.tile[m][n + 1][0]));
    a[1] = join(quantise(x.tile[m][n][1]), quantise(x.tile[m][n + 1][1]));
    a[2] = join(quantise(x.tile[m][n + 2][0]), quantise(x.tile[m][n + 3][0]));
    a[3] = join(quantise(x.tile[m][n + 2][1]), quantise(x.tile[m][n + 3][1]));
}

template <int M, int N>
DENOISER_FN Rows<M, N / 4> requantised(const Accumulator<M, N>& x) {
    Rows<M, N / 4> a;
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
        for (int k = 0; k < N / 4; ++k) requantise(a.tile[m][k], x, m, 4 * k);
    }
    return a;
}

// Root-mean-square norm of each row over the columns that one warp holds: x / sqrt(mean(x^2) + epsilon). Sums in f32.
template <int M, int N>
DENOISER_FN Accumulator<M, N> row_norm(const Accumulator<M, N>& x, float epsilon) {
    Accumulator<M, N> y;
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            float sum = 0.0f;
#pragma unroll
            for (int n = 0; n < N; ++n) {
                const float low = low_float(x.tile[m][n][r]), high = high_float(x.tile[m][n][r]);
                sum = fmaf(low, low, sum);
                sum = fmaf(high, high, sum);
            }
            sum += shuffle_xor(sum, 1);
            sum += shuffle_xor(sum, 2);
            const float scale = reciprocal_root(fmaf(sum, 1.0f / (8 * N), epsilon));
            const word scale2 = pack_half(scale, scale);
#pragma unroll
            for (int n = 0; n < N; ++n) y.tile[m][n][r] = mul2(x.tile[m][n][r], scale2);
        }
    }
    return y;
}

// Gate of a smooth step with a clamped cubic: x * (1/2 + 3c/8 - c^3/32), c = x clamped to [-2, 2].
DENOISER_FN word activation(word x) {
    const word c = min2(max2(x, 0xc000c000u), 0x40004000u);
    const word square = mul2(c, c);
    const word slope = fma2(square, 0xa800a800u, 0x36003600u);  // 3/8 - c^2/32
    return mul2(x, fma2(c, slope, 0x38003800u));
}

template <int M, int N>
DENOISER_FN void activate(Accumulator<M, N>& x) {
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
        for (int n = 0; n < N; ++n) {
            x.tile[m][n][0] = activation(x.tile[m][n][0]);
            x.tile[m][n][1] = activation(x.tile[m][n][1]);
        }
    }
}

template <int M, int N>
DENOISER_FN void add(Accumulator<M, N>& x, const Accumulator<M, N>& y) {
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
        for (int n = 0; n < N; ++n) {
            x.tile[m][n][0] = add2(x.tile[m][n][0], y.tile[m][n][0]);
            x.tile[m][n][1] = add2(x.tile[m][n][1], y.tile[m][n][1]);
        }
    }
}

template <int M, int N>
DENOISER_FN void scale(Accumulator<M, N>& x, word factor) {
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
        for (int n = 0; n < N; ++n) {
            x.tile[m][n][0] = mul2(x.tile[m][n][0], factor);
            x.tile[m][n][1] = mul2(x.tile[m][n][1], factor);
        }
    }
}

}  // namespace denoiser

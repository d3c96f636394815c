// unrolled: a layer as long as those that vendors ship, for measuring tools: a stem, thirty MLP pairs and a head, all unrolled.
// 62 phases, 1386 mma; block 32x1x1, 8x4 tokens (two row tiles) a block. It is generated and never shipped: `build.py --unrolled`.
#include "fragments.cuh"

namespace denoiser {

constexpr int unrolled_pairs = 30;
constexpr int unrolled_tiles = 2;   // row tiles
constexpr int unrolled_slices = 3;  // 96 channels a token: 24 RGBA texels

// Hidden tiles of 8 columns: every sixth pair is narrower.
template <int Pair>
constexpr int hidden_tiles = Pair % 6 == 5 ? 8 : 12;

constexpr int pair_bytes(int tiles) { return 64 * (tiles / 4) + tiles * fragment_b_bytes + 64 + 4 * (tiles / 4) * fragment_b_bytes; }

constexpr int unrolled_bytes() {
    return 64 + 4 * unrolled_slices * fragment_b_bytes + unrolled_pairs / 6 * (5 * pair_bytes(hidden_tiles<0>) + pair_bytes(hidden_tiles<5>)) + 64 +
           2 * fragment_b_bytes;
}

#ifdef SLICE_BYTES
static_assert(unrolled_bytes() == SLICE_BYTES, "the weight image and the kernel disagree about a warp's slice");
#endif

// x sigmoid(x), in f32.
DENOISER_FN float gated(float x) { return x * reciprocal(1.0f + power_of_two(x * -1.442695041f)); }

template <int M, int N>
DENOISER_FN void gate(Accumulator<M, N>& x) {
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
        for (int n = 0; n < N; ++n) {
#pragma unroll
            for (int r = 0; r < 2; ++r) x.tile[m][n][r] = pack_half(gated(low_float(x.tile[m][n][r])), gated(high_float(x.tile[m][n][r])));
        }
    }
}

// Pairs from `Pair` on: norm, widen, gate, narrow onto the running tokens.
template <int Pair>
DENOISER_FN void mlp_pairs(Accumulator<unrolled_tiles, 4>& x, Weights& weights, float epsilon) {
    if constexpr (Pair < unrolled_pairs) {
        constexpr int tiles = hidden_tiles<Pair>;
        Accumulator<unrolled_tiles, tiles> hidden = weights.bias<unrolled_tiles, tiles>();
        phase(hidden, requantised(row_norm(x, epsilon)), weights.columns<tiles, 1>());
        gate(hidden);
        add(x, weights.bias<unrolled_tiles, 4>());
        phase(x, requantised(hidden), weights.columns<4, tiles / 4>());
        mlp_pairs<Pair + 1>(x, weights, epsilon);
    }
}

}  // namespace denoiser

using namespace denoiser;

extern "C" __global__ void __launch_bounds__(32)
    unrolled(unsigned long long plane, uint4* output, const unsigned char* image, float gain, float epsilon) {
    const int lane = threadIdx.x, g = lane >> 2, t = lane & 3;
    const int token_x = blockIdx.x * 8 + g, token_y = blockIdx.y * 4;
    Weights weights = {image, lane, 0};
    Rows<unrolled_tiles, unrolled_slices> a;
#pragma unroll
    for (int m = 0; m < unrolled_tiles; ++m) {
#pragma unroll
        for (int k = 0; k < unrolled_slices; ++k) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                // A token is 4x4 texels and the two rows below them.
                const int x = token_x * 4 + t, y = (token_y + 2 * m + (i & 1)) * 4 + 2 * k + (i >> 1);
                const float4 v = fetch(plane, (float)x + 0.5f, (float)y + 0.5f);
                a.tile[m][k][i] = join(quantise(v.x * gain, v.y * gain), quantise(v.z * gain, v.w * gain));
            }
        }
    }
    Accumulator<unrolled_tiles, 4> x = weights.bias<unrolled_tiles, 4>();
    phase(x, a, weights.columns<4, unrolled_slices>());
    mlp_pairs<0>(x, weights, epsilon);

    Accumulator<unrolled_tiles, 1> head = weights.bias<unrolled_tiles, 1>();
    const Columns<2, 1> both = weights.columns<2, 1>();
    const Columns<1, 1> first = {{{{both.tile[0][0][0], both.tile[0][0][1]}}}};
    phase(head, requantised(row_norm(x, epsilon)), first);
    const int block = blockIdx.y * gridDim.x + blockIdx.x;
    output[block * 32 + lane] = make_uint4(head.tile[0][0][0], head.tile[0][0][1], head.tile[1][0][0], head.tile[1][0][1]);
}

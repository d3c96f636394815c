// The window-attention layer of the encoder: stem, attention, MLP pairs, 2x2 patch merge, for one window of 8x8 tokens a block.
// Invariant: buffers of the staging array are written, met at one barrier and read; a buffer is written again only after a later barrier
// that every reader has passed, so one barrier an exchange is enough and no result depends on the order of warps.
//
// Warp w owns channels 32w..32w+31 and attention head w. Row tile m holds tokens y = 2m (rows 0-7) and y = 2m + 1 (rows 8-15), row & 7 = x.
#pragma once

#include "fragments.cuh"

namespace denoiser {

constexpr int window_tokens = 8;   // a side
constexpr int patch_texels = 4;    // a side, of the input plane's patch that is one token
constexpr int row_tiles = 4;       // 64 tokens
constexpr int halo_tokens = window_tokens + 2;
constexpr int halo_words = 20;     // 16 words of e4m3 and 4 of padding: eight rows of four lanes fall on 32 different banks
constexpr int input_slices = patch_texels * patch_texels * 4 / 32;

template <int Warps_, int MlpPairs_>
struct WindowLayer {
    static constexpr int Warps = Warps_;
    static constexpr int MlpPairs = MlpPairs_;
    static constexpr int ExchangeBytes = row_tiles * Warps * 512;
    static constexpr int HaloBytes = halo_tokens * halo_tokens * halo_words * 4;
    static constexpr int BufferBytes = ExchangeBytes > HaloBytes ? ExchangeBytes : HaloBytes;
    static constexpr int SharedBytes = 3 * BufferBytes;
    static constexpr int SliceBytes = 64 + 5 * 4 * input_slices * fragment_b_bytes          // stem
                                      + 3 * (64 + 4 * Warps * fragment_b_bytes)             // query, key, value
                                      + row_tiles * 8 * fragment_b_bytes                    // position bias
                                      + 4 * Warps * fragment_b_bytes                        // projection
                                      + MlpPairs * (64 + 2 * 4 * Warps * fragment_b_bytes)  // MLP pairs
                                      + 64 + 4 * 4 * Warps * fragment_b_bytes;              // merge
};

struct Place {
    int lane, g, t, warp;
    int token_x, token_y;  // of the window's first token
};

// Texture prologue: the window's tokens and a ring of one token around them, requantised to e4m3. A texel's four channels are one word.
template <typename Layer>
DENOISER_FN void stage_input(unsigned char* buffer, unsigned long long plane, float gain, const Place& at) {
    constexpr int texels = patch_texels * patch_texels;
    constexpr int threads = 32 * Layer::Warps;
    constexpr int total = (halo_tokens * halo_tokens - 4) * texels;  // no shift reads the ring's corners
    static_assert(total % threads == 0, "every thread stages the same number of texels");
    word* words = reinterpret_cast<word*>(buffer);
    const int thread = at.warp * 32 + at.lane;
#pragma unroll
    for (int i = 0; i < total / threads; ++i) {
        const unsigned index = thread + i * threads, texel = index % texels, inner = index / texels;
        const unsigned token = inner + (inner < window_tokens ? 1 : inner < total / texels - window_tokens ? 2 : 3);
        const int x = (at.token_x - 1 + (int)(token % halo_tokens)) * patch_texels + (int)(texel % patch_texels);
        const int y = (at.token_y - 1 + (int)(token / halo_tokens)) * patch_texels + (int)(texel / patch_texels);
        const float4 v = fetch(plane, (float)x + 0.5f, (float)y + 0.5f);
        words[token * halo_words + texel] = join(quantise(v.x * gain, v.y * gain), quantise(v.z * gain, v.w * gain));
    }
}

// A tiles of the window shifted by (dx, dy) tokens, from the staged input.
DENOISER_FN Rows<row_tiles, input_slices> shifted(const unsigned char* buffer, int dx, int dy, const Place& at) {
    Rows<row_tiles, input_slices> a;
    const word* words = reinterpret_cast<const word*>(buffer) + at.g * halo_words + at.t;
#pragma unroll
    for (int m = 0; m < row_tiles; ++m) {
#pragma unroll
        for (int k = 0; k < input_slices; ++k) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int y = 1 + dy + 2 * m + (i & 1), x = 1 + dx;
                a.tile[m][k][i] = words[(y * halo_tokens + x) * halo_words + k * 8 + (i >> 1) * 4];
            }
        }
    }
    return a;
}

// This warp's 32 channels of all 64 tokens as A tiles for every warp: [m][warp][lane][4 words].
template <typename Layer>
DENOISER_FN void publish(unsigned char* buffer, const Accumulator<row_tiles, 4>& x, const Place& at) {
    uint4* tiles = reinterpret_cast<uint4*>(buffer) + at.warp * 32 + at.lane;
#pragma unroll
    for (int m = 0; m < row_tiles; ++m) {
        word a[4];
        requantise(a, x, m, 0);
        tiles[m * Layer::Warps * 32] = make_uint4(a[0], a[1], a[2], a[3]);
    }
}

template <typename Layer, int M>
DENOISER_FN Rows<M, Layer::Warps> published(const unsigned char* buffer, int first, const Place& at) {
    Rows<M, Layer::Warps> a;
    const uint4* tiles = reinterpret_cast<const uint4*>(buffer) + at.lane;
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
        for (int k = 0; k < Layer::Warps; ++k) {
            const uint4 w = tiles[((first + m) * Layer::Warps + k) * 32];
            a.tile[m][k][0] = w.x;
            a.tile[m][k][1] = w.y;
            a.tile[m][k][2] = w.z;
            a.tile[m][k][3] = w.w;
        }
    }
    return a;
}

// M row tiles from `first` of a wider accumulator, and back.
template <int M, int N, int All>
DENOISER_FN Accumulator<M, N> part(const Accumulator<All, N>& x, int first) {
    Accumulator<M, N> y;
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
        for (int n = 0; n < N; ++n) {
            y.tile[m][n][0] = x.tile[first + m][n][0];
            y.tile[m][n][1] = x.tile[first + m][n][1];
        }
    }
    return y;
}
template <int M, int N, int All>
DENOISER_FN void put(Accumulator<All, N>& x, int first, const Accumulator<M, N>& y) {
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
        for (int n = 0; n < N; ++n) {
            x.tile[first + m][n][0] = y.tile[m][n][0];
            x.tile[first + m][n][1] = y.tile[m][n][1];
        }
    }
}

// x B + c for all 64 tokens, x from the staging array, M row tiles a phase.
template <typename Layer, int M, int N>
DENOISER_FN void product(Accumulator<row_tiles, N>& c, const unsigned char* buffer, const Columns<N, Layer::Warps>& b, const Place& at) {
#pragma unroll
    for (int m = 0; m < row_tiles; m += M) {
        const Rows<M, Layer::Warps> a = published<Layer, M>(buffer, m, at);
        Accumulator<M, N> d = part<M>(c, m);
        phase(d, a, b);
        put(c, m, d);
    }
}

// Stem: 64 channels of a token and its four neighbours to this warp's 32 channels, one phase a neighbour.
template <typename Layer>
DENOISER_FN Accumulator<row_tiles, 4> stem(const unsigned char* buffer, Weights& weights, const Place& at) {
    Accumulator<row_tiles, 4> x = weights.bias<row_tiles, 4>();
    constexpr int shifts[5][2] = {{0, 0}, {-1, 0}, {1, 0}, {0, -1}, {0, 1}};
#pragma unroll
    for (int s = 0; s < 5; ++s) {
        const Columns<4, input_slices> b = weights.columns<4, input_slices>();
        phase(x, shifted(buffer, shifts[s][0], shifts[s][1], at), b);
    }
    return x;
}

// Rows of scores to e4m3 probabilities times 64: exp(u) by a cubic on [-4, 0], u = score - row maximum clamped at -4.
DENOISER_FN Rows<1, 2> softmax(Accumulator<1, 8>& s) {
    word top0 = s.tile[0][0][0], top1 = s.tile[0][0][1];
#pragma unroll
    for (int n = 1; n < 8; ++n) {
        top0 = max2(top0, s.tile[0][n][0]);
        top1 = max2(top1, s.tile[0][n][1]);
    }
    // Both rows' maxima in one word: row g low, row g + 8 high.
    word top = max2(__byte_perm(top0, top1, 0x5410), __byte_perm(top0, top1, 0x7632));
    top = max2(top, shuffle_xor(top, 1));
    top = max2(top, shuffle_xor(top, 2));
    const word tops[2] = {__byte_perm(top, top, 0x1010), __byte_perm(top, top, 0x3232)};
    word sums[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
        for (int n = 0; n < 8; ++n) {
            const word u = max2(sub2(s.tile[0][n][r], tops[r]), 0xc400c400u);
            // exp(u) = 1 + 0.8687 u + 0.2727 u^2 + 0.02925 u^3: least squares on [-4, 0], exact at both ends, at most 0.025 off
            const word p = fma2(fma2(fma2(0x277d277du, u, 0x345d345du), u, 0x3af33af3u), u, 0x3c003c00u);
            s.tile[0][n][r] = p;
            sums[r] = n == 0 ? p : add2(sums[r], p);
        }
    }
    word sum = add2(__byte_perm(sums[0], sums[1], 0x5410), __byte_perm(sums[0], sums[1], 0x7632));
    sum = add2(sum, shuffle_xor(sum, 1));
    sum = add2(sum, shuffle_xor(sum, 2));
    const float inverse0 = 64.0f * reciprocal(low_float(sum)), inverse1 = 64.0f * reciprocal(high_float(sum));
    const word inverse[2] = {pack_half(inverse0, inverse0), pack_half(inverse1, inverse1)};
#pragma unroll
    for (int n = 0; n < 8; ++n) {
        s.tile[0][n][0] = mul2(s.tile[0][n][0], inverse[0]);
        s.tile[0][n][1] = mul2(s.tile[0][n][1], inverse[1]);
    }
    return requantised(s);
}

// One head over the window: softmax(q k^T + position bias) v, then the row norm. Keys in rows are B operands as they stand; values are transposed.
template <typename Layer>
DENOISER_FN Accumulator<row_tiles, 4> attention(const unsigned char* buffer, Weights& weights, float score_scale, float epsilon, const Place& at) {
    Accumulator<row_tiles, 4> q = weights.bias<row_tiles, 4>();
    product<Layer, 1>(q, buffer, weights.columns<4, Layer::Warps>(), at);
    scale(q, pack_half(score_scale, score_scale));
    const Rows<row_tiles, 1> queries = requantised(q);

    Accumulator<row_tiles, 4> k = weights.bias<row_tiles, 4>();
    product<Layer, 1>(k, buffer, weights.columns<4, Layer::Warps>(), at);
    const Rows<row_tiles, 1> key_rows = requantised(k);
    Columns<8, 1> keys;
#pragma unroll
    for (int m = 0; m < row_tiles; ++m) {
        keys.tile[2 * m][0][0] = key_rows.tile[m][0][0];
        keys.tile[2 * m][0][1] = key_rows.tile[m][0][2];
        keys.tile[2 * m + 1][0][0] = key_rows.tile[m][0][1];
        keys.tile[2 * m + 1][0][1] = key_rows.tile[m][0][3];
    }

    Accumulator<row_tiles, 4> v = weights.bias<row_tiles, 4>();
    product<Layer, 1>(v, buffer, weights.columns<4, Layer::Warps>(), at);
    Columns<4, 2> values;
#pragma unroll
    for (int m = 0; m < row_tiles; ++m) {
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            values.tile[n][m / 2][m % 2] = join(quantise(transpose(v.tile[m][n][0])), quantise(transpose(v.tile[m][n][1])));
        }
    }

    Accumulator<row_tiles, 8> scores = weights.operand<row_tiles, 8>();
    Accumulator<row_tiles, 4> out;
#pragma unroll
    for (int m = 0; m < row_tiles; ++m) {
        Accumulator<1, 8> s = part<1>(scores, m);
        Rows<1, 1> query;
#pragma unroll
        for (int i = 0; i < 4; ++i) query.tile[0][0][i] = queries.tile[m][0][i];
        phase(s, query, keys);
        const Rows<1, 2> probabilities = softmax(s);
        Accumulator<1, 4> o = nothing<1, 4>();
        phase(o, probabilities, values);
        put(out, m, row_norm(o, epsilon));
    }
    return out;
}

// 2x2 tokens to one: 16 merged tokens are one row tile, K runs over the four tokens of each and their channels.
template <typename Layer>
DENOISER_FN Accumulator<1, 4> merge(const unsigned char* buffer, Weights& weights, const Place& at) {
    Accumulator<1, 4> d = weights.bias<1, 4>();
    const word* words = reinterpret_cast<const word*>(buffer);
    // Row g is merged token (g & 3, g >> 2); row g + 8 is two merged rows further down.
    const int lane_words = (((at.g >> 2) * Layer::Warps) * 32 + (at.g & 3) * 8 + at.t) * 4;
#pragma unroll
    for (int q = 0; q < 4; ++q) {  // q & 1: x, q >> 1: y inside the 2x2
        Rows<1, Layer::Warps> a;
#pragma unroll
        for (int k = 0; k < Layer::Warps; ++k) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                a.tile[0][k][i] = words[lane_words + (((i & 1) * 2 * Layer::Warps + k) * 32 + (q & 1) * 4) * 4 + (q >> 1) + (i >> 1) * 2];
            }
        }
        const Columns<4, Layer::Warps> b = weights.columns<4, Layer::Warps>();
        phase(d, a, b);
    }
    return d;
}

struct WindowArguments {
    unsigned long long plane;   // input plane, RGBA, 4x4 texels a token
    unsigned long long merged;  // output plane, RGBA f16, a merged token is 8 x Warps texels
    unsigned long long skip;    // output for the decoder, four e4m3 a texel, a token is 8 x Warps texels
    int tokens_x, tokens_y;
    float input_gain, output_gain;
    const unsigned char* weights;
    float score_scale, epsilon;
};

template <typename Layer>
DENOISER_FN void window_layer(const WindowArguments& p, unsigned char* staging) {
    Place at;
    at.lane = threadIdx.x;
    at.warp = threadIdx.z;
    at.g = at.lane >> 2;
    at.t = at.lane & 3;
    at.token_x = blockIdx.x * window_tokens;
    at.token_y = blockIdx.y * window_tokens;
    Weights weights = {p.weights + at.warp * Layer::SliceBytes, at.lane, 0};
    unsigned char* const first = staging;
    unsigned char* const second = staging + Layer::BufferBytes;
    unsigned char* const third = staging + 2 * Layer::BufferBytes;

    stage_input<Layer>(first, p.plane, p.input_gain, at);
    __syncthreads();
    Accumulator<row_tiles, 4> x = stem<Layer>(first, weights, at);

    publish<Layer>(second, row_norm(x, p.epsilon), at);
    __syncthreads();
    publish<Layer>(third, attention<Layer>(second, weights, p.score_scale, p.epsilon, at), at);
    __syncthreads();
    product<Layer, 1>(x, third, weights.columns<4, Layer::Warps>(), at);

    publish<Layer>(first, row_norm(x, p.epsilon), at);
    __syncthreads();
#pragma unroll
    for (int pair = 0; pair < Layer::MlpPairs; ++pair) {
        unsigned char* const buffer = pair % 2 == 0 ? second : third;
        Accumulator<row_tiles, 4> hidden = weights.bias<row_tiles, 4>();
        product<Layer, 2>(hidden, first, weights.columns<4, Layer::Warps>(), at);
        activate(hidden);
        publish<Layer>(buffer, hidden, at);
        __syncthreads();
        product<Layer, 2>(x, buffer, weights.columns<4, Layer::Warps>(), at);
    }

    // Skip connection: the tokens as they are, e4m3. A word is a texel.
    const Accumulator<row_tiles, 4> tokens = row_norm(x, p.epsilon);
#pragma unroll
    for (int m = 0; m < row_tiles; ++m) {
        word a[4];
        requantise(a, tokens, m, 0);
        const int token_x = at.token_x + at.g;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int token_y = at.token_y + 2 * m + (i & 1);
            store_texel(p.skip, (token_x * 8 + (i >> 1) * 4 + at.t) * 4, token_y * Layer::Warps + at.warp, a[i],
                        token_x < p.tokens_x && token_y < p.tokens_y);
        }
    }

    publish<Layer>(first, tokens, at);
    __syncthreads();
    Accumulator<1, 4> merged = merge<Layer>(first, weights, at);
    scale(merged, pack_half(p.output_gain, p.output_gain));
    const int merged_x = (at.token_x >> 1) + (at.g & 3);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const int merged_y = (at.token_y >> 1) + (at.g >> 2) + 2 * r;
        const bool inside = merged_x < (p.tokens_x + 1) >> 1 && merged_y < (p.tokens_y + 1) >> 1;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            store_texel(p.merged, (merged_x * 8 + h * 4 + at.t) * 8, merged_y * Layer::Warps + at.warp, merged.tile[0][2 * h][r],
                        merged.tile[0][2 * h + 1][r], inside);
        }
    }
}

}  // namespace denoiser

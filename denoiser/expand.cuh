// The last decoder layer: 2x2 patch expansion with a skip input, one MLP pair and a picture head, for 8x4 coarse tokens a block of one warp.
// Invariant: a warp shares nothing with any other; each A tile of an input goes from texture to register in the lane that multiplies it.
//
// A coarse token is 4x4 pixels, expanded to four fine tokens of 2x2 pixels, one per quadrant. Row tile m holds coarse tokens y = 2m (rows 0-7)
// and y = 2m + 1 (rows 8-15), row & 7 = x. Lane t of a row fetches and later writes pixel (t & 1, t >> 1) of the row's fine token.
#pragma once

#include "fragments.cuh"

namespace denoiser {

constexpr int coarse_x = 8, coarse_y = 4;  // coarse tokens a block
constexpr int coarse_tiles = 2;            // row tiles
constexpr int coarse_pixels = 4;           // a side of a coarse token
constexpr int feature_slices = 2;          // 64 channels a coarse token: 4x4 RGBA texels

template <int Hidden_>
struct ExpandLayer {
    static constexpr int Hidden = Hidden_;  // MLP tiles of 8 columns
    static constexpr int QuadrantBytes = 64 + 4 * feature_slices * fragment_b_bytes            // expansion
                                         + 4 * fragment_b_bytes                                // skip
                                         + 16 * Hidden + Hidden * fragment_b_bytes             // MLP in
                                         + 64 + 4 * (Hidden / 4) * fragment_b_bytes            // MLP out
                                         + 64 + 2 * fragment_b_bytes;                          // head
    static constexpr int SliceBytes = 4 * QuadrantBytes;
};

// The parameter block, passed by value: 152 bytes. Offsets are part of the interface (denoiser/README.md).
struct ExpandArguments {
    unsigned long long features;  // 0: coarse features, RGBA, 4x4 texels a token, point
    unsigned long long skip;      // 8: noisy colour, RGBA, a texel a pixel, linear
    unsigned long long colour;    // 16: output, RGBA f16
    unsigned long long picture;   // 24: output, RGBA of 8 bits, tone-mapped
    int width, height;            // 32, 36: pixels
    const unsigned char* weights; // 40
    int origin_x, origin_y;       // 48, 52: where the output starts on its surfaces, pixels
    float feature_gain;           // 56
    float skip_gain;              // 60
    float epsilon;                // 64
    float blend_slope;            // 68: of the sigmoid that weighs prediction against input
    float blend_low, blend_high;  // 72, 76: range of that weight
    float matrix[3][4];           // 80: colour matrix, rows red, green, blue, last column added
    float exposure;               // 128
    float white;                  // 132: value that tone mapping takes to 1
    unsigned int dither_seed;     // 136
    float dither;                 // 140: amplitude, units of one 8-bit step
    float head_gain;              // 144
    int flags;                    // 148: bit 0: write the picture
};
static_assert(sizeof(ExpandArguments) == 152, "the parameter block is 152 bytes");

// What a lane knows of the pixel it writes: the input colour.
struct Pixels {
    word red_green[coarse_tiles][2], blue_depth[coarse_tiles][2];
};

// Coarse features as A tiles.
DENOISER_FN Rows<coarse_tiles, feature_slices> coarse_features(const ExpandArguments& p, int token_x, int token_y, int t) {
    Rows<coarse_tiles, feature_slices> a;
#pragma unroll
    for (int m = 0; m < coarse_tiles; ++m) {
#pragma unroll
        for (int k = 0; k < feature_slices; ++k) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                // Word i of slice k is texel 8k + 4 (i / 2) + t of the patch: row 2k + i / 2, column t.
                const int x = token_x * coarse_pixels + t, y = (token_y + 2 * m + (i & 1)) * coarse_pixels + 2 * k + (i >> 1);
                const float4 v = fetch(p.features, (float)x + 0.5f, (float)y + 0.5f);
                a.tile[m][k][i] = join(quantise(v.x * p.feature_gain, v.y * p.feature_gain), quantise(v.z * p.feature_gain, v.w * p.feature_gain));
            }
        }
    }
    return a;
}

// A fine token's skip input: its four pixels and four taps of a ring around them, each tap between texels by quarters.
DENOISER_FN Rows<coarse_tiles, 1> skip_input(const ExpandArguments& p, Pixels& pixels, int fine_x, int fine_y, int t) {
    Rows<coarse_tiles, 1> a;
    const int dx = t & 1, dy = t >> 1;
#pragma unroll
    for (int m = 0; m < coarse_tiles; ++m) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const float x = (float)(fine_x * 2), y = (float)((fine_y + 4 * m + 2 * r) * 2);
            const float4 centre = fetch(p.skip, x + (float)dx + 0.5f, y + (float)dy + 0.5f);
            const float4 ring = fetch(p.skip, x + (dx ? 2.75f : -0.75f), y + (dy ? 2.75f : -0.75f));
            const float gain = p.skip_gain;
            a.tile[m][0][r] = join(quantise(centre.x * gain, centre.y * gain), quantise(centre.z * gain, centre.w * gain));
            a.tile[m][0][2 + r] = join(quantise(ring.x * gain, ring.y * gain), quantise(ring.z * gain, ring.w * gain));
            pixels.red_green[m][r] = pack_half(centre.x, centre.y);
            pixels.blue_depth[m][r] = pack_half(centre.z, centre.w);
        }
    }
    return a;
}

// 8-bit code of a linear value: extended Reinhard curve, square-root transfer, dithered.
DENOISER_FN unsigned int tone(float value, const ExpandArguments& p, float noise) {
    const float v = fmaxf(value * p.exposure, 0.0f);
    const float mapped = v * fmaf(v, p.white, 1.0f) * reciprocal(1.0f + v);
    const float code = fmaf(root(mapped), 255.0f, noise);
    return __float2uint_rn(fminf(fmaxf(code, 0.0f), 255.0f));
}

DENOISER_FN void write_pixel(const ExpandArguments& p, word red_green, word blue_depth, word predicted_rg, word predicted_bw, int x, int y) {
    const float slope = high_float(predicted_bw) * p.blend_slope;
    const float gate = reciprocal(1.0f + power_of_two(slope * -1.442695041f));
    const float weight = fmaf(gate, p.blend_high - p.blend_low, p.blend_low);
    const float gain = p.head_gain;
    const float red = low_float(red_green), green = high_float(red_green), blue = low_float(blue_depth);
    const float r = fmaf(weight, fmaf(low_float(predicted_rg), gain, -red), red);
    const float g = fmaf(weight, fmaf(high_float(predicted_rg), gain, -green), green);
    const float b = fmaf(weight, fmaf(low_float(predicted_bw), gain, -blue), blue);
    float out[3];
#pragma unroll
    for (int c = 0; c < 3; ++c) out[c] = fmaf(p.matrix[c][0], r, fmaf(p.matrix[c][1], g, fmaf(p.matrix[c][2], b, p.matrix[c][3])));

    const bool inside = x < p.width && y < p.height;
    const int to_x = x + p.origin_x, to_y = y + p.origin_y;
    store_texel(p.colour, to_x * 8, to_y, pack_half(out[0], out[1]), pack_half(out[2], weight), inside);

    // One hash a pixel: two rounds of multiply and xor-shift.
    unsigned int hash = (unsigned int)to_x * 0x9e3779b1u ^ (unsigned int)to_y * 0x85ebca77u ^ p.dither_seed;
    hash = (hash ^ hash >> 15) * 0x2c1b3c6du;
    hash ^= hash >> 13;
    const float noise = fmaf((float)(hash >> 8), 0x1p-24f, -0.5f) * p.dither;
    const unsigned int code = tone(out[0], p, noise) | tone(out[1], p, noise) << 8 | tone(out[2], p, noise) << 16 | 0xff000000u;
    store_texel(p.picture, to_x * 4, to_y, code, inside && (p.flags & 1));
}

template <typename Layer>
DENOISER_FN void expand_layer(const ExpandArguments& p) {
    const int lane = threadIdx.x, g = lane >> 2, t = lane & 3;
    const int token_x = blockIdx.x * coarse_x + g, token_y = blockIdx.y * coarse_y;
    Weights weights = {p.weights, lane, 0};
    const Rows<coarse_tiles, feature_slices> features = coarse_features(p, token_x, token_y, t);
#pragma unroll
    for (int q = 0; q < 4; ++q) {
        const int fine_x = 2 * token_x + (q & 1), fine_y = 2 * token_y + (q >> 1);
        Pixels pixels;
        const Rows<coarse_tiles, 1> skip = skip_input(p, pixels, fine_x, fine_y, t);

        Accumulator<coarse_tiles, 4> x = weights.bias<coarse_tiles, 4>();
        phase(x, features, weights.columns<4, feature_slices>());
        activate(x);
        phase(x, skip, weights.columns<4, 1>());
        x = row_norm(x, p.epsilon);

        Accumulator<coarse_tiles, Layer::Hidden> hidden = weights.bias<coarse_tiles, Layer::Hidden>();
        phase(hidden, requantised(x), weights.columns<Layer::Hidden, 1>());
        activate(hidden);
        const Accumulator<coarse_tiles, 4> bias = weights.bias<coarse_tiles, 4>();
        add(x, bias);
        phase(x, requantised(hidden), weights.columns<4, Layer::Hidden / 4>());

        Accumulator<coarse_tiles, 2> head = weights.bias<coarse_tiles, 2>();
        phase(head, requantised(row_norm(x, p.epsilon)), weights.columns<2, 1>());
#pragma unroll
        for (int m = 0; m < coarse_tiles; ++m) {
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                write_pixel(p, pixels.red_green[m][r], pixels.blue_depth[m][r], head.tile[m][0][r], head.tile[m][1][r], 2 * fine_x + (t & 1),
                            2 * (fine_y + 4 * m + 2 * r) + (t >> 1));
            }
        }
    }
}

}  // namespace denoiser

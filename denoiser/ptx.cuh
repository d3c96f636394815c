// One function for each PTX instruction that the layers use.
// Invariant: every function here is exactly one PTX instruction (or one register move), so what a layer's source says is what its PTX holds.
#pragma once

namespace denoiser {

using word = unsigned int;       // 32 bits: two f16 or four e4m3
using half_word = unsigned short;  // 16 bits: two e4m3

#define DENOISER_FN static __device__ __forceinline__

// Tensor core: D = A(16x32, e4m3) * B(32x8, e4m3) + C(16x8, f16). Volatile keeps the instructions of one phase together and in order.
DENOISER_FN void mma(word (&d)[2], const word (&a)[4], const word (&b)[2], const word (&c)[2]) {
    word x, y;
    asm volatile("mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};"
                 : "=r"(x), "=r"(y)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]));
    d[0] = x;
    d[1] = y;
}

// A zero that the compiler cannot rematerialise between two tensor-core instructions.
DENOISER_FN word zero() {
    word r;
    asm volatile("mov.b32 %0, 0;" : "=r"(r));
    return r;
}

// 8x8 transpose of f16 over the warp: lane (g, t) gets elements (2t, g) and (2t + 1, g) of the matrix whose row g the lanes 4g..4g+3 hold.
DENOISER_FN word transpose(word a) {
    word r;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(a));
    return r;
}

DENOISER_FN word shuffle_xor(word a, int lanes) { return __shfl_xor_sync(0xffffffffu, a, lanes); }
DENOISER_FN float shuffle_xor(float a, int lanes) { return __shfl_xor_sync(0xffffffffu, a, lanes); }

// Packed f16.
DENOISER_FN word fma2(word a, word b, word c) {
    word r;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    return r;
}
DENOISER_FN word mul2(word a, word b) {
    word r;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
}
DENOISER_FN word add2(word a, word b) {
    word r;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
}
DENOISER_FN word sub2(word a, word b) {
    word r;
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
}
DENOISER_FN word max2(word a, word b) {
    word r;
    asm("max.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
}
DENOISER_FN word min2(word a, word b) {
    word r;
    asm("min.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
}

// Conversions. `low` goes to the low bits.
DENOISER_FN word pack_half(float low, float high) {
    word r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}
DENOISER_FN half_word quantise(word pair) {
    half_word r;
    asm("cvt.rn.satfinite.e4m3x2.f16x2 %0, %1;" : "=h"(r) : "r"(pair));
    return r;
}
DENOISER_FN half_word quantise(float low, float high) {
    half_word r;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(high), "f"(low));
    return r;
}
DENOISER_FN word join(half_word low, half_word high) {
    word r;
    asm("mov.b32 %0, {%1, %2};" : "=r"(r) : "h"(low), "h"(high));
    return r;
}
DENOISER_FN float low_float(word pair) {
    float r;
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }" : "=f"(r) : "r"(pair));
    return r;
}
DENOISER_FN float high_float(word pair) {
    float r;
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, high; }" : "=f"(r) : "r"(pair));
    return r;
}

// Approximations of the special function unit.
DENOISER_FN float reciprocal(float a) {
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a));
    return r;
}
DENOISER_FN float reciprocal_root(float a) {
    float r;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a));
    return r;
}
DENOISER_FN float root(float a) {
    float r;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a));
    return r;
}
DENOISER_FN float power_of_two(float a) {
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a));
    return r;
}

// Textures and surfaces through bindless handles. Texture coordinates are in texels; surface x is in bytes.
DENOISER_FN float4 fetch(unsigned long long texture, float x, float y) {
    float4 r;
    asm volatile("tex.2d.v4.f32.f32 {%0, %1, %2, %3}, [%4, {%5, %6}];"
                 : "=f"(r.x), "=f"(r.y), "=f"(r.z), "=f"(r.w)
                 : "l"(texture), "f"(x), "f"(y));
    return r;
}
DENOISER_FN void store_texel(unsigned long long surface, int x_bytes, int y, word a, word b, bool inside) {
    asm volatile("{ .reg .pred inside; setp.ne.s32 inside, %5, 0; @inside sust.b.2d.v2.b32.trap [%0, {%1, %2}], {%3, %4}; }" ::"l"(surface),
                 "r"(x_bytes), "r"(y), "r"(a), "r"(b), "r"((int)inside)
                 : "memory");
}
DENOISER_FN void store_texel(unsigned long long surface, int x_bytes, int y, word a, bool inside) {
    asm volatile("{ .reg .pred inside; setp.ne.s32 inside, %4, 0; @inside sust.b.2d.b32.trap [%0, {%1, %2}], {%3}; }" ::"l"(surface),
                 "r"(x_bytes), "r"(y), "r"(a), "r"((int)inside)
                 : "memory");
}

}  // namespace denoiser

// Arithmetic and memory of every width and kind.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>

extern "C" __global__ void halves(const half2 *h, const __nv_bfloat162 *b, half2 *oh, __nv_bfloat162 *ob, __nv_fp8x2_e4m3 *o8) {
    int i = threadIdx.x;
    half2 x = __hfma2(h[i], h[i + 1], h[i + 2]);
    x = __hmax2(__hmin2(x, h[i]), h2exp2(x));
    x = __h2div(__hadd2_sat(x, h[i]), h2rsqrt(x));
    x = __hlt2(x, h[i]);
    oh[i] = __hfma2_relu(x, __hneg2(x), __habs2(x));
    __nv_bfloat162 y = __hfma2(b[i], b[i + 1], b[i + 2]);
    ob[i] = __hmax2_nan(y, __float2bfloat162_rn(__low2float(y)));
    o8[i] = __nv_fp8x2_e4m3(make_float2(__high2float(x), __low2float(x)));
    oh[i + 1] = half2(__nv_fp8x2_e5m2(x));
    oh[i + 2] = make_half2(__int2half_rn(i), __double2half(i * 0.3));
}

extern "C" __global__ void tiny(const float2 *in, __nv_fp6x2_e2m3 *six, __nv_fp4x2_e2m1 *four, half2 *out) {
    int i = threadIdx.x;
    six[i] = __nv_fp6x2_e2m3(in[i]);
    four[i] = __nv_fp4x2_e2m1(in[i]);
    out[i] = half2(six[i]);
    out[i + 32] = half2(four[i]);
}

extern "C" __global__ void whole(unsigned *u, int *s, unsigned long long *w) {
    int i = threadIdx.x;
    unsigned a = u[i], b = u[i + 1];
    s[i] = __dp4a((int)a, (int)b, s[i]) + __mulhi(s[i], s[i + 1]) + __clz(a) + __ffs(b) + __popc(a) + __brev(b) + __sad(s[i], s[i + 1], a);
    u[i] = __byte_perm(a, b, 0x5140) + __funnelshift_l(a, b, 5) + __vadd4(a, b) + __vmaxs2(a, b) + __vcmpgtu4(a, b) + __vsadu4(a, b);
    w[i] = __umul64hi(w[i], w[i + 1]) + __brevll(w[i]) + __popcll(w[i]) + __mul24(a, b);
    u[i + 2] = __ballot_sync(~0u, a > b) + __match_any_sync(~0u, a) + __reduce_add_sync(~0u, a) + __activemask() + __shfl_xor_sync(~0u, b, 4);
    w[i + 2] = __fns(a, 0, 2) + clock64() + __float_as_uint(__fdividef(a, b)) + __double2loint(__drcp_rn((double)a));
}

extern "C" __global__ void memory(int *p, const int4 *q, double *d, half2 *h, unsigned short *c, __nv_bfloat162 *f) {
    int i = threadIdx.x;
    int4 v = __ldg(&q[i]);
    int4 t = __ldcs(&q[i + 1]);
    int r = __ldcg(&p[i]) + __ldca(&p[i + 1]) + __ldcv(&p[i + 2]) + __ldlu(&p[i + 3]);
    __stwt(&p[i], v.x + t.y + r);
    __stcs(&p[i + 4], v.z);
    r += atomicAdd(p, 1) + atomicMin(p, 2) + atomicMax_block(p, 3) + atomicExch(p, 4) + atomicCAS(p, 5, 6) + atomicAnd(p, 7);
    r += atomicOr_system(p, 8) + atomicXor(p, 9) + atomicInc((unsigned *)p, 10) + atomicDec((unsigned *)p, 11) + atomicSub(p, 12);
    r += atomicCAS(c, (unsigned short)1, (unsigned short)2);
    atomicAdd(d, 1.5);
    atomicAdd((float *)d, 2.5f);
    atomicAdd(h, h[1]);
    atomicAdd(f, f[1]);
    __threadfence();
    __threadfence_block();
    __threadfence_system();
    *(volatile int *)p = r + (__isShared(p) ? 1 : 0) + (__isGlobal(p) ? 2 : 0) + (__isLocal(&r) ? 4 : 0);
}

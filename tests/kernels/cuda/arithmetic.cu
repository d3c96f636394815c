// Functions of floats: the precise ones of the mathematics library and the fast ones, in f32, f64 and packed halves.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

extern "C" __global__ void functions_f32(const float *x, const float *y, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float a = x[i], b = y[i], positive = fabsf(a), unit = fmodf(positive, 1.0f);
    float *o = out + i;
    o[0 * n] = sinf(a);
    o[1 * n] = cosf(a);
    o[2 * n] = tanf(a);
    o[3 * n] = expf(b);
    o[4 * n] = exp2f(b);
    o[5 * n] = expm1f(b);
    o[6 * n] = logf(positive);
    o[7 * n] = log2f(positive);
    o[8 * n] = log10f(positive);
    o[9 * n] = log1pf(positive);
    o[10 * n] = powf(positive, b * 0.25f);
    o[11 * n] = sqrtf(positive);
    o[12 * n] = rsqrtf(positive);
    o[13 * n] = cbrtf(a);
    o[14 * n] = tanhf(b);
    o[15 * n] = sinhf(b);
    o[16 * n] = coshf(b);
    o[17 * n] = asinf(unit);
    o[18 * n] = acosf(unit);
    o[19 * n] = atanf(a);
    o[20 * n] = atan2f(a, b);
    o[21 * n] = erff(b);
    o[22 * n] = erfcf(b * 0.25f);
    o[23 * n] = hypotf(a, b);
    o[24 * n] = tgammaf(unit + 1.5f);
    o[25 * n] = lgammaf(positive + 3.5f);
    o[26 * n] = a / b;
    o[27 * n] = 1.0f / a;
}

// Exact in IEEE arithmetic.
extern "C" __global__ void exact_f32(const float *x, const float *y, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float a = x[i], b = y[i], *o = out + i;
    o[0 * n] = __fadd_rn(a, b);
    o[1 * n] = __fmul_rn(a, b);
    o[2 * n] = __fdiv_rn(a, b);
    o[3 * n] = __fsqrt_rn(fabsf(a));
    o[4 * n] = fmodf(a, b);
    o[5 * n] = floorf(a);
    o[6 * n] = ceilf(a);
    o[7 * n] = truncf(a);
    o[8 * n] = rintf(a);
    o[9 * n] = copysignf(a, b);
    o[10 * n] = fminf(a, b);
    o[11 * n] = fmaxf(a, b);
    o[12 * n] = ldexpf(a, static_cast<int>(b));
    o[13 * n] = static_cast<float>(static_cast<int>(a));
    o[14 * n] = static_cast<float>(static_cast<unsigned char>(static_cast<int>(a) & 255));
    o[15 * n] = static_cast<float>(static_cast<double>(a) * b);
    o[16 * n] = __int2float_rz(__float_as_int(a));
    o[17 * n] = static_cast<float>(static_cast<long long>(a * 1e9f));
    o[18 * n] = nextafterf(a, b);
    o[19 * n] = remainderf(a, b);
    int exponent;
    o[20 * n] = frexpf(a, &exponent);
    o[21 * n] = static_cast<float>(exponent);
    o[22 * n] = static_cast<float>(isnan(a) + 2 * isinf(a) + 4 * signbit(a) + 8 * isfinite(b));
    o[23 * n] = roundf(a);
}

extern "C" __global__ void fast_f32(const float *x, const float *y, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float a = x[i], b = y[i], *o = out + i;
    o[0 * n] = __sinf(a);
    o[1 * n] = __cosf(a);
    o[2 * n] = __expf(a);
    o[3 * n] = __exp10f(a);
    o[4 * n] = __logf(fabsf(a));
    o[5 * n] = __log2f(fabsf(a));
    o[6 * n] = __fdividef(a, b);
    o[7 * n] = __frcp_rn(a);
    o[8 * n] = __frsqrt_rn(fabsf(a));
    o[9 * n] = __powf(fabsf(a), b * 0.5f);
    o[10 * n] = __saturatef(a);
    o[11 * n] = __tanf(a);
}

extern "C" __global__ void functions_f64(const double *x, const double *y, double *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double a = x[i], b = y[i], positive = fabs(a), *o = out + i;
    o[0 * n] = sin(a);
    o[1 * n] = cos(a);
    o[2 * n] = exp(b);
    o[3 * n] = log(positive);
    o[4 * n] = pow(positive, b * 0.25);
    o[5 * n] = tanh(b);
    o[6 * n] = erf(b);
    o[7 * n] = cbrt(a);
    o[8 * n] = atan2(a, b);
    o[9 * n] = sinh(b);
    o[10 * n] = log1p(positive);
    o[11 * n] = rsqrt(positive);
    o[12 * n] = a / b;
    o[13 * n] = sqrt(positive);
    o[14 * n] = fma(a, b, -a);
    o[15 * n] = fmod(a, b);
    o[16 * n] = rint(a) + floor(b) * 0.5;
    o[17 * n] = static_cast<double>(static_cast<long long>(a * 1e6)) + static_cast<unsigned>(positive);
}

extern "C" __global__ void halves(const __half2 *x, const __half2 *y, __half2 *out, int n) {
    int i = threadIdx.x;
    __half2 a = x[i], b = y[i], *o = out + i;
    o[0 * n] = __hadd2(a, b);
    o[1 * n] = __hsub2(a, b);
    o[2 * n] = __hmul2(a, b);
    o[3 * n] = __hfma2(a, b, a);
    o[4 * n] = __h2div(a, b);
    o[5 * n] = __hmax2(a, b);
    o[6 * n] = __hmin2(a, b);
    o[7 * n] = __hneg2(__habs2(a));
    o[8 * n] = __hgt2(a, b);
    o[9 * n] = __hadd2_sat(a, b);
    o[10 * n] = __hfma2_relu(a, b, b);
    o[11 * n] = h2sqrt(__habs2(a));
    o[12 * n] = __lowhigh2highlow(a);
    o[13 * n] = __floats2half2_rn(__low2float(a) * 3, __half2float(__high2half(b)) + 1);
    o[14 * n] = __halves2half2(__int2half_rn(__half2int_rz(__low2half(a))), __ushort2half_rn(__half2ushort_rn(__high2half(__habs2(b)))));
    o[15 * n] = h2rint(a);
    o[16 * n] = __halves2half2(hfloor(__low2half(a)), hceil(__high2half(a)));
    o[17 * n] = __halves2half2(__hlt(__low2half(a), __high2half(b)) ? __low2half(b) : __high2half(a), __hdiv(__low2half(a), __high2half(b)));
    o[18 * n] = h2exp2(b);
    o[19 * n] = h2log2(__habs2(a));
    o[20 * n] = h2sin(a);
    o[21 * n] = h2tanh(b);
    o[22 * n] = h2rcp(b);
    o[23 * n] = h2rsqrt(__habs2(a));
}

extern "C" __global__ void bfloats(const __nv_bfloat162 *x, const __nv_bfloat162 *y, __nv_bfloat162 *out, int n) {
    int i = threadIdx.x;
    __nv_bfloat162 a = x[i], b = y[i], *o = out + i;
    o[0 * n] = __hadd2(a, b);
    o[1 * n] = __hsub2(a, b);
    o[2 * n] = __hmul2(a, b);
    o[3 * n] = __hfma2(a, b, a);
    o[4 * n] = __hmax2(a, b);
    o[5 * n] = __hmin2(a, b);
    o[6 * n] = __hneg2(__habs2(a));
    o[7 * n] = __floats2bfloat162_rn(__low2float(a) * 3, __bfloat162float(__high2bfloat16(b)) + 1);
    o[8 * n] = __float2bfloat162_rn(__bfloat162float(__low2bfloat16(a)) / 3);
    o[9 * n] = __halves2bfloat162(__float2bfloat16_rz(1.0f / 3), __int2bfloat16_rn(__bfloat162int_rn(__high2bfloat16(a))));
}

extern "C" __global__ void eighths(const float2 *x, uint16_t *packed, float2 *out, int n) {
    int i = threadIdx.x;
    __nv_fp8x2_storage_t e4m3 = __nv_cvt_float2_to_fp8x2(x[i], __NV_SATFINITE, __NV_E4M3);
    __nv_fp8x2_storage_t e5m2 = __nv_cvt_float2_to_fp8x2(x[i], __NV_SATFINITE, __NV_E5M2);
    packed[i] = e4m3;
    packed[n + i] = e5m2;
    out[i] = __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(e4m3, __NV_E4M3)));
    out[n + i] = __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(e5m2, __NV_E5M2)));
}

extern "C" __global__ void wide_division(const ulonglong2 *x, const ulonglong2 *y, ulonglong2 *out, int n) {
    int i = threadIdx.x;
    unsigned __int128 a = (unsigned __int128)x[i].y << 64 | x[i].x, b = (unsigned __int128)y[i].y << 64 | y[i].x;
    unsigned __int128 quotient = a / b, rest = a % b;
    out[i] = make_ulonglong2((unsigned long long)quotient, (unsigned long long)(quotient >> 64));
    out[n + i] = make_ulonglong2((unsigned long long)rest, (unsigned long long)(rest >> 64));
}

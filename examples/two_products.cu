// A kernel to try ptxgraft on: each warp takes 16 rows of 16 values through two layers, out = relu(rows W0 + bias) W1.
// Weights, as halves: W0 as two B fragments (256 values), W1 as one (128), the bias of 16 hidden values.
#include <cuda_fp16.h>

typedef unsigned int Word;  // two halves

__device__ __forceinline__ void product(Word (&d)[2], const Word (&a)[4], const Word (&b)[2], const Word (&c)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};"
                 : "=r"(d[0]), "=r"(d[1])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]));
}

__device__ __forceinline__ Word relu(Word value) {
    const __half2 kept = __hmax2(*reinterpret_cast<__half2 *>(&value), __float2half2_rn(0.0f));
    return *reinterpret_cast<const Word *>(&kept);
}

extern "C" __global__ void two_products(const Word *rows, const Word *weights, Word *out, int tiles) {
    const int lane = threadIdx.x % 32, group = lane / 4, place = lane % 4;
    const int tile = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (tile >= tiles) {
        return;
    }
    const Word *upper = rows + tile * 128 + group * 8 + place, *lower = upper + 64;
    const Word a[4] = {upper[0], lower[0], upper[4], lower[4]};
    Word hidden[2][2];
    for (int n = 0; n < 2; ++n) {
        const Word b[2] = {weights[n * 64 + lane * 2], weights[n * 64 + lane * 2 + 1]};
        const Word bias = weights[192 + n * 4 + place], c[2] = {bias, bias};
        product(hidden[n], a, b, c);
    }
    const Word next[4] = {relu(hidden[0][0]), relu(hidden[0][1]), relu(hidden[1][0]), relu(hidden[1][1])};
    const Word b[2] = {weights[128 + lane * 2], weights[128 + lane * 2 + 1]}, zero[2] = {0, 0};
    Word result[2];
    product(result, next, b, zero);
    out[tile * 64 + group * 4 + place] = result[0];
    out[tile * 64 + (group + 8) * 4 + place] = result[1];
}

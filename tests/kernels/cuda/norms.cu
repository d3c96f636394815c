// Rows that are normalised: softmax, layer norm, RMS norm; attention that never holds a whole row of scores.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr unsigned ALL = 0xFFFFFFFFu;

template <typename F>
__device__ float reduce_block(float x, float none, F join) {
    __shared__ float parts[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int step = 16; step; step /= 2) x = join(x, __shfl_xor_sync(ALL, x, step));
    __syncthreads();
    if (lane == 0) parts[warp] = x;
    __syncthreads();
    x = lane < blockDim.x / 32 ? parts[lane] : none;
    for (int step = 16; step; step /= 2) x = join(x, __shfl_xor_sync(ALL, x, step));
    return x;
}
__device__ float sum_block(float x) {
    return reduce_block(x, 0.0f, [](float a, float b) { return a + b; });
}
__device__ float max_block(float x) {
    return reduce_block(x, -INFINITY, [](float a, float b) { return fmaxf(a, b); });
}

// One block a row.
extern "C" __global__ void softmax(const float *in, float *out, int n) {
    const float *row = in + blockIdx.x * n;
    float highest = -INFINITY, sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) highest = fmaxf(highest, row[i]);
    highest = max_block(highest);
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += expf(row[i] - highest);
    sum = sum_block(sum);
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[blockIdx.x * n + i] = expf(row[i] - highest) / sum;
}

// One warp a row, the maximum and the sum in one pass.
extern "C" __global__ void softmax_online(const float *in, float *out, int rows, int n) {
    int lane = threadIdx.x, r = blockIdx.x * blockDim.y + threadIdx.y;
    if (r >= rows) return;
    float highest = -INFINITY, sum = 0;
    for (int i = lane; i < n; i += 32) {
        float x = in[r * n + i], next = fmaxf(highest, x);
        if (next == -INFINITY) continue;
        sum = sum * __expf(highest - next) + __expf(x - next);
        highest = next;
    }
    for (int step = 16; step; step /= 2) {
        float other = __shfl_xor_sync(ALL, highest, step), rest = __shfl_xor_sync(ALL, sum, step), next = fmaxf(highest, other);
        sum = next == -INFINITY ? 0 : sum * __expf(highest - next) + rest * __expf(other - next);
        highest = next;
    }
    for (int i = lane; i < n; i += 32) out[r * n + i] = __fdividef(__expf(in[r * n + i] - highest), sum);
}

extern "C" __global__ void layer_norm(const float *in, const float *gain, const float *bias, float *out, int n, float epsilon) {
    const float *row = in + blockIdx.x * n;
    float sum = 0, squares = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += row[i];
    float mean = sum_block(sum) / n;
    for (int i = threadIdx.x; i < n; i += blockDim.x) squares += (row[i] - mean) * (row[i] - mean);
    float scale = rsqrtf(sum_block(squares) / n + epsilon);
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[blockIdx.x * n + i] = (row[i] - mean) * scale * gain[i] + bias[i];
}

extern "C" __global__ void rms_norm_half(const __half2 *in, const __half2 *gain, __half2 *out, int n) {
    const __half2 *row = in + blockIdx.x * n;
    float squares = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float2 x = __half22float2(row[i]);
        squares += x.x * x.x + x.y * x.y;
    }
    __half scale = __float2half_rn(rsqrtf(sum_block(squares) / (2 * n) + 1e-5f));
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[blockIdx.x * n + i] = __hmul2(__hmul2(row[i], __half2half2(scale)), gain[i]);
}

extern "C" __global__ void rms_norm_bf16(const __nv_bfloat162 *in, __nv_bfloat162 *out, int n) {
    const __nv_bfloat162 *row = in + blockIdx.x * n;
    float squares = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float2 x = __bfloat1622float2(row[i]);
        squares = fmaf(x.x, x.x, fmaf(x.y, x.y, squares));
    }
    float scale = 1.0f / sqrtf(sum_block(squares) / (2 * n));
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float2 x = __bfloat1622float2(row[i]);
        out[blockIdx.x * n + i] = __floats2bfloat162_rn(x.x * scale, x.y * scale);
    }
}

// Attention in f32: a thread holds a row of q and of the result; keys and values come in tiles through shared memory.
constexpr int HEAD = 16, TILE = 32;
extern "C" __global__ void attention(const float *q, const float *k, const float *v, float *out, int n, int causal) {
    __shared__ float keys[TILE][HEAD], values[TILE][HEAD];
    int row = blockIdx.x * blockDim.x + threadIdx.x, head = blockIdx.y * n * HEAD;
    float mine[HEAD], sums[HEAD] = {}, highest = -INFINITY, total = 0;
    for (int d = 0; d < HEAD; d++) mine[d] = q[head + row * HEAD + d] * 0.25f;
    for (int start = 0; start < n; start += TILE) {
        if (causal && start > blockIdx.x * blockDim.x + blockDim.x - 1) break;
        for (int i = threadIdx.x; i < TILE * HEAD; i += blockDim.x) {
            keys[i / HEAD][i % HEAD] = k[head + start * HEAD + i];
            values[i / HEAD][i % HEAD] = v[head + start * HEAD + i];
        }
        __syncthreads();
        for (int j = 0; j < TILE; j++) {
            if (causal && start + j > row) break;
            float score = 0;
            for (int d = 0; d < HEAD; d++) score += mine[d] * keys[j][d];
            float next = fmaxf(highest, score), keep = expf(highest - next), weight = expf(score - next);
            total = total * keep + weight;
            for (int d = 0; d < HEAD; d++) sums[d] = sums[d] * keep + weight * values[j][d];
            highest = next;
        }
        __syncthreads();
    }
    for (int d = 0; d < HEAD; d++) out[head + row * HEAD + d] = sums[d] / total;
}

__device__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ uint32_t pack(float low, float high) {
    __half2 both = __floats2half2_rn(low, high);
    return *reinterpret_cast<uint32_t *>(&both);
}

// Attention in f16 on tensor cores: a warp has 16 rows, 16 keys a step; scores stay in registers and become the next product's A.
extern "C" __global__ void attention_half(const __half *q, const __half *k, const __half *v, float *out, int n) {
    int lane = threadIdx.x, group = lane / 4, pair = lane % 4 * 2, row = blockIdx.x * 16;
    const uint32_t *rows = reinterpret_cast<const uint32_t *>(q + row * HEAD);
    uint32_t a[4];
    for (int i = 0; i < 4; i++) a[i] = rows[((group + i % 2 * 8) * HEAD + pair + i / 2 * 8) / 2];
    float sums[2][4] = {}, highest[2] = {-INFINITY, -INFINITY}, total[2] = {};
    for (int start = 0; start < n; start += 16) {
        float scores[2][4] = {};
        for (int j = 0; j < 2; j++) {
            const uint32_t *key = reinterpret_cast<const uint32_t *>(k + (start + j * 8 + group) * HEAD + pair);
            mma(scores[j], a, key[0], key[4]);
        }
        uint32_t weights[4];
        for (int half = 0; half < 2; half++) {
            float top = highest[half];
            for (int j = 0; j < 2; j++) top = fmaxf(top, fmaxf(scores[j][2 * half], scores[j][2 * half + 1]) * 0.25f);
            top = fmaxf(top, __shfl_xor_sync(ALL, top, 1));
            top = fmaxf(top, __shfl_xor_sync(ALL, top, 2));
            float keep = __expf(highest[half] - top);
            total[half] *= keep;
            for (int j = 0; j < 2; j++) {
                float x = __expf(scores[j][2 * half] * 0.25f - top), y = __expf(scores[j][2 * half + 1] * 0.25f - top);
                total[half] += x + y;
                weights[half + 2 * j] = pack(x, y);
                sums[j][2 * half] *= keep;
                sums[j][2 * half + 1] *= keep;
            }
            highest[half] = top;
        }
        for (int j = 0; j < 2; j++) {  // values are row by row: transposed on the way
            const __half *column = v + (start + pair) * HEAD + j * 8 + group;
            __half2 low = __halves2half2(column[0], column[HEAD]), high = __halves2half2(column[8 * HEAD], column[9 * HEAD]);
            mma(sums[j], weights, *reinterpret_cast<uint32_t *>(&low), *reinterpret_cast<uint32_t *>(&high));
        }
    }
    for (int half = 0; half < 2; half++) {
        float all = total[half];
        all += __shfl_xor_sync(ALL, all, 1);
        all += __shfl_xor_sync(ALL, all, 2);
        for (int j = 0; j < 2; j++)
            for (int i = 0; i < 2; i++) out[(row + group + half * 8) * HEAD + j * 8 + pair + i] = sums[j][2 * half + i] / all;
    }
}

// Lanes that talk to each other, blocks that agree, grids that add up: shuffles, votes, matches, reductions, cooperative groups, atomics, divergence.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cstdint>
#include <cuda_fp16.h>
namespace cg = cooperative_groups;

constexpr unsigned ALL = 0xFFFFFFFFu;

extern "C" __global__ void shuffles(const int *in, int *out) {
    int lane = threadIdx.x, x = in[lane], *o = out + lane;
    o[0] = __shfl_sync(ALL, x, 5);
    o[32] = __shfl_sync(ALL, x, lane * 7, 8);
    o[64] = __shfl_up_sync(ALL, x, 3);
    o[96] = __shfl_up_sync(ALL, x, 2, 16);
    o[128] = __shfl_down_sync(ALL, x, lane % 2 + 1);
    o[160] = __shfl_xor_sync(ALL, x, 21);
    long long wide = static_cast<long long>(x) << 20 | lane;
    o[192] = static_cast<int>(__shfl_xor_sync(ALL, wide, 9) >> 10);
    o[224] = static_cast<int>(__shfl_down_sync(ALL, x * 0.5, 4) * 4);
    if (lane < 20) o[256] = __shfl_sync(0xFFFFF, x, 19 - lane);  // a part of the warp
    else o[256] = __shfl_up_sync(0xFFF00000, x, 1, 4);
}

extern "C" __global__ void votes(const int *in, unsigned *out) {
    int lane = threadIdx.x, x = in[lane];
    unsigned *o = out + lane;
    o[0] = __ballot_sync(ALL, x > 0);
    o[32] = __any_sync(ALL, x == 7) | __all_sync(ALL, x < 100) << 1 | __all_sync(ALL, x < 5) << 2;
    o[64] = __match_any_sync(ALL, x);
    int all;
    o[96] = __match_all_sync(ALL, x & 0, &all) ^ all * 5;
    o[128] = __match_all_sync(ALL, x, &all) ^ all * 5;
    o[160] = __match_any_sync(ALL, static_cast<unsigned long long>(x) << 33);
    if (x & 1) o[192] = __activemask();
    else o[192] = __ballot_sync(__activemask(), x > 2);
    __syncwarp();
    o[224] = __reduce_add_sync(ALL, x);
    o[256] = __reduce_max_sync(ALL, x);
    o[288] = __reduce_min_sync(ALL, static_cast<unsigned>(x));
    o[320] = __reduce_and_sync(ALL, x | 1) ^ __reduce_or_sync(ALL, x) << 8 ^ __reduce_xor_sync(ALL, x) << 16;
    if (x > 3) o[352] = __reduce_add_sync(__activemask(), lane);
    else o[352] = 0;
    unsigned below, equal;
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
    asm("mov.u32 %0, %%lanemask_ge;" : "=r"(equal));
    o[384] = below ^ equal;
}

__device__ int warp_sum(int x) {
    for (int step = 16; step; step /= 2) x += __shfl_down_sync(ALL, x, step);
    return x;
}

__device__ int block_sum(int x) {
    __shared__ int sums[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    x = warp_sum(x);
    if (lane == 0) sums[warp] = x;
    __syncthreads();
    if (warp == 0) {
        x = lane < (blockDim.x + 31) / 32 ? sums[lane] : 0;
        x = warp_sum(x);
    }
    return x;
}

__device__ unsigned done = 0;

// Every block adds up its part; the last one to finish adds up the parts.
extern "C" __global__ void reduce_grid(const int *in, int n, int *partial, int *total, int *by_atomics) {
    int sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += in[i];
    sum = block_sum(sum);
    __shared__ bool last;
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
        atomicAdd(by_atomics, sum);
        __threadfence();
        last = atomicInc(&done, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last) {
        __syncthreads();
        int all = 0;
        for (int i = threadIdx.x; i < gridDim.x; i += blockDim.x) all += static_cast<volatile int *>(partial)[i];
        all = block_sum(all);
        if (threadIdx.x == 0) *total = all;
    }
}

extern "C" __global__ void groups(const int *in, int *out) {
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<8>(block);
    int i = block.thread_rank(), n = block.size(), x = in[i];
    out[i] = cg::reduce(tile, x, cg::plus<int>());
    out[n + i] = cg::reduce(tile, x, cg::greater<int>());
    out[2 * n + i] = cg::inclusive_scan(tile, x);
    out[3 * n + i] = tile.shfl(x, (tile.thread_rank() + 3) % 8) + tile.meta_group_rank() * 1000;
    if (x % 3 == 0) {
        auto some = cg::coalesced_threads();
        out[4 * n + i] = some.size() * 100 + some.thread_rank();
        out[5 * n + i] = some.shfl(x, 0);
    }
    tile.sync();
    auto odd = cg::labeled_partition(cg::tiled_partition<32>(block), x & 3);
    out[6 * n + i] = cg::reduce(odd, x, cg::plus<int>());
    block.sync();
}

extern "C" __global__ void atomics(const int *in, int *i32, unsigned *u32, long long *i64, unsigned long long *u64, float *f32, double *f64,
                                   __half2 *f16, int *old) {
    __shared__ int counts[8];
    __shared__ unsigned long long highest;
    int i = blockIdx.x * blockDim.x + threadIdx.x, x = in[i];
    if (threadIdx.x < 8) counts[threadIdx.x] = 0;
    if (threadIdx.x == 0) highest = 0;
    __syncthreads();
    atomicAdd(&counts[x & 7], 1);
    atomicMax(&highest, static_cast<unsigned long long>(x & 0xFFFF) << 33);
    atomicAdd(i32, x);
    atomicSub(i32 + 1, x);
    atomicMin(i32 + 2, x);
    atomicMax(i32 + 3, x);
    atomicAnd(i32 + 4, x);
    atomicOr(i32 + 5, x);
    atomicXor(i32 + 6, x);
    atomicAdd_block(i32 + 8 + blockIdx.x, 2);
    atomicAdd_system(i32 + 7, 3);
    atomicMin(u32, static_cast<unsigned>(x));
    atomicMax(u32 + 1, static_cast<unsigned>(x));
    atomicInc(u32 + 2, 10u);
    atomicDec(u32 + 3, 17u);
    atomicMin(i64, static_cast<long long>(x) << 32);
    atomicMax(i64 + 1, static_cast<long long>(x) << 32);
    atomicAdd(u64, static_cast<unsigned long long>(x) << 16);
    atomicXor(u64 + 1, static_cast<unsigned long long>(x) * 0x100000001ull);
    atomicAdd(f32 + (x & 1), (x & 255) * 0.25f);
    atomicAdd(f64 + (x & 1), (x & 255) * 0.125);
    atomicAdd(f16 + (x & 3), __floats2half2_rn(x & 1, 0.5f));
    // A float's maximum by comparing and swapping.
    int *bits = reinterpret_cast<int *>(f32 + 2), seen = *bits, assumed;
    do {
        assumed = seen;
        seen = atomicCAS(bits, assumed, __float_as_int(fmaxf(__int_as_float(assumed), static_cast<float>(x % 1000))));
    } while (seen != assumed);
    old[i] = atomicExch(i32 + 16 + i, x);
    __syncthreads();
    if (threadIdx.x < 8) atomicAdd(i32 + 144 + threadIdx.x, counts[threadIdx.x]);
    if (threadIdx.x == 0) atomicMax(u64 + 2, highest);
}

// Loops of different lengths, early exits, barriers between.
extern "C" __global__ void collatz(const int *in, int *steps, int *highest, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    long long x = in[i], top = x;
    int count = 0;
    while (x != 1) {
        if (x % 2) x = 3 * x + 1;
        else { x /= 2; if (x == 4) { count += 2; break; } }
        if (x > top) top = x;
        if (++count > 400) return;
    }
    steps[i] = count;
    highest[i] = static_cast<int>(top);
}

extern "C" __global__ void nested(const int *in, int *out, int rounds) {
    __shared__ int row[128];
    int i = threadIdx.x, x = in[i];
    row[i] = x;
    __syncthreads();
    for (int k = 0; k < rounds; k++) {
        int y = row[(i + k) % blockDim.x];
        if (y & 1) {
            for (int j = 0; j < (y & 7); j++) {
                if (j == 5) continue;
                x += j * y;
                if (x & 64) { x ^= 3; break; }
            }
        } else {
            do x -= y; while (y && x > 500);
        }
        __syncthreads();
        row[i] = x & 0x3FF;
        __syncthreads();
        if (__syncthreads_count(x & 1) > 96) x += 1000;
        if (__syncthreads_or(x == 12345)) break;
    }
    out[i] = x;
}

extern "C" __global__ void mandelbrot(int *out, int width, int height, int limit) {
    int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= width || py >= height) return;
    double cx = -2.25 + px * 0.125, cy = -1.25 + py * 0.125, x = 0, y = 0;
    int n = 0;
    for (; n < limit && x * x + y * y <= 4; n++) {
        double next = __dadd_rn(__dsub_rn(__dmul_rn(x, x), __dmul_rn(y, y)), cx);
        y = __dadd_rn(__dmul_rn(2 * x, y), cy);
        x = next;
    }
    out[py * width + px] = n;
}

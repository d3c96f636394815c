// Scans, histograms and a radix sort.
#include <cstdint>

constexpr unsigned ALL = 0xFFFFFFFFu;

__device__ int scan_block(int x, int *sums) {  // inclusive; sums has a word for each warp
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int step = 1; step < 32; step *= 2) {
        int other = __shfl_up_sync(ALL, x, step);
        if (lane >= step) x += other;
    }
    if (lane == 31) sums[warp] = x;
    __syncthreads();
    if (warp == 0) {
        int s = lane < blockDim.x / 32 ? sums[lane] : 0;
        for (int step = 1; step < 32; step *= 2) {
            int other = __shfl_up_sync(ALL, s, step);
            if (lane >= step) s += other;
        }
        if (lane < blockDim.x / 32) sums[lane] = s;
    }
    __syncthreads();
    return warp ? x + sums[warp - 1] : x;
}

// One pass over all blocks: each waits for the sum of those before it.
extern "C" __global__ void scan_chained(const int *in, int *out, int n, volatile int *ready, volatile int *sums_before, unsigned *ticket) {
    __shared__ int sums[32], before, number;
    if (threadIdx.x == 0) number = atomicAdd(ticket, 1);
    __syncthreads();
    int i = number * blockDim.x + threadIdx.x;
    int x = scan_block(i < n ? in[i] : 0, sums);
    if (threadIdx.x == blockDim.x - 1) {
        int earlier = 0;
        if (number > 0) {
            while (!ready[number - 1]) {}
            __threadfence();
            earlier = sums_before[number - 1];
        }
        before = earlier;
        sums_before[number] = earlier + x;
        __threadfence();
        ready[number] = 1;
    }
    __syncthreads();
    if (i < n) out[i] = x + before;
}

// Hillis and Steele's scan of floats in shared memory.
extern "C" __global__ void scan_shared(const float *in, float *out) {
    extern __shared__ float rows[];
    int i = threadIdx.x, n = blockDim.x, from = 0;
    rows[i] = in[blockIdx.x * n + i];
    __syncthreads();
    for (int step = 1; step < n; step *= 2) {
        int to = n - from;
        rows[to + i] = i >= step ? rows[from + i] + rows[from + i - step] : rows[from + i];
        from = to;
        __syncthreads();
    }
    out[blockIdx.x * n + i] = rows[from + i];
}

extern "C" __global__ void histogram_global(const uint8_t *in, int n, unsigned *bins) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&bins[in[i]], 1u);
}

extern "C" __global__ void histogram_shared(const uint8_t *in, int n, unsigned *bins) {
    __shared__ unsigned mine[256];
    for (int b = threadIdx.x; b < 256; b += blockDim.x) mine[b] = 0;
    __syncthreads();
    const uchar4 *fours = reinterpret_cast<const uchar4 *>(in);
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n / 4; i += gridDim.x * blockDim.x) {
        uchar4 four = fours[i];
        atomicAdd(&mine[four.x], 1u);
        atomicAdd(&mine[four.y], 1u);
        atomicAdd(&mine[four.z], 1u);
        atomicAdd(&mine[four.w], 1u);
    }
    __syncthreads();
    for (int b = threadIdx.x; b < 256; b += blockDim.x)
        if (mine[b]) atomicAdd(&bins[b], mine[b]);
}

// Radix sort, four bits a pass: counts[digit][block], their sums before, then every key to its place (stable).
extern "C" __global__ void sort_count(const unsigned *keys, int n, int shift, int *counts) {
    __shared__ int mine[16];
    if (threadIdx.x < 16) mine[threadIdx.x] = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&mine[keys[i] >> shift & 15], 1);
    __syncthreads();
    if (threadIdx.x < 16) counts[threadIdx.x * gridDim.x + blockIdx.x] = mine[threadIdx.x];
}

extern "C" __global__ void sort_sums(int *counts, int n) {
    __shared__ int sums[32], carry;
    if (threadIdx.x == 0) carry = 0;
    __syncthreads();
    for (int start = 0; start < n; start += blockDim.x) {
        int i = start + threadIdx.x, x = i < n ? counts[i] : 0;
        int sum = scan_block(x, sums) + carry;
        if (i < n) counts[i] = sum - x;
        __syncthreads();
        if (threadIdx.x == blockDim.x - 1) carry = sum;
        __syncthreads();
    }
}

extern "C" __global__ void sort_scatter(const unsigned *keys, const int *values, int n, int shift, const int *before, unsigned *keys_out, int *values_out) {
    __shared__ unsigned short by_warp[32][16];
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    bool real = i < n;
    unsigned key = real ? keys[i] : 0;
    int digit = real ? key >> shift & 15 : 16;
    unsigned peers = __match_any_sync(ALL, digit);
    int rank = __popc(peers & ((1u << lane) - 1));
    if (lane < 16) by_warp[warp][lane] = 0;
    __syncwarp();
    if (real && rank == 0) by_warp[warp][digit] = static_cast<unsigned short>(__popc(peers));
    __syncthreads();
    if (!real) return;
    int place = before[digit * gridDim.x + blockIdx.x] + rank;
    for (int w = 0; w < warp; w++) place += by_warp[w][digit];
    keys_out[place] = key;
    values_out[place] = values[i];
}

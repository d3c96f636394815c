// Threads that wait for others: barriers of the grid, locks, blocks in a chain, warps that hand work on.
#include <cooperative_groups.h>
#include <cuda/barrier>
namespace cg = cooperative_groups;

#define KERNEL extern "C" __global__ void

__device__ int block_sum(int x) {
    __shared__ int tile[256];
    tile[threadIdx.x] = x;
    for (int s = blockDim.x / 2; s; s /= 2) {
        __syncthreads();
        if (threadIdx.x < s) tile[threadIdx.x] += tile[threadIdx.x + s];
    }
    __syncthreads();
    return tile[0];
}

// Sum, then the sum of squared distances from the mean, in one launch.
KERNEL moments(const int *in, int n, int *partial, long long *out) {
    cg::grid_group grid = cg::this_grid();
    int sum = 0;
    for (int i = grid.thread_rank(); i < n; i += grid.size()) sum += in[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
    grid.sync();
    sum = 0;
    for (int b = threadIdx.x; b < gridDim.x; b += blockDim.x) sum += partial[b];
    int mean = block_sum(sum) / n;
    grid.sync();
    int spread = 0;
    for (int i = grid.thread_rank(); i < n; i += grid.size()) spread += (in[i] - mean) * (in[i] - mean);
    spread = block_sum(spread);
    if (threadIdx.x == 0) atomicAdd((unsigned long long *)out, (unsigned long long)spread);
    grid.sync();
    if (grid.thread_rank() == 0) out[1] = out[0] + mean;
}

// A list that threads of all blocks push to under one lock.
__device__ int lock = 0;
KERNEL locked(int *list, int *length) {
    bool done = false;
    while (!done) {
        if (atomicCAS(&lock, 0, 1) == 0) {
            __threadfence();
            int at = *(volatile int *)length;
            list[at] = blockIdx.x * blockDim.x + threadIdx.x;
            *(volatile int *)length = at + 1;
            __threadfence();
            atomicExch(&lock, 0);
            done = true;
        }
    }
}

// Each block waits for the next higher one: the last begins.
KERNEL chain(volatile int *flags, int *out) {
    if (threadIdx.x == 0) {
        if (blockIdx.x + 1 < gridDim.x) {
            while (flags[blockIdx.x + 1] == 0) __nanosleep(100);
        }
        out[blockIdx.x] = (blockIdx.x + 1 < gridDim.x ? out[blockIdx.x + 1] * 3 : 0) + blockIdx.x;
        __threadfence();
        flags[blockIdx.x] = 1;
    }
}

// One warp makes, the others use: a ring of two stages with full and empty barriers.
KERNEL pipeline(const int *in, int *out, int stages) {
    using Barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ Barrier full[2], empty[2];
    __shared__ int ring[2][32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++) {
            init(&full[i], 32);
            init(&empty[i], blockDim.x - 32);
        }
    }
    __syncthreads();
    if (warp == 0) {
        for (int s = 0; s < stages; s++) {
            if (s >= 2) empty[s % 2].wait_parity((s / 2 + 1) & 1);
            ring[s % 2][lane] = in[s * 32 + lane] * 2;
            (void)full[s % 2].arrive();
        }
    } else {
        int sum = 0;
        for (int s = 0; s < stages; s++) {
            full[s % 2].wait_parity((s / 2) & 1);
            sum = sum * 5 + ring[s % 2][(lane + warp) % 32];
            (void)empty[s % 2].arrive();
        }
        out[threadIdx.x - 32] = sum;
    }
}

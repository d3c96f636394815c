// Kernels over the block-wide parts of CUB and libcu++, as NVIDIA's own headers write them.
#include <cooperative_groups.h>
#include <cub/block/block_histogram.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/std/complex>

constexpr int THREADS = 64, ITEMS = 4;

extern "C" __global__ void sort_pairs(const int *keys_in, const short *values_in, int *keys_out, short *values_out) {
    using Sort = cub::BlockRadixSort<int, THREADS, ITEMS, short>;
    __shared__ typename Sort::TempStorage room;
    int keys[ITEMS];
    short values[ITEMS];
    int at = blockIdx.x * THREADS * ITEMS;
    cub::LoadDirectBlocked(threadIdx.x, keys_in + at, keys);
    cub::LoadDirectBlocked(threadIdx.x, values_in + at, values);
    Sort(room).Sort(keys, values);
    cub::StoreDirectBlocked(threadIdx.x, keys_out + at, keys);
    cub::StoreDirectBlocked(threadIdx.x, values_out + at, values);
}

extern "C" __global__ void scan_and_reduce(const int *in, int *out, int *total, int *most, unsigned *bins) {
    using Load = cub::BlockLoad<int, THREADS, ITEMS, cub::BLOCK_LOAD_WARP_TRANSPOSE>;
    using Store = cub::BlockStore<int, THREADS, ITEMS, cub::BLOCK_STORE_TRANSPOSE>;
    using Scan = cub::BlockScan<int, THREADS, cub::BLOCK_SCAN_RAKING>;
    using Reduce = cub::BlockReduce<int, THREADS>;
    using Warp = cub::WarpReduce<int>;
    using Histogram = cub::BlockHistogram<unsigned char, THREADS, ITEMS, 16, cub::BLOCK_HISTO_SORT>;
    __shared__ union {
        typename Load::TempStorage load;
        typename Store::TempStorage store;
        typename Scan::TempStorage scan;
        typename Reduce::TempStorage reduce;
        typename Warp::TempStorage warp[THREADS / 32];
        typename Histogram::TempStorage histogram;
    } room;
    __shared__ unsigned counts[16];
    int items[ITEMS], at = blockIdx.x * THREADS * ITEMS;
    Load(room.load).Load(in + at, items);
    __syncthreads();
    int sum = Reduce(room.reduce).Sum(items);
    if (threadIdx.x == 0) total[blockIdx.x] = sum;
    __syncthreads();
    int best = Warp(room.warp[threadIdx.x / 32]).Reduce(items[0], cuda::maximum<>{});
    if (threadIdx.x % 32 == 0) most[blockIdx.x * 2 + threadIdx.x / 32] = best;
    __syncthreads();
    unsigned char digits[ITEMS];
    for (int i = 0; i < ITEMS; i++) digits[i] = items[i] & 15;
    Histogram(room.histogram).Histogram(digits, counts);
    __syncthreads();
    if (threadIdx.x < 16) atomicAdd(bins + threadIdx.x, counts[threadIdx.x]);
    Scan(room.scan).ExclusiveSum(items, items);
    __syncthreads();
    Store(room.store).Store(out + at, items);
}

extern "C" __global__ void standard(const float2 *in, float2 *out, int *counter, unsigned long long *most, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        cuda::std::complex<float> z(in[i].x, in[i].y), w = z * z - cuda::std::conj(z);
        out[i] = make_float2(w.real(), w.imag());
        cuda::atomic_ref<int, cuda::thread_scope_device>(*counter).fetch_add(1, cuda::std::memory_order_relaxed);
        cuda::atomic_ref<unsigned long long>(*most).fetch_max(static_cast<unsigned long long>(i) << 33, cuda::std::memory_order_acq_rel);
    }
}

// Tiles of 64 numbers that are brought by asynchronous copies, two ahead, and added up.
extern "C" __global__ void pipeline(const int *in, int *out, int tiles) {
    __shared__ int stages[2][THREADS];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto block = cooperative_groups::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    int sum = 0;
    for (int tile = 0, ahead = 0; tile < tiles; tile++) {
        for (; ahead < tiles && ahead < tile + 2; ahead++) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, stages[ahead % 2], in + (blockIdx.x * tiles + ahead) * THREADS, sizeof(int) * THREADS, pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        sum += stages[tile % 2][THREADS - 1 - threadIdx.x];
        pipe.consumer_release();
    }
    out[blockIdx.x * THREADS + threadIdx.x] = sum;
}

extern "C" __global__ void barriers(const int *in, int *out, int rounds) {
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    __shared__ int row[THREADS];
    if (threadIdx.x == 0) init(&barrier, blockDim.x);
    __syncthreads();
    int x = in[threadIdx.x];
    for (int i = 0; i < rounds; i++) {
        row[threadIdx.x] = x;
        barrier.arrive_and_wait();
        x += row[(threadIdx.x + 1) % blockDim.x];
        auto token = barrier.arrive();
        x ^= i;
        barrier.wait(std::move(token));
    }
    out[threadIdx.x] = x;
}

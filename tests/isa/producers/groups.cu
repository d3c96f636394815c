// Groups of threads: tiles, those that happen to be active, blocks, clusters and whole grids.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

extern "C" __global__ void tiles(const int *in, int *out, float *sums) {
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<8>(block);
    int v = in[block.thread_rank()];
    int total = cg::reduce(tile, v, cg::plus<int>());
    int scan = cg::inclusive_scan(tile, v);
    float best = cg::reduce(tile, sums[block.thread_rank()], cg::greater<float>());
    if (v & 1) {
        auto active = cg::coalesced_threads();
        out[active.thread_rank()] = active.shfl(v, 0) + active.ballot(v > 2) + active.match_any(v) + active.any(v > 5);
    }
    out[block.thread_rank()] += total + scan + tile.shfl_xor(v, 3) + tile.shfl_down(v, 1);
    sums[block.thread_rank()] = best;
    block.sync();
}

extern "C" __global__ void whole_grid(int *counter) {
    auto grid = cg::this_grid();
    if (grid.thread_rank() == 0) atomicAdd(counter, 1);
    grid.sync();
    counter[1 + grid.thread_rank()] = counter[0];
}

#if __CUDA_ARCH__ >= 900
extern "C" __global__ void __cluster_dims__(2, 1, 1) neighbours(int *out) {
    __shared__ int box[32];
    auto cluster = cg::this_cluster();
    box[threadIdx.x] = threadIdx.x + cluster.block_rank();
    cluster.sync();
    int *other = cluster.map_shared_rank(box, cluster.block_rank() ^ 1);
    out[cluster.thread_rank()] = other[threadIdx.x] + cluster.query_shared_rank(other);
    cluster.sync();
}
#endif

// Matrix products by the WMMA interface: fragments loaded from shared memory, a tile of 16 x 16 per warp.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

template <typename In, typename Out, int M, int N, int K, typename Stored, typename Right>
__device__ void product(const Stored *a, const Stored *b, Out *c, int n, int k, Out start) {
    __shared__ __align__(32) Stored left[M * K], right[K * N];
    wmma::fragment<wmma::matrix_a, M, N, K, In, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, M, N, K, In, Right> y;
    wmma::fragment<wmma::accumulator, M, N, K, Out> sum;
    constexpr bool by_column = __is_same(Right, wmma::col_major);
    int row = blockIdx.y * M, col = blockIdx.x * N;
    wmma::fill_fragment(sum, start);
    for (int at = 0; at < k; at += K) {
        for (int i = threadIdx.x; i < M * K; i += 32) left[i] = a[(row + i / K) * k + at + i % K];
        for (int i = threadIdx.x; i < N * K; i += 32)
            right[i] = by_column ? b[(at + i % K) * n + col + i / K] : b[(at + i / N) * n + col + i % N];
        __syncwarp();
        wmma::load_matrix_sync(x, left, K);
        wmma::load_matrix_sync(y, right, by_column ? K : N);
        if constexpr (__is_same(In, wmma::precision::tf32)) {
            for (int i = 0; i < x.num_elements; i++) x.x[i] = wmma::__float_to_tf32(x.x[i]);
            for (int i = 0; i < y.num_elements; i++) y.x[i] = wmma::__float_to_tf32(y.x[i]);
        }
        wmma::mma_sync(sum, x, y, sum);
        __syncwarp();
    }
    for (int i = 0; i < sum.num_elements; i++) sum.x[i] = sum.x[i] + sum.x[i];
    wmma::store_matrix_sync(c + row * n + col, sum, n, wmma::mem_row_major);
}

#define PRODUCT(NAME, IN, STORED, OUT, M, N, K, RIGHT) \
    extern "C" __global__ void NAME(const STORED *a, const STORED *b, OUT *c, int n, int k, OUT start) { \
        product<IN, OUT, M, N, K, STORED, wmma::RIGHT>(a, b, c, n, k, start);                           \
    }
PRODUCT(f16_row, __half, __half, float, 16, 16, 16, row_major)
PRODUCT(f16_col, __half, __half, float, 16, 16, 16, col_major)
PRODUCT(f16_wide, __half, __half, float, 8, 32, 16, row_major)
PRODUCT(f16_tall, __half, __half, __half, 32, 8, 16, col_major)
PRODUCT(bf16_row, __nv_bfloat16, __nv_bfloat16, float, 16, 16, 16, row_major)
PRODUCT(tf32_col, wmma::precision::tf32, float, float, 16, 16, 8, col_major)
PRODUCT(s8_col, int8_t, int8_t, int, 16, 16, 16, col_major)
PRODUCT(u8_row, uint8_t, uint8_t, int, 16, 16, 16, row_major)
PRODUCT(f64_col, double, double, double, 8, 8, 4, col_major)

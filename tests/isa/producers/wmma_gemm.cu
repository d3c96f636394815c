// A block's tile of a product with warp matrices, staged through shared memory.
#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void gemm(const half *a, const half *b, float *c, int n, int k) {
    __shared__ half left[16 * 16], right[16 * 16];
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int at = 0; at < k; at += 16) {
        for (int i = threadIdx.x; i < 256; i += blockDim.x) {
            left[i] = a[(blockIdx.y * 16 + i / 16) * k + at + i % 16];
            right[i] = b[(blockIdx.x * 16 + i / 16) * k + at + i % 16];
        }
        __syncthreads();
        wmma::load_matrix_sync(fa, left, 16);
        wmma::load_matrix_sync(fb, right, 16);
        wmma::mma_sync(sum, fa, fb, sum);
        __syncthreads();
    }
    wmma::store_matrix_sync(c + blockIdx.y * 16 * n + blockIdx.x * 16, sum, n, wmma::mem_row_major);
}

extern "C" __global__ void other_types(const signed char *a, const double *d, const float *t, int *ci, double *cd, float *cf) {
    wmma::fragment<wmma::matrix_a, 32, 8, 16, signed char, wmma::row_major> ia;
    wmma::fragment<wmma::matrix_b, 32, 8, 16, signed char, wmma::col_major> ib;
    wmma::fragment<wmma::accumulator, 32, 8, 16, int> is;
    wmma::fill_fragment(is, 0);
    wmma::load_matrix_sync(ia, a, 16);
    wmma::load_matrix_sync(ib, a, 16);
    wmma::mma_sync(is, ia, ib, is);
    wmma::store_matrix_sync(ci, is, 8, wmma::mem_col_major);
    wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::row_major> da;
    wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::col_major> db;
    wmma::fragment<wmma::accumulator, 8, 8, 4, double> ds;
    wmma::fill_fragment(ds, 0.0);
    wmma::load_matrix_sync(da, d, 4);
    wmma::load_matrix_sync(db, d, 4);
    wmma::mma_sync(ds, da, db, ds);
    wmma::store_matrix_sync(cd, ds, 8, wmma::mem_row_major);
    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> ta;
    wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> tb;
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> ts;
    wmma::fill_fragment(ts, 0.0f);
    wmma::load_matrix_sync(ta, t, 8);
    wmma::load_matrix_sync(tb, t, 8);
    for (int i = 0; i < ta.num_elements; i++) ta.x[i] = wmma::__float_to_tf32(ta.x[i]);
    wmma::mma_sync(ts, ta, tb, ts);
    wmma::store_matrix_sync(cf, ts, 16, wmma::mem_row_major);
}

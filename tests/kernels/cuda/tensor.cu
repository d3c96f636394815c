// Matrix products on tensor cores: mma.sync as inline assembly, fragments by ldmatrix, tiles by plain copies or by cp.async with a ring of stages.
// c[m][n] = sum over k of a[m][k] * bt[n][k]; m and n multiples of 32, a row of k a multiple of 32 bytes. A block is 2 x 2 warps, each 16 x 16.
#include <cstdint>

__device__ uint32_t shared_address(const void *p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

__device__ void copy_async(void *to, const void *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
}
__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N>
__device__ void wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

__device__ void matrices_x4(uint32_t (&r)[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)) : "memory");
}
__device__ void matrices_x2(uint32_t (&r)[2], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(shared_address(row)) : "memory");
}

// One mma multiplies 16 rows of 32 bytes by 8 columns of 32 bytes, whatever the element.
#define MMA(NAME, TEXT, SUM, CONSTRAINT)                                                                                          \
    struct NAME {                                                                                                                 \
        using Sum = SUM;                                                                                                          \
        static __device__ void run(SUM (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {                                 \
            asm volatile("mma.sync.aligned." TEXT " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"              \
                         : "+" CONSTRAINT(d[0]), "+" CONSTRAINT(d[1]), "+" CONSTRAINT(d[2]), "+" CONSTRAINT(d[3])                  \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                                      \
        }                                                                                                                         \
    };
MMA(F16, "m16n8k16.row.col.f32.f16.f16.f32", float, "f")
MMA(BF16, "m16n8k16.row.col.f32.bf16.bf16.f32", float, "f")
MMA(TF32, "m16n8k8.row.col.f32.tf32.tf32.f32", float, "f")
MMA(S8, "m16n8k32.row.col.s32.s8.s8.s32", int, "r")
#if __CUDA_ARCH__ >= 890
MMA(E4M3, "m16n8k32.row.col.f32.e4m3.e4m3.f32", float, "f")
MMA(E5M2, "m16n8k32.row.col.f32.e5m2.e4m3.f32", float, "f")
#endif

struct F16F16 {  // sums in f16, packed
    using Sum = uint32_t;
    static __device__ void run(uint32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
                     : "+r"(d[0]), "+r"(d[1]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
};

constexpr int ROW = 48;  // bytes from row to row of a tile of 32 rows of 32 bytes: no two rows of a matrix in one bank

template <typename M, int STAGES>
__device__ void product(const uint8_t *a, const uint8_t *bt, typename M::Sum *c, int n, int k_bytes) {
    __shared__ __align__(16) uint8_t left[STAGES][32 * ROW], right[STAGES][32 * ROW];
    int thread = threadIdx.x, lane = thread % 32, warp = thread / 32, row = blockIdx.y * 32, col = blockIdx.x * 32;
    typename M::Sum sums[2][4] = {};
    // 128 threads bring 2 x 32 rows of 2 x 16 bytes.
    auto bring = [&](int stage, int at) {
        int r = thread / 2 % 32, part = thread % 2 * 16;
        uint8_t *to = (thread < 64 ? left : right)[stage] + r * ROW + part;
        const uint8_t *from = (thread < 64 ? a + (row + r) * k_bytes : bt + (col + r) * k_bytes) + at + part;
        if (STAGES == 1) *reinterpret_cast<uint4 *>(to) = *reinterpret_cast<const uint4 *>(from);
        else copy_async(to, from);
    };
    auto multiply = [&](int stage) {
        uint32_t x[4], y[2];
        matrices_x4(x, left[stage] + (warp / 2 * 16 + lane % 16) * ROW + lane / 16 * 16);
#pragma unroll
        for (int j = 0; j < 2; j++) {
            matrices_x2(y, right[stage] + (warp % 2 * 16 + j * 8 + lane % 8) * ROW + lane / 8 % 2 * 16);
            M::run(sums[j], x, y);
        }
    };
    int steps = k_bytes / 32;
    if (STAGES == 1) {
        for (int step = 0; step < steps; step++) {
            bring(0, step * 32);
            __syncthreads();
            multiply(0);
            __syncthreads();
        }
    } else {
        for (int step = 0; step < STAGES - 1; step++) {
            if (step < steps) bring(step, step * 32);
            commit();
        }
        for (int step = 0; step < steps; step++) {
            wait<STAGES >= 2 ? STAGES - 2 : 0>();
            __syncthreads();
            int next = step + STAGES - 1;
            if (next < steps) bring(next % STAGES, next * 32);
            commit();
            multiply(step % STAGES);
        }
        wait<0>();
    }
    int r = row + warp / 2 * 16 + lane / 4;
    for (int j = 0; j < 2; j++) {
        int at = col + warp % 2 * 16 + j * 8 + lane % 4 * 2;
        if (__is_same(M, F16F16)) {
            uint32_t *packed = reinterpret_cast<uint32_t *>(c);
            packed[(r * n + at) / 2] = sums[j][0];
            packed[((r + 8) * n + at) / 2] = sums[j][1];
        } else {
            for (int i = 0; i < 4; i++) c[(r + i / 2 * 8) * n + at + i % 2] = sums[j][i];
        }
    }
}

#define PRODUCT(NAME, M)                                                                                                  \
    extern "C" __global__ void NAME(const uint8_t *a, const uint8_t *bt, M::Sum *c, int n, int k) { product<M, 1>(a, bt, c, n, k); } \
    extern "C" __global__ void NAME##_piped(const uint8_t *a, const uint8_t *bt, M::Sum *c, int n, int k) { product<M, 3>(a, bt, c, n, k); }
PRODUCT(f16, F16)
PRODUCT(f16_f16, F16F16)
PRODUCT(bf16, BF16)
PRODUCT(tf32, TF32)
PRODUCT(s8, S8)
#if __CUDA_ARCH__ >= 890
PRODUCT(e4m3, E4M3)
PRODUCT(e5m2_e4m3, E5M2)
#endif

// Double precision, fragments straight from memory: m8n8k4. One warp per 8 x 8 of the result.
extern "C" __global__ void f64(const double *a, const double *bt, double *c, int n, int k) {
    int lane = threadIdx.x, row = blockIdx.y * 8, col = blockIdx.x * 8;
    double x = 0, y = 0;
    for (int at = 0; at < k; at += 4) {
        double left = a[(row + lane / 4) * k + at + lane % 4], right = bt[(col + lane / 4) * k + at + lane % 4];
        asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};" : "+d"(x), "+d"(y) : "d"(left), "d"(right));
    }
    *reinterpret_cast<double2 *>(c + (row + lane / 4) * n + col + lane % 4 * 2) = make_double2(x, y);
}

// Matrix products without tensor cores: naive, tiled through shared memory, tiled with a strip per thread, in f32, f64 and integers.

template <typename T>
__device__ void naive(const T *a, const T *b, T *c, int m, int n, int k) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m || col >= n) return;
    T sum = 0;
    for (int i = 0; i < k; i++) sum += a[row * k + i] * b[i * n + col];
    c[row * n + col] = sum;
}

extern "C" __global__ void naive_f32(const float *a, const float *b, float *c, int m, int n, int k) { naive(a, b, c, m, n, k); }
extern "C" __global__ void naive_f64(const double *a, const double *b, double *c, int m, int n, int k) { naive(a, b, c, m, n, k); }
extern "C" __global__ void naive_i32(const int *a, const int *b, int *c, int m, int n, int k) { naive(a, b, c, m, n, k); }
extern "C" __global__ void naive_i64(const long long *a, const long long *b, long long *c, int m, int n, int k) { naive(a, b, c, m, n, k); }

constexpr int TILE = 16;

// Any m, n, k: what lies outside is zero.
extern "C" __global__ void tiled_f32(const float *a, const float *b, float *c, int m, int n, int k) {
    __shared__ float left[TILE][TILE], right[TILE][TILE + 1];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;
    float sum = 0;
    for (int start = 0; start < k; start += TILE) {
        left[ty][tx] = row < m && start + tx < k ? a[row * k + start + tx] : 0.0f;
        right[ty][tx] = start + ty < k && col < n ? b[(start + ty) * n + col] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < TILE; i++) sum = fmaf(left[ty][i], right[i][tx], sum);
        __syncthreads();
    }
    if (row < m && col < n) c[row * n + col] = sum;
}

// 32 x 32 of the result per block of 8 x 8 threads, 4 x 4 per thread, 16-byte loads; m, n multiples of 32, k of 8.
extern "C" __global__ void strips_f32(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int m, int n, int k) {
    __shared__ __align__(16) float left[8][32], right[8][32];
    int thread = threadIdx.y * 8 + threadIdx.x, row = blockIdx.y * 32, col = blockIdx.x * 32;
    float sums[4][4] = {};
    for (int start = 0; start < k; start += 8) {
        float4 column = *reinterpret_cast<const float4 *>(a + (row + thread / 2) * k + start + thread % 2 * 4);
        const float *lanes = &column.x;
        for (int i = 0; i < 4; i++) left[thread % 2 * 4 + i][thread / 2] = lanes[i];
        *reinterpret_cast<float4 *>(&right[thread / 8][thread % 8 * 4]) =
            *reinterpret_cast<const float4 *>(b + (start + thread / 8) * n + col + thread % 8 * 4);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float4 x = *reinterpret_cast<float4 *>(&left[i][threadIdx.y * 4]), y = *reinterpret_cast<float4 *>(&right[i][threadIdx.x * 4]);
            float xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
            for (int p = 0; p < 4; p++)
#pragma unroll
                for (int q = 0; q < 4; q++) sums[p][q] += xs[p] * ys[q];
        }
        __syncthreads();
    }
    for (int p = 0; p < 4; p++)
        *reinterpret_cast<float4 *>(c + (row + threadIdx.y * 4 + p) * n + col + threadIdx.x * 4) =
            make_float4(sums[p][0], sums[p][1], sums[p][2], sums[p][3]);
}

// The tile's width is the launch's: left and right share one dynamic array.
extern "C" __global__ void dynamic_f32(const float *a, const float *b, float *c, int n, int tile) {
    extern __shared__ float both[];
    float *left = both, *right = both + tile * tile;
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * tile + ty, col = blockIdx.x * tile + tx;
    float sum = 0;
    for (int start = 0; start < n; start += tile) {
        left[ty * tile + tx] = a[row * n + start + tx];
        right[ty * tile + tx] = b[(start + ty) * n + col];
        __syncthreads();
        for (int i = 0; i < tile; i++) sum += left[ty * tile + i] * right[i * tile + tx];
        __syncthreads();
    }
    c[row * n + col] = sum;
}

// Stencils that read textures and write surfaces.
#include <cstdint>

// The five-point stencil; what lies outside is the edge, or whatever the texture's addressing says.
extern "C" __global__ void stencil(cudaTextureObject_t image, float *out, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float u = x + 0.5f, v = y + 0.5f;
    out[y * width + x] = 4 * tex2D<float>(image, u, v) - tex2D<float>(image, u - 1, v) - tex2D<float>(image, u + 1, v) -
                         tex2D<float>(image, u, v - 1) - tex2D<float>(image, u, v + 1);
}

// The same through a tile in shared memory with a border of one.
extern "C" __global__ void stencil_tiled(cudaTextureObject_t image, float *out, int width, int height) {
    __shared__ float tile[10][18];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    for (int i = threadIdx.y * 16 + threadIdx.x; i < 180; i += 128)
        tile[i / 18][i % 18] = tex2D<float>(image, static_cast<int>(blockIdx.x * 16) + i % 18 - 0.5f, static_cast<int>(blockIdx.y * 8) + i / 18 - 0.5f);
    __syncthreads();
    if (x >= width || y >= height) return;
    int tx = threadIdx.x + 1, ty = threadIdx.y + 1;
    out[y * width + x] = 4 * tile[ty][tx] - tile[ty][tx - 1] - tile[ty][tx + 1] - tile[ty - 1][tx] - tile[ty + 1][tx];
}

// Normalised coordinates that wrap; half-way between texels a linear filter takes the mean of four.
extern "C" __global__ void halve(cudaTextureObject_t image, cudaSurfaceObject_t out, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float4 mean = tex2D<float4>(image, static_cast<float>(x + 1) / width, static_cast<float>(y + 1) / height);
    surf2Dwrite(mean, out, x * sizeof(float4), y);
}

extern "C" __global__ void lines(cudaTextureObject_t line, cudaTextureObject_t bytes, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = tex1D<float>(line, i + 1.0f);
    uchar4 texel = tex1D<uchar4>(bytes, i + 0.5f);
    out[n + i] = texel.x + 2.0f * texel.y + 4.0f * texel.z + 8.0f * texel.w;
}

extern "C" __global__ void boxes(cudaTextureObject_t box, float2 *out, int width, int height, int depth) {
    int x = threadIdx.x, y = threadIdx.y, z = blockIdx.x;
    float2 a = tex3D<float2>(box, x + 0.5f, y + 0.5f, z + 0.5f), b = tex3D<float2>(box, width - 0.5f - x, height - 0.5f - y, depth - 0.5f - z);
    out[(z * height + y) * width + x] = make_float2(a.x + b.y, a.y - b.x);
}

extern "C" __global__ void swap_columns(cudaSurfaceObject_t image, int width) {
    int x = threadIdx.x, y = blockIdx.x;
    ushort2 left, right;
    surf2Dread(&left, image, x * 4, y);
    surf2Dread(&right, image, (width - 1 - x) * 4, y, cudaBoundaryModeTrap);
    ushort2 outside = surf2Dread<ushort2>(image, (width + x) * 4, y, cudaBoundaryModeZero);
    __syncwarp();
    surf2Dwrite(make_ushort2(right.x + outside.x, right.y ^ 0xFF), image, x * 4, y);
    surf2Dwrite(left, image, (width - 1 - x) * 4, y, cudaBoundaryModeClamp);
}

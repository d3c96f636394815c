// Textures and surfaces by handle, in every geometry.
extern "C" __global__ void sampled(cudaTextureObject_t t, float4 *out, float x, float y, int layer) {
    int i = threadIdx.x;
    out[8 * i] = tex2D<float4>(t, x + i, y);
    out[8 * i + 1] = tex3D<float4>(t, x, y, x);
    out[8 * i + 2] = tex2DLayered<float4>(t, x, y, layer);
    out[8 * i + 3] = tex2DLod<float4>(t, x, y, 1.5f);
    out[8 * i + 4] = tex2DGrad<float4>(t, x, y, make_float2(x, 0), make_float2(0, y));
    out[8 * i + 5] = tex2Dgather<float4>(t, x, y, 2);
    out[8 * i + 6] = texCubemap<float4>(t, x, y, x);
    out[8 * i + 7] = texCubemapLayered<float4>(t, x, y, x, layer);
    bool resident;
    out[8 * i].x += tex1Dfetch<float>(t, i) + tex1D<float>(t, x) + tex1DLayered<float>(t, x, layer) + tex2D<float>(t, x, y, &resident);
    out[8 * i].y += resident ? 1.0f : 0.0f;
    out[8 * i].z += tex3DGrad<float>(t, x, y, x, make_float4(x, y, x, 0), make_float4(y, x, y, 0));
}

extern "C" __global__ void stored(cudaSurfaceObject_t s, uchar4 *out, int layer) {
    int x = threadIdx.x, y = blockIdx.x;
    uchar4 v = surf2Dread<uchar4>(s, x * 4, y);
    uchar4 w = surf2Dread<uchar4>(s, x * 4, y, cudaBoundaryModeZero);
    short2 u = surf3Dread<short2>(s, x * 4, y, layer, cudaBoundaryModeClamp);
    out[x] = make_uchar4(v.x + w.y, v.y, u.x, u.y);
    surf2Dwrite(v, s, x * 4, y + 1);
    surf1Dwrite(v.x, s, x);
    surf2DLayeredwrite(make_float4(v.x, v.y, v.z, v.w), s, x * 16, y, layer, cudaBoundaryModeZero);
}

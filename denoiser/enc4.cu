// enc4: the deepest encoder. 128 channels, four heads, four MLP pairs; block 32x1x4, one 8x8-token window a block.
#include "window.cuh"

using Layer = denoiser::WindowLayer<4, 4>;

#ifdef SLICE_BYTES
static_assert(Layer::SliceBytes == SLICE_BYTES, "the weight image and the kernel disagree about a warp's slice");
#endif

extern "C" __global__ void __launch_bounds__(128)
    enc4(unsigned long long plane, unsigned long long merged, unsigned long long skip, int tokens_x, int tokens_y, float input_gain,
         float output_gain, const unsigned char* weights, float score_scale, float epsilon) {
    __shared__ __align__(16) unsigned char staging[Layer::SharedBytes];
    denoiser::window_layer<Layer>({plane, merged, skip, tokens_x, tokens_y, input_gain, output_gain, weights, score_scale, epsilon}, staging);
}

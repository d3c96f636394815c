// dec0: the last decoder. 64 coarse channels and the noisy input to a picture; block 32x1x1, 8x4 coarse tokens (32x16 pixels) a block.
#include "expand.cuh"

using Layer = denoiser::ExpandLayer<16>;

#ifdef SLICE_BYTES
static_assert(Layer::SliceBytes == SLICE_BYTES, "the weight image and the kernel disagree about a warp's slice");
#endif

extern "C" __global__ void __launch_bounds__(32) dec0(const __grid_constant__ denoiser::ExpandArguments arguments) {
    denoiser::expand_layer<Layer>(arguments);
}

// Inline blocks for sm_100a: tensor memory, products between memories, launches taken over.
#include <stdint.h>

__device__ __forceinline__ uint32_t shared_of(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

extern "C" __global__ void product(const __grid_constant__ int4 map[8], uint32_t *out, uint64_t left, uint64_t right, uint32_t shape) {
    extern __shared__ __align__(1024) uint8_t tile[];
    __shared__ uint32_t columns;
    __shared__ __align__(16) uint4 answer;
    __shared__ __align__(8) uint64_t full;
    uint32_t bar = shared_of(&full), held = shared_of(&columns);
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(held), "r"(128) : "memory");
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
    __syncthreads();
    uint32_t t = columns;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar));
        asm volatile("cp.async.bulk.tensor.3d.cta_group::2.shared::cluster.global.im2col::w.mbarrier::complete_tx::bytes [%0], [%1, {%3, %3, %3}], [%2], {%4, %4};"
                     ::"r"(shared_of(tile)), "l"(map), "r"(bar), "r"(0), "h"((uint16_t)0) : "memory");
        asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" ::"r"(t + 64), "l"(left));
        asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %4, 0;\n\ttcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, {%5, %5, %5, %5}, p;\n}"
                     ::"r"(t), "l"(left), "l"(right), "r"(shape), "r"(1), "r"(0));
        asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %4, 0;\n\ttcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X [%0], %1, %2, %3, [%5], [%6], p;\n}"
                     ::"r"(t), "l"(left), "l"(right), "r"(shape), "r"(1), "r"(t + 64), "r"(t + 80));
        asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %4, 0;\n\ttcgen05.mma.ws.cta_group::1.kind::tf32.collector::b0::fill [%0], [%1], %2, %3, p, %5;\n}"
                     ::"r"(t), "r"(t + 32), "l"(right), "r"(shape), "r"(1), "l"(left));
        asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(bar) : "memory");
        asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];" ::"r"(shared_of(&answer)), "r"(bar) : "memory");
    }
    asm volatile("tcgen05.fence::after_thread_sync;");
    uint32_t r[4];
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(t));
    asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
    asm volatile("tcgen05.st.sync.aligned.16x128b.x1.unpack::16b.b32 [%0], {%1, %2};" ::"r"(t), "r"(r[0]), "r"(r[1]));
    asm volatile("tcgen05.wait::st.sync.aligned;\n\ttcgen05.fence::before_thread_sync;" ::: "memory");
    uint32_t taken, x;
    asm volatile("{\n\t.reg .b128 a;\n\t.reg .pred p;\n\tld.shared.b128 a, [%2];\n\tclusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, a;\n\t"
                 "selp.u32 %0, 1, 0, p;\n\tmov.u32 %1, 0;\n\t@p clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %1, a;\n}"
                 : "=r"(taken), "=r"(x) : "r"(shared_of(&answer)) : "memory");
    asm volatile("st.bulk.weak.shared::cta [%0], 1024, 0;" ::"r"(shared_of(tile)) : "memory");
    float f;
    asm volatile("redux.sync.max.abs.NaN.f32 %0, %1, 0xffffffff;" : "=f"(f) : "f"(__uint_as_float(r[2])));
    uint64_t pair;
    asm volatile("fma.rn.ftz.f32x2 %0, %1, %2, %1;" : "=l"(pair) : "l"(left), "l"(right));
    asm volatile("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(shared_of(tile)));
    asm volatile("add.rn.f32.bf16 %0, %1, %0;" : "+f"(f) : "h"((uint16_t)r[3]));
    asm volatile("max.NaN.f32 %0, %0, %1, %2;" : "+f"(f) : "f"(f), "f"(2.0f));
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(t), "r"(128));
    out[threadIdx.x] = r[0] + r[1] + taken + x + (uint32_t)pair + __float_as_uint(f);
}

/* A program that uses the fake driver: its arguments are commands, done in order. Exits with the last number of `exit N`. */

#include "fake.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *ptx = ".version 9.0\n.target sm_90\n.address_size 64\n.visible .global .u32 counter = 0;\n.global .u32 lost;\n"
                         ".visible .entry fill(.param .u64 a, .param .u32 b, .param .u32 c) { ret; }\n.visible .entry add(.param .u64 a) { ret; }\n"
                         ".visible .entry shade() { tex.2d.v4.f32.f32 {a, b, c, d}, [t, {x, y}]; ret; }\n.visible .entry look() { ret; }\n"
                         ".visible .entry count() { ret; }\n.visible .entry slow() { ret; }\n";
static const char *plain_ptx = ".version 9.0\n.target sm_90\n.visible .entry fill(.param .u64 a, .param .u32 b, .param .u32 c) { ret; }\n"
                               ".visible .entry look(.param .u64 number) { ret; }\n";
static CUmodule module;
static CUlibrary library;
static CUdeviceptr a, b;

static CUfunction function(const char *name) {
    CUfunction f;
    cuModuleGetFunction(&f, module, name);
    return f;
}

static void fill(CUdeviceptr to, uint32_t count, uint32_t value, CUstream stream) {
    void *p[] = {&to, &count, &value};
    cuLaunchKernel(function("fill"), 2, 3, 4, 32, 1, 1, 128, stream, p, NULL);
}

static void *many(void *own) {
    CUdeviceptr mine;
    cuMemAlloc_v2(&mine, 64);
    uint32_t zero[16] = {0};
    cuMemcpyHtoD_v2(mine, zero, sizeof zero);
    for (int i = 0; i < 20; i++) {
        void *p[] = {&mine};
        cuLaunchKernel(function("slow"), 1, 1, 1, 1, 1, 1, 0, NULL, p, NULL);
    }
    return own;
}

static void shade(void) {
    struct fake_array_descriptor shape = {5, 3, 0, 1, 4, 0};
    struct fake_resource from = {0}, to = {0};
    struct fake_texture texture = {.addressing = {1, 3, 0}, .filter = 1, .flags = 2};
    uint64_t in, out;
    cuArray3DCreate_v2(&from.of.array, &shape);
    cuArray3DCreate_v2(&to.of.array, &shape);
    for (int i = 0; i < 60; i++) ((unsigned char *)fake_texels(from.of.array))[i] = (unsigned char)(3 * i);
    cuTexObjectCreate(&in, &from, &texture, NULL);
    cuSurfObjectCreate(&out, &to);
    void *p[] = {&in, &out};
    cuLaunchKernel(function("shade"), 1, 1, 1, 5, 3, 1, 0, NULL, p, NULL);
}

static void look(const struct fake_resource *resource, struct fake_texture texture, const void *view) {
    uint64_t made;
    void *p[] = {&made};
    cuTexObjectCreate(&made, resource, &texture, view);
    cuLaunchKernel(function("look"), 1, 1, 1, 1, 1, 1, 0, NULL, p, NULL);
}

static CUarray array(size_t width, size_t height, size_t depth, unsigned format, unsigned flags) {
    struct fake_array_descriptor shape = {width, height, depth, format, 2, flags};
    size_t bytes = width * (height ? height : 1) * (depth ? depth : 1) * 2 * (format == 32 ? 4 : 1);
    CUarray made;
    cuArray3DCreate_v2(&made, &shape);
    for (size_t i = 0; i < bytes; i++) ((unsigned char *)fake_texels(made))[i] = (unsigned char)i;
    return made;
}

/* A texture of each kind, one launch each. */
static void kinds(void) {
    struct fake_texture texture = {.addressing = {1, 1, 1}};
    struct fake_resource r = {.of.array = array(7, 0, 0, 1, 0)};
    look(&r, texture, NULL);
    r.of.array = array(4, 3, 2, 32, 0);
    look(&r, texture, NULL);
    r.of.array = array(5, 0, 3, 1, 1);
    look(&r, texture, NULL);
    r.of.array = array(4, 3, 5, 1, 1);
    look(&r, texture, NULL);
    r.of.array = array(4, 4, 6, 1, 4);
    look(&r, (struct fake_texture){.addressing = {1, 1, 1}, .flags = 0x42}, NULL);
    r.type = 1;
    cuMipmappedArrayCreate(&r.of.array, &(struct fake_array_descriptor){8, 4, 0, 1, 1, 0}, 3);
    for (unsigned level = 0; level < 3; level++) {
        CUarray its;
        cuMipmappedArrayGetLevel(&its, r.of.array, level);
        memset(fake_texels(its), (int)level + 1, 32 >> 2 * level);
    }
    look(&r, (struct fake_texture){.flags = 2, .mipmap_filter = 1, .numbers = {0.5f, 0.25f, 1.0f / 0.0f}}, NULL);
    r.type = 2, r.of.linear.base = b, r.of.linear.format = 3, r.of.linear.channels = 1, r.of.linear.bytes = 40;
    look(&r, (struct fake_texture){.flags = 1}, NULL);
    r.type = 3, r.of.plane.base = b, r.of.plane.format = 1, r.of.plane.channels = 4, r.of.plane.width = 2, r.of.plane.height = 3, r.of.plane.pitch = 512;
    look(&r, texture, "a view");
    r.of.plane.format = 0x99;
    look(&r, texture, NULL);
}

static void command(const char *word) {
    uint32_t count = 1000, block[4];
    if (!strcmp(word, "fill")) fill(a + 16, 3, 0x11223344, NULL);
    if (!strcmp(word, "fill-all")) fill(a, 1 << 19, 7, NULL);
    if (!strcmp(word, "add")) {
        void *p[] = {&a, &b, &count};
        struct fake_attribute attributes[] = {{.id = 4, .value.cluster = {2, 1, 1}}, {.id = 2, .value.flag = 1}};
        struct fake_config config = {{2, 1, 1}, {64, 1, 1}, 0, NULL, attributes, 2};
        cuLaunchKernelEx(&config, function("add"), p, NULL);
    }
    if (!strcmp(word, "add-itself")) {
        CUdeviceptr later = a + 64;
        void *p[] = {&a, &later, &(uint32_t){4}};
        cuLaunchKernel(function("add"), 1, 1, 1, 1, 1, 1, 0, NULL, p, NULL);
    }
    if (!strcmp(word, "packed")) {
        size_t bytes = 16;
        memcpy(block, &a, 8), block[2] = 2, block[3] = 0x55;
        void *extra[] = {(void *)1, block, (void *)2, &bytes, NULL};
        cuLaunchKernel(function("fill"), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra);
    }
    if (!strcmp(word, "cooperative")) {
        void *p[] = {&a, &(uint32_t){1}, &(uint32_t){9}};
        cuLaunchCooperativeKernel(function("fill"), 1, 1, 1, 1, 1, 1, 0, NULL, p);
    }
    if (!strcmp(word, "library")) {
        CUkernel k;
        void *p[] = {&b, &(uint32_t){1}, &(uint32_t){6}};
        cuLibraryGetKernel(&k, library, "fill");
        cuLaunchKernel((CUfunction)k, 1, 1, 1, 1, 1, 1, 0, NULL, p, NULL);
    }
    if (!strcmp(word, "number")) {
        CUkernel k;
        uint64_t one = 1;
        void *p[] = {&one};
        cuLibraryGetKernel(&k, library, "look");
        cuLaunchKernel((CUfunction)k, 1, 1, 1, 1, 1, 1, 0, NULL, p, NULL);
    }
    if (!strcmp(word, "linked")) {
        void *cubin;
        size_t bytes;
        CUmodule its;
        CUfunction f;
        void *p[] = {&a, &(uint32_t){1}, &(uint32_t){3}};
        cuLinkAddData_v2(&bytes, 1, (void *)plain_ptx, strlen(plain_ptx) + 1, "plain", 0, NULL, NULL);
        cuLinkComplete(&bytes, &cubin, &bytes);
        cuModuleLoadData(&its, cubin);
        cuModuleGetFunction(&f, its, "fill");
        cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, p, NULL);
    }
    if (!strcmp(word, "count")) cuLaunchKernel(function("count"), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    if (!strcmp(word, "end-pointer")) fill(b + 4096, 0, 0, NULL);
    if (!strcmp(word, "mapped")) {
        cuMemMap(0x210000000000u, 4096, 0, 1, 0);
        cuMemMap(0x210000001000u, 8192, 0, 1, 0);
        fill(0x210000001010u, 2, 5, NULL);
    }
    if (!strcmp(word, "large")) {
        CUdeviceptr large;
        cuMemAlloc_v2(&large, 40 << 20);
        for (size_t i = 0; i < 10 << 20; i++) ((uint32_t *)large)[i] = (uint32_t)(i >> 16);
        fill(large, 1 << 19, 5, NULL);
    }
    if (!strcmp(word, "hide-pointer")) cuMemcpyHtoD_v2(a + 24, &b, sizeof b);
    if (!strcmp(word, "shade")) shade();
    if (!strcmp(word, "kinds")) kinds();
    if (!strcmp(word, "graph")) cuGraphLaunch(NULL, NULL);
    if (!strcmp(word, "capture")) {
        void *graph;
        cuStreamBeginCapture_v2((CUstream)0x77, 0);
        fill(a, 1, 1, (CUstream)0x77);
        fill(a, 1, 2, NULL);
        cuStreamEndCapture((CUstream)0x77, &graph);
    }
    if (!strcmp(word, "crash")) cuLaunchKernel(function("crash"), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    if (!strcmp(word, "fail")) cuLaunchKernel(function("fail"), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    if (!strcmp(word, "die")) abort();
    if (!strcmp(word, "become")) execl("/proc/self/exe", "program", "add", NULL);
    if (!strcmp(word, "fork")) {
        pid_t child = fork();
        if (!child) fill(a, 1, 1, NULL), exit(0);
        waitpid(child, NULL, 0);
    }
    if (!strcmp(word, "threads")) {
        pthread_t threads[4];
        for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, many, NULL);
        for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    }
    if (!strcmp(word, "show")) {
        for (int i = 0; i < 8; i++) printf("%08x ", ((uint32_t *)a)[i]);
        printf("\n");
    }
}

int main(int count, char **words) {
    int code = 0;
    if (count > 1 && !strcmp(words[1], "idle")) return 0;
    cuInit(0);
    char *heap = strdup(ptx);
    cuModuleLoadData(&module, heap);
    memset(heap, 'x', strlen(heap)); /* an image is the program's own: it may be gone after the load */
    free(heap);
    cuLibraryLoadData(&library, plain_ptx, NULL, NULL, 0, NULL, NULL, 0);
    cuMemAlloc_v2(&a, 2 << 20);
    cuMemAlloc_v2(&b, 4096);
    uint32_t start[1024];
    for (uint32_t i = 0; i < 1024; i++) start[i] = i;
    cuMemcpyHtoD_v2(a, start, sizeof start);
    cuMemcpyHtoD_v2(b, start, sizeof start);
    for (int i = 1; i < count; i++)
        if (!strncmp(words[i], "exit", 4)) code = atoi(words[i] + 4);
        else command(words[i]);
    return code;
}

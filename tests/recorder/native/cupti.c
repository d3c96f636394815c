/* A CUPTI of our own: hands the fake driver's calls to one subscriber. Numbers are places in a list of names. */

#include <stdint.h>
#include <string.h>

extern void (*fake_callback)(const char *name, const void *call);

static const char *names[] = {
    "cuLinkAddData_v2", "cuLinkComplete",
    "cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel", "cuGraphLaunch", "cuModuleLoadData", "cuLibraryLoadData",
    "cuLibraryGetKernel", "cuMemAlloc_v2", "cuMemMap", "cuMemFree_v2", "cuMemcpyHtoD_v2", "cuTexObjectCreate",
    "cuSurfObjectCreate", "cuStreamBeginCapture_v2", "cuStreamEndCapture",
};
enum { COUNT = sizeof names / sizeof *names };
static char enabled[COUNT + 1];
static void (*subscriber)(void *, int, uint32_t, const void *);

static void pass(const char *name, const void *call) {
    for (uint32_t i = 0; i < COUNT; i++)
        if (enabled[i + 1] && !strcmp(names[i], name)) subscriber(0, 1, i + 1, call);
}

int cuptiSubscribe(void **made, void (*to)(void *, int, uint32_t, const void *), void *own) {
    *made = own, subscriber = to, fake_callback = pass;
    return 0;
}

int cuptiGetCallbackName(int domain, uint32_t number, const char **name) {
    if (domain != 1 || number < 1 || number > COUNT) return 1;
    *name = names[number - 1];
    return 0;
}

int cuptiEnableCallback(uint32_t on, void *subscribed, int domain, uint32_t number) {
    (void)subscribed, (void)domain;
    enabled[number] = (char)on;
    return 0;
}

// Calls: recursion, virtual functions, pointers to functions, memory and text made by a kernel.

#include <cassert>
#include <cstdio>

#define KERNEL extern "C" __global__ void

// -- recursion -------------------------------------------------------------------------------------------------------------
struct Parts {
    int count[10];
    double weight;
};

__device__ __noinline__ int ackermann(int m, int n) {
    if (m == 0) return n + 1;
    if (n == 0) return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, n - 1));
}

__device__ __noinline__ Parts build(int n, Parts above) {
    if (n == 0) return above;
    above.count[n % 10] += n;
    Parts below = build(n - 1, above);
    below.weight += above.count[(n * 3) % 10] * 0.5;
    return below;
}

__device__ __noinline__ bool odd(unsigned n);
__device__ __noinline__ bool even(unsigned n) { return n == 0 || odd(n - 1); }
__device__ __noinline__ bool odd(unsigned n) { return n != 0 && even(n - 1); }

KERNEL recursion(const int *numbers, int *ack, Parts *parts, unsigned char *parity) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    ack[i] = ackermann(numbers[i] % 3, numbers[i] % 4);
    Parts start = {};
    start.count[3] = i;
    parts[i] = build(numbers[i], start);
    parity[i] = even(numbers[i]);
}

__device__ void sort(int *a, int low, int high) {
    if (low >= high) return;
    int pivot = a[(low + high) / 2], i = low, j = high;
    while (i <= j) {
        while (a[i] < pivot) i++;
        while (a[j] > pivot) j--;
        if (i <= j) {
            int t = a[i];
            a[i++] = a[j];
            a[j--] = t;
        }
    }
    sort(a, low, j);
    sort(a, i, high);
}

KERNEL quicksort(int *rows, int width) {
    int *row = rows + (blockIdx.x * blockDim.x + threadIdx.x) * width;
    sort(row, 0, width - 1);
}

// -- virtual functions and pointers ------------------------------------------------------------------------------------------
struct Shape {
    float size;
    __device__ Shape(float size) : size(size) {}
    __device__ virtual ~Shape() {}
    __device__ virtual float area() const = 0;
    __device__ virtual float grown(float by) { return (size += by), area(); }
};

struct Square : Shape {
    using Shape::Shape;
    __device__ float area() const override { return size * size; }
};

struct Triangle : Shape {
    float height;
    __device__ Triangle(float size, float height) : Shape(size), height(height) {}
    __device__ float area() const override { return size * height / 2; }
};

struct Stretched : Square {
    using Square::Square;
    __device__ float grown(float by) override { return Square::grown(2 * by) + 1; }
};

KERNEL shapes(float *areas, const unsigned char *kinds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    Shape *s;
    switch (kinds[i]) {
    case 0: s = new Square(i); break;
    case 1: s = new Triangle(i, 3); break;
    default: s = new Stretched(i);
    }
    areas[2 * i] = s->area();
    areas[2 * i + 1] = s->grown(2);
    delete s;
}

using Operation = int (*)(int, int);
__device__ int add(int a, int b) { return a + b; }
__device__ int sub(int a, int b) { return a - b; }
__device__ int mul(int a, int b) { return a * b; }
__device__ Operation table[3] = {add, sub, mul};
__constant__ Operation fixed[3] = {mul, add, sub};

template <typename F> __device__ __noinline__ int fold(F f, int n) {
    int r = 1;
    for (int i = 1; i <= n; i++) r = f(r, i);
    return r;
}

KERNEL pointers(int *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    Operation chosen = (i & 1) ? table[i % 3] : fixed[i % 3];
    out[i] = chosen(i, 7) * 1000 + fold(chosen, i % 5) + fold([=](int a, int b) { return a ^ (b * i); }, i % 7);
}

// -- memory and text ----------------------------------------------------------------------------------------------------------
struct Node {
    int value;
    Node *left, *right;
};

__device__ Node *insert(Node *node, int value) {
    if (!node) {
        node = (Node *)malloc(sizeof(Node));
        *node = {value, nullptr, nullptr};
    } else if (value < node->value) {
        node->left = insert(node->left, value);
    } else {
        node->right = insert(node->right, value);
    }
    return node;
}

__device__ int *walk(Node *node, int *out) {
    if (!node) return out;
    out = walk(node->left, out);
    *out++ = node->value;
    out = walk(node->right, out);
    free(node);
    return out;
}

KERNEL treesort(int *rows, int width) {
    int *row = rows + (blockIdx.x * blockDim.x + threadIdx.x) * width;
    Node *root = nullptr;
    for (int i = 0; i < width; i++) root = insert(root, row[i]);
    walk(root, row);
}

KERNEL report(int count, const float *values) {
    int i = threadIdx.x;
    if (i >= count) return;
    const char *kind = i & 1 ? "odd" : "even";
    printf("[%d,%02d] %s %-8.3f|%6s|%5u%%%c\n", blockIdx.x, i, kind, values[i], kind, 10u * i, i == count - 1 ? '.' : ',');
    if (i == 0) printf("%d values from %lld, no arguments follow\n", count, 1ll << 40);
    if (i == 1) printf("none\n");
}

KERNEL checked(const int *values, int limit) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    assert(values[i] < limit && "too large");
}

KERNEL on_the_stack(int *out, const int *lengths) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = lengths[i], sum = 0;
    for (int round = 0; round < 2; round++) {
        int *mine = (int *)__builtin_alloca(n * sizeof(int));
        for (int j = 0; j < n; j++) mine[j] = j * i + round;
        for (int j = 0; j < n; j++) sum += mine[(j * 7) % n] * (j + 1);
    }
    out[i] = sum;
}

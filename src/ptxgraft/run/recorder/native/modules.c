/* Images of modules; see modules.h. */

#define _GNU_SOURCE
#include "modules.h"

#include <dlfcn.h>
#include <elf.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "driver.h"
#include "journal.h"
#include "sha256.h"

enum { FATBIN = 0xBA55ED50u, WRAPPER = 0x466243B1u };

struct image {
    const void *data; /* null once stored, or when it is gone */
    size_t bytes;
    char digest[65];
    const char *why; /* it is not there */
    char *names;
};

struct origin { /* a module, a library, or the library of a kernel */
    handle made;
    int library, image;
    handle of;
};

struct list {
    struct origin *items;
    size_t count, room;
};

static struct image *images;
static size_t image_count, image_room;
static struct list modules, kernels;

static void add(struct list *list, struct origin item) {
    if (list->count == list->room) {
        list->room = list->room * 2 + 64;
        list->items = realloc(list->items, list->room * sizeof *list->items);
        if (!list->items) abort();
    }
    list->items[list->count++] = item;
}

/* The newest with this handle: handles are used again. */
static struct origin *find(struct list *list, handle made) {
    for (size_t i = list->count; i--;)
        if (list->items[i].made == made) return &list->items[i];
    return NULL;
}

static size_t elf_bytes(const unsigned char *image) {
    const Elf64_Ehdr *head = (const void *)image;
    const Elf64_Shdr *sections = (const void *)(image + head->e_shoff);
    size_t end = head->e_shoff + (size_t)head->e_shnum * head->e_shentsize;
    size_t segments = head->e_phoff + (size_t)head->e_phnum * head->e_phentsize;
    if (segments > end) end = segments;
    for (int i = 0; i < head->e_shnum; i++)
        if (sections[i].sh_type != SHT_NOBITS && sections[i].sh_offset + sections[i].sh_size > end)
            end = sections[i].sh_offset + sections[i].sh_size;
    return end;
}

/* How long an image is, by its own head; 0 when it is of no known kind. A wrapper, as compilers put around a fat binary, is taken off. */
static size_t image_bytes(const void **image) {
    uint32_t magic;
    uint16_t head;
    uint64_t rest;
    memcpy(&magic, *image, 4);
    if (magic == WRAPPER) {
        memcpy(image, (const char *)*image + 8, sizeof *image);
        memcpy(&magic, *image, 4);
    }
    if (magic == FATBIN) {
        memcpy(&head, (const char *)*image + 6, 2);
        memcpy(&rest, (const char *)*image + 8, 8);
        return head + rest;
    }
    if (!memcmp(*image, ELFMAG, SELFMAG)) return elf_bytes(*image);
    const unsigned char *text = *image;
    return *text == '\t' || *text == '\n' || *text == '\r' || (*text >= ' ' && *text < 0x7f) ? strlen(*image) : 0;
}

static void keep(struct image *image) {
    char name[80];
    sha256_hex(image->data, image->bytes, image->digest);
    snprintf(name, sizeof name, "image-%s", image->digest);
    int error = store_file(name, image->data, image->bytes);
    if (error) image->digest[0] = 0, image->why = strerror(error);
    image->data = NULL;
}

static int new_image(const void *data) {
    if (image_count == image_room) {
        image_room = image_room * 2 + 64;
        images = realloc(images, image_room * sizeof *images);
        if (!images) abort();
    }
    struct image *image = &images[image_count];
    memset(image, 0, sizeof *image);
    image->bytes = image_bytes(&data);
    image->data = data;
    Dl_info where;
    if (!image->bytes) image->why = "the module was loaded from an image of an unknown kind";
    else if (!dladdr(data, &where)) keep(image);
    return (int)image_count++;
}

void module_loaded(handle made, int library, const void *image) { add(&modules, (struct origin){made, library, new_image(image), NULL}); }

void module_loaded_from_file(handle made, int library, const char *path) {
    FILE *file = fopen(path, "rb");
    struct text data = {0};
    char part[65536];
    size_t got;
    while (file && (got = fread(part, 1, sizeof part, file))) {
        data.data = realloc(data.data, data.length + got + 1);
        if (!data.data) abort();
        memcpy(data.data + data.length, part, got);
        data.data[data.length += got] = 0;
    }
    if (file) fclose(file);
    if (data.length > 64) module_loaded(made, library, data.data);
    free(data.data);
}

void module_unloaded(handle gone) {
    struct origin *found = find(&modules, gone);
    if (!found) return;
    struct image *image = &images[found->image];
    if (image->data) image->data = NULL, image->why = "the module was unloaded";
    found->made = NULL;
}

void kernel_found(handle kernel, handle library) {
    struct origin *known = find(&kernels, kernel);
    if (known) known->of = library;
    else add(&kernels, (struct origin){kernel, 0, NO_IMAGE, library});
}

void link_input(handle state, const void *text, size_t bytes) {
    size_t length = strnlen(text, bytes);
    struct image input = {.data = text, .bytes = length};
    keep(&input);
    if (!input.digest[0]) return;
    struct text line = {0};
    put(&line, "{\"what\": \"link input\", \"state\": \"%p\", \"image\": \"%s\"}", state, input.digest);
    write_line(&line);
    free(line.data);
}

void link_done(handle state, const void *cubin, size_t bytes) {
    char digest[65];
    struct text line = {0};
    sha256_hex(cubin, bytes, digest);
    put(&line, "{\"what\": \"linked\", \"state\": \"%p\", \"image\": \"%s\"}", state, digest);
    write_line(&line);
    free(line.data);
}

/* A library has a module of its own in each context that uses it. */
static struct origin *library_of_module(handle module) {
    for (size_t i = modules.count; i--;) {
        handle its = NULL;
        if (modules.items[i].made && modules.items[i].library && !cuLibraryGetModule(&its, modules.items[i].made) && its == module)
            return &modules.items[i];
    }
    return NULL;
}

int image_of(handle launched, handle *function, handle *module) {
    struct origin *kernel = find(&kernels, launched), *from = NULL;
    *function = launched, *module = NULL;
    if (kernel && cuKernelGetFunction && cuKernelGetFunction(function, launched)) *function = launched;
    if (kernel) from = find(&modules, kernel->of);
    if ((!cuFuncGetModule || cuFuncGetModule(module, *function)) && !kernel) {
        /* A CUkernel that nobody was seen to look up. */
        handle other = NULL;
        *module = NULL;
        if (cuKernelGetFunction && !cuKernelGetFunction(&other, launched)) {
            *function = other;
            if (cuFuncGetModule && cuFuncGetModule(module, other)) *module = NULL;
        }
    }
    if (!from && *module) from = find(&modules, *module);
    if (!from && *module && cuLibraryGetModule && (from = library_of_module(*module))) {
        add(&modules, (struct origin){*module, 0, from->image, NULL});
        return modules.items[modules.count - 1].image;
    }
    return from ? from->image : NO_IMAGE;
}

const char *stored_image(int number, const char **why) {
    *why = "the driver does not say which module the kernel is from";
    if (number == NO_IMAGE) return NULL;
    struct image *image = &images[number];
    if (image->data) keep(image);
    *why = image->why;
    return image->digest[0] ? image->digest : NULL;
}

static char *ask(const char *question) {
    struct sockaddr_un where = {.sun_family = AF_UNIX};
    struct text answer = {0};
    char part[4096];
    ssize_t got = -1;
    if (!settings.asks || strlen(settings.asks) >= sizeof where.sun_path) return NULL;
    strcpy(where.sun_path, settings.asks);
    struct timeval patience = {.tv_sec = 120};
    int link = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(link, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (link >= 0 && !connect(link, (struct sockaddr *)&where, sizeof where) && send(link, question, strlen(question), MSG_NOSIGNAL) > 0)
        while ((got = read(link, part, sizeof part)) > 0) put(&answer, "%.*s", (int)got, part);
    if (link >= 0) close(link);
    /* The last line is a point: an answer that was cut off is none. */
    if (got == 0 && answer.length >= 2 && !strcmp(answer.data + answer.length - 2, ".\n")) {
        answer.data[answer.length - 2] = 0;
        return answer.data;
    }
    free(answer.data);
    return NULL;
}

const char *variable_names(int number, int architecture) {
    const char *why, *digest = stored_image(number, &why);
    if (!digest) return NULL;
    struct image *image = &images[number];
    if (!image->names) {
        char question[96];
        snprintf(question, sizeof question, "%s %d\n", digest, architecture);
        image->names = ask(question);
    }
    return image->names;
}

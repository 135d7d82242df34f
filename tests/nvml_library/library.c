/* A stand-in for libnvidia-ml.so.1: it answers for the GPUs that a JSON file describes, as NVML of driver 580 would.

   The file (STANDIN_NVML names it) is one flat object, as Python's json.dumps writes it. "name.3" is the name of GPU 3,
   "name" that of all others. "fail.FUNCTION" (or "fail.FUNCTION.3") is the code that a function returns; -1: it hangs,
   -2: it crashes. "wait_ms.FUNCTION" are milliseconds that it takes. "log" is a file that gets a line for each process
   that initializes NVML. Layouts and codes are those of nvml.h (CUDA 12). */

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };
enum { INSTANCES = 1000 };  /* handles of MIG instances are 1000 x (GPU + 1) + instance */

typedef void *Device;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned pid; unsigned long long memory; unsigned instance, compute; } Process;
typedef struct { unsigned char cluster[16]; unsigned status, clique, state; } Fabric;
typedef struct { unsigned version; unsigned char cluster[16]; unsigned status, clique, state, health; } FabricV;
typedef struct { unsigned version, sensor; int degrees; } Temperature;

static char text[1 << 16];

/* The value of a key, behind the colon; that of one GPU goes first. */
static const char *value(const char *key, int gpu) {
    char wanted[128];
    const char *found;
    if (text[0] == '\0') {
        FILE *file = fopen(getenv("STANDIN_NVML"), "r");
        if (file == NULL) abort();
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        fclose(file);
    }
    snprintf(wanted, sizeof wanted, "\"%s.%d\": ", key, gpu);
    found = strstr(text, wanted);
    if (found == NULL) {
        snprintf(wanted, sizeof wanted, "\"%s\": ", key);
        found = strstr(text, wanted);
    }
    return found == NULL ? NULL : found + strlen(wanted);
}

static long long number(const char *key, int gpu, long long otherwise) {
    const char *found = value(key, gpu);
    return found == NULL ? otherwise : strtoll(found, NULL, 10);
}

static int copy(const char *key, int gpu, const char *otherwise, char *target, unsigned size) {
    const char *found = value(key, gpu);
    if (found == NULL) {
        snprintf(target, size, otherwise, gpu);
    } else {
        snprintf(target, size, "%.*s", (int)strcspn(found + 1, "\""), found + 1);
    }
    return SUCCESS;
}

static int number_of(Device handle) {
    int number = (int)(intptr_t)handle;
    return (number >= INSTANCES ? number / INSTANCES : number) - 1;
}

/* What happens to each call first: it takes its time, hangs, crashes or fails. */
static int begin(const char *function, int gpu) {
    char key[128];
    int code;
    snprintf(key, sizeof key, "wait_ms.%s", function);
    usleep((unsigned)number(key, gpu, 0) * 1000);
    snprintf(key, sizeof key, "fail.%s", function);
    code = (int)number(key, gpu, SUCCESS);
    if (code == -1) for (;;) pause();
    if (code == -2) { signal(SIGSEGV, SIG_DFL); raise(SIGSEGV); }
    return code;
}

#define BEGIN(gpu) { int code = begin(__func__, gpu); if (code != SUCCESS) return code; }
#define GPU number_of(handle)

int nvmlInitWithFlags(unsigned flags) {
    char log[256];
    (void)flags;
    if (value("log", -1) != NULL) {
        FILE *file;
        copy("log", -1, "", log, sizeof log);
        if ((file = fopen(log, "a")) == NULL) abort();
        fprintf(file, "%d\n", (int)getpid());
        fclose(file);
    }
    BEGIN(-1)
    usleep((unsigned)(number("gpus", -1, 1) * number("wait_ms.each_gpu", -1, 0) * 1000));
    return SUCCESS;
}

int nvmlShutdown(void) { BEGIN(-1) return SUCCESS; }

const char *nvmlErrorString(int code) {
    switch (code) {
        case 1: return "Uninitialized";
        case 2: return "Invalid Argument";
        case 3: return "Not Supported";
        case 4: return "Insufficient Permissions";
        case 6: return "Not Found";
        case 9: return "Driver Not Loaded";
        case 12: return "NVML Shared Library Not Found";
        case 13: return "Function Not Found";
        case 15: return "GPU is lost";
        case 18: return "Driver/library version mismatch";
        case 999: return "Unknown Error";
        default: return "Another Error";
    }
}

int nvmlSystemGetDriverVersion(char *target, unsigned size) { BEGIN(-1) return copy("driver", -1, "580.95.05", target, size); }
int nvmlSystemGetCudaDriverVersion_v2(int *target) { BEGIN(-1) *target = (int)number("cuda", -1, 13000); return SUCCESS; }
int nvmlSystemGetCudaDriverVersion(int *target) { BEGIN(-1) *target = (int)number("cuda", -1, 13000); return SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned *target) { BEGIN(-1) *target = (unsigned)number("gpus", -1, 1); return SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *target) {
    BEGIN((int)index)
    *target = (Device)(intptr_t)(index + 1);
    return SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(Device handle, Pci *target) {
    BEGIN(GPU)
    memset(target, 0, sizeof *target);
    return copy("pci", GPU, "00000000:%02d:00.0", target->bus_id, sizeof target->bus_id);
}

int nvmlDeviceGetMemoryInfo(Device handle, Memory *target) {
    BEGIN(GPU)
    target->total = (unsigned long long)number("memory_gib", GPU, 80) << 30;
    target->used = 0;
    target->free = target->total;
    return SUCCESS;
}

int nvmlDeviceGetName(Device handle, char *target, unsigned size) {
    BEGIN(GPU)
    return copy("name", GPU, "NVIDIA H100 80GB HBM3", target, size);
}

int nvmlDeviceGetUUID(Device handle, char *target, unsigned size) {
    int number = (int)(intptr_t)handle;
    BEGIN(GPU)
    if (number >= INSTANCES) {
        snprintf(target, size, "MIG-%d%d04f0cbb-5a0e-5e3c-8d6c-aaaaaaaaaaaa", GPU, number % INSTANCES);
        return SUCCESS;
    }
    return copy("uuid", GPU, "GPU-%d1ab4e2c-77f0-4b5a-9d3e-000000000000", target, size);
}

int nvmlDeviceGetCudaComputeCapability(Device handle, int *major, int *minor) {
    int capability = (int)number("capability", GPU, 90);
    BEGIN(GPU)
    *major = capability / 10;
    *minor = capability % 10;
    return SUCCESS;
}

int nvmlDeviceGetComputeMode(Device handle, unsigned *target) { BEGIN(GPU) *target = (unsigned)number("compute_mode", GPU, 0); return SUCCESS; }
int nvmlDeviceGetPersistenceMode(Device handle, unsigned *target) { BEGIN(GPU) *target = (unsigned)number("persistence", GPU, 1); return SUCCESS; }

int nvmlDeviceGetMigMode(Device handle, unsigned *current, unsigned *pending) {
    BEGIN(GPU)
    *current = *pending = number("mig", GPU, 0) > 0;
    return SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(Device handle, unsigned *target) { BEGIN(GPU) *target = 7; return SUCCESS; }

int nvmlDeviceGetMigDeviceHandleByIndex(Device handle, unsigned index, Device *target) {
    BEGIN(GPU)
    if (index >= number("mig", GPU, 0)) return NOT_FOUND;
    *target = (Device)(intptr_t)((GPU + 1) * INSTANCES + (int)index);
    return SUCCESS;
}

int nvmlDeviceGetTotalEccErrors(Device handle, int kind, int counter, unsigned long long *target) {
    (void)kind;
    (void)counter;
    BEGIN(GPU)
    *target = (unsigned long long)number("ecc", GPU, 0);
    return SUCCESS;
}

int nvmlDeviceGetRemappedRows(Device handle, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
    BEGIN(GPU)
    *corrected = 0;
    *uncorrected = *pending = (unsigned)number("remap_pending", GPU, 0);
    *failed = 0;
    return SUCCESS;
}

int nvmlDeviceGetRetiredPagesPendingStatus(Device handle, unsigned *target) { BEGIN(GPU) *target = 0; return NOT_SUPPORTED; }
int nvmlDeviceGetCurrentClocksEventReasons(Device handle, unsigned long long *target) { BEGIN(GPU) *target = (unsigned long long)number("clocks", GPU, 0); return SUCCESS; }
int nvmlDeviceGetCurrentClocksThrottleReasons(Device handle, unsigned long long *target) { BEGIN(GPU) *target = (unsigned long long)number("clocks", GPU, 0); return SUCCESS; }
int nvmlDeviceGetTemperatureV(Device handle, Temperature *target) { BEGIN(GPU) target->degrees = 31; return SUCCESS; }
int nvmlDeviceGetTemperature(Device handle, int sensor, unsigned *target) { (void)sensor; BEGIN(GPU) *target = 31; return SUCCESS; }

int nvmlDeviceGetNvLinkState(Device handle, unsigned link, int *target) {
    BEGIN(GPU)
    if (link >= number("links", GPU, 18)) return INVALID_ARGUMENT;
    *target = 1;
    return SUCCESS;
}

/* The fabric's state: 3 is completed, 0 not supported. */
int nvmlDeviceGetGpuFabricInfoV(Device handle, FabricV *target) { BEGIN(GPU) target->status = 0; target->state = (unsigned)number("fabric", GPU, 3); return SUCCESS; }
int nvmlDeviceGetGpuFabricInfo(Device handle, Fabric *target) { BEGIN(GPU) target->status = 0; target->state = (unsigned)number("fabric", GPU, 3); return SUCCESS; }

static int processes(Device handle, unsigned *count, Process *target) {
    unsigned pid = (unsigned)number("pid", GPU, 0), room = *count;
    *count = pid != 0;
    if (pid == 0) return SUCCESS;
    if (room == 0) return INSUFFICIENT_SIZE;
    *target = (Process){ pid, 2ull << 30, 0xffffffffu, 0xffffffffu };
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(Device handle, unsigned *count, Process *target) { BEGIN(GPU) return processes(handle, count, target); }
int nvmlDeviceGetComputeRunningProcesses_v2(Device handle, unsigned *count, Process *target) { BEGIN(GPU) return processes(handle, count, target); }

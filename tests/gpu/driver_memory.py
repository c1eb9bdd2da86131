"""What memory from the driver costs the host on the first GPU: `driver_memory.py OUT.csv`.

Each row is the median of nine calls of one size while the device has nothing to do: of an allocation, of
the free that follows, and of an allocation that fails. `others_gib` is what the process holds besides. The
slope over bytes is `host.device_malloc_per_gib` of hardware files, the intercept `host.device_malloc`; what
a free takes is `host.device_free`, which has no part by bytes yet. The failing call is the first thing that
a retry of PyTorch's allocator pays for."""

import csv
import ctypes
import statistics
import sys
import time

import torch

GIB = 1 << 30
SIZES = [2 << 20, 20 << 20, 64 << 20, 256 << 20, GIB, 2 * GIB, 4 * GIB, 8 * GIB]
SUCCESS, OUT_OF_MEMORY = 0, 2  # CUDA_SUCCESS, CUDA_ERROR_OUT_OF_MEMORY
CALLS = 9

driver = ctypes.CDLL("libcuda.so.1")


def allocate(size):
    """Address (0: the device is full) and microseconds."""
    address = ctypes.c_uint64()
    begin = time.perf_counter()
    code = driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size))
    took = 1e6 * (time.perf_counter() - begin)
    if code not in (SUCCESS, OUT_OF_MEMORY):
        sys.exit(f"cuMemAlloc of {size} bytes: error {code}")
    return address.value, took


def release(address):
    begin = time.perf_counter()
    code = driver.cuMemFree_v2(ctypes.c_uint64(address))
    took = 1e6 * (time.perf_counter() - begin)
    if code != SUCCESS:
        sys.exit(f"cuMemFree: error {code}")
    return took


def cycle(size):
    """Microseconds of an allocation and of its free; the memory is written in between."""
    address, allocating = allocate(size)
    if not address:
        sys.exit(f"no {size} bytes left")
    driver.cuMemsetD8_v2(ctypes.c_uint64(address), 1, ctypes.c_size_t(size))
    torch.cuda.synchronize()
    return allocating, release(address)


def rows_of(others, fills):
    for size in SIZES:
        cycle(size)
        allocating, freeing = zip(*(cycle(size) for _ in range(CALLS)))
        yield [size, round(others / GIB, 2), round(statistics.median(allocating), 1),
               round(statistics.median(freeing), 1), fills]


def failing_us():
    """Of an allocation larger than what is free."""
    times = []
    for _ in range(CALLS):
        address, took = allocate(torch.cuda.mem_get_info()[0] + GIB)
        if address:
            sys.exit("an allocation beyond what is free did not fail")
        times.append(took)
    return round(statistics.median(times), 1)


if __name__ == "__main__":
    torch.zeros(1, device="cuda")  # the context
    rows = list(rows_of(0, failing_us()))
    room = torch.cuda.mem_get_info()[0] - 10 * GIB
    held = [allocate(GIB)[0] for _ in range(room // GIB)]
    rows += rows_of(len(held) * GIB, failing_us())
    for address in held:
        release(address)
    with open(sys.argv[1], "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["bytes", "others_gib", "malloc_us", "free_us", "failing_malloc_us"])
        writer.writerows(rows)
    print(torch.cuda.get_device_name(), torch.__version__)

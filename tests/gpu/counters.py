#!/usr/bin/env python3
"""Records this machine's GPU counters under loads whose FLOPs are known.

  counters.py DIR

Runs loads one after the other on the first GPU and reads NVML each half second beside them,
with GPM for what DCGM's profiling fields read on Hopper and later. Writes DIR/scrapes.jsonl, one
line {"time", "text"} a reading with the text that a DCGM exporter would have served, and
DIR/loads.json: for each load its window and the FLOPs that it really did in it. replay.py has
flopwatch read those scrapes and compares its OFU with the truth.
Needs PyTorch, nvidia-ml-py and one NVIDIA GPU of the Hopper generation or later.
"""

import json
import os
import sys
import threading
import time

import pynvml
import torch

SECONDS = 7
# GPM's metric, the name that DCGM gives the same reading, and the factor between them.
GPM = {5: ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 0.01), 2: ("DCGM_FI_PROF_SM_ACTIVE", 0.01),
       3: ("DCGM_FI_PROF_SM_OCCUPANCY", 0.01), 1: ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.01),
       10: ("DCGM_FI_PROF_DRAM_ACTIVE", 0.01), 11: ("DCGM_FI_PROF_PIPE_FP64_ACTIVE", 0.01),
       12: ("DCGM_FI_PROF_PIPE_FP32_ACTIVE", 0.01), 13: ("DCGM_FI_PROF_PIPE_FP16_ACTIVE", 0.01)}
# Further metrics that are kept beside the text: which kind of tensor work it was, and totals.
ALSO = [6, 7, 8, 9, 248, 249, 250]


def gpm_values(before, after):
    ask = pynvml.c_nvmlGpmMetricsGet_t()
    ids = list(GPM) + ALSO
    ask.version = 1
    ask.numMetrics = len(ids)
    ask.sample1, ask.sample2 = before, after
    for place, metric in enumerate(ids):
        ask.metrics[place].metricId = metric
    pynvml.nvmlGpmMetricsGet(ask)
    return {m: (ask.metrics[i].value if ask.metrics[i].nvmlReturn == 0
                else f"error {ask.metrics[i].nvmlReturn}") for i, m in enumerate(ids)}


def exposition(device, labels, gpm):
    lines = []

    def line(name, value):
        lines.append(f"{name}{{{labels}}} {value}")

    line("DCGM_FI_DEV_SM_CLOCK", pynvml.nvmlDeviceGetClockInfo(device, pynvml.NVML_CLOCK_SM))
    line("DCGM_FI_DEV_MEM_CLOCK", pynvml.nvmlDeviceGetClockInfo(device, pynvml.NVML_CLOCK_MEM))
    line("DCGM_FI_DEV_GPU_UTIL", pynvml.nvmlDeviceGetUtilizationRates(device).gpu)
    line("DCGM_FI_DEV_POWER_USAGE", pynvml.nvmlDeviceGetPowerUsage(device) / 1e3)
    line("DCGM_FI_DEV_POWER_MGMT_LIMIT",
         pynvml.nvmlDeviceGetPowerManagementLimit(device) / 1e3)
    line("DCGM_FI_DEV_GPU_TEMP", pynvml.nvmlDeviceGetTemperature(device, 0))
    memory = pynvml.nvmlDeviceGetMemoryInfo(device)
    line("DCGM_FI_DEV_FB_USED", memory.used >> 20)
    line("DCGM_FI_DEV_FB_FREE", memory.free >> 20)
    for metric, (name, factor) in GPM.items():
        if isinstance(gpm[metric], float):
            line(name, gpm[metric] * factor)
    return "\n".join(lines) + "\n"


CYCLES = r"""
extern "C" __global__ void cycles(long long* out) {
  unsigned int sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  long long clock, time;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(clock));
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  if (threadIdx.x == 0 && sm < 256) { out[2 * sm] = clock; out[2 * sm + 1] = time; }
}
"""


class Cycles:
    """Mean SM clock between two readings: cycles that the SMs counted over the time it took."""

    def __init__(self):
        import cupy

        self.kernel = cupy.RawKernel(CYCLES, "cycles")
        self.zeros = lambda: cupy.zeros((256, 2), dtype=cupy.int64)

    def read(self):
        out = self.zeros()
        self.kernel((2048,), (64,), (out,))
        return out.get()

    @staticmethod
    def mean_mhz(before, after):
        both = (before[:, 1] > 0) & (after[:, 1] > before[:, 1])
        rates = (after[both, 0] - before[both, 0]) / (after[both, 1] - before[both, 1]) * 1e3
        rates.sort()
        return float(rates[len(rates) // 2]), int(both.sum())


def product(n, dtype, tf32=False):
    a = torch.randn(n, n, device="cuda").to(dtype)

    def run():
        torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.mm(a, a)

    return run, 2 * n**3


def zeros(n):
    """Products of zeros draw little power: the clock stays where it is."""
    a = torch.zeros(n, n, device="cuda", dtype=torch.bfloat16)
    return lambda: torch.mm(a, a)


def loads():
    bf16, flops = product(8192, torch.bfloat16)
    yield "bf16", bf16, flops, 0
    yield "fp16", *product(8192, torch.float16), 0
    yield "bf16_half_the_time", bf16, flops, 0.5
    yield "bf16_small", *product(1024, torch.bfloat16), 0
    yield "bf16_zeros", zeros(8192), flops, 0
    yield "tf32", *product(8192, torch.float32, True), 0
    yield "fp32", *product(4096, torch.float32), 0
    yield "fp64", *product(4096, torch.float64), 0
    a = torch.randn(8192, 8192, device="cuda").to(torch.float8_e4m3fn)
    b = torch.randn(8192, 8192, device="cuda").to(torch.float8_e4m3fn).t()
    one = torch.tensor(1.0, device="cuda")
    yield ("fp8", lambda: torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16),
           2 * 8192**3, 0)
    x = torch.randn(1 << 30, device="cuda")
    yield "copies", lambda: x.clone(), 0, 0
    yield "idle", None, 0, 0


def run(load, flops, pause, cycles):
    """Runs for SECONDS; gives the FLOPs that were done, and when the GPU began and ended."""
    done = 0
    if load:
        load()
    torch.cuda.synchronize()
    before = cycles.read()
    start = time.time()
    while time.time() - start < SECONDS:
        if not load:
            time.sleep(0.1)
            continue
        began = time.time()
        while time.time() - began < 0.05:
            for _ in range(4):
                load()
            torch.cuda.synchronize()
            done += 4 * flops
        if pause:
            time.sleep((time.time() - began) * pause / (1 - pause))
    end = time.time()
    mhz, sms = cycles.mean_mhz(before, cycles.read())
    return {"start": start, "end": end, "flops": done, "mean_sm_mhz": mhz, "sms_read": sms}


def buffered_clocks(device, seen):
    """The clock readings that the driver keeps itself, those since the last call."""
    try:
        _, samples = pynvml.nvmlDeviceGetSamples(device, pynvml.NVML_PROCESSOR_CLK_SAMPLES,
                                                 seen[0])
    except pynvml.NVMLError as error:
        return str(error)
    if samples:
        seen[0] = max(s.timeStamp for s in samples)
    return [[s.timeStamp, s.sampleValue.uiVal] for s in samples]


def sample(device, labels, file, stop):
    before, after = pynvml.nvmlGpmSampleAlloc(), pynvml.nvmlGpmSampleAlloc()
    pynvml.nvmlGpmSampleGet(device, before)
    seen = [0]
    while not stop.wait(0.5):
        pynvml.nvmlGpmSampleGet(device, after)
        gpm = gpm_values(before, after)
        file.write(json.dumps({"time": time.time(), "text": exposition(device, labels, gpm),
                               "gpm": gpm, "clocks": buffered_clocks(device, seen)}) + "\n")
        before, after = after, before


def main():
    directory = sys.argv[1]
    os.makedirs(directory, exist_ok=True)
    pynvml.nvmlInit()
    device = pynvml.nvmlDeviceGetHandleByIndex(0)
    name = pynvml.nvmlDeviceGetName(device)
    labels = (f'gpu="0",UUID="GPU-00000000-0000-0000-0000-000000000001",device="nvidia0",'
              f'modelName="{name}",Hostname="gpu-node-1"')
    stop = threading.Event()
    cycles = Cycles()
    truth = {"gpu": name, "driver": pynvml.nvmlSystemGetDriverVersion(),
             "nvml": pynvml.nvmlSystemGetNVMLVersion(),
             "sm_mhz_max": pynvml.nvmlDeviceGetMaxClockInfo(device, pynvml.NVML_CLOCK_SM),
             "gpm": bool(pynvml.nvmlGpmQueryDeviceSupport(device).isSupportedDevice),
             "loads": {}}
    with open(f"{directory}/scrapes.jsonl", "w", encoding="utf-8") as file:
        thread = threading.Thread(target=sample, args=(device, labels, file, stop))
        thread.start()
        for load_name, load, flops, pause in loads():
            try:
                truth["loads"][load_name] = run(load, flops, pause, cycles)
            except Exception as error:
                truth["loads"][load_name] = {"left_out": str(error)[:200]}
            print(load_name, truth["loads"][load_name], flush=True)
        stop.set()
        thread.join()
    with open(f"{directory}/loads.json", "w", encoding="utf-8") as file:
        json.dump(truth, file, indent=1)


if __name__ == "__main__":
    main()

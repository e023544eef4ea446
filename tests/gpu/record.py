#!/usr/bin/env python3
"""Records profiler traces of jobs on this machine's GPU, with one known cause of loss each.

  record.py DIR [held-out | CASE…]

Writes DIR/CASE.json.gz, a Kineto trace of three steps as a rule, and DIR/truth.json: for each
case the rules that its cause stands for, how long a step takes without the profiler, with the
cause and with the cause taken out, and the FLOPs of a step as PyTorch's own counter has them.
judge.py compares flopwatch's findings with that file. Needs PyTorch 2.6 or later and one NVIDIA
GPU of the Hopper generation or later; a case that this machine cannot run is left out with its
reason.
"""

import gc
import json
import multiprocessing
import os
import sys
import time
import traceback

import numpy
import torch
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.flop_counter import FlopCounterMode

STEPS = 3
TIMED = 8
SECONDS_A_CASE = 75
CASES = {}


def case(*expect, held_out=False):
    """Registers a case. `expect` are the rules any of which names its cause; none: healthy.

    The rules were changed after a look at the recordings of some cases; those that are held out
    were first recorded after the last such change.
    """

    def register(function):
        CASES[function.__name__] = (list(expect), function, held_out)
        return function

    return register


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = torch.nn.LayerNorm(width)
        self.norm2 = torch.nn.LayerNorm(width)
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Decoder(torch.nn.Module):
    def __init__(self, width=2048, layers=4, heads=16, words=8192):
        super().__init__()
        self.embed = torch.nn.Embedding(words, width)
        self.blocks = torch.nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head = torch.nn.Linear(width, words, bias=False)
        self.after_block = None

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
            if self.after_block:
                self.after_block(x)
        return self.head(x)


def decoder(dtype=torch.bfloat16, **sizes):
    torch.manual_seed(1)
    return Decoder(**sizes).cuda().to(dtype)


def training(model, batch=8, length=1024, words=8192, before=None, after=None, optimizer=None):
    """One step of training; `before` gives the tokens, `after` runs at the end of the step."""
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True,
                                               capturable=True)
    fixed = torch.randint(0, words, (batch, length), device="cuda")

    def step():
        tokens = before() if before else fixed
        loss = F.cross_entropy(model(tokens).flatten(0, 1).float(), tokens.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if after:
            after()

    return step


@case()
def healthy_eager():
    return training(decoder()), None, {}


@case()
def healthy_compiled():
    return training(torch.compile(decoder())), None, {}


@case()
def healthy_graph():
    """A whole step is one CUDA graph that is launched again."""
    return as_graph(training(decoder(layers=2))), None, {}


def as_graph(step):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()

    def replay(keeps_memory=step):  # What the step holds must live as long as the graph.
        graph.replay()

    return replay


@case()
def healthy_streams():
    """Two streams share the work of a step and wait for each other; rows of waits recorded."""
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    side = torch.cuda.Stream()

    def step():
        main = torch.cuda.current_stream()
        for _ in range(6):
            left = a @ a
            side.wait_stream(main)
            with torch.cuda.stream(side):
                right = left @ a
            main.wait_stream(side)
            right.record_stream(main)
            left = right @ a
        torch.cuda.current_stream().synchronize()

    return step, None, {"sync_rows": True}


@case("data-starvation")
def slow_loader():
    rng = numpy.random.default_rng(1)
    model = decoder(layers=2)

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return 100000

        def __getitem__(self, i):
            # Decoding as loaders do it: arithmetic of one thread, a few ms a row.
            return numpy.sort(rng.integers(0, 8192, 300000))[:1024]

    def endless():
        while True:
            yield from torch.utils.data.DataLoader(Rows(), batch_size=8, num_workers=0)

    rows = endless()
    return (training(model, before=lambda: next(rows).cuda()), training(model), {})


@case("sync-storm")
def item_in_layers():
    """The host looks at a value of every layer, which it has to wait for."""
    model = decoder(width=1024, layers=16)
    with_cause = decoder(width=1024, layers=16)
    with_cause.after_block = lambda x: [x.abs().max().item() for _ in range(3)]
    sizes = {"batch": 8, "length": 1024}
    return training(with_cause, **sizes), training(model, **sizes), {}


def small(model):
    return training(model, batch=1, length=64,
                    optimizer=torch.optim.AdamW(model.parameters(), foreach=False, lr=1e-4,
                                                capturable=True))


@case("tiny-kernels", "cpu-bound")
def launch_bound():
    """A small model, one launch a weight in the optimizer; without: the same as a CUDA graph."""
    sizes = {"width": 256, "layers": 16, "heads": 4}
    return small(decoder(**sizes)), as_graph(small(decoder(**sizes))), {}


@case("cpu-bound")
def python_between():
    """Python that computes between launches of middle size keeps the GPU waiting."""
    model = decoder(width=1024, layers=12, heads=16)

    def think(_):
        sum(i * i for i in range(60000))

    with_cause = decoder(width=1024, layers=12, heads=16)
    with_cause.after_block = think
    sizes = {"batch": 4, "length": 512}
    return training(with_cause, **sizes), training(model, **sizes), {}


@case("pageable-copy")
def pageable_inputs():
    host = torch.empty(64 << 20, dtype=torch.float32)
    pinned = torch.empty(64 << 20, dtype=torch.float32, pin_memory=True)
    there = torch.empty(64 << 20, dtype=torch.float32, device="cuda")
    model = decoder(layers=2)
    return (training(model, after=lambda: there.copy_(host)),
            training(model, after=lambda: there.copy_(pinned, non_blocking=True)), {})


@case("exposed-copies", "single-stream")
def outputs_copied():
    """Results go to pinned memory on the stream of the computation, which waits for them."""
    pinned = torch.empty(128 << 20, dtype=torch.float32, pin_memory=True)
    there = torch.empty(128 << 20, dtype=torch.float32, device="cuda")
    model = decoder(layers=2)
    return (training(model, after=lambda: pinned.copy_(there, non_blocking=True)),
            training(model), {})


@case("no-tensor-core")
def fp32_products():
    torch.backends.cuda.matmul.allow_tf32 = False
    model = decoder(dtype=torch.float32, layers=2)

    def fast():
        torch.backends.cuda.matmul.allow_tf32 = True
        try:
            step()
        finally:
            torch.backends.cuda.matmul.allow_tf32 = False

    step = training(model, batch=4, length=512)
    return step, fast, {}


@case("gc-pause")
def garbage():
    heap = [[i] for i in range(2_000_000)]
    model = decoder(width=1024, layers=8)
    sizes = {"batch": 4, "length": 512}

    def collect():
        gc.collect()
        return len(heap)

    return training(model, after=collect, **sizes), training(model, **sizes), {"stack": True}


@case("alloc-storm")
def cache_emptied():
    model = decoder(layers=2)
    return (training(model, after=torch.cuda.empty_cache), training(model), {})


@case("io-at-step-end")
def saved_each_step():
    model = decoder(layers=2)

    def save():
        with record_function("save_checkpoint"):
            torch.save(model.state_dict(), "/dev/shm/flopwatch_record.pt")

    return training(model, after=save), training(model), {}


@case("tiny-copies", "sync-storm")
def scalars_copied():
    model = decoder(width=1024, layers=4)
    sizes = {"batch": 4, "length": 512}

    def scalars():
        return [torch.tensor(float(i), device="cuda") for i in range(400)]

    return training(model, after=scalars, **sizes), training(model, **sizes), {}


class Images(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(64, 256, 3, padding=1)
        self.more = torch.nn.ModuleList(torch.nn.Conv2d(256, 256, 3, padding=1)
                                        for _ in range(6))

    def forward(self, x, rearrange):
        x = F.relu(self.first(x))
        for layer in self.more:
            if rearrange:
                x = x.contiguous(memory_format=torch.contiguous_format)
                x = x.contiguous(memory_format=torch.channels_last)
            x = F.relu(layer(x))
        return x.float().mean()


@case("memory-access")
def layouts_changed():
    """Convolutions whose data are moved between layouts before each of them."""
    model = Images().cuda().bfloat16().to(memory_format=torch.channels_last)
    x = torch.randn(64, 64, 56, 56, device="cuda", dtype=torch.bfloat16)
    x = x.to(memory_format=torch.channels_last)

    def step(rearrange):
        model(x, rearrange).backward()
        model.zero_grad()

    return lambda: step(True), lambda: step(False), {}


@case("low-parallelism", "coarse-grain", "low-occupancy")
def few_blocks():
    """A kernel of Triton that runs on 8 of the GPU's SMs takes most of the step."""
    import triton
    import triton.language as tl

    @triton.jit
    def row_sums(x, out, width, BLOCK: tl.constexpr):
        row = tl.program_id(0)
        total = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, width, BLOCK):
            total += tl.load(x + row.to(tl.int64) * width + start + tl.arange(0, BLOCK))
        tl.store(out + row, tl.sum(total))

    x = torch.randn(8, 8 << 20, device="cuda")
    out = torch.empty(8, device="cuda")
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)

    def step(sums):
        for _ in range(4):
            sums()
            a @ a

    return (lambda: step(lambda: row_sums[(8,)](x, out, 8 << 20, BLOCK=1024)),
            lambda: step(lambda: x.sum(dim=1)), {})


@case()
def products_fp8():
    """Scaled products of FP8, and grouped ones of BF16: operators with FLOPs of their own."""
    a = torch.randn(8192, 8192, device="cuda").to(torch.float8_e4m3fn)
    b = torch.randn(8192, 8192, device="cuda").to(torch.float8_e4m3fn).t()
    one = torch.tensor(1.0, device="cuda")
    rows = torch.randn(8192, 2048, device="cuda", dtype=torch.bfloat16)
    experts = torch.randn(8, 2048, 4096, device="cuda", dtype=torch.bfloat16)
    ends = torch.arange(1, 9, device="cuda", dtype=torch.int32) * 1024

    def step():
        for _ in range(6):
            torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16)
            torch._grouped_mm(rows, experts, offs=ends)

    return step, None, {"flops": 6 * (2 * 8192**3 + 2 * 8192 * 2048 * 4096)}


@case(held_out=True)
def templates_of_triton():
    """Products and attention that Inductor writes in Triton."""
    import torch._inductor.config as inductor
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    inductor.max_autotune_gemm_backends = "TRITON"
    mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 4096, 4096)
    q, k, v = (torch.randn(2, 16, 4096, 128, device="cuda", dtype=torch.bfloat16,
                           requires_grad=True) for _ in range(3))
    w = torch.randn(2048, 4096, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    attend = torch.compile(flex_attention)

    @torch.compile(mode="max-autotune-no-cudagraphs")
    def product(x, w):
        return F.silu(x @ w).float().square().mean()

    def step():
        a = attend(q, k, v, block_mask=mask)
        product(a.transpose(1, 2).reshape(-1, 2048), w).backward()
        for t in (q, k, v, w):
            t.grad = None

    # Causal attention does half of the products: two forward, five backward.
    flops = 7 * 2 * 2 * 16 * 4096**2 * 128 // 2 + 3 * 2 * 8192 * 2048 * 4096
    return step, None, {"flops": flops}


@case("cpu-bound", "tiny-kernels", held_out=True)
def generate():
    """Words generated one by one by a model of transformers, without graphs."""
    import transformers

    config = transformers.LlamaConfig(hidden_size=512, intermediate_size=1408, vocab_size=8192,
                                      num_hidden_layers=4, num_attention_heads=8)
    model = transformers.LlamaForCausalLM(config).cuda().bfloat16().eval()
    prompt = torch.randint(0, 8192, (1, 64), device="cuda")

    def step():
        with torch.no_grad():
            model.generate(prompt, max_new_tokens=5, min_new_tokens=5, do_sample=False)

    return step, None, {}


class Perceptron(torch.nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(layers))
        self.after_layer = None

    def forward(self, x):
        for layer in self.layers:
            x = F.relu(layer(x))
            if self.after_layer:
                x = self.after_layer(x)
        return x


def regression(model, rows, width, before=None, after=None, dtype=torch.bfloat16):
    """One step of training on rows of numbers; `before` gives them."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, fused=True)
    fixed = torch.randn(rows, width, device="cuda", dtype=dtype)

    def step():
        x = before() if before else fixed
        model(x).float().square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if after:
            after()

    return step


def perceptron(width=4096, layers=8, dtype=torch.bfloat16):
    torch.manual_seed(1)
    return Perceptron(width, layers).cuda().to(dtype)


@case(held_out=True)
def healthy_perceptron():
    return regression(perceptron(), 8192, 4096), None, {}


@case(held_out=True)
def healthy_loader():
    """A loader with workers that keeps ahead, pinned and copied beside the computation."""
    model = perceptron()

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return 100000

        def __getitem__(self, i):
            return torch.full((2048, 4096), float(i % 7), dtype=torch.bfloat16)

    def endless():
        while True:
            yield from torch.utils.data.DataLoader(Rows(), batch_size=2, num_workers=4,
                                                   pin_memory=True, prefetch_factor=4)

    rows = endless()
    get = lambda: next(rows).cuda(non_blocking=True).flatten(0, 1)  # noqa: E731
    return regression(model, 4096, 4096, before=get), None, {}


@case(held_out=True)
def healthy_convolutions():
    model = Images().cuda().bfloat16().to(memory_format=torch.channels_last)
    x = torch.randn(128, 64, 56, 56, device="cuda", dtype=torch.bfloat16)
    x = x.to(memory_format=torch.channels_last)

    def step():
        model(x, False).backward()
        model.zero_grad()

    return step, None, {}


@case("data-starvation", held_out=True)
def slow_workers():
    """Two workers that cannot keep up with the GPU."""
    model = perceptron()

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return 100000

        def __getitem__(self, i):
            return torch.from_numpy(numpy.sort(numpy.random.rand(1024 * 1024))[:4096]).to(
                torch.bfloat16)

    def endless():
        while True:
            yield from torch.utils.data.DataLoader(Rows(), batch_size=16, num_workers=2)

    rows = endless()
    get = lambda: next(rows).cuda().repeat(512, 1)  # noqa: E731
    return regression(model, 8192, 4096, before=get), regression(model, 8192, 4096), {}


@case("sync-storm", held_out=True)
def masks_as_indices():
    """Rows are chosen by a mask, whose size the host has to wait for."""
    with_cause, without = perceptron(layers=16), perceptron(layers=16)

    def choose(x):
        chosen = x[x.amax(dim=1) > -1]
        return F.pad(chosen, (0, 0, 0, x.shape[0] - chosen.shape[0]))

    with_cause.after_layer = choose
    return regression(with_cause, 4096, 4096), regression(without, 4096, 4096), {}


@case("cpu-bound", "gc-pause", held_out=True)
def tokenised_between():
    """Text is split in Python between steps, on the thread that launches, without a loader."""
    text = "the quick brown fox jumps over the lazy dog " * 9000
    model = perceptron()

    def words():
        counts = {}
        for word in text.split():
            counts[word] = counts.get(word, 0) + 1
        return torch.full((8192, 4096), float(len(counts)), device="cuda", dtype=torch.bfloat16)

    return (regression(model, 8192, 4096, before=words), regression(model, 8192, 4096), {})


@case("pageable-copy", "exposed-copies", held_out=True)
def outputs_to_numpy():
    """What the model gives goes to numpy in each step: a blocking copy to pageable memory."""
    model = perceptron()
    x = torch.randn(8192, 4096, device="cuda", dtype=torch.bfloat16)

    def step():
        with torch.no_grad():
            for _ in range(3):
                y = model(x)
            y.float().cpu().numpy()

    def without():
        with torch.no_grad():
            for _ in range(3):
                y = model(x)
            y.float()

    return step, without, {}


@case("no-tensor-core", held_out=True)
def fp32_convolutions():
    torch.backends.cudnn.allow_tf32 = False
    model = Images().cuda().to(memory_format=torch.channels_last)
    x = torch.randn(16, 64, 56, 56, device="cuda").to(memory_format=torch.channels_last)

    def step():
        model(x, False).backward()
        model.zero_grad()

    def fast():
        torch.backends.cudnn.allow_tf32 = True
        try:
            step()
        finally:
            torch.backends.cudnn.allow_tf32 = False

    return step, fast, {}


@case("alloc-storm", held_out=True)
def cache_emptied_often():
    with_cause, without = perceptron(), perceptron()

    def empty(x):
        torch.cuda.empty_cache()
        return x

    with_cause.after_layer = empty
    return regression(with_cause, 4096, 4096), regression(without, 4096, 4096), {}


@case("io-at-step-end", held_out=True)
def logged_each_step():
    """A log is written and flushed to disk at the end of each step, under a name of its own."""
    model = perceptron()
    log = open("/tmp/flopwatch_record.log", "w", encoding="utf-8")

    def write():
        with record_function("write_log"):
            for i in range(60000):
                log.write(f"step line {i} of a verbose log\n")
            log.flush()
            os.fsync(log.fileno())

    return (regression(model, 8192, 4096, after=write), regression(model, 8192, 4096), {})


@case("gc-pause", held_out=True)
def collected_often():
    heap = [{"a": i} for i in range(800_000)]
    model = perceptron()

    def collect():
        return gc.collect(), len(heap)

    return (regression(model, 8192, 4096, after=collect), regression(model, 8192, 4096),
            {"stack": True})


@case("memory-access", held_out=True)
def elementwise_chain():
    """Arithmetic of one element at a time in many passes over memory."""
    x = torch.randn(64 << 20, device="cuda")
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)

    def chain(x):
        for _ in range(8):
            x = (x * 1.01 + 0.5).sigmoid().tanh()
        return x

    fused = torch.compile(chain)
    return lambda: (chain(x), a @ a), lambda: (fused(x), a @ a), {}


@case("low-parallelism", "coarse-grain", "low-occupancy", "tiny-kernels", held_out=True)
def one_long_scan():
    """A recurrent network of a batch of one: each kernel fills a few SMs."""
    model = torch.nn.LSTM(1024, 1024, 2).cuda().bfloat16()
    many, one = (torch.randn(256, n, 1024, device="cuda", dtype=torch.bfloat16) for n in (64, 1))

    def step(x):
        with torch.no_grad():
            model(x)

    return lambda: step(one), None, {"note": "a batch of 64 takes", "beside": lambda: step(many)}


@case("step-variance", held_out=True)
def evaluation_at_times():
    """Every third step evaluates beside training, which takes as long again."""
    model = perceptron()
    x = torch.randn(8192, 4096, device="cuda", dtype=torch.bfloat16)
    count = [0]

    def evaluate():
        count[0] += 1
        if count[0] % 3 == 0:
            with torch.no_grad():
                for _ in range(4):
                    model(x)

    return (regression(model, 8192, 4096, after=evaluate), regression(model, 8192, 4096),
            {"steps": 7})


@case("tiny-copies", "sync-storm", held_out=True)
def rows_copied_singly():
    """A batch is copied to the GPU row by row."""
    host = torch.randn(300, 512).to(torch.bfloat16)
    there = torch.empty(300, 512, device="cuda", dtype=torch.bfloat16)
    model = perceptron(layers=4)

    def copy_rows():
        for i in range(300):
            there[i].copy_(host[i])

    return (regression(model, 8192, 4096, after=copy_rows), regression(model, 8192, 4096), {})


@case("data-starvation", "sync-storm", held_out=True)
def two_causes():
    """A loader that is too slow, and waits in every layer."""
    model = perceptron(layers=12)
    model.after_layer = lambda x: x * float(x.amax().item() > -1)

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return 100000

        def __getitem__(self, i):
            return torch.from_numpy(numpy.sort(numpy.random.rand(200000))[:4096]).to(
                torch.bfloat16)

    def endless():
        while True:
            yield from torch.utils.data.DataLoader(Rows(), batch_size=2, num_workers=0)

    rows = endless()
    get = lambda: next(rows).cuda().repeat(2048, 1)  # noqa: E731
    return regression(model, 4096, 4096, before=get), None, {}


def timed(step):
    """Milliseconds of one step, the median of TIMED, each waited for."""
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    took = []
    for _ in range(TIMED):
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        took.append(1e3 * (time.perf_counter() - start))
    return sorted(took)[TIMED // 2]


def paced(step):
    """Milliseconds of one step where the host runs ahead as it can."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(TIMED):
        step()
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start) / TIMED


def counted(step):
    try:
        with FlopCounterMode(display=False) as counter:
            step()
        return counter.get_total_flops()
    except Exception as error:  # The counter does not know compiled code and some operators.
        return f"not counted: {str(error)[:120]}"


def record(name, directory):
    expect, make, held_out = CASES[name]
    step, without, also = make()
    truth = {"expect": expect, "held_out": held_out, "step_ms": timed(step),
             "paced_ms": paced(step)}
    if without:
        truth["without_step_ms"] = timed(without)
        truth["without_paced_ms"] = paced(without)
    truth["flops"] = also.get("flops") or counted(step)
    if also.get("beside"):
        truth["beside"] = [also["note"], paced(also["beside"])]
    steps = also.get("steps", STEPS)
    more = {}
    if also.get("sync_rows"):
        more["experimental_config"] = torch._C._profiler._ExperimentalConfig(
            enable_cuda_sync_events=True)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True,
                 with_stack=bool(also.get("stack")),
                 schedule=torch.profiler.schedule(wait=0, warmup=1, active=steps),
                 on_trace_ready=lambda p: p.export_chrome_trace(f"{directory}/{name}.json.gz"),
                 **more) as profiler:
        for _ in range(steps + 1):
            step()
            profiler.step()
        torch.cuda.synchronize()
    return truth


def in_process(name, directory, answer):
    """Runs one case and sends its truth, or why there is none."""
    try:
        truth = record(name, directory)
        properties = torch.cuda.get_device_properties(0)
        answer.send(({"gpu": properties.name, "sms": properties.multi_processor_count}, truth))
    except Exception as error:
        traceback.print_exc(limit=4)
        answer.send((None, f"{type(error).__name__}: {str(error)[:300]}"))


def main():
    directory = sys.argv[1]
    os.makedirs(directory, exist_ok=True)
    truth = {"torch": torch.__version__, "cases": {}, "left_out": {}}
    # A case has a process of its own, forked before anything touches the GPU: an error on the
    # device, a setting or a full memory of one case reaches no other.
    processes = multiprocessing.get_context("fork")
    chosen = [name for name, (_, _, held_out) in CASES.items()
              if held_out == ("held-out" in sys.argv[2:])]
    for name in [n for n in sys.argv[2:] if n in CASES] or chosen:
        start = time.time()
        answer, sender = processes.Pipe(duplex=False)
        process = processes.Process(target=in_process, args=(name, directory, sender))
        process.start()
        sender.close()
        try:
            device, said = answer.recv() if answer.poll(SECONDS_A_CASE) else (None, "too slow")
        except EOFError:
            device, said = None, "the process ended"
        process.kill()
        process.join()
        if device:
            truth.update(device)
        truth["cases" if device else "left_out"][name] = said
        with open(f"{directory}/truth.json", "w", encoding="utf-8") as file:
            json.dump(truth, file, indent=1)
        print(f"{name}: {time.time() - start:.1f} s {said}", flush=True)


if __name__ == "__main__":
    main()

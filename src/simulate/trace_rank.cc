#include "simulate/trace_rank.h"

#include <fmt/format.h>

#include <algorithm>

#include "simulate/trace_kernels.h"

namespace flopwatch::simulate {

TracePlan::TracePlan(const TraceJobOptions& o) : options(o) {
  const bool overlap = Planted("hidden-communication");
  const bool needs_nccl = Planted("comm-dominated") || Planted("poor-overlap") ||
                          Planted("small-collectives") || Planted("gloo-validation") || overlap;
  distributed = (o.ranks > 1 || needs_nccl) && !Planted("gloo-backend");
  if (distributed && Planted("small-collectives")) per_layer = 6;
  // There are about 33 events a layer forward, 49 backward, 5 a collective, 60 a step otherwise.
  layers = static_cast<int>(
      std::max<int64_t>(2, (o.events_per_step - 60) / (distributed ? 82 + 5 * per_layer : 82)));
  if (distributed && Planted("small-collectives"))
    per_layer = std::max(per_layer, (60 + layers - 1) / layers);
  collective_time = 900 * kUs;
  collective_elements = 12 * kHidden * kHidden / 8;
  if (Planted("tiny-kernels")) kernel_scale = 0.008;
  if (Planted("graphs")) kernel_scale = 0.04;
  step_gpu_time = layers * 4700 * kUs;
  late_from = static_cast<int>(collectives());
  if (Planted("comm-dominated")) collective_time = 6 * kMs;
  if (overlap) collective_time = 2800 * kUs;
  if (Planted("poor-overlap")) {
    collective_time = 620 * kUs;
    late_from = std::max(1, layers / 5);
  }
  if (Planted("small-collectives")) {
    collective_time = 30 * kUs;
    collective_elements = 16'384;
  }
}

TraceRank::TraceRank(const TracePlan& plan, int rank, bool slow, TraceEmitter* out,
                     TraceRankTruth* truth)
    : plan_(plan),
      rank_(rank),
      device_(rank % 8),
      slow_(slow),
      out_(out),
      truth_(truth),
      draws_(Key(plan.options.seed, Purpose::kTrace, static_cast<uint64_t>(rank))),
      pid_(20'000 + rank),
      tid_(20'000 + rank) {
  cpu_ = 1'750'000'000'000'000'000 +
         static_cast<int64_t>(draws_.Below(300'000));  // ranks begin within 0.3 ms
  kernel_device_ = device_;
  allocated_ = plan.Planted("memory-limit") ? kMemory * 95 / 100 : kMemory * 6 / 10;
}

int64_t TraceRank::Jitter(int64_t about) {
  return about - about / 10 +
         static_cast<int64_t>(draws_.Below(static_cast<uint32_t>(std::max<int64_t>(about / 5, 1))));
}

int64_t TraceRank::GpuEnd() const {
  int64_t end = 0;
  for (const Stream& s : streams_) end = std::max(end, s.free);
  return end;
}

void TraceRank::OpenOp(std::string_view name) {
  open_.push_back({std::string(name), cpu_, ++external_id_});
  if (!graph_) cpu_ += Jitter(2 * kUs);
}

void TraceRank::CloseAs(std::string_view category, std::string_view args) {
  if (!graph_) cpu_ += Jitter(3 * kUs);
  const Open op = std::move(open_.back());
  open_.pop_back();
  if (out_ == nullptr || graph_) return;  // a graph runs no operators
  out_->Complete(
      category, op.name, pid_, tid_, op.begin, cpu_,
      fmt::format(FMT_STRING("\"External id\": {}, \"Record function id\": 0, \"Ev Idx\": {}{}{}"),
                  op.id, op.id, args.empty() ? "" : ", ", args));
}

void TraceRank::CloseOp(std::string_view args) { CloseAs("cpu_op", args); }

void TraceRank::Host(std::string_view category, std::string_view name, int64_t duration,
                     int64_t tid) {
  if (out_ != nullptr)
    out_->Complete(category, name, pid_, tid == 0 ? tid_ : tid, cpu_, cpu_ + duration,
                   fmt::format("\"External id\": {}", ++external_id_));
  cpu_ += duration;
}

// The driver holds 1,024 entries a stream; the call that comes next waits until one has started.
int64_t TraceRank::QueueRoom(int stream, int64_t at) {
  const Stream& s = streams_[static_cast<size_t>(stream)];
  return std::max(at, s.started[s.next]);
}

void TraceRank::CallRow(std::string_view name, int64_t duration, int cbid) {
  const int64_t begin = cpu_;
  cpu_ += duration;
  if (out_ != nullptr)
    out_->Call(name, pid_, tid_, begin, cpu_, ++correlation_, open_.empty() ? 0 : open_.back().id,
               cbid);
}

void TraceRank::Work(const TraceKernel& kernel, int64_t duration, int stream, bool exact) {
  Stream& s = streams_[static_cast<size_t>(stream)];
  const int64_t call = cpu_;
  if (!graph_) {
    cpu_ = QueueRoom(stream, cpu_) + Jitter(6 * kUs);
    ++correlation_;
  }
  if (!exact) {
    duration = static_cast<int64_t>(static_cast<double>(Jitter(duration)) * plan_.kernel_scale *
                                    scale_ * (slow_ ? 1.18 : 1.0));
    duration = std::max<int64_t>(duration, 1200);
  }
  int64_t begin = std::max(s.free + (graph_ ? 150 : 800), cpu_ + 2500);
  if (stream == kCompute) begin = std::max(begin, not_before_);
  s.free = begin + duration;
  s.started[s.next] = begin;
  s.next = (s.next + 1) % s.started.size();
  // A slow host: the operator takes longer than its kernel.
  if (plan_.Planted("cpu-bound")) cpu_ += 2 * duration;
  Note(&compute_, begin, s.free);
  if (out_ == nullptr) return;
  ++truth_->kernels;
  const int64_t id = open_.empty() ? 0 : open_.back().id;
  if (!graph_) {
    out_->Call(kernel.name == kGemm.name ? "cudaLaunchKernelExC" : "cudaLaunchKernel", pid_, tid_,
               call, call + std::min<int64_t>(cpu_ - call, 6 * kUs), correlation_, id, 211);
    out_->Arrow(correlation_, pid_, tid_, call, kernel_device_, stream, begin);
  }
  out_->Kernel(
      kernel, kernel_device_, stream, begin, s.free, correlation_, id,
      graph_ ? fmt::format("\"graph id\": 3, \"graph node id\": {}", truth_->kernels) : "");
}

void TraceRank::CopyWork(std::string_view kind, int64_t bytes, int64_t duration, int stream,
                         bool blocking) {
  Stream& s = streams_[static_cast<size_t>(stream)];
  const int64_t call = cpu_;
  cpu_ = QueueRoom(stream, cpu_) + Jitter(5 * kUs);
  ++correlation_;
  const int64_t begin = std::max(s.free + 800, cpu_ + 2000);
  s.free = begin + duration;
  s.started[s.next] = begin;
  s.next = (s.next + 1) % s.started.size();
  if (blocking) cpu_ = std::max(cpu_, s.free + 3 * kUs);
  Note(&memory_, begin, s.free);
  if (out_ == nullptr) return;
  ++truth_->copies;
  const int64_t id = open_.empty() ? 0 : open_.back().id;
  out_->Call("cudaMemcpyAsync", pid_, tid_, call, cpu_, correlation_, id, 41);
  out_->Arrow(correlation_, pid_, tid_, call, device_, stream, begin);
  out_->Copy(kind, device_, stream, begin, s.free, correlation_, id, bytes);
}

void TraceRank::Wait(std::string_view call) {
  const int64_t begin = cpu_;
  cpu_ = std::max(cpu_ + 2 * kUs, GpuEnd() + 4 * kUs);
  if (out_ == nullptr) return;
  ++truth_->blocking_calls;
  out_->Call(call, pid_, tid_, begin, cpu_, ++correlation_, open_.empty() ? 0 : open_.back().id,
             131);
}

void TraceRank::Remember(int64_t bytes) {
  if (out_ == nullptr) return;
  if (bytes > 0) address_ += bytes;
  out_->Memory(pid_, tid_, cpu_, device_, address_, bytes, allocated_ + std::max<int64_t>(bytes, 0),
               kMemory * 97 / 100);
}

void TraceRank::LoadBatch() {
  const int64_t time =
      plan_.Planted("data-starvation") ? plan_.step_gpu_time * 2 / 5 : Jitter(150 * kUs);
  if (truth_ != nullptr) truth_->data_loading += time;
  Host("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", time);
  OpenOp("aten::to");
  OpenOp("aten::_to_copy");
  OpenOp("aten::copy_");
  if (plan_.Planted("pageable-copy"))
    CopyWork("Memcpy HtoD (Pageable -> Device)", 40 << 20, 6600 * kUs, kCompute, true);
  else if (plan_.Planted("exposed-copies"))
    CopyWork("Memcpy HtoD (Pinned -> Device)", plan_.step_gpu_time / 3 * 50,
             plan_.step_gpu_time / 3, kCopies, false);  // at 50 GB/s, and the first kernel needs it
  else
    CopyWork("Memcpy HtoD (Pinned -> Device)", kTokens * 8 * 4, 6 * kUs, kCopies, false);
  if (plan_.Planted("exposed-copies")) not_before_ = streams_[kCopies].free;
  CloseOp(R"("Input Dims": [[2, 1024], [2, 1024], []], "Input type": ["long int", "long int", )"
          R"("Scalar"], "Concrete Inputs": ["", "", "True"])");
  CloseOp();
  CloseOp();
}

void TraceRank::Linear(std::string_view op, int rows, int in, int out, int64_t duration,
                       bool backward) {
  const bool fp32 = plan_.Planted("no-tensor-core");
  const std::string_view type = fp32 ? "float" : "c10::BFloat16";
  if (!backward) OpenOp("aten::linear");
  OpenOp(op);
  Work(fp32 ? kSgemm : kGemm, fp32 ? duration * kFp32Slowdown : duration);
  if (out_ == nullptr) {
    CloseOp();
  } else if (backward) {  // aten::mm(a, b)
    CloseOp(fmt::format(
        FMT_STRING(R"("Input Dims": [[{}, {}], [{}, {}]], "Input type": ["{}", "{}"], "Input )"
                   R"(Strides": [[{}, 1], [1, {}]])"),
        rows, in, in, out, type, type, in, in));
  } else {  // aten::addmm(bias, a, b, beta, alpha)
    CloseOp(fmt::format(
        FMT_STRING(
            R"("Input Dims": [[{}], [{}, {}], [{}, {}], [], []], "Input type": ["{}", "{}", )"
            R"("{}", "Scalar", "Scalar"], "Input Strides": [[1], [{}, 1], [1, {}], [], []])"),
        out, rows, in, in, out, type, type, type, in, in));
  }
  if (!backward) CloseOp();
}

void TraceRank::Elementwise(std::string_view op, int64_t duration) {
  OpenOp(op);
  Work(op == "aten::native_layer_norm" || op == "aten::native_layer_norm_backward" ? kNorm
                                                                                   : kElementwise,
       duration);
  CloseOp(R"("Input Dims": [[2, 1024, 4096], [2, 1024, 4096]], "Input type": ["c10::BFloat16", )"
          R"("c10::BFloat16"], "Input Strides": [[4194304, 4096, 1], [4194304, 4096, 1]])");
}

void TraceRank::LayerForward(int layer) {
  const int64_t begin = cpu_;
  if (plan_.Planted("dataparallel")) kernel_device_ = layer % 2 == 0 ? device_ : device_ + 1;
  Elementwise("aten::native_layer_norm", 45 * kUs);
  Linear("aten::addmm", kTokens, kHidden, 3 * kHidden, 260 * kUs, false);
  const bool fp32 = plan_.Planted("no-tensor-core");  // flash attention has no FP32
  OpenOp("aten::scaled_dot_product_attention");
  OpenOp(fp32 ? "aten::bmm" : "aten::_flash_attention_forward");
  Work(fp32 ? kSgemm : kAttention, fp32 ? 230 * kUs * kFp32Slowdown : 230 * kUs);
  CloseOp(
      fp32 ? R"("Input Dims": [[64, 1024, 128], [64, 128, 1024]], "Input type": ["float", "float"])"
           : R"("Input Dims": [[2, 1024, 32, 128], [2, 1024, 32, 128], [2, 1024, 32, 128]], )"
             R"("Input type": ["c10::BFloat16", "c10::BFloat16", "c10::BFloat16"])");
  CloseOp();
  Linear("aten::addmm", kTokens, kHidden, kHidden, 110 * kUs, false);
  Elementwise("aten::add", 50 * kUs);
  Elementwise("aten::native_layer_norm", 45 * kUs);
  Linear("aten::addmm", kTokens, kHidden, 4 * kHidden, 350 * kUs, false);
  Elementwise("aten::gelu", 90 * kUs);
  Linear("aten::addmm", kTokens, 4 * kHidden, kHidden, 340 * kUs, false);
  Elementwise("aten::add", 50 * kUs);
  Remember(kTokens * kHidden * 8);
  PlantForward(layer);
  if (out_ != nullptr) {
    out_->Complete(
        "python_function", fmt::format("nn.Module: TransformerLayer_{}", layer), pid_, tid_,
        begin - 1000, cpu_ + 500,
        fmt::format("\"Python id\": {}, \"Python parent id\": null, \"Python module id\": {}",
                    ++external_id_, layer));
  }
  cpu_ += 2 * kUs;
}

void TraceRank::LayerBackward(int layer, std::vector<int64_t>* arrivals) {
  if (plan_.Planted("dataparallel")) kernel_device_ = layer % 2 == 0 ? device_ : device_ + 1;
  const auto pair = [&](int in, int out, int64_t each) {
    OpenOp("autograd::engine::evaluate_function: AddmmBackward0");
    OpenOp("AddmmBackward0");
    Linear("aten::mm", kTokens, out, in, each, true);
    Linear("aten::mm", out, kTokens, in, each, true);
    CloseOp();
    CloseOp();
  };
  pair(4 * kHidden, kHidden, 340 * kUs);
  Elementwise("aten::gelu_backward", 120 * kUs);
  pair(kHidden, 4 * kHidden, 350 * kUs);
  Elementwise("aten::native_layer_norm_backward", 80 * kUs);
  pair(kHidden, kHidden, 110 * kUs);
  const bool fp32 = plan_.Planted("no-tensor-core");
  OpenOp(fp32 ? "aten::bmm" : "aten::_flash_attention_backward");
  Work(fp32 ? kSgemm : kAttentionBackward, 600 * kUs);
  CloseOp(
      fp32 ? R"("Input Dims": [[64, 1024, 128], [64, 128, 1024]], "Input type": ["float", "float"])"
           : R"("Input Dims": [[2, 1024, 32, 128], [2, 1024, 32, 128], [2, 1024, 32, 128], [2, )"
             R"(1024, 32, 128]], "Input type": ["c10::BFloat16", "c10::BFloat16", )"
             R"("c10::BFloat16", "c10::BFloat16"])");
  pair(kHidden, 3 * kHidden, 260 * kUs);
  Elementwise("aten::native_layer_norm_backward", 80 * kUs);
  Elementwise("aten::add_", 60 * kUs);
  Remember(-kTokens * kHidden * 8);
  if (!plan_.distributed) return;
  for (int i = 0; i < plan_.per_layer; ++i) Collective(arrivals);
}

void TraceRank::Collective(std::vector<int64_t>* arrivals) {
  if (plan_.Planted("gloo-validation")) {
    // In the check before the collective, over the CPU, everyone sends a fingerprint to everyone.
    const int64_t begin = cpu_;
    for (int i = 0; i < 4; ++i) Host("user_annotation", "gloo:send", 1100 * kUs);
    for (int i = 0; i < 2; ++i) Host("user_annotation", "gloo:recv", 1500 * kUs);
    if (out_ != nullptr)
      out_->Complete("user_annotation", "gloo:all_gather", pid_, tid_ + 1, begin, cpu_, "");
  }
  OpenOp("c10d::allreduce_");
  OpenOp("record_param_comms");
  const int64_t id = open_.back().id;
  OpenOp("nccl:all_reduce");
  const int64_t call = cpu_;
  cpu_ += Jitter(8 * kUs);
  ++correlation_;
  if (out_ != nullptr)
    out_->Call("cudaLaunchKernelExC", pid_, tid_, call, cpu_, correlation_, id, 430);
  pending_.push_back({correlation_, id, ++sequence_});
  // The rank arrives once the gradients of the layer are there.
  arrivals->push_back(std::max(cpu_ + 3000, streams_[kCompute].free + 1500));
  CloseAs("user_annotation", {});
  const int size = std::max(plan_.options.ranks, 2);
  CloseOp(out_ == nullptr
              ? ""
              : fmt::format(FMT_STRING("\"Collective name\": \"allreduce\", \"dtype\": "
                                       "\"BFloat16\", \"In msg nelems\": {}, \"Out msg nelems\": "
                                       "{}, \"Group size\": {}, "
                                       "\"Process Group Name\": \"0\", \"Process Group "
                                       "Description\": \"default_pg\", \"Rank\": {}, \"Seq\": {}"),
                            plan_.collective_elements, plan_.collective_elements, size, rank_,
                            sequence_));
  CloseOp();
}

void TraceRank::BeginStep(int step, std::vector<int64_t>* arrivals) {
  step_begin_ = cpu_;
  cpu_ += 20 * kUs;
  PlantStepStart(step);
  LoadBatch();
  OpenOp("aten::zero_");
  CloseOp();
  if (plan_.Planted("graphs")) {
    cpu_ += 40 * kUs;
    CallRow("cudaGraphLaunch", 300 * kUs, 311);
    graph_ = true;
  }
  const int64_t forward = cpu_;
  for (int layer = 0; layer < plan_.layers; ++layer) LayerForward(layer);
  if (plan_.Planted("dataparallel")) {
    if (out_ != nullptr)
      out_->Complete("user_annotation", "DataParallel.forward", pid_, tid_, forward - 2000, cpu_,
                     "");
  }
  cpu_ += 2 * kUs;
  if (plan_.Planted("profiler-overhead")) {
    if (out_ != nullptr)
      out_->Complete("overhead", "CUPTI activity buffer flush", -1, 0, cpu_,
                     cpu_ + plan_.step_gpu_time / 3, "");
    cpu_ += plan_.step_gpu_time / 3;
  }
  // The autograd engine has a thread of its own; the main one waits for it.
  const int64_t main = tid_, backward = cpu_;
  tid_ = pid_ + 1;
  for (int layer = plan_.layers - 1; layer >= 0; --layer) LayerBackward(layer, arrivals);
  for (size_t i = static_cast<size_t>(plan_.late_from); i < arrivals->size(); ++i)
    (*arrivals)[i] = std::max((*arrivals)[i], streams_[kCompute].free + 1500);
  tid_ = main;
  kernel_device_ = device_;
  if (out_ != nullptr)
    out_->Complete("python_function", "torch/autograd/__init__.py(244): backward", pid_, tid_,
                   backward, cpu_ + 1000, "\"Python id\": 1, \"Python parent id\": null");
  cpu_ += 3 * kUs;
  graph_ = false;
  if (plan_.Planted("gloo-backend")) {
    Wait("cudaStreamSynchronize");
    for (int layer = 0; layer < plan_.layers; ++layer)
      Host("user_annotation", "gloo:all_reduce", 1200 * kUs);
  }
}

void TraceRank::EndStep(int step, std::span<const int64_t> arrivals,
                        std::span<const int64_t> ends) {
  Stream& comm = streams_[kComm];
  for (size_t i = 0; i < ends.size(); ++i) {
    const int64_t begin = std::max(arrivals[i], comm.free + 500);
    comm.free = ends[i] + EndJitter(plan_.options.seed, rank_, step, i);
    Note(&communication_, begin, comm.free);
    if (out_ == nullptr) continue;
    ++truth_->kernels;
    ++truth_->collectives;
    const Pending& p = pending_[i];
    static constexpr TraceKernel kAllReduce = {
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        24,
        512,
        96,
        0,
        0};
    static constexpr TraceKernel kDispatch = {
        "void deep_ep::intranode::dispatch<8, 768, 12288>(int4*, float*, int*, long*)",
        24,
        768,
        96,
        0,
        0};
    out_->Kernel(plan_.Planted("hidden-communication") ? kDispatch : kAllReduce, device_, kComm,
                 begin, comm.free, p.correlation, p.external_id,
                 plan_.Planted("hidden-communication")
                     ? ""
                     : fmt::format(FMT_STRING("\"Collective name\": \"allreduce\", \"In msg "
                                              "nelems\": {}, \"Out msg nelems\": {}, \"Group "
                                              "size\": {}, \"dtype\": \"BFloat16\", "
                                              "\"Process Group Name\": \"0\", \"Process Group "
                                              "Description\": \"default_pg\", \"Seq\": {}"),
                                   plan_.collective_elements, plan_.collective_elements,
                                   std::max(plan_.options.ranks, 2), p.sequence));
  }
  pending_.clear();
  not_before_ = comm.free;  // cudaStreamWaitEvent of the compute stream
  const int64_t optimizer = cpu_;
  CallRow("cudaStreamWaitEvent", 2 * kUs, 147);
  for (int i = 0; i < 4; ++i) {
    OpenOp("aten::_fused_adamw_");
    Work(kAdam, std::max<int64_t>(plan_.layers, 4) * 12 * kUs);
    CloseOp();
  }
  if (out_ != nullptr)
    out_->Complete("user_annotation", "Optimizer.step#AdamW.step", pid_, tid_, optimizer, cpu_,
                   "\"External id\": 0");
  cpu_ += 2 * kUs;
  PlantStepEnd();
  OpenOp("aten::item");
  OpenOp("aten::_local_scalar_dense");
  CopyWork("Memcpy DtoH (Device -> Pinned)", 4, 1500, kCompute, false);
  Wait("cudaStreamSynchronize");
  CloseOp();
  CloseOp();
  if (plan_.Planted("io-at-step-end"))
    Host("python_function", "torch/serialization.py(850): save", plan_.step_gpu_time / 7);
  cpu_ += 20 * kUs;
  if (out_ != nullptr) {
    out_->Complete("user_annotation", fmt::format("ProfilerStep#{}", step + 100), pid_, tid_,
                   step_begin_, cpu_, fmt::format("\"External id\": {}", ++external_id_));
    truth_->step_annotations.push_back({step_begin_, cpu_});
  }
  cpu_ += 15 * kUs;
}

void TraceRank::Finish() {
  if (truth_ == nullptr) return;
  using Set = std::vector<std::pair<int64_t, int64_t>>;
  const auto merge = [](Set set) {
    std::sort(set.begin(), set.end());
    Set out;
    for (const auto& [begin, end] : set) {
      if (!out.empty() && begin <= out.back().second)
        out.back().second = std::max(out.back().second, end);
      else
        out.push_back({begin, end});
    }
    return out;
  };
  const auto length = [](const Set& set) {
    int64_t sum = 0;
    for (const auto& [begin, end] : set) sum += end - begin;
    return sum;
  };
  Set both = compute_, all = compute_;
  both.insert(both.end(), communication_.begin(), communication_.end());
  all = both;
  all.insert(all.end(), memory_.begin(), memory_.end());
  const Set busy = merge(std::move(all));
  truth_->rank = rank_;
  truth_->compute = length(merge(compute_));
  truth_->communication = length(merge(communication_));
  truth_->exposed_communication = length(merge(std::move(both))) - truth_->compute;
  truth_->busy = length(busy);
  if (!busy.empty()) {
    truth_->first_gpu = busy.front().first;
    truth_->last_gpu = busy.back().second;
  }
  if (out_ != nullptr) truth_->events = out_->events();
}

}  // namespace flopwatch::simulate

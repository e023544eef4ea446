#include "trace/import/kineto_categories.h"

namespace flopwatch::trace {
namespace {

struct Entry {
  std::string_view text;
  KinetoCategory meaning;
};

constexpr Entry kCategories[] = {
    {"cpu_op", {Category::kCpuOp}},
    {"Operator", {Category::kCpuOp}},  // until May 2022, annotations too
    {"user_annotation", {Category::kUserAnnotation}},
    {"python_function", {Category::kPythonFunction}},
    {"cuda_runtime", {Category::kRuntime}},  // hip* calls too
    {"Runtime", {Category::kRuntime}},
    {"hip_runtime", {Category::kRuntime}},
    {"mtia_runtime", {Category::kRuntime}},
    {"xpu_runtime", {Category::kRuntime}},
    {"gcu_runtime", {Category::kRuntime}},
    {"glow_runtime", {Category::kRuntime}},
    {"privateuse1_runtime", {Category::kRuntime}},
    {"cuda_driver", {Category::kDriver}},
    {"gcu_driver", {Category::kDriver}},
    {"xpu_driver", {Category::kDriver}},
    {"privateuse1_driver", {Category::kDriver}},
    {"kernel", {Category::kKernel}},
    {"Kernel", {Category::kKernel}},
    {"mtia_ccp_events", {Category::kKernel}},
    {"hpu_op", {Category::kKernel}},
    {"gpu_memcpy", {Category::kGpuMemcpy}},
    {"Memcpy", {Category::kGpuMemcpy}},
    {"GCU_MEMCPY", {Category::kGpuMemcpy}},
    {"gpu_memset", {Category::kGpuMemset}},
    {"Memset", {Category::kGpuMemset}},
    {"GCU_MEMSET", {Category::kGpuMemset}},
    {"gpu_user_annotation", {Category::kGpuUserAnnotation}},
    {"cuda_sync", {Category::kSync}},
    {"overhead", {Category::kOverhead}},
    {"cuda_profiler_range", {Category::kProfilerRange}},
    {"collective_comm", {Category::kGpuCollective}},
    {"Trace", {Category::kOther, true}}};

constexpr std::string_view kDeviceWaits[] = {
    "Stream Wait Event", "Stream Sync",   "Event Sync",  "Context Sync",      "EVENT_WAIT",
    "EVENT_WAIT_SQE",    "EVENT_RECORD",  "NOTIFY_WAIT", "NOTIFY_WAIT_SQE",   "Notify_Wait",
    "EVENT_RECORD_SQE",  "NOTIFY_RECORD", "Notify Wait", "NOTIFY_RECORD_SQE", "Notify_Record"};

}  // namespace

bool IsDeviceWait(std::string_view kernel) {
  // Of every kernel of a file it is asked.
  if (kernel.empty() || std::string_view("SECN").find(kernel[0]) == std::string_view::npos)
    return false;
  for (const std::string_view wait : kDeviceWaits)
    if (kernel == wait) return true;
  return false;
}

KinetoCategory KinetoCategoryOf(std::string_view text) {
  for (const Entry& entry : kCategories)
    if (entry.text == text) return entry.meaning;
  return {};
}

}  // namespace flopwatch::trace

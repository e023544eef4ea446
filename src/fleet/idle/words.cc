#include "fleet/idle/words.h"

#include <fmt/format.h>

#include <cmath>

namespace flopwatch::fleet {
namespace {

std::string IdleGpuHours(double gpu_s) {
  const double hours = gpu_s / 3600;
  return fmt::format("{:.{}f} GPU-hours", hours, hours < 10 ? 1 : 0);
}

std::string IdlePower(const IdleHeld& h) {
  if (std::isnan(h.power_w)) return "";
  const bool compared = h.work_power_w > 0;
  return fmt::format(" at {:.0f} W{}", h.power_w,
                     compared ? fmt::format(" (its work takes {:.0f} W)", h.work_power_w) : "");
}

std::string IdleMemory(const IdleHeld& h) {
  if (std::isnan(h.memory_mib)) return "; memory in use is not reported";
  return fmt::format(" while {:.1f} GiB of memory are held", h.memory_mib / 1024);
}

// What was seen, and what it is told from.
std::string Seen(const IdleHeld& h) {
  switch (h.state) {
    case IdleState::kNoProcess:
      return fmt::format("nothing runs and nothing is in memory ({:.0f} MiB){}", h.memory_mib,
                         IdlePower(h));
    case IdleState::kNoWork:
      return fmt::format("nothing runs{}{}", IdleMemory(h), IdlePower(h));
    case IdleState::kStartup:
      return fmt::format("nothing ran before the job's first work{}", IdleMemory(h));
    case IdleState::kBarrier:
      return fmt::format("full duty without tensor work{}; work {}", IdlePower(h),
                         h.goes_on ? "has not come back yet" : "came back");
    case IdleState::kHung:
      return fmt::format("full duty without tensor work{}; no work came after", IdlePower(h));
    case IdleState::kAfterLastOutput:
      return fmt::format("nothing ran after the job's last work until its end{}", IdleMemory(h));
    case IdleState::kUnusedGpu:
      return h.began_before
                 ? "nothing ran here, in all the time that was read, while other GPUs of "
                   "the job were in use"
                 : "nothing ever ran here while other GPUs of the job were in use";
  }
  return "";
}

// What the holder may do about it.
std::string_view Advice(IdleState state) {
  switch (state) {
    case IdleState::kNoProcess:
      return "No process of yours is on these GPUs. If the job waits for data or runs on CPUs, "
             "hold "
             "the GPUs only for the step that needs them.";
    case IdleState::kNoWork:
      return "A process holds memory and runs nothing. A notebook or a service that nobody uses "
             "can "
             "be stopped; a job that waits for input can be resumed from a checkpoint.";
    case IdleState::kStartup:
      return "The start took long. Containers, data and compiled graphs that are kept near the "
             "nodes make it short.";
    case IdleState::kBarrier:
      return "All ranks waited for one. A slow checkpoint, a rank that reads data, or a slow GPU "
             "keeps the others waiting.";
    case IdleState::kHung:
      return "The job looks hung: kernels spin and no work is done. Look at its last output, and "
             "end it; a watchdog of the framework ends the next one by itself.";
    case IdleState::kAfterLastOutput:
      return "The work was over long before the job ended. Let the script end when the work does.";
    case IdleState::kUnusedGpu:
      return "Some GPUs were never used. Ask for as many as the program uses, or start as many "
             "ranks as there are GPUs.";
  }
  return "";
}

}  // namespace

std::string IdleEvidence(const IdleHeld& h) {
  return fmt::format("{} GPU{}: {}", h.gpus, h.gpus == 1 ? "" : "s", Seen(h));
}

std::string IdleNoticeText(const IdleNotice& n) {
  double gpu_s = 0, money = 0;
  bool priced = false;
  for (const IdleNotice::Line& line : n.lines) {
    gpu_s += line.held.gpu_s;
    money += line.money;
    priced |= line.priced;
  }
  const auto worth = [&](double amount) {
    return fmt::format(" ({:.2f}{}{})", amount, n.currency.empty() ? "" : " ", n.currency);
  };
  std::string out = fmt::format("Subject: job {} held GPUs for {} without using them\n\n", n.job,
                                IdleGpuHours(gpu_s));
  out += n.user.empty() ? "Hello,\n\n" : fmt::format("Hello {},\n\n", n.user);
  out += fmt::format("your job {}{}{} held GPUs", n.job,
                     n.name.empty() ? "" : fmt::format(" \"{}\"", n.name),
                     n.account.empty() ? "" : fmt::format(" (account {})", n.account));
  if (!n.nodes.empty()) {
    out += fmt::format(" on {}", fmt::join(n.nodes, ", "));
    const int64_t more = n.nodes_total - static_cast<int64_t>(n.nodes.size());
    if (more > 0) out += fmt::format(" and {} more nodes", more);
  }
  out += fmt::format(" for {}{} without using them:\n\n", IdleGpuHours(gpu_s),
                     priced ? worth(money) : "");
  for (const IdleNotice::Line& line : n.lines) {
    const IdleHeld& h = line.held;
    out += fmt::format("- {}: {}{}, {} {}{}: {}.\n  {}\n", IdleStateName(h.state),
                       IdleGpuHours(h.gpu_s), line.priced ? worth(line.money) : "",
                       h.began_before ? "since before" : "since", FormatTime(h.since),
                       h.goes_on ? ", still so" : fmt::format(", until {}", FormatTime(h.until)),
                       IdleEvidence(h), Advice(h.state));
  }
  out +=
      "\nThis was told from the GPUs' counters; nothing of your program was read. If it is wrong, "
      "please say so.\n";
  return out;
}

}  // namespace flopwatch::fleet

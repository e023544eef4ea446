#include "query/sankey.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace flopwatch::query {
namespace {

using store::Window;

struct Span {
  Micros from = 0, to = 0;
};

// Sorted, and those that touch or overlap made one.
void Unite(std::vector<Span>* spans) {
  std::sort(spans->begin(), spans->end(),
            [](const Span& a, const Span& b) { return a.from < b.from; });
  size_t kept = 0;
  for (const Span& s : *spans) {
    if (kept > 0 && s.from <= (*spans)[kept - 1].to) {
      (*spans)[kept - 1].to = std::max((*spans)[kept - 1].to, s.to);
    } else {
      (*spans)[kept++] = s;
    }
  }
  spans->resize(kept);
}

double SecondsWithin(const std::vector<Span>& spans, Window window) {
  int64_t us = 0;
  for (const Span& s : spans)
    us += std::max<Micros>(0, std::min(s.to, window.to) - std::max(s.from, window.from));
  return ToSeconds(us);
}

struct Board {
  Window there;  // as far as the window goes
  std::string node;
  std::vector<Span> held;        // by a job that has all of it
  double instances = 0;          // what its MIG instances are of it
  double held_by_instances = 0;  // seconds of whole boards
};

// The boards of the fleet and who held them, within the window.
absl::flat_hash_map<int32_t, Board> BoardsOf(const Memory& memory, Window window) {
  absl::flat_hash_map<int32_t, Board> boards;
  for (const GpuPeriod& gpu : memory.Gpus()) {
    const Window there = {std::max(gpu.from, window.from), std::min(gpu.to, window.to)};
    if (there.from < there.to) boards[gpu.entity].there = there;
  }
  absl::flat_hash_map<int32_t, std::pair<int32_t, double>> instances;  // to board and share
  memory.registry().ForEachEntity([&](const store::EntityRecord& e) {
    if (const auto board = boards.find(e.id); board != boards.end())
      board->second.node = e.labels.node.empty() ? "GPU " + e.key.uuid : e.labels.node;
    if (e.parent != 0 && boards.contains(e.parent)) instances[e.id] = {e.parent, 0};
  });
  for (auto& [entity, of] : instances) {
    of.second = memory.registry().Fraction(entity);
    boards[of.first].instances += of.second;
  }
  const std::vector<jobs::IntervalRecord> held = memory.jobs().Intervals(window.from, window.to);
  for (size_t at = 0; at < held.size();) {
    const int32_t entity = held[at].entity;
    std::vector<Span> spans;
    for (; at < held.size() && held[at].entity == entity; ++at)
      spans.push_back({std::max(held[at].from, window.from), std::min(held[at].to, window.to)});
    Unite(&spans);
    const auto instance = instances.find(entity);
    const auto board = boards.find(instance != instances.end() ? instance->second.first : entity);
    if (board == boards.end()) continue;
    if (instance != instances.end()) {
      board->second.held_by_instances +=
          instance->second.second * SecondsWithin(spans, board->second.there);
    }
    board->second.held.insert(board->second.held.end(), spans.begin(), spans.end());
  }
  return boards;
}

}  // namespace

std::optional<fleet::SankeyInput::Held> HeldTime(const Memory& memory, Window window) {
  if (memory.jobs().stats().jobs == 0) return std::nullopt;
  absl::flat_hash_map<int32_t, Board> boards = BoardsOf(memory, window);
  absl::flat_hash_map<std::string, std::vector<Span>> busy;  // by host
  for (const auto& [entity, board] : boards) {
    std::vector<Span>& host = busy[board.node];
    host.insert(host.end(), board.held.begin(), board.held.end());
  }
  for (auto& [node, spans] : busy) Unite(&spans);
  fleet::SankeyInput::Held held;
  for (auto& [entity, board] : boards) {
    const double on_busy_host = SecondsWithin(busy[board.node], board.there);
    held.on_busy_hosts_s += on_busy_host;
    if (board.instances > 0) {
      held.allocated_s += std::min(board.held_by_instances, on_busy_host);
      held.mig_uncovered_s += std::max(0.0, 1 - board.instances) * on_busy_host;
    } else {
      Unite(&board.held);
      held.allocated_s += SecondsWithin(board.held, board.there);
    }
  }
  return held;
}

StatusOr<fleet::Sankey> SankeyOver(const Query& query, View* view, JobJoin join) {
  const Memory& memory = query.memory();
  FW_ASSIGN_OR_RETURN(const std::shared_ptr<const JobList> jobs, query.Jobs(*view, join));
  view->window = jobs->view.window;
  const Window window = view->window;
  FW_ASSIGN_OR_RETURN(const Fleet fleet, query.FleetOver(*view, /*step=*/kMicrosPerDay));
  fleet::SankeyInput input;
  input.deployed_s = fleet.usage.expected_s;
  input.held = HeldTime(memory, window);
  if (!input.held.has_value()) {
    input.measured = fleet.usage.sums;
    return fleet::MakeSankey(input);
  }
  for (const JobRow& row : jobs->rows) input.measured += row.usage.sums;
  input.busy_without_owner_s = fleet.usage.sums.gpu_util_s - input.measured.gpu_util_s;
  return fleet::MakeSankey(input);
}

}  // namespace flopwatch::query

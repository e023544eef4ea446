#include "jobs/slurm/job_id.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "fmt/format.h"

namespace flopwatch::slurm {
namespace {

constexpr int64_t kMaxJobId = 0xFFFFFFFD;  // below NO_VAL

// Takes a number off the front; nothing where there is none.
std::optional<int64_t> TakeId(std::string_view* text) {
  size_t digits = 0;
  while (digits < text->size() && (*text)[digits] >= '0' && (*text)[digits] <= '9') ++digits;
  if (digits == 0 || digits > 10) return std::nullopt;
  int64_t value = 0;
  std::from_chars(text->data(), text->data() + digits, value);
  if (value > kMaxJobId) return std::nullopt;
  text->remove_prefix(digits);
  return value;
}

}  // namespace

StatusOr<ShownJobId> ReadJobId(std::string_view text) {
  const auto bad = [&] { return InvalidArgument("'{}' is no job id", Printable(text, 40)); };
  ShownJobId out;
  std::string_view rest = text;
  const std::optional<int64_t> job = TakeId(&rest);
  if (!job || *job == 0) return bad();
  out.job = *job;
  if (rest.starts_with('_')) {
    out.array = true;
    rest.remove_prefix(1);
    if (rest.starts_with('[')) {
      const size_t close = rest.find(']');
      if (close == std::string_view::npos) return bad();
      out.pending_tasks = rest.substr(1, close - 1);
      out.pending_tasks = out.pending_tasks.substr(0, out.pending_tasks.find('%'));
      rest.remove_prefix(close + 1);
    } else {
      out.array_task = TakeId(&rest);
      if (!out.array_task) return bad();
    }
  } else if (rest.starts_with('+')) {
    rest.remove_prefix(1);
    out.het_component = TakeId(&rest);
    if (!out.het_component) return bad();
  }
  if (rest.starts_with('.') && rest.size() > 1) {
    out.step = rest.substr(1);
    rest = {};
  }
  if (!rest.empty()) return bad();
  return out;
}

StatusOr<std::vector<int64_t>> ArrayTasks(const ShownJobId& id) {
  std::vector<int64_t> out;
  if (id.array_task) out.push_back(*id.array_task);
  const auto bad = [&] {
    return InvalidArgument("'{}' is no list of array tasks", Printable(id.pending_tasks, 40));
  };
  // "0-3", "7", "0-8:2".
  for (std::string_view rest = id.pending_tasks; !rest.empty();) {
    const std::optional<int64_t> first = TakeId(&rest);
    std::optional<int64_t> last = first, step = 1;
    if (rest.starts_with('-')) {
      rest.remove_prefix(1);
      last = TakeId(&rest);
    }
    if (rest.starts_with(':')) {
      rest.remove_prefix(1);
      step = TakeId(&rest);
    }
    if (!first || !last || !step || *step == 0 || *last < *first) return bad();
    if ((*last - *first) / *step >= static_cast<int64_t>(kMaxArrayTasks - out.size()))
      return ResourceExhausted("more than {} array tasks", kMaxArrayTasks);
    for (int64_t task = *first; task <= *last; task += *step) out.push_back(task);
    if (rest.empty()) break;
    if (!rest.starts_with(',') || rest.size() == 1) return bad();
    rest.remove_prefix(1);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace flopwatch::slurm

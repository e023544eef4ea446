#include "jobs/slurm/listed.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/text.h"
#include "fmt/format.h"

namespace flopwatch::slurm {
namespace {

constexpr size_t kMaxIds = 4'000'000;

enum class Doubt : uint8_t { kNone, kBefore, kTwice, kNotListed };
struct DoubtSpec {
  std::string_view reason, why;
};
constexpr DoubtSpec kDoubts[] = {
    {},
    {"before_forged", "the record after it is no real one, so where this one ends is not known"},
    {"job_twice",
     "there are several records of this job: one of them is forged in another job's text, or "
     "several "
     "looks are in one file (give each as a file of its own, or squeue --json)"},
    {"not_listed", "squeue knows no such job: the record is forged in another job's text"}};

void RefuseDoubtful(std::vector<Doubt> doubts, Books* books) {
  // The record before a forged one is the forger's.
  for (size_t k = doubts.size(); k-- > 1;)
    if (doubts[k] > Doubt::kBefore && doubts[k - 1] == Doubt::kNone) doubts[k - 1] = Doubt::kBefore;
  std::vector<bool> gone(books->jobs.size(), false);
  bool any = false;
  for (size_t k = 0; k < doubts.size(); ++k) {
    ListedJob& listed = books->listed[k];
    if (doubts[k] == Doubt::kNone || !listed.at.has_value()) continue;
    const DoubtSpec& spec = kDoubts[static_cast<size_t>(doubts[k])];
    CountLoss(spec.reason, listed.place, fmt::format("job {}: {}", listed.raw_id, spec.why),
              &books->refused);
    any = gone[*listed.at] = true;
    listed.at.reset();
  }
  if (!any) return;
  std::vector<size_t> moved(gone.size());
  size_t kept = 0;
  for (size_t k = 0; k < gone.size(); ++k) {
    moved[k] = kept;
    if (gone[k]) continue;
    if (kept != k) books->jobs[kept] = std::move(books->jobs[k]);
    ++kept;
  }
  books->jobs.resize(kept);
  for (ListedJob& listed : books->listed)
    if (listed.at.has_value()) listed.at = moved[*listed.at];
}

bool IsCompletion(const Books& books, const ListedJob& listed) {
  return listed.at.has_value() && books.jobs[*listed.at].source == JobSource::kJobCompletion;
}

}  // namespace

void RefuseTwice(Books* books) {
  absl::flat_hash_map<int64_t, int> times;
  for (const ListedJob& listed : books->listed)
    if (listed.raw_id > 0 && !IsCompletion(*books, listed)) ++times[listed.raw_id];
  std::vector<Doubt> doubts(books->listed.size(), Doubt::kNone);
  for (size_t k = 0; k < doubts.size(); ++k) {
    const ListedJob& listed = books->listed[k];
    if (listed.raw_id > 0 && !IsCompletion(*books, listed) && times[listed.raw_id] > 1)
      doubts[k] = Doubt::kTwice;
  }
  RefuseDoubtful(std::move(doubts), books);
}

void RefuseUnlisted(const absl::flat_hash_set<int64_t>& ids, Books* books) {
  std::vector<Doubt> doubts(books->listed.size(), Doubt::kNone);
  for (size_t k = 0; k < doubts.size(); ++k) {
    const ListedJob& listed = books->listed[k];
    if (!ids.contains(listed.raw_id) || IsCompletion(*books, listed)) doubts[k] = Doubt::kNotListed;
  }
  RefuseDoubtful(std::move(doubts), books);
}

StatusOr<absl::flat_hash_set<int64_t>> ReadIdList(std::string_view text) {
  absl::flat_hash_set<int64_t> ids;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    line.remove_prefix(std::min(line.find_first_not_of(" \t\r"), line.size()));
    line = line.substr(0, line.find_last_not_of(" \t\r") + 1);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    int64_t id = 0;
    const auto [last, error] = std::from_chars(line.data(), line.data() + line.size(), id);
    if (error != std::errc() || last != line.data() + line.size() || id <= 0)
      return InvalidArgument("'{}' is no job id", Printable(line, 60));
    if (ids.size() >= kMaxIds) return ResourceExhausted("more than {} jobs", kMaxIds);
    ids.insert(id);
  }
  return ids;
}

}  // namespace flopwatch::slurm

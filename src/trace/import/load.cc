#include "trace/import/load.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include <fmt/format.h>
#include "absl/strings/ascii.h"
#include "base/mutex.h"
#include "base/time.h"
#include "trace/finish.h"
#include "trace/import/ascend_folder.h"
#include "trace/import/gzip_reader.h"
#include "trace/parallel.h"

namespace flopwatch::trace {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPrefixBytes = 64 << 10;
constexpr int kMaxFolderDepth = 6;
constexpr Micros kProgressEvery = 100 * kMicrosPerMilli;

struct Input {
  std::string path;
  const Importer* importer = nullptr;
  uint64_t bytes = 0;
};

bool LooksLikeTrace(const fs::path& file) {
  const std::string name = absl::AsciiStrToLower(file.filename().string());
  for (const std::string_view end :
       {".json", ".json.gz", ".sqlite", ".db", ".trace", ".trace.gz"}) {
    if (name.ends_with(end)) return true;
  }
  return false;
}

const Importer* ImporterOf(const std::string& path, bool folder, std::string_view prefix) {
  for (const Importer& importer : Importers())
    if (importer.accepts(path, folder, prefix)) return &importer;
  return nullptr;
}

std::string KnownFormats() {
  std::string out;
  for (const Importer& importer : Importers())
    out += (out.empty() ? "" : ", ") + std::string(importer.title);
  return out;
}

class Search {
 public:
  Search(Loaded* out, const WorkGuard* guard) : out_(out), guard_(guard) {}

  // `named` by the user: what is not a trace is then a failure, in a folder it is passed over.
  void Add(const fs::path& path, bool named, int depth = 0) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (error || !fs::exists(status)) {
      if (named) Fail(path, NotFound("no such file or folder: {}", path.string()));
      return;
    }
    if (fs::is_directory(status)) {
      if (const Importer* importer = ImporterOf(path.string(), true, {})) {
        inputs.push_back({path.string(), importer, 0});
        return;
      }
      if (depth > kMaxFolderDepth) return;
      std::vector<fs::path> inside;
      for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
        inside.push_back(entry.path());
        if (inside.size() > kMaxTraceFiles) break;
      }
      std::ranges::sort(inside);
      for (const fs::path& child : inside) Add(child, false, depth + 1);
      return;
    }
    if (!named && (!LooksLikeTrace(path) || inputs.size() >= kMaxTraceFiles)) return;
    const StatusOr<std::string> prefix = ReadPrefix(path.string(), kPrefixBytes, guard_);
    if (!prefix.ok()) {
      Fail(path, prefix.status());
      return;
    }
    const Importer* importer = ImporterOf(path.string(), false, *prefix);
    if (importer != nullptr) {
      inputs.push_back(
          {path.string(), importer, static_cast<uint64_t>(fs::file_size(path, error))});
    } else if (named) {
      Fail(path, InvalidArgument("{} is no trace that flopwatch knows: {}", path.string(),
                                 prefix->empty()
                                     ? "it is empty"
                                     : "it begins like none of them; it reads " + KnownFormats()));
    }
  }

  std::vector<Input> inputs;

 private:
  void Fail(const fs::path& path, Status status) {
    out_->failures.push_back({path.string(), std::move(status)});
  }
  Loaded* out_;
  const WorkGuard* const guard_;
};

// "rank3", "rank_3", "rank-3" in the file's name, else the last number of it; nothing without
// digits.
std::optional<int32_t> RankOfName(const std::string& path) {
  const std::string name = absl::AsciiStrToLower(fs::path(path).filename().string());
  const auto number_at = [&](size_t at) -> std::optional<int32_t> {
    int64_t value = 0;
    size_t digits = 0;
    while (at + digits < name.size() &&
           absl::ascii_isdigit(static_cast<unsigned char>(name[at + digits])) && digits < 7) {
      value = value * 10 + (name[at + digits++] - '0');
    }
    if (digits == 0 || digits >= 7) return std::nullopt;  // a time stamp is no rank
    return static_cast<int32_t>(value);
  };
  if (const size_t at = name.find("rank"); at != std::string::npos) {
    size_t digits = at + 4;
    if (digits < name.size() && (name[digits] == '_' || name[digits] == '-' || name[digits] == '.'))
      ++digits;
    if (const auto rank = number_at(digits)) return rank;
  }
  return std::nullopt;
}

// Names into the set's pool, and the columns that hold them.
void Remap(const StringPool& from, StringPool* to, RankTrace* rank) {
  std::vector<NameId> id(from.size());
  for (NameId i = 0; i < from.size(); ++i) id[i] = to->Intern(from.Text(i));
  const auto column = [&](TableVector<NameId>& names) {
    for (NameId& name : names) name = id[name];
  };
  const auto all = [&](auto&... name) { ((name = id[name]), ...); };
  column(rank->events.name);
  column(rank->events.file_category);
  for (KernelDetail& k : rank->kernels)
    all(k.input_shapes, k.input_types, k.output_shapes, k.short_name);
  for (OpDetail& o : rank->ops)
    all(o.input_dims, o.input_types, o.input_strides, o.concrete_inputs, o.call_stack,
        o.module_hierarchy);
  for (CollectiveDetail& c : rank->collectives)
    all(c.collective, c.dtype, c.group_name, c.group_description, c.group_ranks);
  for (RangeMetric& m : rank->range_metrics) all(m.metric);
  for (FlopsRecord& f : rank->flops_records) all(f.op);
  for (ModuleRange& m : rank->module_ranges) all(m.name);
  for (CounterSample& c : rank->counters) all(c.counter);
  for (Thread& t : rank->threads)
    all(t.pid_text, t.tid_text, t.process_name, t.process_label, t.name);
}

// Of several Ascend profiles of one rank the latest counts, by the time stamp in the folder's name,
// as in msprof-analyze.
void DropOlderAscendProfiles(std::vector<RankTrace>* ranks) {
  std::map<int32_t, std::pair<std::string, size_t>> latest;  // rank -> time, index
  std::vector<bool> older(ranks->size(), false);
  for (size_t i = 0; i < ranks->size(); ++i) {
    if ((*ranks)[i].format != "ascend") continue;
    std::string time = AscendFolderTime((*ranks)[i].path);
    const auto [it, first] = latest.try_emplace((*ranks)[i].rank, time, i);
    if (first) continue;
    const bool later = time > it->second.first;
    const size_t keep = later ? i : it->second.second, drop = later ? it->second.second : i;
    older[drop] = true;
    (*ranks)[keep].AddLoss("older_profile_of_rank", "earlier profiles of the same rank, left out");
    it->second = {later ? time : it->second.first, keep};
  }
  size_t kept = 0;
  for (size_t i = 0; i < ranks->size(); ++i) {
    if (older[i]) continue;
    if (kept != i) (*ranks)[kept] = std::move((*ranks)[i]);
    ++kept;
  }
  ranks->resize(kept);
}

// Every rank a number of its own, by what the file says, then by its name, then by order.
void NumberRanks(bool by_name, std::vector<RankTrace>* ranks) {
  std::set<int32_t> taken;
  std::vector<RankTrace*> open;
  for (RankTrace& rank : *ranks) {
    if (rank.rank_known && taken.insert(rank.rank).second) continue;
    open.push_back(&rank);
  }
  for (RankTrace*& rank : open) {
    const std::optional<int32_t> named = by_name ? RankOfName(rank->path) : std::nullopt;
    const bool twice = rank->rank_known;
    if (!named || !taken.insert(*named).second) continue;
    rank->AddLoss(twice ? "rank_given_twice" : "rank_not_given",
                  twice ? "another file gives the same rank; the number in the file's name is used"
                        : "the file does not give its rank; the number in its name is used",
                  1, true);
    rank->rank = *named;
    rank->rank_known = true;
    rank = nullptr;
  }
  int32_t next = 0;
  for (RankTrace* rank : open) {
    if (rank == nullptr) continue;
    while (!taken.insert(next).second) ++next;
    rank->AddLoss(rank->rank_known ? "rank_given_twice" : "rank_not_given",
                  rank->rank_known ? "another file gives the same rank; a free number is used"
                                   : "the file does not give its rank; a number by order is used",
                  1, true);
    rank->rank = next;
    rank->rank_known = false;
  }
  std::sort(ranks->begin(), ranks->end(),
            [](const RankTrace& a, const RankTrace& b) { return a.rank < b.rank; });
}

// How far reading has come. Told to the caller at most every kProgressEvery, and at the end.
class Progress {
 public:
  Progress(const std::vector<Input>& inputs, const LoadOptions& options)
      : tell_(options.progress), done_of_(inputs.size(), 0) {
    so_far_.files = inputs.size();
    for (const Input& input : inputs) so_far_.bytes += input.bytes;
  }

  void Set(size_t input, uint64_t done, bool finished) FW_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    so_far_.bytes_done += done - std::min(done, done_of_[input]);
    done_of_[input] = std::max(done_of_[input], done);
    so_far_.files_done += finished;
    if (!tell_) return;
    const Micros now = MonotonicNow();
    if (now - told_ < kProgressEvery && so_far_.files_done < so_far_.files) return;
    told_ = now;
    tell_(so_far_);
  }

 private:
  const std::function<void(const LoadProgress&)>& tell_;
  Mutex mutex_;
  LoadProgress so_far_ FW_GUARDED_BY(mutex_);
  std::vector<uint64_t> done_of_ FW_GUARDED_BY(mutex_);
  Micros told_ FW_GUARDED_BY(mutex_) = 0;
};

// Puts what was read of each input together, in the order of the inputs whatever thread was first,
// so that no more is held of a rank than its columns.
class Gatherer {
 public:
  Gatherer(const std::vector<Input>& inputs, const LoadOptions& options, Loaded* out)
      : inputs_(inputs), options_(options), results_(inputs.size()), out_(*out) {}

  void Put(size_t input, StatusOr<std::vector<ImportedRank>> result) FW_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    results_[input] = std::move(result);
    for (; next_ < results_.size() && results_[next_].has_value(); ++next_) {
      Take(next_, *std::move(results_[next_]));
      results_[next_].reset();
    }
  }

 private:
  void Take(size_t input, StatusOr<std::vector<ImportedRank>> imported) FW_REQUIRES(mutex_) {
    if (!imported.ok()) {
      out_.failures.push_back({inputs_[input].path, imported.status()});
      return;
    }
    for (ImportedRank& rank : *imported) {
      const bool wanted =
          options_.only_ranks.empty() || !rank.trace.rank_known ||
          std::ranges::find(options_.only_ranks, rank.trace.rank) != options_.only_ranks.end();
      if (!wanted) continue;
      TraceSet& set = out_.set;
      if (set.ranks.empty()) {
        set.names = std::move(rank.names);  // the first rank's ids are the set's
      } else {
        Remap(rank.names, &set.names, &rank.trace);
      }
      set.ranks.push_back(std::move(rank.trace));
      rows_ += set.ranks.back().events.size();
      if (set.file == nullptr && !tried_ && rows_ * kBytesOfRow > options_.resident / 2) {
        tried_ = true;
        set.file = TableFile::Make(options_.resident);
        for (RankTrace& before : set.ranks) before.MoveTo(set.file.get());
      } else {
        set.ranks.back().MoveTo(set.file.get());
      }
    }
  }

  // Of a row with its details and what analyses keep of it, in the mean.
  static constexpr uint64_t kBytesOfRow = 150;

  const std::vector<Input>& inputs_;
  const LoadOptions& options_;
  Mutex mutex_;
  std::vector<std::optional<StatusOr<std::vector<ImportedRank>>>> results_ FW_GUARDED_BY(mutex_);
  size_t next_ FW_GUARDED_BY(mutex_) = 0;
  uint64_t rows_ FW_GUARDED_BY(mutex_) = 0;
  bool tried_ FW_GUARDED_BY(mutex_) = false;
  Loaded& out_ FW_GUARDED_BY(mutex_);
};

void ImportAll(const std::vector<Input>& inputs, const LoadOptions& options, Loaded* out) {
  Gatherer gatherer(inputs, options, out);
  Progress progress(inputs, options);
  const int cores = options.threads > 0
                        ? options.threads
                        : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int workers = std::min(cores, static_cast<int>(inputs.size()));
  ForEachOnThreads(inputs.size(), workers, [&](size_t i) {
    ImportOptions import = options.import;
    import.threads = std::max(1, cores / workers);
    import.progress = [&, i](uint64_t done, uint64_t) { progress.Set(i, done, false); };
    const WorkGuard* const guard = options.import.guard;
    StatusOr<std::vector<ImportedRank>> imported =
        guard != nullptr && guard->ended() ? guard->status()
                                           : inputs[i].importer->import({inputs[i].path}, import);
    // What an importer of tables could read until then is no trace.
    if (guard != nullptr && guard->ended()) imported = guard->status();
    if (imported.ok()) {
      for (ImportedRank& rank : *imported) {
        rank.trace.path = rank.trace.path.empty() ? inputs[i].path : rank.trace.path;
        rank.trace.format = inputs[i].importer->name;
        if (const uint64_t repaired = rank.names.repaired(); repaired > 0) {
          rank.trace.losses.push_back({"bad_utf8", "bytes that are no UTF-8: replaced by U+FFFD",
                                       static_cast<int64_t>(repaired), true});
        }
        Finish(rank.names, &rank.trace);
      }
    }
    gatherer.Put(i, std::move(imported));
    progress.Set(i, inputs[i].bytes, true);
  });
}

}  // namespace

StatusOr<Loaded> Load(const std::vector<std::string>& paths, const LoadOptions& options) {
  Loaded out;
  const WorkGuard* const guard = options.import.guard;
  Search search(&out, guard);
  for (const std::string& path : paths) search.Add(path, true);
  const std::vector<Input>& inputs = search.inputs;
  if (inputs.empty()) {
    if (!out.failures.empty()) return out.failures.front().status;
    return NotFound("no trace in {}; flopwatch reads {}", paths.empty() ? "no path" : paths.front(),
                    KnownFormats());
  }
  ImportAll(inputs, options, &out);
  if (guard != nullptr && guard->ended()) return guard->status();
  std::ranges::sort(out.failures, {}, &LoadFailure::path);
  if (out.set.ranks.empty()) {
    if (!out.failures.empty()) return out.failures.front().status;
    return NotFound("none of the asked ranks is in these traces");
  }
  DropOlderAscendProfiles(&out.set.ranks);
  NumberRanks(options.rank_of_name, &out.set.ranks);
  return out;
}

}  // namespace flopwatch::trace

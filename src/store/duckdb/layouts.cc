#include "store/duckdb/layouts.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/log.h"
#include "store/duckdb/attach.h"
#include "store/duckdb/cat.h"
#include "store/duckdb/views.h"

namespace flopwatch::store::duck {
std::set<std::string> HotSegments(const std::string& directory) {
  std::set<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory + "/hot", error)) {
    const std::string file = entry.path().filename().string();
    Micros hour = 0;
    int sequence = 0;
    if (!file.starts_with("seg-") || !file.ends_with(".duckdb")) continue;  // also unfinished ones
    std::string name = file.substr(4, file.size() - 4 - 7);
    if (Segment::ParseName(name, &hour, &sequence)) names.insert(std::move(name));
  }
  return names;
}

Layouts::Layouts(const std::string& directory, const DimensionTables& dimensions)
    : directory_(directory), dimensions_(dimensions) {}

namespace {

// Whether files hold what was in a hot file: by their names, or, merged, by their day.
bool WasSealed(const std::string& path, const SealedFiles& files) {
  const std::string file = std::filesystem::path(path).filename().string();
  Micros hour = 0;
  int sequence = 0;
  const std::string name = file.size() > 4 ? file.substr(4, file.find('.') - 4) : file;
  if (!Segment::ParseName(name, &hour, &sequence)) return true;
  return std::any_of(files.begin(), files.end(), [&](const auto& f) {
    return f->path.find("-" + name + "-") != std::string::npos ||
           (f->merged && f->Overlaps(hour - kMicrosPerDay, hour + kMicrosPerDay));
  });
}

}  // namespace

Status Layouts::MakeViews(Connection* c, Layout* layout) {
  Status made = CreateViews(c, *layout, dimensions_);
  if (!made.ok()) {
    const SealedFiles unreadable = Unreadable(c, directory_, layout->files);
    if (unreadable.empty()) return made;
    layout->SetAside(unreadable);
    made = CreateViews(c, *layout, dimensions_);
  }
  if (made.ok()) views_of_ = layout->generation;
  return made;
}

Status Layouts::BringViews(Connection* c) {
  MutexLock publishing(publish_);
  const std::shared_ptr<const Layout> now = Now();
  if (views_of_ == now->generation) return absl::OkStatus();
  auto next = std::make_shared<Layout>(*now);
  FW_RETURN_IF_ERROR(MakeViews(c, next.get()));
  if (next->damaged.size() == now->damaged.size()) return absl::OkStatus();
  views_of_ = ++next->generation;
  MutexLock lock(mutex_);
  layout_ = std::move(next);
  return absl::OkStatus();
}

StatusOr<std::shared_ptr<Segment>> Layouts::OpenWhole(Connection* c, const std::string& name,
                                                      bool read_only) {
  FW_ASSIGN_OR_RETURN(std::shared_ptr<Segment> segment,
                      Segment::Open(c, directory_, name, dimensions_, read_only));
  if (!doubted_) return segment;
  const Status whole = ReadAllOf(c, segment->alias());
  if (whole.ok()) return segment;
  FW_RETURN_IF_ERROR(c->Execute("DETACH " + segment->alias()));
  return whole;
}

StatusOr<std::shared_ptr<Segment>> Layouts::OpenSegment(Connection* c, const std::string& name,
                                                        bool read_only,
                                                        std::vector<LostRows>* lost) {
  StatusOr<std::shared_ptr<Segment>> segment = OpenWhole(c, name, read_only);
  if (!segment.ok() && read_only && absl::IsFailedPrecondition(segment.status())) {
    LogWarn("{}", std::string(segment.status().message()));
    return std::shared_ptr<Segment>();
  }
  const std::string path = Segment::PathOf(directory_, name);
  const Status damage = segment.status();
  if (SaysDamage(damage) && !read_only && CutLog(path, damage))
    segment = OpenWhole(c, name, read_only);
  if (!segment.ok() && !SaysDamage(segment.status())) return segment;
  LostRows missing = {path,
                      segment.ok() ? (*segment)->missing() : RecordedRows(path).value_or(Extent())};
  if (segment.ok() && missing.rows.rows == 0 && damage.ok()) {
    if (!read_only && !RecordedRows(path).has_value())
      RecordRows(path, (*segment)->Describe().All());
    return segment;
  }
  if (!read_only) {
    RecordLoss(missing, damage.ok() ? "the file does not have them any more"
                                    : Cat("it is kept as *.damaged (", MessageOf(damage), ")"));
    if (segment.ok()) {
      RecordRows(path, (*segment)->Describe().All());
    } else {
      FW_RETURN_IF_ERROR(SetFileAside(path));
      ForgetRows(path);
    }
  } else {
    LogError("{}: it is damaged, and left out: {}", path, std::string(damage.message()));
  }
  lost->push_back(std::move(missing));
  return segment.ok() ? segment : std::shared_ptr<Segment>();
}

Status Layouts::Open(Connection* c, bool read_only) {
  FW_ASSIGN_OR_RETURN(LoadedFiles loaded, LoadFiles(c, directory_, read_only));
  auto next = std::make_shared<Layout>();
  next->directory = directory_;
  next->files = std::move(loaded.files);
  std::set<std::string> hot = HotSegments(directory_);
  for (const std::string& name : loaded.sealed_segments) hot.erase(name);
  next->lost = RecordedLosses(directory_);
  for (const std::string& name : hot) {
    FW_ASSIGN_OR_RETURN(std::shared_ptr<Segment> segment,
                        OpenSegment(c, name, read_only, &next->lost));
    if (segment != nullptr) next->hot.push_back(std::move(segment));
  }
  for (LostRows& gone : Vanished(directory_)) {
    // An older flopwatch that sealed it left the note.
    if (WasSealed(gone.path, next->files)) {
      if (!read_only) ForgetRows(gone.path);
      continue;
    }
    if (!read_only) {
      RecordLoss(gone, "the file is gone");
      ForgetRows(gone.path);
    }
    next->lost.push_back(std::move(gone));
  }
  doubted_ = false;
  MutexLock publishing(publish_);
  next->generation = Now()->generation + 1;
  // Here they are made in any case: that finds files that cannot be opened.
  FW_RETURN_IF_ERROR(MakeViews(c, next.get()));
  next_file_id_ = std::max(next_file_id_.load(), loaded.next_id);
  MutexLock lock(mutex_);
  layout_ = std::move(next);
  retired_.clear();
  return absl::OkStatus();
}

std::shared_ptr<const Layout> Layouts::Now() const {
  MutexLock lock(mutex_);
  return layout_;
}

Layouts::Reading::Reading(Layouts& layouts) : layouts_(layouts) {
  MutexLock lock(layouts_.mutex_);
  layouts_.changed_.Wait(layouts_.mutex_,
                         [&]() FW_REQUIRES(layouts_.mutex_) { return !layouts_.paused_; });
  layout_ = layouts_.layout_;
  ++layouts_.readers_[layout_->generation];
}

Layouts::Reading::~Reading() {
  MutexLock lock(layouts_.mutex_);
  const auto readers = layouts_.readers_.find(layout_->generation);
  if (--readers->second > 0) return;
  layouts_.readers_.erase(readers);
  layouts_.changed_.NotifyAll();
}

void Layouts::Publish(absl::FunctionRef<void(Layout*)> change, Gone gone) {
  MutexLock publishing(publish_);
  auto next = std::make_shared<Layout>(*Now());
  change(next.get());
  ++next->generation;
  MutexLock lock(mutex_);
  if (next->staged != nullptr) last_shown_ = next->generation;
  if (!gone.files.empty() || (gone.segment != nullptr && !gone.segment->in_memory()))
    ++to_be_deleted_;
  if (gone.segment != nullptr || !gone.files.empty())
    retired_.push_back({next->generation, std::move(gone)});
  layout_ = std::move(next);
}

uint64_t Layouts::ToBeDeleted() const {
  MutexLock lock(mutex_);
  return to_be_deleted_;
}

Status Layouts::Drop(Connection* c, const Gone& gone) {
  FW_RETURN_IF_ERROR(DeleteFiles(c, directory_, gone.files));
  if (gone.segment == nullptr) return absl::OkStatus();
  FW_RETURN_IF_ERROR(c->Execute("DETACH DATABASE IF EXISTS " + gone.segment->alias()));
  if (gone.segment->in_memory()) return absl::OkStatus();
  return DeleteSegment(c, directory_, gone.segment->name());
}

Status Layouts::Reclaim(Connection* c) {
  std::vector<Retired> free;
  {
    MutexLock lock(mutex_);
    const uint64_t oldest = readers_.empty() ? layout_->generation : readers_.begin()->first;
    const auto first_free = std::partition(retired_.begin(), retired_.end(),
                                           [&](const Retired& r) { return r.generation > oldest; });
    std::move(first_free, retired_.end(), std::back_inserter(free));
    retired_.erase(first_free, retired_.end());
  }
  for (auto r = free.begin(); r != free.end(); ++r) {
    if (const Status s = Drop(c, r->what); !s.ok()) {
      MutexLock lock(mutex_);
      std::move(r, free.end(), std::back_inserter(retired_));  // the next call tries again
      return s;
    }
  }
  return absl::OkStatus();
}

StatusOr<std::shared_ptr<Segment>> Layouts::SegmentFor(Connection* c, Micros arrival) {
  const Micros hour = FloorTo(arrival, kMicrosPerHour);
  int sequence = 0;
  std::shared_ptr<Segment> found;
  const auto consider = [&](const std::shared_ptr<Segment>& s, bool usable) {
    if (s == nullptr || s->in_memory() || s->hour() != hour) return;
    Micros ignored = 0;
    int n = 0;
    Segment::ParseName(s->name(), &ignored, &n);
    if (n <= sequence) return;
    sequence = n;
    found = usable ? s : nullptr;
  };
  {
    MutexLock lock(mutex_);
    for (const auto& s : layout_->hot) consider(s, !s->Describe().closed);
    for (const Retired& r : retired_) consider(r.what.segment, false);
    // Nor does it get the name of one that was sealed: a copy of meta.duckdb may still say of that
    // that it is to be deleted.
    if (found == nullptr) {
      const std::string of_hour = "-" + Segment::NameOf(arrival, 0).substr(0, 12);
      for (const SealedFiles* files : {&layout_->files, &layout_->damaged}) {
        for (const auto& f : *files) {
          const size_t at = f->path.rfind(of_hour);
          int n = 0;
          if (at != std::string::npos &&
              absl::SimpleAtoi(f->path.substr(at + of_hour.size(), 4), &n))
            sequence = std::max(sequence, n);
        }
      }
    }
  }
  if (found != nullptr) return found;
  FW_ASSIGN_OR_RETURN(found, Segment::Open(c, directory_, Segment::NameOf(arrival, sequence + 1),
                                           dimensions_, /*read_only=*/false));
  FW_RETURN_IF_ERROR(SyncPath(directory_ + "/hot"));
  Publish([&](Layout* l) { l->hot.push_back(found); });
  return found;
}

void Layouts::Show(std::shared_ptr<Segment> staged) {
  const std::shared_ptr<Segment> before = Now()->staged;
  if (before == staged) return;
  Publish([&](Layout* l) { l->staged = staged; }, {.segment = before, .files = {}});
}

Layouts::Pause::Pause(Layouts& layouts, Micros longest) : layouts_(layouts) {
  MutexLock lock(layouts_.mutex_);
  layouts_.paused_ = layouts_.layout_->staged != nullptr;
  // A reader of an older layout may have met the views of a newer one.
  granted_ =
      layouts_.changed_.WaitFor(layouts_.mutex_, longest, [&]() FW_REQUIRES(layouts_.mutex_) {
        return layouts_.readers_.empty() || layouts_.readers_.begin()->first > layouts_.last_shown_;
      });
}

Layouts::Pause::~Pause() {
  MutexLock lock(layouts_.mutex_);
  layouts_.paused_ = false;
  layouts_.changed_.NotifyAll();
}

}  // namespace flopwatch::store::duck

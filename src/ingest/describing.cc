#include "ingest/describing.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "base/log.h"
#include "base/text.h"

namespace flopwatch::ingest {
namespace {

using store::EntityRecord;
using store::ModelRecord;
using store::SeriesRecord;

// The first ones are told in the log, which refusals without end must not fill.
constexpr uint64_t kLogged = 20;

// Gives `records` to `put`. Where it calls them invalid, each half is tried alone, down to the
// records that are the reason: `refuse(record, why)`. `accept(record)` for the others. Any other
// error ends it.
template <typename T, typename Put, typename Accept, typename Refuse>
Status PutInHalves(absl::Span<const T> records, Put&& put, Accept&& accept, Refuse&& refuse) {
  if (records.empty()) return absl::OkStatus();
  const Status status = put(records);
  if (status.ok()) {
    for (const T& record : records) accept(record);
    return status;
  }
  if (!absl::IsInvalidArgument(status)) return status;
  if (records.size() == 1) return refuse(records[0], status);
  const size_t half = records.size() / 2;
  FW_RETURN_IF_ERROR(PutInHalves(records.subspan(0, half), put, accept, refuse));
  return PutInHalves(records.subspan(half), put, accept, refuse);
}

std::string StandIn(int32_t id) { return fmt::format("refused-by-store-{}", id); }

}  // namespace

void DescribingRecords::Refuse(std::string_view what, int32_t id, const Status& why) {
  if (refused_++ >= kLogged) return;
  LogWarn("{} {} was set aside, because the store refuses it: {}", what, id,
          Printable(std::string_view(why.message().data(), why.message().size()), 300));
}

Status DescribingRecords::Write(bool shutdown) {
  FW_RETURN_IF_ERROR(PutPending());  // of a call that failed
  pending_ = registry_->TakeChanges();
  pending_jobs_ = jobs_->TakeChanges(shutdown);
  pending_books_ = books_->TakeChanges();
  return PutPending();
}

Status DescribingRecords::PutPending() {
  const auto nothing = [](const auto&) {};
  FW_RETURN_IF_ERROR(
      Annotate(PutInHalves<ModelRecord>(
                   pending_.models, [&](auto models) { return store_->PutModels(models); }, nothing,
                   [&](ModelRecord model, const Status& why) {
                     Refuse("GPU model", model.id, why);
                     model.name = StandIn(model.id);
                     return store_->PutModels({&model, 1});
                   }),
               "storing models"));
  pending_.models.clear();
  FW_RETURN_IF_ERROR(
      Annotate(PutInHalves<EntityRecord>(
                   pending_.entities, [&](auto entities) { return store_->PutEntities(entities); },
                   [&](const EntityRecord& e) { entities_.erase(e.id); },
                   [&](EntityRecord e, const Status& why) -> Status {
                     Refuse("GPU", e.id, why);
                     e.labels = {};  // is it what is said of the GPU, or its identity?
                     const Status bare = store_->PutEntities({&e, 1});
                     if (!absl::IsInvalidArgument(bare)) return bare;
                     entities_.insert(e.id);
                     return absl::OkStatus();
                   }),
               "storing GPUs"));
  pending_.entities.clear();
  FW_RETURN_IF_ERROR(
      Annotate(PutInHalves<SeriesRecord>(
                   pending_.series, [&](auto series) { return store_->PutSeries(series); },
                   [&](const SeriesRecord& s) { series_.erase(s.id); },
                   [&](const SeriesRecord& s, const Status& why) {
                     Refuse("series", s.id, why);
                     series_.insert(s.id);
                     return Status();
                   }),
               "storing series"));
  pending_.series.clear();
  FW_RETURN_IF_ERROR(Annotate(PutJobs(), "storing jobs"));
  pending_jobs_ = {};
  FW_RETURN_IF_ERROR(Annotate(PutBooks(), "storing the scheduler's books"));
  pending_books_ = {};
  return absl::OkStatus();
}

Status DescribingRecords::PutBooks() {
  if (pending_books_.empty()) return absl::OkStatus();
  const Status whole = store_->PutBooks(pending_books_);
  if (!absl::IsInvalidArgument(whole)) return whole;
  const auto put = [&](auto member) {
    return [this, member](auto records) {
      jobs::BookChanges part;
      (part.*member).assign(records.begin(), records.end());
      return store_->PutBooks(part);
    };
  };
  const auto nothing = [](const auto&) {};
  const auto refuse = [&](std::string_view what) {
    return [this, what](const auto& record, const Status& why) {
      Refuse(what, static_cast<int32_t>(record.id), why);
      return absl::OkStatus();
    };
  };
  FW_RETURN_IF_ERROR(PutInHalves<jobs::AttemptRecord>(
      pending_books_.attempts, put(&jobs::BookChanges::attempts), nothing, refuse("attempt")));
  return PutInHalves<jobs::NodeRecord>(pending_books_.nodes, put(&jobs::BookChanges::nodes),
                                       nothing, refuse("node"));
}

Status DescribingRecords::PutJobs() {
  if (pending_jobs_.empty()) return absl::OkStatus();
  std::erase_if(pending_jobs_.intervals,
                [&](const jobs::IntervalRecord& i) { return entities_.contains(i.entity); });
  if (pending_jobs_.empty()) return absl::OkStatus();
  const Status whole = store_->PutJobs(pending_jobs_);
  if (!absl::IsInvalidArgument(whole)) return whole;
  // Any kind may have it: only jobs have texts, but nothing is taken for granted here.
  const auto put = [&](auto member) {
    return [this, member](auto records) {
      jobs::Changes part;
      (part.*member).assign(records.begin(), records.end());
      return store_->PutJobs(part);
    };
  };
  const auto nothing = [](const auto&) {};
  const auto refuse = [&](std::string_view what) {
    return [this, what](const auto& record, const Status& why) {
      Refuse(what, static_cast<int32_t>(record.id), why);
      return absl::OkStatus();
    };
  };
  FW_RETURN_IF_ERROR(
      PutInHalves<jobs::JobRecord>(pending_jobs_.jobs, put(&jobs::Changes::jobs), nothing,
                                   [&](const jobs::JobRecord& job, const Status& why) {
                                     Refuse("job", job.id, why);
                                     jobs::Changes nameless;
                                     nameless.jobs.emplace_back();
                                     nameless.jobs[0].id = job.id;
                                     nameless.jobs[0].key = StandIn(job.id);
                                     nameless.jobs[0].source = job.source;
                                     nameless.jobs[0].last_seen = job.last_seen;
                                     return store_->PutJobs(nameless);
                                   }));
  FW_RETURN_IF_ERROR(PutInHalves<jobs::JobSetRecord>(pending_jobs_.sets, put(&jobs::Changes::sets),
                                                     nothing, refuse("job set")));
  return PutInHalves<jobs::IntervalRecord>(pending_jobs_.intervals, put(&jobs::Changes::intervals),
                                           nothing, refuse("interval"));
}

}  // namespace flopwatch::ingest

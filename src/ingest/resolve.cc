#include "ingest/resolve.h"

#include <optional>

#include "ingest/stored_time.h"

namespace flopwatch::ingest {
namespace {

using telemetry::DecodedRow;

// Bytes of the texts that describe a GPU, each of which the decoder bounds.
size_t TextOf(const DecodedRow& row) {
  const telemetry::EntityLabels& l = *row.labels;
  return row.key->uuid.size() + l.node.size() + l.model.size() + l.device.size() +
         l.pci_bus_id.size() + l.driver.size() + l.mig_profile.size() + l.nvlink_domain.size();
}

}  // namespace

Resolver::Resolver(const PipelineOptions* options, Registry* registry, Claims* claims,
                   jobs::JobIndex* jobs, uint32_t source, const Origin& origin)
    : options_(options),
      registry_(registry),
      claims_(claims),
      jobs_(jobs),
      source_(source),
      node_(origin.node),
      nvlink_domain_(origin.nvlink_domain),
      names_itself_(origin.kind != SourceKind::kExporter) {
  claims_->Know(source_, origin.Text());
}

Resolver::~Resolver() { claims_->Forget(source_); }

bool Resolver::MayMakeKnown(const DecodedRow& row, Newcomers* newcomers) const {
  const size_t room = registry_->RoomForEntities();
  if (room == 0) return true;  // the registry says so
  // An instance brings its GPU with it.
  const bool brings_gpu = row.key->kind == telemetry::EntityKind::kGpuInstance &&
                          registry_->FindEntity(row.key->uuid) == 0;
  const double units = 1 + static_cast<double>(TextOf(row) / kTextPerUnit) + (brings_gpu ? 1 : 0);
  return newcomers->May(NewThing::kEntity, units, room);
}

Resolver::Found Resolver::ResolveAnew(const DecodedRow& row, Micros ts, Newcomers* newcomers,
                                      Identity* who) {
  const uint64_t node_hash = NodeHash(row.labels->node);
  const Evidence evidence = EvidenceOf(row.labels->node, node_, names_itself_);
  std::optional<ResolvedEntity> entity = registry_->Known(*row.key);
  if (entity.has_value()) {
    if (const auto known = registry_->entity(entity->id))
      claims_->SetHome(entity->id, NodeHash(known->labels.node));
  }
  // What the weaker of two claims says about a GPU is not taken; every scrape asks again.
  const bool is_past = entity.has_value() && options_->stored_time != nullptr &&
                       !options_->stored_time->MayDescribe(entity->id, ts);
  const bool believed =
      !entity.has_value() ||
      (!is_past && claims_->MayDescribe(ClaimOf(entity->id, node_hash, evidence), ts, timing()));
  if (!entity.has_value() && !MayMakeKnown(row, newcomers)) return Found::kRefused;
  const std::string& model = row.labels->model;
  const bool model_refused = believed && !model.empty() && !registry_->KnowsModel(model) &&
                             !newcomers->May(NewThing::kModel, 1, registry_->RoomForModels());
  if (believed) {
    telemetry::EntityLabels labels = *row.labels;
    if (model_refused) labels.model.clear();
    if (labels.nvlink_domain.empty()) labels.nvlink_domain = nvlink_domain_;
    const auto described = registry_->Resolve(*row.key, labels, ts);
    if (!described.ok()) return Found::kNoRoom;
    entity = *described;
    if (telemetry::IsGpu(row.key->kind)) jobs_->BindEntity(entity->id, *row.key, *row.labels);
  } else if (!registry_->See(entity->id, ts)) {
    return ResolveAnew(row, ts, newcomers, who);  // it was forgotten just now, and is new
  }
  const Found found = who->entity.id == entity->id ? Found::kAnew : Found::kAnother;
  if (is_past) registry_->SeeEarlier(entity->id, ts);
  if (found == Found::kAnother) *who = Identity{};
  who->settled = (believed || is_past) && !model_refused;
  who->version = row.identity_version;
  who->seen_until = EndOfDay(ts);
  who->kind = row.key->kind;
  who->entity = *entity;
  who->node_hash = node_hash;
  who->evidence = evidence;
  return found;
}

Claims::Verdict Resolver::Admit(const Identity& who, Micros ts, bool own_timestamp) {
  const Claims::Claim claim = ClaimOf(who.entity.id, who.node_hash, who.evidence);
  const Claims::Verdict verdict = claims_->Admit(claim, ts, own_timestamp, timing());
  if (verdict.outcome == Claims::Outcome::kDuplicate ||
      verdict.outcome == Claims::Outcome::kConflict)
    claims_->Note(claim, verdict.rival, verdict.outcome, options_->Clock());
  return verdict;
}

void Resolver::Own(const DecodedRow& row, Micros ts, Micros weight, Newcomers* newcomers,
                   Identity* who) {
  // History brings the jobs of weeks at once, and a row without its job would stay so: what bounds
  // them there are the GPUs, which are on a budget, and the jobs that one GPU may bring.
  const bool is_history = options_->stored_time != nullptr;
  const int32_t set = jobs_->Observe(
      who->entity.id, ts, weight, row.owners,
      [&](size_t room) { return is_history || newcomers->May(NewThing::kJob, 1, room); },
      is_history);
  if (set == who->job_set) return;
  who->job_set = set;
  who->jobs = jobs_->SetMembers(set);
}

}  // namespace flopwatch::ingest

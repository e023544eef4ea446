#include "ingest/resolve.h"

namespace flopwatch::ingest {

using telemetry::DecodedRow;

Resolver::Resolver(const PipelineOptions* options, Registry* registry, Claims* claims,
                   jobs::JobIndex* jobs, uint32_t source, const Origin& origin)
    : options_(options),
      registry_(registry),
      claims_(claims),
      jobs_(jobs),
      source_(source),
      node_(origin.node),
      names_itself_(origin.kind != SourceKind::kExporter) {
  claims_->Know(source_, origin.Text());
}

Resolver::~Resolver() { claims_->Forget(source_); }

Resolver::Found Resolver::ResolveAnew(const DecodedRow& row, Micros ts, Identity* who) {
  const uint64_t node_hash = NodeHash(row.labels->node);
  const Evidence evidence = EvidenceOf(row.labels->node, node_, names_itself_);
  std::optional<ResolvedEntity> entity = registry_->Known(*row.key);
  if (entity.has_value()) {
    if (const auto known = registry_->entity(entity->id))
      claims_->SetHome(entity->id, NodeHash(known->labels.node));
  }
  // What the weaker of two claims says about a GPU is not taken over; it is asked again with every
  // scrape.
  const bool believed =
      !entity.has_value() ||
      claims_->MayDescribe(ClaimOf(entity->id, node_hash, evidence), ts, timing());
  if (believed) {
    const auto described = registry_->Resolve(*row.key, *row.labels, ts);
    if (!described.ok()) return Found::kNoRoom;
    entity = *described;
    if (telemetry::IsGpu(row.key->kind)) jobs_->BindEntity(entity->id, *row.key, *row.labels);
  }
  const Found found = who->entity.id == entity->id ? Found::kAnew : Found::kAnother;
  if (found == Found::kAnother) *who = Identity{};
  who->settled = believed;
  who->version = row.identity_version;
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

void Resolver::Own(const DecodedRow& row, Micros ts, Micros weight, Identity* who) {
  const int32_t set = jobs_->Observe(who->entity.id, ts, weight, row.owners);
  if (set == who->job_set) return;
  who->job_set = set;
  who->jobs = jobs_->SetMembers(set);
}

}  // namespace flopwatch::ingest

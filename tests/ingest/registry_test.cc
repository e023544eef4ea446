// What has an id, and what gives it back: silent GPUs and models, around their limits and over a
// restart.
#include "ingest/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "fixtures/body.h"

namespace flopwatch::ingest {
namespace {

using telemetry::EntityKey;
using telemetry::EntityKind;
using telemetry::EntityLabels;
using test::kA100;
using test::kH100;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Micros kADay = kMicrosPerDay;
constexpr Micros kFirstDay = 1'789'948'800 * kMicrosPerSecond;  // 2026-09-21, a whole day

// A registry, and a store that keeps what it is told and forgets what it is told.
class RegistryTest : public testing::Test {
 protected:
  void Restart(const RegistryLimits& limits) {
    limits_ = limits;
    Restart();
  }
  void Restart() {
    if (registry_ != nullptr) Store();
    store::Dimensions d;
    for (const auto& [id, e] : entities_) d.entities.push_back(e);
    for (const auto& [id, m] : models_) d.models.push_back(m);
    registry_ = std::make_unique<Registry>(&hardware::Catalog::Builtin(), limits_);
    registry_->Load(d);
  }
  void Store() {
    const Registry::Changes changes = registry_->TakeChanges();
    for (const auto& e : changes.entities) entities_[e.id] = e;
    for (const auto& m : changes.models) models_[m.id] = m;
  }
  // The id of a GPU, or of one of its instances, that has a row on a day; 0 where it was refused.
  int32_t Row(std::string_view uuid, int day, std::string_view model = kA100,
              int32_t instance = -1) {
    EntityLabels labels;
    labels.node = "node1";
    labels.model = model;
    const auto found = registry_->Resolve(
        {instance < 0 ? EntityKind::kGpu : EntityKind::kGpuInstance, std::string(uuid), instance},
        labels, kFirstDay + day * kADay + kMicrosPerHour);
    return found.ok() ? found->id : 0;
  }
  // No row of before that day is kept.
  store::ForgottenDevices Forget(int day, int32_t named = 0) {
    Store();
    const store::ForgottenDevices gone =
        registry_->Forget({.unnamed = kFirstDay + day * kADay + 1, .unnamed_series = 0},
                          [&](int32_t id) { return id == named; });
    for (const int32_t id : gone.entities) entities_.erase(id);
    for (const int32_t id : gone.models) models_.erase(id);
    return gone;
  }

  RegistryLimits limits_;
  std::unique_ptr<Registry> registry_;
  std::map<int32_t, store::EntityRecord> entities_;
  std::map<int32_t, store::ModelRecord> models_;
};

TEST_F(RegistryTest, WhatHasNoRowsIsForgottenAndNewWhenItComesBack) {
  Restart({});
  EXPECT_EQ(Row("GPU-a", 0), 1);
  EXPECT_EQ(Row("GPU-b", 0, kH100), 2);
  EXPECT_EQ(Row("GPU-b", 2, kH100), 2);
  EXPECT_THAT(Forget(0).entities, IsEmpty());  // it may have rows until the end of its day
  const uint64_t version = registry_->version();
  const auto gone = Forget(1);
  EXPECT_THAT(gone.entities, ElementsAre(1));
  EXPECT_THAT(gone.models, ElementsAre(1));
  EXPECT_NE(registry_->version(), version);
  EXPECT_EQ(registry_->entity(1), std::nullopt);
  EXPECT_EQ(registry_->model(1), std::nullopt);
  EXPECT_EQ(registry_->FindEntity("GPU-a"), 0);
  EXPECT_FALSE(registry_->KnowsModel(kA100));
  EXPECT_EQ(registry_->Fraction(1), 1);
  EXPECT_EQ(registry_->entity_count(), 1u);
  EXPECT_EQ(registry_->node_count(), 1u);
  EXPECT_FALSE(registry_->See(1, kFirstDay + 3 * kADay));
  EXPECT_TRUE(Forget(2).empty());
  // Rows of before may still be told by its old id, so that it gets another.
  EXPECT_EQ(Row("GPU-a", 3), 3);
  EXPECT_EQ(registry_->entity(3)->model, 3);
  EXPECT_EQ(Row("GPU-b", 3, kH100), 2);
  // With nothing in memory that means the old one, the id is free.
  Restart();
  EXPECT_EQ(Row("GPU-a", 3), 3);
  EXPECT_EQ(Row("GPU-c", 3), 1);
  EXPECT_EQ(Row("GPU-d", 3), 4);
  EXPECT_EQ(registry_->entity(1)->key.uuid, "GPU-c");
}

// A scheduler's topology counts where no label says another domain, for GPUs that come later too,
// and over a restart.
TEST_F(RegistryTest, NvlinkDomainsThatASchedulerTells) {
  Restart();
  const auto see = [&](const std::string& uuid, const std::string& node, std::string domain = "") {
    EntityLabels labels;
    labels.node = node;
    labels.nvlink_domain = std::move(domain);
    return registry_->Resolve(EntityKey{.uuid = uuid}, labels, kFirstDay)->id;
  };
  const int32_t a = see("GPU-a", "gb01"), b = see("GPU-b", "gb02", "rack7");
  const auto domain = [&](int32_t id) { return registry_->entity(id)->labels.nvlink_domain; };
  EXPECT_EQ(domain(a), "");
  registry_->TellDomains({{"gb01", "b1"}, {"gb02", "b1"}, {"gb03", "b1"}});
  const int32_t later = see("GPU-c", "gb03"), other = see("GPU-d", "gb99");
  EXPECT_EQ(domain(a), "slurm:b1");
  EXPECT_EQ(domain(b), "rack7");
  EXPECT_EQ(domain(later), "slurm:b1");
  EXPECT_EQ(domain(other), "");
  Restart();
  see("GPU-a", "gb01");
  EXPECT_EQ(domain(a), "slurm:b1") << "nobody has said anything yet";
  registry_->TellDomains({{"gb01", "b2"}});
  EXPECT_EQ(domain(a), "slurm:b2");
  EXPECT_EQ(domain(later), "");
  see("GPU-a", "gb01", "rack7");
  EXPECT_EQ(domain(a), "rack7");
}

TEST_F(RegistryTest, WhatIsReferredToStays) {
  Restart({});
  EXPECT_EQ(Row("GPU-a", 0), 1);
  EXPECT_EQ(Row("GPU-m", 0, kH100, 5), 3);
  // The labels of the instance are another's claim, so that only its rows are told of.
  EXPECT_TRUE(registry_->See(3, kFirstDay + 4 * kADay));
  EXPECT_THAT(Forget(3, /*named=*/1).entities, IsEmpty());
  EXPECT_EQ(registry_->entity_count(), 3u);
  EXPECT_TRUE(registry_->has_instances());
  auto gone = Forget(4);
  EXPECT_THAT(gone.entities, ElementsAre(1));
  EXPECT_THAT(gone.models, ElementsAre(1));  // of the GPU alone
  gone = Forget(5);
  EXPECT_THAT(gone.entities, ElementsAre(2, 3));
  EXPECT_THAT(gone.models, ElementsAre(2));
  EXPECT_FALSE(registry_->has_instances());
  EXPECT_EQ(registry_->node_count(), 0u);
  // An instance that is there for another reason keeps its GPU, and both their model.
  Row("GPU-n", 6, kH100, 7);
  Store();
  const int32_t instance = registry_->FindEntity("GPU-n", 7);
  EXPECT_TRUE(Forget(9, instance).empty());
  EXPECT_NE(registry_->FindEntity("GPU-n"), 0);
  EXPECT_TRUE(registry_->KnowsModel(kH100));
}

TEST_F(RegistryTest, WhatWaitsToBeStoredStays) {
  Restart({});
  Row("GPU-a", 0);
  EXPECT_TRUE(registry_->Forget({kFirstDay + 9 * kADay, 0}, [](int32_t) { return false; }).empty());
  Store();
  EXPECT_EQ(entities_.size(), 1u);
  // A day is looked through once.
  EXPECT_TRUE(
      registry_->Forget({kFirstDay + 9 * kADay + 1, 0}, [](int32_t) { return false; }).empty());
  EXPECT_THAT(Forget(10).entities, ElementsAre(1));
}

TEST_F(RegistryTest, NothingIsForgottenBeforeItIsKnownWhatIsKept) {
  Restart({});
  Row("GPU-a", 0);
  Store();
  for (const Micros before : {Micros{0}, -kADay, kFirstDay - 700 * kADay})
    EXPECT_TRUE(registry_->Forget({before, 0}, [](int32_t) { return false; }).empty());
}

// When each was seen is stored once a day, not with every row.
TEST_F(RegistryTest, ADayIsToldOnce) {
  Restart({});
  Row("GPU-a", 0);
  EXPECT_EQ(registry_->TakeChanges().entities[0].last_seen, kFirstDay + kADay);
  Row("GPU-a", 0);
  EXPECT_TRUE(registry_->See(1, kFirstDay + kADay - 1));
  Registry::Changes changes = registry_->TakeChanges();
  EXPECT_THAT(changes.entities, IsEmpty());
  EXPECT_THAT(changes.models, IsEmpty());
  const uint64_t version = registry_->version();
  EXPECT_TRUE(registry_->See(1, kFirstDay + kADay));
  changes = registry_->TakeChanges();
  ASSERT_EQ(changes.entities.size(), 1u);
  EXPECT_EQ(changes.entities[0].last_seen, kFirstDay + 2 * kADay);
  ASSERT_EQ(changes.models.size(), 1u);
  EXPECT_EQ(changes.models[0].last_seen, kFirstDay + 2 * kADay);
  EXPECT_EQ(registry_->version(), version);  // no list shows it
}

// However often all of them are others: never more than the limit at a time, and never an id that
// tables by id are not made for. A run has twice as many ids; the next start has them all again.
TEST_F(RegistryTest, ATableOfSilentGpusDrainsAndTakesNewOnes) {
  for (const int32_t limit : {1, 4, 5}) {
    registry_ = nullptr;
    entities_.clear();
    models_.clear();
    Restart({.entities = limit, .models = limit});
    int day = 0;
    for (int round = 0; round < 6; ++round) {
      for (int k = 0; k <= limit; ++k) {
        const auto name = fmt::format("{}-{}", round, k);
        const int32_t id = Row("GPU-" + name, day, "model " + name);
        EXPECT_EQ(id != 0, k < limit) << limit << " " << round << " " << k;
        EXPECT_LE(id, IdsFor(limit));
        if (id != 0) {
          EXPECT_NE(registry_->entity(id)->model, 0);
          EXPECT_LE(registry_->entity(id)->model, IdsFor(limit));
        }
      }
      EXPECT_EQ(registry_->RoomForEntities(), 0u);
      EXPECT_EQ(registry_->RoomForModels(), 0u);
      EXPECT_EQ(registry_->entity_count(), static_cast<size_t>(limit));
      // Those that are known are never refused because of those that are not.
      EXPECT_NE(Row(fmt::format("GPU-{}-0", round), day, fmt::format("model {}-0", round)), 0);
      const auto gone = Forget(day += 2);
      EXPECT_EQ(gone.entities.size(), static_cast<size_t>(limit));
      EXPECT_EQ(gone.models.size(), static_cast<size_t>(limit));
      if (round % 2 == 0) {
        EXPECT_EQ(registry_->RoomForEntities(), static_cast<size_t>(limit));
      } else {
        EXPECT_EQ(registry_->RoomForEntities(), 0u) << "all ids of this run were given out";
        EXPECT_EQ(Row("GPU-one-more", day), 0);
        Restart();
        EXPECT_EQ(registry_->RoomForEntities(), static_cast<size_t>(limit));
      }
    }
  }
}

TEST_F(RegistryTest, RecordsUnderIdsThatCannotBeAreLeftOut) {
  limits_ = {.entities = 2, .models = 2};
  for (const int32_t id : {-1, 0, 1, 4, 5, 1 << 30}) {
    entities_[id] = {.id = id, .key = {.uuid = fmt::format("GPU-{}", id)}};
    models_[id] = {.id = id, .name = fmt::format("model {}", id)};
  }
  Restart();
  EXPECT_EQ(registry_->entity_count(), 2u);
  EXPECT_EQ(registry_->FindEntity("GPU-4"), 4);
  EXPECT_EQ(registry_->FindEntity("GPU-5"), 0);
  EXPECT_EQ(registry_->RoomForEntities(), 0u);
  EXPECT_EQ(Row("GPU-new", 0), 0);
}

TEST_F(RegistryTest, ASeriesIsStoredOnceADayAndForgottenWithItsRows) {
  Restart({});
  const auto series = [&](std::string_view name) { return *registry_->Series("t", name, "{}"); };
  const auto see = [&](int32_t id, std::string_view name, Micros ts) {
    registry_->SeeSeries(id, "t", name, "{}", ts);
  };
  EXPECT_EQ(series("a"), 1);
  EXPECT_THAT(registry_->TakeChanges().series, IsEmpty()) << "it has no row yet";
  see(1, "a", kFirstDay);
  see(1, "a", kFirstDay + kADay - 1);
  auto stored = registry_->TakeChanges().series;
  ASSERT_EQ(stored.size(), 1u);
  EXPECT_EQ(stored[0].name, "a");
  EXPECT_EQ(stored[0].last_seen, kFirstDay + kADay);
  see(1, "a", kFirstDay + kADay);
  stored = registry_->TakeChanges().series;
  ASSERT_EQ(stored.size(), 1u);
  EXPECT_EQ(stored[0].target, "t");
  EXPECT_EQ(stored[0].last_seen, kFirstDay + 2 * kADay);
  const auto forget = [&](Micros before) {
    return registry_->Forget({0, before}, [](int32_t) { return false; }).series_before;
  };
  EXPECT_EQ(forget(kFirstDay + 9 * kADay), kFirstDay + 9 * kADay);
  EXPECT_EQ(forget(kFirstDay + 9 * kADay + 1), 0) << "once a day";
  EXPECT_EQ(series("a"), 1) << "it has a user";
  registry_->ReleaseSeries(1);
  registry_->ReleaseSeries(1);
  EXPECT_NE(forget(kFirstDay + 10 * kADay), 0);
  EXPECT_FALSE(registry_->KnowsSeries("t", "a", "{}"));
  EXPECT_EQ(series("a"), 2);
}

// A store that fails for long: what waits for it does not grow with what is invented meanwhile.
TEST_F(RegistryTest, SeriesThatWaitToBeStoredAreBounded) {
  for (const int32_t limit : {1, 3, 4}) {
    registry_ = nullptr;
    Restart({.series = limit});
    int32_t last = 0;
    for (int k = 0; k < 5 * limit; ++k) {
      const std::string name = fmt::format("s{}", k);
      EXPECT_EQ(registry_->RoomForSeries() > 0, k < 2 * limit);
      const auto id = registry_->Series("t", name, "{}");
      EXPECT_EQ(id.ok(), k < 2 * limit) << k;
      if (!id.ok()) continue;
      last = *id;
      registry_->SeeSeries(*id, "t", name, "{}", kFirstDay);
      registry_->ReleaseSeries(*id);  // its source is gone
    }
    EXPECT_EQ(last, 2 * limit);
    EXPECT_EQ(registry_->TakeChanges().series.size(), static_cast<size_t>(2 * limit));
    // Once they are stored, those that nobody uses make room.
    EXPECT_TRUE(registry_->Series("t", "another", "{}").ok());
  }
}

}  // namespace
}  // namespace flopwatch::ingest

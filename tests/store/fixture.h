// What the store's tests share: a directory that goes away, batches written as short lists, and
// sums computed by hand.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "store/store.h"
#include "telemetry/batch.h"
#include "telemetry/field.h"

namespace flopwatch::store::testing {

#define ASSERT_FW_OK(expr)                                                 \
  do {                                                                     \
    const absl::Status fw_s = ::flopwatch::store::testing::StatusOf(expr); \
    ASSERT_TRUE(fw_s.ok()) << fw_s;                                        \
  } while (false)
#define EXPECT_FW_OK(expr)                                                 \
  do {                                                                     \
    const absl::Status fw_s = ::flopwatch::store::testing::StatusOf(expr); \
    EXPECT_TRUE(fw_s.ok()) << fw_s;                                        \
  } while (false)

inline absl::Status StatusOf(const absl::Status& s) { return s; }
template <typename T>
absl::Status StatusOf(const absl::StatusOr<T>& s) {
  return s.status();
}

class TempDir {
 public:
  TempDir() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "flopwatch-store-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TempDir() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TempDir(const TempDir&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Whether a process that has opened a store may fork. With the thread sanitizer it may not: at a
// fork libduckdb's allocator takes more locks than the sanitizer's tables of held locks have room
// for.
#ifdef __SANITIZE_THREAD__
inline constexpr bool kMayFork = false;
#else
inline constexpr bool kMayFork = true;
#endif

// 2026-01-02T05:00:00Z, the start of an hour.
inline constexpr Micros kT0 = 1767330000LL * kMicrosPerSecond;
inline constexpr Micros kSecond = kMicrosPerSecond, kMinute = kMicrosPerMinute;
inline constexpr Micros kHour = kMicrosPerHour;

struct Value {
  telemetry::FieldId field;
  double value;
};

// Adds rows to a batch: b.Row(ts, entity, {{kTensorActive, 0.5}, ...}).
class BatchBuilder {
 public:
  explicit BatchBuilder(const telemetry::FieldRegistry& fields,
                        telemetry::EntityKind kind = telemetry::EntityKind::kGpu) {
    batch_.kind = kind;
    batch_.stride = fields.size();
  }
  telemetry::RowHeader& Row(Micros ts, int32_t entity, const std::vector<Value>& values,
                            int32_t job_set = 0, int32_t model = 1, int32_t span_ms = 10'000,
                            uint32_t flags = 0) {
    telemetry::RowHeader& h = batch_.rows.emplace_back();
    h.ts = ts;
    h.entity = entity;
    h.job_set = job_set;
    h.model = model;
    h.span_ms = span_ms;
    h.flags = flags;
    batch_.values.resize(batch_.values.size() + static_cast<size_t>(batch_.stride));
    for (const Value& v : values) {
      h.present.Set(v.field);
      batch_.values[batch_.values.size() - static_cast<size_t>(batch_.stride) + v.field] = v.value;
    }
    return h;
  }
  telemetry::SampleBatch& batch() { return batch_; }

 private:
  telemetry::SampleBatch batch_;
};

inline EntityRecord Gpu(int32_t id, std::string uuid, int32_t model = 1) {
  EntityRecord e;
  e.id = id;
  e.key.uuid = std::move(uuid);
  e.labels.node = "node" + std::to_string(id / 8);
  e.labels.index = id % 8;
  e.model = model;
  return e;
}

// H100 SXM: the tensor clock of the OFU paper.
inline ModelRecord H100(int32_t id = 1) {
  ModelRecord m;
  m.id = id;
  m.name = "NVIDIA H100 80GB HBM3";
  m.tensor_clock_max_mhz = 1830;
  m.sm_count = 132;
  m.tdp_w = 700;
  return m;
}

inline Options OptionsFor(const std::string& directory) {
  Options o;
  o.directory = directory;
  o.min_free_disk_bytes = 0;
  return o;
}

// Calls what a test sets at every named point of the stores that were opened with it.
class TestFaults : public FaultPoints {
 public:
  using Hook = std::function<Status(std::string_view)>;
  Status At(std::string_view point) override {
    const std::shared_ptr<const Hook> hook = std::atomic_load(&hook_);
    return hook == nullptr ? absl::OkStatus() : (*hook)(point);
  }
  void Set(Hook hook) { std::atomic_store(&hook_, std::make_shared<const Hook>(std::move(hook))); }
  void Clear() { std::atomic_store(&hook_, std::shared_ptr<const Hook>()); }
  // One point fails from now on.
  void Refuse(std::string refused) {
    Set([refused = std::move(refused)](std::string_view point) {
      return point == refused ? absl::InternalError("injected") : absl::OkStatus();
    });
  }

 private:
  std::shared_ptr<const Hook> hook_;
};

class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override { Open(); }
  void Open() {
    store_.reset();
    options_.faults = &faults_;
    options_.monotonic = [this] { return monotonic_.load(); };
    auto store = OpenDuckDbStore(options_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  // Closes the store, and says why it cannot be opened again.
  absl::Status Fails() {
    store_.reset();
    const auto store = OpenDuckDbStore(options_);
    EXPECT_FALSE(store.ok());
    return store.status();
  }
  // One row of GPU 1.
  void AppendOne(Micros at = kT0) {
    BatchBuilder b(fields_);
    b.Row(at, 1, {{telemetry::kSmClockMhz, 5}});
    ASSERT_FW_OK(store_->Append(b.batch(), fields_, at));
  }
  // Time passes until `now`, for every clock, and a sample comes then: retention goes by all three.
  void PassUntil(Micros now) {
    if (passed_until_ != 0) monotonic_ += now - passed_until_;
    passed_until_ = now;
    BatchBuilder b(fields_);
    b.Row(now, 99, {{telemetry::CanonicalField::kPowerW, 100}}, 0, 1, 0);
    ASSERT_FW_OK(store_->Append(b.batch(), fields_, now));
    ASSERT_FW_OK(store_->ApplyRetention(now));
  }
  // One value of a query, as text; "NULL" for NULL.
  std::string Sql(const std::string& sql) {
    const auto result = store_->UserSql(sql, {});
    if (!result.ok()) return std::string(result.status().message());
    std::string out;
    for (const auto& row : result->table.rows) {
      if (!out.empty()) out += ";";
      for (size_t i = 0; i < row.size(); ++i) {
        if (i > 0) out += "|";
        struct Show {
          std::string operator()(std::monostate) const { return "NULL"; }
          std::string operator()(bool b) const { return b ? "true" : "false"; }
          std::string operator()(int64_t v) const { return std::to_string(v); }
          std::string operator()(double v) const {
            char text[40];
            std::snprintf(text, sizeof text, "%.10g", v);
            return text;
          }
          std::string operator()(const std::string& s) const { return s; }
        };
        out += std::visit(Show(), row[i]);
      }
    }
    return out;
  }

  TempDir dir_;
  TestFaults faults_;
  std::atomic<Micros> monotonic_{kMicrosPerHour};
  Micros passed_until_ = 0;
  Options options_ = OptionsFor(dir_.path());
  telemetry::FieldRegistry fields_;
  std::unique_ptr<Store> store_;
};

}  // namespace flopwatch::store::testing

// The exporters' text: reproducible, independent of order, readable by the product's decoder
// without a refusal, and true to the model behind it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <thread>

#include "hardware/accelerator.h"
#include "make_fleet.h"
#include "simulate/digits.h"
#include "simulate/fleet.h"
#include "simulate/fleet_model.h"
#include "simulate/local_time.h"
#include "simulate/random.h"
#include "simulate/truth.h"
#include "telemetry/exposition.h"

namespace flopwatch::simulate {
namespace {

std::string Text(const Fleet& f, int host, int64_t tick, Stamps stamps = Stamps::kExplicit) {
  std::string s;
  f.RenderHost(host, tick, stamps, &s);
  return s;
}

TEST(Random, InverseNormalHasTheKnownQuantiles) {
  // Tables of the normal distribution: 97.5 % at 1.959964, 99.9 % at 3.090232, 15.8655 % at -1.
  EXPECT_NEAR(InverseNormal(.975), 1.959964, 1e-6);
  EXPECT_NEAR(InverseNormal(.999), 3.090232, 1e-6);
  EXPECT_NEAR(InverseNormal(.158655253931457), -1, 1e-6);
  EXPECT_NEAR(InverseNormal(.5), 0, 1e-9);
}

TEST(Digits, ArePrintedAsTheExporterPrintsThem) {
  char buffer[64];
  auto text = [&](char* end) { return std::string(buffer, end); };
  EXPECT_EQ(text(WriteUnsigned(buffer, 0)), "0");
  EXPECT_EQ(text(WriteUnsigned(buffer, 7)), "7");
  EXPECT_EQ(text(WriteUnsigned(buffer, 1410)), "1410");
  EXPECT_EQ(text(WriteUnsigned(buffer, 18446744073709551615u)), "18446744073709551615");
  EXPECT_EQ(text(WritePpm(buffer, 279412)), "0.279412");
  EXPECT_EQ(text(WritePpm(buffer, 1000000)), "1.000000");
  EXPECT_EQ(text(WriteMilli(buffer, 113611)), "113.611000");
  EXPECT_EQ(text(WriteMilli(buffer, 5)), "0.005000");
}

TEST(Fleet, SameSeedGivesTheSameBytesAndAnotherSeedOthers) {
  auto a = Make(Options(Preset::kResearch, 200, 3, Faults::kAll, 5)),
       b = Make(Options(Preset::kResearch, 200, 3, Faults::kAll, 5));
  auto c = Make(Options(Preset::kResearch, 200, 3, Faults::kAll, 6));
  ASSERT_EQ(a->hosts(), b->hosts());
  bool differs = false;
  for (int h = 0; h < a->hosts(); ++h) {
    EXPECT_EQ(a->HostName(h), b->HostName(h));
    for (int64_t k : {0, 17, 500, 1000}) {
      EXPECT_EQ(Text(*a, h, k), Text(*b, h, k)) << a->HostName(h) << " tick " << k;
      differs |= Text(*a, h, k) != Text(*c, h, k);
    }
  }
  EXPECT_TRUE(differs);
  EXPECT_EQ(a->AssignmentsCsv(), b->AssignmentsCsv());
}

// A longer simulation has the same past (all presets but the one that is fitted to its window).
TEST(Fleet, TheFirstHoursDoNotDependOnHowManyFollow) {
  for (Preset preset : {Preset::kResearch, Preset::kLlm, Preset::kServing}) {
    auto shorter = Make(Options(preset, 400, 6, Faults::kAll, 8));
    auto longer = Make(Options(preset, 400, 50, Faults::kAll, 8));
    ASSERT_EQ(shorter->hosts(), longer->hosts());
    for (int h = 0; h < shorter->hosts(); ++h)
      for (int64_t k = 0; k < shorter->Ticks(h); k += 13)
        ASSERT_EQ(Text(*shorter, h, k), Text(*longer, h, k))
            << PresetName(preset) << " " << shorter->HostName(h) << " tick " << k;
    const Micros from = shorter->options().start, to = from + shorter->options().duration;
    Truth a = shorter->TruthOf(from, to), b = longer->TruthOf(from, to);
    ASSERT_EQ(a.jobs.size(), b.jobs.size());
    for (size_t j = 0; j < a.jobs.size(); ++j) {
      EXPECT_EQ(a.jobs[j].key, b.jobs[j].key);
      EXPECT_EQ(a.jobs[j].workflow, b.jobs[j].workflow);
      EXPECT_TRUE(a.jobs[j].work.tensor_cycles == b.jobs[j].work.tensor_cycles) << a.jobs[j].key;
    }
  }
}

TEST(Fleet, AnyHostAndTickCanBeMadeAloneInAnyOrderOnAnyThread) {
  auto f = Make(Options(Preset::kLlm, 96, 2, Faults::kTelemetry));
  std::map<std::pair<int, int64_t>, std::string> forward;
  for (int64_t k = 0; k < 40; ++k)
    for (int h = 0; h < f->hosts(); ++h) forward[{h, k}] = Text(*f, h, k);
  auto backward = [&](int first) {
    for (int h = f->hosts() - 1 - first; h >= 0; h -= 2)
      for (int64_t k = 39; k >= 0; --k) ASSERT_EQ(Text(*f, h, k), forward[std::make_pair(h, k)]);
  };
  std::jthread other(backward, 1);
  backward(0);
}

TEST(Fleet, HasExactlyTheGpusAskedForAndHostsThatCanBeFound) {
  for (int gpus : {1, 5, 8, 63, 256, 1001}) {
    auto f = Make(Options(Preset::kLlm, gpus, 1, Faults::kNone));
    int sum = 0;
    std::set<std::string> names;
    for (int h = 0; h < f->hosts(); ++h) {
      sum += f->HostGpus(h);
      names.insert(f->HostName(h));
      EXPECT_EQ(f->FindHost(f->HostName(h)), h);
    }
    EXPECT_EQ(sum, gpus);
    EXPECT_EQ(static_cast<int>(names.size()), f->hosts());
    EXPECT_EQ(f->FindHost("alder-r00-n9999"), -1);
    EXPECT_EQ(f->FindHost(""), -1);
    EXPECT_EQ(f->FindHost("-n"), -1);
  }
}

TEST(Fleet, RefusesWhatCannotBe) {
  FleetOptions o;
  o.gpus = 0;
  EXPECT_FALSE(Fleet::Create(o).ok());
  o.gpus = 8;
  o.fields = 21;
  EXPECT_FALSE(Fleet::Create(o).ok());
  o.fields = 20;
  o.interval = 1;
  EXPECT_FALSE(Fleet::Create(o).ok());
  o.interval = kMicrosPerSecond;
  o.duration = 0;
  EXPECT_FALSE(Fleet::Create(o).ok());
}

TEST(Fleet, ModelsAreThoseOfTheHardwareTable) {
  // The simulator has its own numbers; the product's table must agree on the OFU denominator and
  // the SMs.
  for (const GpuModel* m : {&H100(), &A100(), &Gb200()}) {
    auto a = hardware::Catalog::Builtin().Find(m->name);
    ASSERT_TRUE(a.ok()) << a.status();
    EXPECT_EQ((*a)->sm_count, m->sms) << m->name;
    EXPECT_EQ((*a)->tensor_clock_max_mhz, m->tensor_max_mhz) << m->name;
    for (const MigLayout& layout : m->mig) {
      int covered = 0;
      for (const MigProfile& p : layout) {
        auto sms = hardware::MigProfileSms(**a, p.name);
        ASSERT_TRUE(sms.ok()) << sms.status();
        EXPECT_EQ(*sms, p.sms) << p.name;
        covered += p.sms;
      }
      EXPECT_LE(covered, m->sms);
    }
  }
}

struct DecodeCase {
  Preset preset;
  int fields;
};
class Decoding : public ::testing::TestWithParam<DecodeCase> {};
INSTANTIATE_TEST_SUITE_P(
    Presets, Decoding,
    ::testing::Values(DecodeCase{Preset::kResearch, 20}, DecodeCase{Preset::kResearch, 100},
                      DecodeCase{Preset::kLlm, 20}, DecodeCase{Preset::kLlm, 100},
                      DecodeCase{Preset::kServing, 20}, DecodeCase{Preset::kSeren, 20}));

TEST_P(Decoding, WithoutFaultsNothingIsRefused) {
  auto f = Make(Options(GetParam().preset, 400, 4, Faults::kNone, 3, GetParam().fields));
  telemetry::FieldRegistry registry;
  uint64_t samples = 0;
  for (int h = 0; h < f->hosts(); ++h) {
    telemetry::ExpositionDecoder decoder(&registry, "");
    for (int64_t k = 0; k < f->Ticks(h); k += 97) {
      const std::string body = Text(*f, h, k, k % 2 ? Stamps::kExplicit : Stamps::kNone);
      const auto& scrape = decoder.Decode(body);
      ASSERT_EQ(scrape.stats.refused_total(), 0u)
          << (scrape.examples.empty() ? "" : scrape.examples[0].second);
      const Host& host = f->model().plan.hosts[h];
      size_t instances = 0, expected = 0;
      for (int g = 0; g < host.mig_gpus; ++g)
        instances += f->model().plan.MigOfGpu(host.first_gpu + g).layout.size();
      int whole = 0, parts = 0, partitioned = 0;
      for (const auto& row : scrape.rows) {
        EXPECT_EQ(row.labels->node, f->HostName(h));
        if (row.key->gpu_instance >= 0) {
          ++parts;
          EXPECT_TRUE(row.present.Test(telemetry::kTensorActive));
          EXPECT_FALSE(row.present.Test(telemetry::kGpuUtil));
        } else if (row.labels->index < host.mig_gpus) {
          // The board; its ratios only where the exporter lists the GPU beside its instances.
          ++partitioned;
          EXPECT_EQ(row.present.Test(telemetry::kTensorActive), f->model().ListsPartitionedGpus(h));
          EXPECT_TRUE(row.present.Test(telemetry::kSmClockMhz));
          EXPECT_FALSE(row.present.Test(telemetry::kGpuUtil));
        } else if (row.present.Test(telemetry::kTensorActive)) {
          ++whole;
          EXPECT_EQ(row.labels->model, f->model().Cluster(host).model->name);
          for (auto field : {telemetry::kSmClockMhz, telemetry::kSmActive, telemetry::kGpuUtil,
                             telemetry::kPowerW, telemetry::kEnergyJ, telemetry::kFbUsedMib})
            EXPECT_TRUE(row.present.Test(field)) << field;
          EXPECT_LE(row.values[telemetry::kTensorActive], 1);
          expected += GetParam().fields;
        }
        EXPECT_EQ(row.timestamp.has_value(), k % 2 == 1);
        if (row.timestamp) {
          EXPECT_EQ(*row.timestamp, f->TickTime(h, k));
        }
      }
      EXPECT_EQ(whole, f->HostGpus(h) - host.mig_gpus);
      EXPECT_EQ(partitioned, host.mig_gpus);
      EXPECT_EQ(parts, static_cast<int>(instances));
      // The only lines that make no field of a row are the repeated ones of shared GPUs and of MIG
      // instances.
      if (host.mig_gpus == 0 && !host.shared) {
        EXPECT_EQ(scrape.stats.samples + scrape.stats.narrow, expected);
      }
      samples += scrape.stats.samples;
    }
  }
  EXPECT_GT(samples, 10000u);
}

TEST(Telemetry, FaultsAreBlanksGapsRepeatsAndMissingCounters) {
  auto f = Make(Options(Preset::kLlm, 800, 6, Faults::kTelemetry, 2));
  telemetry::FieldRegistry registry;
  uint64_t asked = 0, silent = 0, sentinels = 0, repeats = 0, missing_tensor = 0, rows = 0;
  for (int h = 0; h < f->hosts(); ++h) {
    telemetry::ExpositionDecoder decoder(&registry, "");
    Micros last = 0;
    for (int64_t k = 0; k < f->Ticks(h); ++k) {
      std::string body;
      ++asked;
      if (f->RenderHost(h, k, Stamps::kExplicit, &body) == Answer::kNone) {
        ++silent;
        EXPECT_TRUE(body.empty());
        continue;
      }
      if (h % 8 && k % 100) continue;
      const auto& scrape = decoder.Decode(body);
      for (size_t i = 0; i < scrape.stats.refused.size(); ++i) {
        if (i == static_cast<size_t>(telemetry::Refusal::kBlankSentinel)) continue;
        EXPECT_EQ(scrape.stats.refused[i], 0u)
            << telemetry::ReasonName(static_cast<telemetry::Refusal>(i));
      }
      sentinels += scrape.stats.refused_total();
      for (const auto& row : scrape.rows) {
        if (k % 100) break;
        ++rows;
        missing_tensor += !row.present.Test(telemetry::kTensorActive);
      }
      if (h % 8) continue;
      repeats += *scrape.rows[0].timestamp <= last;
      last = std::max(last, *scrape.rows[0].timestamp);
    }
  }
  // 0.5 % lost, 0.1 % silent, and restarts.
  EXPECT_GT(silent, asked / 250);
  EXPECT_LT(silent, asked / 80);
  EXPECT_GT(sentinels, 0u);
  EXPECT_GT(repeats, 0u);
  EXPECT_GT(missing_tensor, rows / 400);
  EXPECT_LT(missing_tensor, rows / 20);
}

TEST(Telemetry, TicksAdvanceWithEachHostsPhase) {
  auto f = Make(Options(Preset::kLlm, 64, 1, Faults::kNone));
  std::set<Micros> phases;
  for (int h = 0; h < f->hosts(); ++h) {
    Micros first = f->TickTime(h, 0);
    phases.insert((first - f->options().start) % f->options().interval);
    for (int64_t k = 1; k < f->Ticks(h); ++k)
      ASSERT_EQ(f->TickTime(h, k) - f->TickTime(h, k - 1), f->options().interval);
    EXPECT_EQ(f->TickAt(h, first - 1), -1);
    EXPECT_EQ(f->TickAt(h, first), 0);
    EXPECT_EQ(f->TickAt(h, f->TickTime(h, 7)), 7);
    EXPECT_EQ(f->TickAt(h, f->TickTime(h, 8) - 1), 7);
    EXPECT_LE(f->TickTime(h, f->Ticks(h) - 1), f->options().start + f->options().duration);
    EXPECT_EQ(f->TickAt(h, f->options().start + 2 * f->options().duration), f->Ticks(h) - 1);
  }
  EXPECT_GT(phases.size(), 2u);
}

TEST(Labels, SharedGpusCarryTwoJobsAndInstancesTheirProfile) {
  auto f = Make(Options(Preset::kResearch, 1600, 8, Faults::kNone));
  const Fleet::Model& m = f->model();
  int doubles = 0, mig_hosts = 0;
  for (int h = 0; h < f->hosts(); ++h) {
    const Host& host = m.plan.hosts[h];
    if (host.mig_gpus > 0) {
      ++mig_hosts;
      const MigProfile& first = m.plan.MigOfGpu(host.first_gpu).layout[0];
      EXPECT_THAT(Text(*f, h, 10),
                  ::testing::HasSubstr("GPU_I_PROFILE=\"" + std::string(first.name) +
                                       "\",GPU_I_ID=\"" + std::to_string(first.instance) + "\""));
    }
    if (!host.shared) continue;
    telemetry::FieldRegistry registry;
    telemetry::ExpositionDecoder decoder(&registry, "");
    for (int64_t k = 0; k < f->Ticks(h); k += 60) {
      const std::string body = Text(*f, h, k);
      for (const auto& row : decoder.Decode(body).rows) {
        int32_t t =
            static_cast<int32_t>((f->TickTime(h, k) - f->options().start) / kMicrosPerSecond);
        const Stint* s = m.activity->Holder(host.first_gpu + row.labels->index, t);
        size_t owners = s == nullptr ? 0 : s->job2 >= 0 ? 2 : 1;
        ASSERT_EQ(row.owners.size(), owners);
        if (owners == 2) {
          ++doubles;
          EXPECT_EQ(row.owners[0]->hpc_job, m.JobKey(s->job));
          EXPECT_EQ(row.owners[1]->hpc_job, m.JobKey(s->job2));
        }
      }
    }
  }
  EXPECT_GT(doubles, 10);
  EXPECT_GT(mig_hosts, 0);
}

// Both ways in which exporters list partitioned GPUs, beside whole ones on the same host
// (exposition/a100_40gb_mig_1g5gb_dcgm2.prom and a800_8gpu_mixed_mig_driver535_subset.prom of the
// public samples): the board has one clock, power and energy, and the sum over instances weighted
// by their SMs is what the GPU shows where it is listed.
TEST(Mig, ExportersListPartitionedGpusAsRealOnesDo) {
  auto f = Make(Options(Preset::kResearch, 4000, 6, Faults::kNone));
  const Fleet::Model& m = f->model();
  std::set<bool> ways;
  std::set<int> partitioned;
  std::set<size_t> layouts;
  int busy = 0;
  for (int h = 0; h < f->hosts(); ++h) {
    const Host& host = m.plan.hosts[h];
    if (host.mig_gpus == 0) continue;
    EXPECT_LT(host.mig_gpus, host.gpus);
    const bool lists = m.ListsPartitionedGpus(h);
    ways.insert(lists);
    partitioned.insert(host.mig_gpus);
    for (int64_t k = 100; k < f->Ticks(h); k += 311) {
      const std::string text = Text(*f, h, k, Stamps::kNone);
      for (int g = 0; g < host.mig_gpus; ++g) {
        const Plan::MigGpu& mig = m.plan.MigOfGpu(host.first_gpu + g);
        layouts.insert(mig.layout.size());
        // Values of one field on this GPU's lines, by instance; -1 = the GPU itself.
        auto values = [&](std::string_view field) {
          std::map<int, double> out;
          const std::string prefix = std::string(field) + "{gpu=\"" + std::to_string(g) + "\"";
          for (size_t at = text.find(prefix); at != std::string::npos;
               at = text.find(prefix, at + 1)) {
            const std::string line = text.substr(at, text.find('\n', at) - at);
            const size_t id = line.find("GPU_I_ID=\"");
            out[id == std::string::npos ? -1 : std::stoi(line.substr(id + 10))] =
                std::stod(line.substr(line.find("} ") + 2));
          }
          return out;
        };
        const auto clock = values("DCGM_FI_DEV_SM_CLOCK"),
                   power = values("DCGM_FI_DEV_POWER_USAGE"),
                   energy = values("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"),
                   tensor = values("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE");
        ASSERT_EQ(tensor.size(), mig.layout.size() + (lists ? 1 : 0));
        for (const auto* board : {&clock, &power, &energy}) {
          ASSERT_EQ(board->size(), lists ? 1u : mig.layout.size());
          for (const auto& [id, v] : *board) EXPECT_EQ(v, board->begin()->second);
        }
        EXPECT_TRUE(values("DCGM_FI_DEV_GPU_UTIL").empty());
        if (!lists) continue;
        double sum = 0, sms = 0;
        for (const MigProfile& p : mig.layout) sum += p.sms * tensor.at(p.instance), sms += p.sms;
        EXPECT_NEAR(tensor.at(-1), sum / sms, 2e-6);
        busy += sum > 0;
      }
    }
  }
  EXPECT_EQ(ways.size(), 2u);
  EXPECT_GT(partitioned.size(), 1u);
  EXPECT_EQ(layouts.size(), 3u);
  EXPECT_GT(busy, 10);
}

// Philly's machine list has the hour from 1 to 2 o'clock of 2017-11-05 twice: summer time ended.
TEST(LocalTime, OffsetsAreThoseOfUsPacific) {
  auto offset = [](std::string_view utc) { return LocalOffsetSeconds(*ParseTime(utc, 0)) / 3600; };
  EXPECT_EQ(offset("2017-11-05T08:59:59Z"), -7);
  EXPECT_EQ(offset("2017-11-05T09:00:00Z"), -8);
  // Published by the US Naval Observatory: 8 March and 1 November 2026; 14 March and 7 November
  // 2027.
  EXPECT_EQ(offset("2026-03-08T09:59:59Z"), -8);
  EXPECT_EQ(offset("2026-03-08T10:00:00Z"), -7);
  EXPECT_EQ(offset("2026-11-01T08:59:59Z"), -7);
  EXPECT_EQ(offset("2026-11-01T09:00:00Z"), -8);
  EXPECT_EQ(offset("2027-03-14T10:00:00Z"), -7);
  EXPECT_EQ(offset("2027-11-07T09:00:00Z"), -8);
}

// Its users come at their own hours: the quiet ones of Helios Venus (3 to 8 o'clock, a fifth of the
// mean) are 11 to 16 o'clock UTC in winter.
TEST(LocalTime, UsersKeepTheHoursOfTheirClock) {
  FleetOptions o = Options(Preset::kResearch, 8000, 24 * 28, Faults::kNone);
  o.start = *ParseTime("2026-01-05T00:00:00Z", 0);
  PresetSpec spec = MakePreset(o.preset, o.gpus);
  spec.clusters.back().local_time = true;
  DemandModel demand(&spec, o.seed, o.start, o.gpus);
  for (bool local : {false, true}) {
    const int cluster = local ? static_cast<int>(spec.clusters.size()) - 1 : 0;
    double quiet = 0, all = 0;
    for (const Request& r : demand.Arrivals(cluster, 1200, 28 * 86400)) {
      const int hour = r.submit / 3600 % 24 - (local ? 8 : 0);
      quiet += hour >= 3 && hour < 8;
      ++all;
    }
    EXPECT_GT(all, 1000);
    EXPECT_LT(quiet / all, .10) << local;  // five of 24 hours would be .21
  }
}

TEST(LocalTime, AnHourComesTwiceInOneClusterAlone) {
  FleetOptions o = Options(Preset::kLlm, 256, 4, Faults::kNone);
  o.start = *ParseTime("2026-11-01T07:00:00Z", 0);
  o.interval = 30 * kMicrosPerSecond;
  auto utc = Make(o);
  o.local_time = true;
  auto local = Make(o);
  telemetry::FieldRegistry registry;
  telemetry::ExpositionDecoder decoder(&registry, "");
  std::string_view last_cluster = local->ClusterName(local->hosts() - 1);
  ASSERT_NE(local->ClusterName(0), last_cluster);
  for (int h : {0, local->hosts() - 1}) {
    const bool moved = h != 0;
    std::map<Micros, int> seen;
    for (int64_t k = 0; k < local->Ticks(h); ++k) {
      const std::string body = Text(*local, h, k);
      const Micros stamp = *decoder.Decode(body).rows.at(0).timestamp;
      EXPECT_EQ(stamp - local->TickTime(h, k),
                moved ? (local->TickTime(h, k) < *ParseTime("2026-11-01T09:00:00Z", 0) ? -7 : -8) *
                            kMicrosPerHour
                      : 0);
      ++seen[stamp];
    }
    // From 1 to 2 o'clock everything is there twice, 120 scrapes of it.
    EXPECT_EQ(std::count_if(seen.begin(), seen.end(), [](const auto& s) { return s.second == 2; }),
              moved ? 120 : 0);
  }
  const Truth truth = local->TruthOf();
  auto event = std::find_if(truth.events.begin(), truth.events.end(),
                            [](const EventTruth& e) { return e.kind == "clock_change"; });
  ASSERT_NE(event, truth.events.end());
  EXPECT_EQ(event->entity, last_cluster);
  EXPECT_EQ(FormatTime(event->start), "2026-11-01T09:00:00Z");
  EXPECT_EQ(event->size, -3600);
  const Truth plain = utc->TruthOf();
  EXPECT_TRUE(std::none_of(plain.events.begin(), plain.events.end(),
                           [](const EventTruth& e) { return e.kind == "clock_change"; }));
}

TEST(Labels, KubernetesHasPodsAndSlurmJobNumbers) {
  auto f = Make(Options(Preset::kLlm, 1000, 2, Faults::kNone));
  bool pods = false, numbers = false;
  for (int h = 0; h < f->hosts(); ++h) {
    const std::string text = Text(*f, h, 100);
    bool kubernetes =
        f->model().Cluster(f->model().plan.hosts[h]).scheduler == Scheduler::kKubernetes;
    EXPECT_EQ(text.find(kubernetes ? "hpc_job" : "pod="), std::string::npos);
    pods |= text.find(",container=\"main\",namespace=\"") != std::string::npos;
    numbers |= text.find(",hpc_job=\"21") != std::string::npos;
  }
  EXPECT_TRUE(pods && numbers);
}

// Ranks of a synchronous job do the same cycles a second whatever their clock, so the slowest clock
// has the highest activity (docs/simulate.md, The model).
TEST(Activity, SynchronousRanksHaveOneOfuAndTheSlowestClockTheHighestActivity) {
  auto f = Make(Options(Preset::kSeren, 2000, 12, Faults::kNone));
  const Activity& a = *f->model().activity;
  int checked = 0;
  std::map<int32_t, std::vector<const Stint*>> ranks;
  for (const Stint& s : a.AllStints())
    if (f->model().plan.jobs[s.job].kind == JobKind::kSynchronous && !s.unused &&
        s.to < f->model().plan.horizon)
      ranks[s.job].push_back(&s);
  for (const auto& [job, list] : ranks) {
    if (list.size() < 64) continue;
    Totals first = a.AtStint(*list[0], list[0]->to);
    if (first.tensor_cycles == 0) continue;
    const Stint* slowest = list[0];
    int64_t most = 0, most_of_slowest = 0;
    for (const Stint* s : list) {
      Totals t = a.AtStint(*s, s->to);
      ASSERT_EQ(t.tensor_cycles, first.tensor_cycles);
      most = std::max(most, t.tensor_us);
      if (s->clock_mhz < slowest->clock_mhz) slowest = s;
    }
    most_of_slowest = a.AtStint(*slowest, slowest->to).tensor_us;
    EXPECT_EQ(most, most_of_slowest);
    ++checked;
  }
  EXPECT_GT(checked, 3);
}

// The cumulative counters never fall, and what is read between any two seconds adds up.
TEST(Activity, TotalsNeverFallAndAddUp) {
  auto f = Make(Options(Preset::kResearch, 64, 2, Faults::kAll, 9));
  const Activity& a = *f->model().activity;
  for (int32_t lane = 0; lane < f->model().plan.lanes; ++lane) {
    Totals last, stepped;
    for (int32_t t = 0; t <= f->model().plan.horizon; ++t) {
      Totals now = a.At(lane, t), d = now - last;
      ASSERT_GE(d.tensor_cycles, 0) << lane << " at " << t;
      ASSERT_GE(d.tensor_us, 0);
      ASSERT_GE(d.sm_us, 0);
      ASSERT_GE(d.util_us, 0);
      ASSERT_GE(d.energy_mj, 0);
      ASSERT_GE(d.clock_cycles, 0);
      stepped += d;
      last = now;
    }
    EXPECT_EQ(stepped, a.At(lane, f->model().plan.horizon));
  }
}

TEST(Activity, CountersOfTheTextNeverFall) {
  auto f = Make(Options(Preset::kSeren, 800, 24, Faults::kAll, 2, 100));
  const Fleet::Model& m = f->model();
  int64_t replays = 0;
  for (int32_t lane = 0; lane < m.plan.gpus; ++lane) {
    Values last{}, v;
    for (int32_t t = 600; t < m.plan.horizon; t += 600, last = v) {
      ReadLane(m, lane, t, 10, &v);
      for (const FieldDef& d : Fields(100)) {
        if (d.type != "counter") continue;
        ASSERT_GE(v[d.value], last[d.value]) << d.name << " of " << lane << " at " << t;
      }
      if (t > 600) {
        ASSERT_GT(v[kCyclesElapsed], last[kCyclesElapsed]);
        ASSERT_LE(v[kMmaCycles] - last[kMmaCycles], v[kCyclesElapsed] - last[kCyclesElapsed]);
      }
    }
    replays += v[kPcieReplay];
  }
  EXPECT_GT(replays, 0);  // a GPU that stalls shows it
}

// OFU from the sampled text, as the OFU paper computes it (mean of activity x clock / peak clock),
// against cycles done.
TEST(Activity, SampledOfuAgreesWithTheCyclesDone) {
  auto f = Make(Options(Preset::kLlm, 64, 6, Faults::kNone, 4));
  const Fleet::Model& m = f->model();
  int jobs = 0;
  for (const Stint& s : m.activity->AllStints()) {
    if (s.to - s.from < 3600 || s.lane >= m.plan.gpus) continue;
    double sum = 0;
    int n = 0;
    Values v;
    for (int32_t t = s.from + 10; t <= s.to - 1; t += 10, ++n) {
      ReadLane(m, s.lane, t, 10, &v);
      sum += v[kTensorPpm] / 1e6 * v[kSmClock] / H100().tensor_max_mhz;
    }
    double sampled = sum / n;
    double truth = static_cast<double>(m.activity->AtStint(s, s.to).tensor_cycles) /
                   (1e6 * H100().tensor_max_mhz * (s.to - s.from));
    // Clock noise of 30 MHz in 1500 at n >= 360 samples: 2 % / 19 = 0.1 % of the value; phase edges
    // cost a sample each.
    EXPECT_NEAR(sampled, truth, .005 * truth + .001) << m.JobName(s.job);
    jobs += truth > 0;
  }
  EXPECT_GT(jobs, 20);
}

}  // namespace
}  // namespace flopwatch::simulate

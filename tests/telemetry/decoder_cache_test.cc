// What a decoder remembers from scrape to scrape: slots and versions of entities, and the
// label-sequence cache.
#include <gtest/gtest.h>

#include "decoded.h"
#include "telemetry/exposition.h"

namespace flopwatch::telemetry {
namespace {

class DecoderCache : public ::testing::Test {
 protected:
  FieldRegistry registry_;
};

TEST_F(DecoderCache, IdentityVersionFollowsLabelsAndOwners) {
  ExpositionDecoder decoder(&registry_, "n");
  const auto decode = [&](const std::string& body) {
    std::map<std::string, std::pair<uint32_t, uint32_t>> out;
    for (const DecodedRow& row : decoder.Decode(body).rows)
      out[row.key->uuid] = {row.slot, row.identity_version};
    return out;
  };
  const std::string idle =
      "DCGM_FI_DEV_SM_CLOCK{UUID=\"A\"} 1\nDCGM_FI_DEV_SM_CLOCK{UUID=\"B\"} 1\n";
  const std::string busy =
      "DCGM_FI_DEV_SM_CLOCK{UUID=\"A\",hpc_job=\"1\"} 1\nDCGM_FI_DEV_SM_CLOCK{UUID=\"B\"} 1\n";
  const auto first = decode(idle);
  EXPECT_EQ(decode(idle), first);
  const auto second = decode(busy);
  EXPECT_EQ(second.at("B"), first.at("B")) << "nothing changed for B";
  EXPECT_EQ(second.at("A").first, first.at("A").first) << "the slot stays";
  EXPECT_NE(second.at("A").second, first.at("A").second);
  EXPECT_EQ(decode(busy), second);
  const auto third = decode(idle);
  EXPECT_NE(third.at("A").second, second.at("A").second);
  EXPECT_NE(third.at("A").second, first.at("A").second) << "versions never repeat";
  // Another label text with the same meaning is no change.
  EXPECT_EQ(
      decode(
          "DCGM_FI_DEV_SM_CLOCK{UUID=\"A\",pod_uid=\"x\"} 1\nDCGM_FI_DEV_SM_CLOCK{UUID=\"B\"} 1\n"),
      third);
}

std::string Body(const std::vector<int>& field_order, int gpus, int job_of_gpu0, double shift) {
  static const char* const kNames[] = {"DCGM_FI_DEV_SM_CLOCK",
                                       "DCGM_FI_DEV_MEM_CLOCK",
                                       "DCGM_FI_DEV_GPU_TEMP",
                                       "DCGM_FI_DEV_POWER_USAGE",
                                       "DCGM_FI_DEV_GPU_UTIL",
                                       "DCGM_FI_PROF_SM_ACTIVE",
                                       "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
                                       "DCGM_FI_PROF_DRAM_ACTIVE",
                                       "DCGM_FI_DEV_FB_USED"};
  std::string body;
  for (const int f : field_order) {
    body += fmt::format("# HELP {0} text\n# TYPE {0} gauge\n", kNames[f]);
    for (int g = 0; g < gpus; ++g) {
      body +=
          fmt::format("{}{{gpu=\"{}\",UUID=\"GPU-{}\",Hostname=\"h\"{}}} {:.6f}\n", kNames[f], g, g,
                      g == 0 && job_of_gpu0 > 0 ? fmt::format(",hpc_job=\"{}\"", job_of_gpu0) : "",
                      (f * 8 + g) / 1000.0 + shift);
    }
  }
  return body;
}

TEST_F(DecoderCache, WhatChangesIsLearnedOnce) {
  ExpositionDecoder decoder(&registry_, "n");
  const auto slow = [&](const std::string& body) { return decoder.Decode(body).stats.slow_lines; };
  const std::vector<int> order = {0, 1, 2, 3, 4, 5, 6, 7, 8}, other = {5, 2, 8, 0, 7, 1, 3, 6, 4};
  EXPECT_EQ(slow(Body(order, 8, 0, 0)), 72u);
  EXPECT_EQ(slow(Body(order, 8, 0, 0.1)), 0u) << "new values only";
  EXPECT_EQ(slow(Body(other, 8, 0, 0)), 0u) << "groups in another order";
  EXPECT_EQ(slow(Body(order, 8, 17, 0)), 9u) << "a job starts on one GPU: its nine lines";
  EXPECT_EQ(slow(Body(other, 8, 17, 0.2)), 0u);
  EXPECT_EQ(slow(Body({0, 1, 2, 4, 5}, 8, 17, 0)), 0u) << "fields vanish";
  EXPECT_EQ(slow(Body(order, 7, 17, 0)), 0u) << "a GPU vanishes";
  EXPECT_EQ(slow(Body(order, 8, 17, 0)), 0u) << "and comes back";
  EXPECT_EQ(slow(Body(order, 8, 0, 0)), 9u) << "the job ends";
  // Interleaved instead of grouped: all lines of GPU 0, then all of GPU 1, ...
  std::vector<std::string> lines[8];
  std::string_view rest;
  const std::string grouped = Body(order, 8, 0, 0);
  for (rest = grouped; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n') + 1);
    rest.remove_prefix(line.size());
    const size_t at = line.find("gpu=\"");
    if (at != std::string_view::npos) lines[line[at + 5] - '0'].emplace_back(line);
  }
  std::string interleaved;
  for (const auto& of_gpu : lines) {
    for (const std::string& line : of_gpu) interleaved += line;
  }
  EXPECT_EQ(slow(interleaved), 0u);
}

TEST_F(DecoderCache, TheCacheIsSmall) {
  ExpositionDecoder decoder(&registry_, "n");
  decoder.Decode(Body({0, 1, 2, 3, 4, 5, 6, 7, 8}, 8, 0, 0));
  EXPECT_LE(decoder.cache_bytes(), 72 * 32u);
}

TEST_F(DecoderCache, DecodersMoveAndShareARegistry) {
  std::vector<ExpositionDecoder> decoders;
  for (int i = 0; i < 4; ++i) decoders.emplace_back(&registry_, fmt::format("n{}", i));
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 4; ++i) {
      const DecodedScrape& s = decoders[i].Decode(fmt::format(
          "DCGM_FI_DEV_NEW_{}{{UUID=\"A\"}} 5\nDCGM_FI_DEV_SM_CLOCK{{UUID=\"A\"}} {}\n", i, i));
      ASSERT_EQ(s.rows.size(), 1u);
      EXPECT_EQ(s.rows[0].values[kSmClockMhz], i);
      EXPECT_EQ(s.rows[0].labels->node, fmt::format("n{}", i));
    }
  }
  EXPECT_EQ(registry_.size(), kCanonicalFieldCount + 4);
}

}  // namespace
}  // namespace flopwatch::telemetry

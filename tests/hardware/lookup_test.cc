#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cctype>
#include <string>

#include "hardware/accelerator.h"

namespace flopwatch::hardware {
namespace {

std::string ModelOf(std::string_view name) {
  const auto found = Catalog::Builtin().Find(name);
  return found.ok() ? (*found)->model : "refused: " + std::string(found.status().message());
}

TEST(Lookup, NormalForm) {
  EXPECT_EQ(NormaliseName("NVIDIA H100 80GB HBM3"), "h100 80gb hbm3");
  EXPECT_EQ(NormaliseName("NVIDIA-H100-80GB-HBM3"), "h100 80gb hbm3");
  EXPECT_EQ(NormaliseName("  nvidia   a100_sxm4-80GB "), "a100 sxm4 80gb");
  EXPECT_EQ(NormaliseName("Tesla T4"), "t4");
  EXPECT_EQ(NormaliseName("NVIDIA"), "nvidia");
  EXPECT_EQ(NormaliseName(""), "");
}

TEST(Lookup, ReportedAndShortNames) {
  EXPECT_EQ(ModelOf("NVIDIA H100 80GB HBM3"), "H100 SXM");
  EXPECT_EQ(ModelOf("NVIDIA-H100-80GB-HBM3"), "H100 SXM");
  EXPECT_EQ(ModelOf("H100 SXM"), "H100 SXM");
  EXPECT_EQ(ModelOf("H100-SXM"), "H100 SXM");
  EXPECT_EQ(ModelOf("nvidia h100 sxm"), "H100 SXM");
  EXPECT_EQ(ModelOf("A100 SXM 40GB"), "A100 SXM 40GB");
  EXPECT_EQ(ModelOf("A100-SXM4-40GB"), "A100 SXM 40GB");
  EXPECT_EQ(ModelOf("NVIDIA A100-PCIE-40GB"), "A100 PCIe 40GB");
  EXPECT_EQ(ModelOf("NVIDIA A100 80GB PCIe"), "A100 PCIe 80GB");
  EXPECT_EQ(ModelOf("NVIDIA GB10"), "GB10 (DGX Spark)");
  EXPECT_EQ(ModelOf("AMD Instinct MI300X OAM"), "MI300X");
  EXPECT_EQ(ModelOf("MI300X"), "MI300X");
  EXPECT_EQ(ModelOf("RTX 4090"), "GeForce RTX 4090");
  EXPECT_EQ(ModelOf("A16"), "A16 (per GPU)");
}

// Others' tables matched prefixes and substrings: "B300" in "GB300" (OLMo-core #747).
TEST(Lookup, ANameInsideAnotherNeverMatchesIt) {
  EXPECT_EQ(ModelOf("NVIDIA B300 SXM6 AC"), "B300");
  EXPECT_EQ(ModelOf("B300"), "B300");
  EXPECT_EQ(ModelOf("NVIDIA GB300"), "GB300");
  EXPECT_EQ(ModelOf("NVIDIA H20"), "H20 96GB");
  EXPECT_EQ(ModelOf("NVIDIA H200"), "H200 SXM");
  EXPECT_EQ(ModelOf("NVIDIA A10"), "A10");
  EXPECT_EQ(ModelOf("NVIDIA A10G"), "A10G");
  EXPECT_EQ(ModelOf("NVIDIA L4"), "L4");
  EXPECT_EQ(ModelOf("NVIDIA L40"), "L40");
  EXPECT_EQ(ModelOf("NVIDIA L40S"), "L40S");
  EXPECT_EQ(ModelOf("NVIDIA GeForce RTX 4090 D"), "GeForce RTX 4090 D");
}

// SMs of the instances: `nvidia-smi mig -lgip` listings; of a partition: AMD's partition modes, an
// XCD of MI300X has 38 compute units, one of MI350X 32.
TEST(Lookup, APartOfADeviceHasItsOwnSms) {
  struct Part {
    std::string_view name;
    int sms;
  };
  for (const Part& part :
       {Part{"NVIDIA A100-SXM4-40GB MIG 1g.5gb", 14}, Part{"NVIDIA A100-SXM4-40GB MIG 3g.20gb", 42},
        Part{"NVIDIA H100 80GB HBM3 MIG 1g.10gb", 16}, Part{"AMD Instinct MI300X CPX", 38},
        Part{"MI300X DPX", 152}, Part{"MI300X QPX", 76}, Part{"MI300A CPX", 38},
        Part{"AMD Instinct MI300A TPX", 76}, Part{"MI350X CPX", 32}}) {
    SCOPED_TRACE(part.name);
    const auto found = Catalog::Builtin().Find(part.name);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ((*found)->sm_count, part.sms);
    EXPECT_FALSE((*found)->tdp_w.has_value());  // the board's
  }
  // 14 of 108 SMs at 1410 MHz, 2048 FLOPs an SM and clock: 40.4 TFLOP/s, not the board's 312.
  const auto slice = Catalog::Builtin().Find("NVIDIA A100-SXM4-40GB MIG 1g.5gb");
  EXPECT_NEAR(PeakOf(**slice, Precision::kBf16)->tflops, 14 * 2048 * 1410 / 1e6, 1e-6);
  // What a board is published to reach is no figure of a part.
  EXPECT_FALSE(PeakOf(**slice, Precision::kFp64).ok());
}

TEST(Lookup, APartThatDoesNotSayItsShareIsRefused) {
  for (const std::string_view name :
       {"GRID A100-40C", "NVIDIA A100-40C", "NVIDIA H100-80C", "GRID V100D-8Q", "NVIDIA L40S-12Q",
        "NVIDIA A100-1-5C", "NVIDIA H100XM-80C"}) {
    EXPECT_THAT(ModelOf(name), testing::HasSubstr("a vGPU")) << name;
  }
  EXPECT_THAT(ModelOf("AMD Instinct MI300X VF"), testing::HasSubstr("a virtual function"));
  EXPECT_THAT(ModelOf("AMD Instinct MI210 VF"), testing::HasSubstr("no peak is computable"));
  EXPECT_THAT(ModelOf("NVIDIA A100-SXM4-40GB MIG 9g.90gb"), testing::HasSubstr("a MIG instance"));
  EXPECT_THAT(ModelOf("MI210 CPX"), testing::HasSubstr("a partition mode"));
}

TEST(Lookup, AFamilyNameIsRefusedWithItsMembers) {
  const auto h100 = Catalog::Builtin().Find("NVIDIA H100");
  ASSERT_FALSE(h100.ok());
  EXPECT_EQ(h100.status().code(), absl::StatusCode::kNotFound);
  for (const char* member : {"H100 SXM", "H100 PCIe", "H100 NVL"}) {
    EXPECT_NE(h100.status().message().find(member), absl::string_view::npos) << h100.status();
  }
  EXPECT_EQ(h100.status().message().find("GH200"), absl::string_view::npos);
  for (const char* family : {"A100", "V100", "A800", "GH200", "TPU"}) {
    EXPECT_FALSE(Catalog::Builtin().Find(family).ok()) << family;
  }
}

TEST(Lookup, SomeWordsOfANameAreRefusedWithTheDevicesThatHaveThem) {
  EXPECT_EQ(ModelOf("NVIDIA A100 40GB"),
            "refused: 'NVIDIA A100 40GB' is not the whole name of an accelerator; give one of A100 "
            "SXM 40GB, A100 PCIe 40GB");
  EXPECT_EQ(ModelOf("h100"),
            "refused: 'h100' is not the whole name of an accelerator; give one of H100 SXM, H100 "
            "PCIe, H100 NVL");
  EXPECT_TRUE(ModelOf("A100 41GB").starts_with("refused: unknown accelerator"))
      << ModelOf("A100 41GB");
}

TEST(Lookup, AnUnknownNameIsRefusedWithTheNearest) {
  const auto typo = Catalog::Builtin().Find("NVIDIA H100 80GB HBM4");
  ASSERT_FALSE(typo.ok());
  EXPECT_EQ(typo.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(typo.status().message().find("NVIDIA H100 80GB HBM4"), absl::string_view::npos);
  EXPECT_NE(typo.status().message().find("H100 SXM"), absl::string_view::npos) << typo.status();
  for (const char* name :
       {"", " - ", "NVIDIA", "GRID A100-40C", "Radeon VII", "H1", "H100 SXM 80GB extra"}) {
    EXPECT_EQ(Catalog::Builtin().Find(name).status().code(), absl::StatusCode::kNotFound) << name;
  }
}

TEST(Lookup, HostileNamesAreMadePrintable) {
  const std::string hostile = "H100\x1b[31m" + std::string(100'000, 'x');
  const auto found = Catalog::Builtin().Find(hostile);
  ASSERT_FALSE(found.ok());
  EXPECT_LT(found.status().message().size(), 400u);
  EXPECT_EQ(found.status().message().find('\x1b'), absl::string_view::npos);
}

// Dashes, blanks, case and the vendor's name never change the answer; one more or one fewer letter
// always does.
TEST(Lookup, PropertySpellingNeverChangesTheDevice) {
  EXPECT_TRUE(rc::check("spelling", [] {
    const auto all = Catalog::Builtin().all();
    const Accelerator& a = all[*rc::gen::inRange<size_t>(0, all.size())];
    std::string name = a.model;
    for (char& c : name) {
      if (c == ' ' || c == '-') {
        c = *rc::gen::element(' ', '-', '_');
      } else if (*rc::gen::arbitrary<bool>()) {
        c = static_cast<char>(std::isupper(static_cast<unsigned char>(c)) ? std::tolower(c)
                                                                          : std::toupper(c));
      }
    }
    const std::string prefix =
        *rc::gen::element(std::string(), std::string("NVIDIA "), std::string("nvidia-"));
    const auto found = Catalog::Builtin().Find(prefix + name);
    RC_ASSERT(found.ok());
    RC_ASSERT((*found)->model == a.model);
  }));
}

TEST(Lookup, PropertyNoNameIsFoundByAProperPart) {
  EXPECT_TRUE(rc::check("parts", [] {
    const auto all = Catalog::Builtin().all();
    const Accelerator& a = all[*rc::gen::inRange<size_t>(0, all.size())];
    const std::string name = NormaliseName(a.model);
    const size_t from = *rc::gen::inRange<size_t>(0, name.size());
    const size_t length = *rc::gen::inRange<size_t>(1, name.size() - from + 1);
    const std::string part = name.substr(from, length);
    const auto found = Catalog::Builtin().Find(part);
    if (!found.ok()) return;
    // Found only because it is itself the whole name of the device found.
    bool whole =
        NormaliseName((*found)->model) == NormaliseName(part) ||
        NormaliseName((*found)->model.substr(0, (*found)->model.find('('))) == NormaliseName(part);
    for (const std::string& reported : (*found)->reported_names)
      whole |= NormaliseName(reported) == NormaliseName(part);
    RC_ASSERT(whole);
  }));
}

}  // namespace
}  // namespace flopwatch::hardware

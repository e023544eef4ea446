// Bytes that are no text in exposition text: names are refused, descriptions repaired, owners
// absent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "decoding_fixture.h"
#include "telemetry/labels.h"

namespace flopwatch::telemetry {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

constexpr char kSmClock[] = "DCGM_FI_DEV_SM_CLOCK";

class LabelTextTest : public DecodingTest {};

TEST_F(LabelTextTest, NamesThatAreNoTextAreRefusedByLine) {
  const std::string long_name(kMaxNameBytes + 1, 'x');
  const std::pair<std::string, const char*> cases[] = {
      {"\xff", "invalid_utf8"},
      {"\xc0\xaf", "invalid_utf8"},
      {"\xed\xa0\x80", "invalid_utf8"},
      {"\xe2\x82", "invalid_utf8"},
      {"a\x1b", "control_character"},
      {"a\\nb", "control_character"},
      {std::string("a\0b", 3), "control_character"}};
  for (const auto& [bytes, reason] : cases) {
    for (const char* label :
         {"UUID=\"{}\"", "UUID=\"U\",Hostname=\"{}\"", "serial_number=\"{}\""}) {
      const Plain p = Decode(fmt::format("{}{{gpu=\"0\",{}}} 1410\n", kSmClock,
                                         fmt::format(fmt::runtime(label), bytes)));
      EXPECT_THAT(p.rows, IsEmpty()) << bytes;
      EXPECT_THAT(p.refused, ElementsAre(Pair(reason, 1))) << bytes;
    }
    // A narrow series is kept as its text, where "\\n" is two plain bytes.
    if (bytes == "a\\nb") continue;
    for (const char* line : {"x{{a=\"{}\"}} 1\n", "x{{\"{}\"=\"a\"}} 1\n", "{{\"{}\"}} 1\n"}) {
      const Plain p = Decode(fmt::format(fmt::runtime(line), bytes));
      EXPECT_THAT(p.narrow, IsEmpty()) << bytes;
      EXPECT_THAT(p.refused, ElementsAre(Pair(reason, 1))) << bytes;
    }
  }
  EXPECT_THAT(Decode(fmt::format("{}{{UUID=\"{}\"}} 1410\n", kSmClock, long_name)).refused,
              ElementsAre(Pair("name_too_long", 1)));
  // Cut, two of these would be one GPU.
  const std::string stem(300, 'x');
  EXPECT_THAT(
      Decode(fmt::format("{0}{{UUID=\"{1}a\"}} 1410\n{0}{{UUID=\"{1}b\"}} 1410\n", kSmClock, stem))
          .rows,
      SizeIs(2));
}

TEST_F(LabelTextTest, LabelsThatDescribeAreRepairedAndCounted) {
  const Plain p = Decode(
      "DCGM_FI_DEV_SM_CLOCK{UUID=\"U\",modelName=\"H\xff\",device=\"n\x1b\",pci_bus_id="
      "\"\xc0\xaf\"} 1410\n"
      "DCGM_FI_DEV_GPU_TEMP{UUID=\"U\",modelName=\"H\xff\",device=\"n\x1b\",pci_bus_id="
      "\"\xc0\xaf\"} 40\n");
  const EntityLabels& labels = p.rows.at("U").labels;
  EXPECT_EQ(labels.model, "H\ufffd");
  EXPECT_EQ(labels.device, "n\ufffd");
  EXPECT_EQ(labels.pci_bus_id, "\ufffd\ufffd");
  EXPECT_EQ(p.samples, 2u);
  EXPECT_THAT(p.refused, ElementsAre(Pair("repaired_text", 3))) << "labels of a set, not lines";
  // Where the text is cut no character is.
  const Plain cut = Decode("DCGM_FI_DEV_SM_CLOCK{UUID=\"U\",modelName=\"" + std::string(255, 'x') +
                           "\u00e9\"} 1410\n");
  EXPECT_EQ(cut.rows.at("U").labels.model, std::string(255, 'x'));
  EXPECT_THAT(cut.refused, IsEmpty());
}

TEST_F(LabelTextTest, AnOwnerThatIsNoTextIsNone) {
  const auto owners = [&](std::string_view labels, uint64_t refused) {
    const Plain p = Decode(fmt::format("DCGM_FI_DEV_SM_CLOCK{{UUID=\"U\",{}}} 1410\n", labels));
    EXPECT_EQ(p.samples, 1u);
    EXPECT_THAT(p.refused, ElementsAre(Pair("invalid_owner", refused)));
    return p.rows.at("U").owners;
  };
  OwnerLabels pod;
  pod.ns = "n";
  pod.pod = "p";
  EXPECT_THAT(owners("hpc_job=\"7\xff\"", 1), IsEmpty());
  EXPECT_THAT(owners("hpc_job=\"7\xff\",pod=\"p\",namespace=\"n\"", 1), ElementsAre(pod));
  EXPECT_THAT(owners("namespace=\"n\xff\",pod=\"p\"", 1), IsEmpty()) << "another's pod";
  EXPECT_THAT(owners("namespace=\"n\",pod=\"\x01\",container=\"\xff\"", 2), IsEmpty());
}

TEST_F(LabelTextTest, TheFirstLineBehindAByteOrderMarkIsRead) {
  const Plain p = Decode(
      "\xEF\xBB\xBF"
      "DCGM_FI_DEV_SM_CLOCK{UUID=\"U\"} 1410\n");
  EXPECT_EQ(p.samples, 1u);
  EXPECT_THAT(p.refused, IsEmpty());
}

}  // namespace
}  // namespace flopwatch::telemetry

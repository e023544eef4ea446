#include "alerts/rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/file.h"

namespace flopwatch::alerts {
namespace {

using ::testing::HasSubstr;

std::string RuleErrorOf(std::string_view toml) {
  std::vector<Rule> rules = ShippedRules();
  const Status read = AddRules(toml, "own.toml", &rules);
  return read.ok() ? "" : std::string(MessageOf(read));
}
const Rule& Named(const std::vector<Rule>& rules, std::string_view name) {
  return *std::ranges::find(rules, name, &Rule::name);
}

TEST(Rules, ShippedOnesAreWholeAndSaySources) {
  ASSERT_GE(ShippedRules().size(), 15u);
  for (const Rule& rule : ShippedRules()) {
    EXPECT_TRUE(rule.enabled) << rule.name;
    EXPECT_NE(rule.action, "") << rule.name;
    EXPECT_NE(rule.source, "") << rule.name;
    EXPECT_THAT(ShippedRuleText(rule.name), HasSubstr("[rules." + rule.name + "]"));
  }
}

// The issue: idle-held never pages; application XIDs go to the job's owner, hardware ones to
// operators.
TEST(Rules, SeveritiesAndOwners) {
  const auto& rules = ShippedRules();
  EXPECT_NE(Named(rules, "gpu_idle_held").severity, Severity::kPage);
  EXPECT_EQ(Named(rules, "gpu_xid_application").owner, "user");
  EXPECT_EQ(Named(rules, "gpu_xid_hardware").owner, "operator");
  EXPECT_EQ(Named(rules, "gpu_xid_hardware").severity, Severity::kPage);
}

TEST(Rules, OwnFileAddsAndChanges) {
  std::vector<Rule> rules = ShippedRules();
  const Status read = AddRules(
      "[rules.gpu_hot]\nscope = \"gpu\"\nwhen = \"gpu_temp_c > 90\"\nfor = \"1m\"\n"
      "summary = \"{gpus} has {value}\"\nvalue = \"gpu_temp_c\"\n"
      "[rules.gpu_straggler]\nfor = \"1h\"\n[rules.gpu_silent]\nenabled = false\n",
      "own.toml", &rules);
  ASSERT_TRUE(read.ok()) << read;
  EXPECT_EQ(rules.size(), ShippedRules().size() + 1);
  EXPECT_EQ(Named(rules, "gpu_hot").hold, kMicrosPerMinute);
  EXPECT_EQ(Named(rules, "gpu_straggler").hold, kMicrosPerHour);
  EXPECT_EQ(Named(rules, "gpu_straggler").when->text(),
            Named(ShippedRules(), "gpu_straggler").when->text());
  EXPECT_FALSE(Named(rules, "gpu_silent").enabled);
  EXPECT_EQ(Named(rules, "gpu_straggler").while_->text(),
            Named(ShippedRules(), "gpu_straggler").while_->text());
  ASSERT_TRUE(AddRules("[rules.gpu_straggler]\nwhile = \"\"\n", "own.toml", &rules).ok());
  EXPECT_FALSE(Named(rules, "gpu_straggler").while_.has_value());
}

TEST(Rules, ErrorsNameFileLineRuleAndKey) {
  EXPECT_THAT(
      RuleErrorOf("[rules.gpu_silent]\nfro = \"1m\"\n"),
      HasSubstr("own.toml:2: rule gpu_silent: a rule has no key \"fro\"; did you mean for?"));
  EXPECT_THAT(RuleErrorOf("[rules.gpu_silent]\n\nfor = \"5\"\n"), HasSubstr("own.toml:3"));
  EXPECT_THAT(RuleErrorOf("[rules.gpu_silent]\nwhen = \"agee_s > 3\"\n"),
              HasSubstr("did you mean age_s?"));
  EXPECT_THAT(RuleErrorOf("[rules.gpu_silent]\nwhile = \"gpu_util\"\n"),
              HasSubstr("while is wrong"));
  EXPECT_THAT(RuleErrorOf("[rules.gpu_silent]\nseverity = \"loud\"\n"),
              HasSubstr("note, ticket, page"));
  EXPECT_THAT(RuleErrorOf("[rules.gpu_silent]\nenabled = \"no\"\n"), HasSubstr("true or false"));
  EXPECT_THAT(RuleErrorOf("[rules.gpu_silent]\ninhibited_by = [\"node_silnt\"]\n"),
              HasSubstr("did you mean node_silent?"));
  EXPECT_THAT(RuleErrorOf("[rules.mine]\nscope = \"gpu\"\n"), HasSubstr("no condition"));
  EXPECT_THAT(RuleErrorOf("[rules.mine]\nwhen = \"ofu < 1\"\n"), HasSubstr("no summary"));
  EXPECT_THAT(RuleErrorOf("[rule.mine]\n"), HasSubstr("[rules.NAME]"));
  EXPECT_THAT(RuleErrorOf("[rules.\"No Name\"]\n"), HasSubstr("small letters"));
  EXPECT_THAT(RuleErrorOf("[rules.gpu_silent\n"), HasSubstr("own.toml:1"));
  EXPECT_THAT(RuleErrorOf("[rules.job_hung]\ngroup = \"node\"\n"), HasSubstr("about GPUs alone"));
}

// A file with an error changes nothing.
TEST(Rules, AllOrNothing) {
  std::vector<Rule> rules = ShippedRules();
  const Status read =
      AddRules("[rules.gpu_silent]\nfor = \"9m\"\n[rules.gpu_ecc]\nfor = \"x\"\n", "f", &rules);
  EXPECT_FALSE(read.ok());
  EXPECT_EQ(Named(rules, "gpu_silent").hold, Named(ShippedRules(), "gpu_silent").hold);
}

// docs/alerts.md has the quantities as they are declared, and names every shipped rule's scope.
TEST(Rules, QuantitiesAndDocumentAreTheSame) {
  const auto text = ReadFile(FLOPWATCH_SOURCE_DIR "/docs/alerts.md", 1 << 20);
  ASSERT_TRUE(text.ok()) << text.status();
  size_t rows = 0;
  for (const QuantitySpec& q : Quantities())
    EXPECT_THAT(*text,
                HasSubstr("| " + std::string(ScopeName(q.scope)) + " | " + std::string(q.name) +
                          " | " + std::string(q.unit) + " | " + std::string(q.help) + " |"));
  for (const std::string_view scope : kScopeNames)
    for (size_t at = text->find("\n| " + std::string(scope) + " | "); at != std::string::npos;
         at = text->find("\n| " + std::string(scope) + " | ", at + 1))
      ++rows;
  EXPECT_EQ(rows, Quantities().size());
}

}  // namespace
}  // namespace flopwatch::alerts

// What GPUs cost: by model, over time, and what a site may not write.
#include "fleet/prices/prices.h"

#include <gmock/gmock.h>

namespace flopwatch::fleet {
namespace {

using ::testing::HasSubstr;

const hardware::Catalog& Table() { return hardware::Catalog::Builtin(); }

Prices Read(std::string_view toml) {
  auto prices = Prices::Parse(toml, Table());
  EXPECT_TRUE(prices.ok()) << prices.status();
  return prices.ok() ? *std::move(prices) : Prices();
}
std::string ErrorOf(std::string_view toml) {
  return std::string(MessageOf(Prices::Parse(toml, Table()).status()));
}
Micros At(std::string_view time) { return *ParseTime(time, 0); }
Money Cost(const Prices& prices, std::string_view model, std::string_view from,
           std::string_view to) {
  return prices.Of(model, Table()).Over(At(from), At(to));
}

TEST(PricesTest, WithoutASectionThereAreNone) {
  const Prices prices = Read("[server]\nlisten = \"127.0.0.1:1\"\n");
  EXPECT_TRUE(prices.empty());
  EXPECT_EQ(prices.currency(), "");
  EXPECT_EQ(Cost(prices, "NVIDIA H100 80GB HBM3", "2026-01-01", "2026-01-02").priced_s, 0);
}

constexpr std::string_view kSite = R"(
[prices]
currency = "EUR"
[[prices.gpu_hour]]
model = "NVIDIA H100 80GB HBM3"
price = 2
from = 2026-11-02
[[prices.gpu_hour]]
model = "NVIDIA H100 80GB HBM3"
price = 3.0
from = 2026-10-01T12:00:00+02:00
[[prices.gpu_hour]]
price = 1
)";

TEST(PricesTest, APriceHoldsUntilTheNextOne) {
  const Prices prices = Read(kSite);
  EXPECT_EQ(prices.currency(), "EUR");
  // Ten hours before there is any, then 3 until the 2nd of November and 2 after.
  const Money first = Cost(prices, "NVIDIA H100 80GB HBM3", "2026-10-01", "2026-10-01T11:00:00Z");
  EXPECT_DOUBLE_EQ(first.amount, 3);
  EXPECT_DOUBLE_EQ(first.priced_s, 3600);
  const Money turn =
      Cost(prices, "NVIDIA H100 80GB HBM3", "2026-11-01T22:00:00Z", "2026-11-02T03:00:00Z");
  EXPECT_DOUBLE_EQ(turn.amount, 2 * 3 + 3 * 2);
  EXPECT_DOUBLE_EQ(turn.priced_s, 5 * 3600);
}

TEST(PricesTest, EveryOtherModelHasThePriceWithoutAModel) {
  const Prices prices = Read(kSite);
  for (const char* model : {"NVIDIA A100-SXM4-80GB", "A board nobody knows", ""})
    EXPECT_DOUBLE_EQ(Cost(prices, model, "2026-01-01", "2026-01-02").amount, 24) << model;
  // A model with prices of its own has no other before they begin.
  EXPECT_EQ(Cost(prices, "NVIDIA H100 80GB HBM3", "2026-01-01", "2026-01-02").priced_s, 0);
}

TEST(PricesTest, ADeviceHasOnePriceWhateverItsNameIs) {
  const Prices prices =
      Read("[prices]\n[[prices.gpu_hour]]\nmodel = \"NVIDIA-H100-80GB-HBM3\"\nprice = 2\n");
  EXPECT_DOUBLE_EQ(Cost(prices, "NVIDIA H100 80GB HBM3", "2026-01-01", "2026-01-02").amount, 48);
}

TEST(PricesTest, WhatCannotBeMeantIsRefusedByName) {
  const auto entry = [](std::string_view lines) {
    return ErrorOf("[prices]\n[[prices.gpu_hour]]\n" + std::string(lines));
  };
  EXPECT_THAT(entry("price = -1"), HasSubstr("entry 1: key 'price': expected a number from 0"));
  EXPECT_THAT(entry("price = nan"), HasSubstr("key 'price'"));
  EXPECT_THAT(entry("price = inf"), HasSubstr("key 'price'"));
  EXPECT_THAT(entry("price = \"2\""), HasSubstr("key 'price'"));
  EXPECT_THAT(entry("model = \"H100 SXM5\""), HasSubstr("the price of one GPU for an hour"));
  EXPECT_THAT(entry("price = 1\nfrom = \"2026-10-01\""), HasSubstr("without quotes"));
  EXPECT_THAT(entry("price = 1\nfrom = 2026-10-01T00:00:00"), HasSubstr("with an offset"));
  EXPECT_THAT(entry("price = 1\nuntil = 2026-10-01"), HasSubstr("no other key"));
  EXPECT_THAT(entry("price = 1\nmodel = \"H1OO\""), HasSubstr("H1OO"));
  EXPECT_THAT(entry("price = 1\n[[prices.gpu_hour]]\nprice = 2"),
              HasSubstr("entry 2: key 'from': expected a time that no other entry"));
  EXPECT_THAT(ErrorOf("[prices]\ncurrency = \"EUR\""), HasSubstr("[[prices.gpu_hour]]"));
  EXPECT_THAT(ErrorOf("[prices]\ncurrency = \"e<b>\""), HasSubstr("a code of letters"));
  EXPECT_THAT(ErrorOf("[prices]\nh100 = 2"), HasSubstr("'h100'"));
  EXPECT_THAT(ErrorOf("prices = 2"), HasSubstr("[prices]"));
  EXPECT_THAT(ErrorOf("[prices"), HasSubstr("TOML"));
}

}  // namespace
}  // namespace flopwatch::fleet

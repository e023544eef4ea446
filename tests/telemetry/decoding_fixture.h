// Bodies of exposition text, each decoded twice: the second look, with what the decoder has
// learned, must say the same as the first.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "decoded.h"

namespace flopwatch::telemetry {

class DecodingTest : public ::testing::Test {
 protected:
  Plain Decode(const std::string& body) { return Decode(body, DecodeLimits{}); }
  Plain Decode(const std::string& body, DecodeLimits limits) {
    ExpositionDecoder decoder(&registry_, "node7", limits);
    const Plain plain = ToPlain(decoder.Decode(body), registry_);
    EXPECT_EQ(ToPlain(decoder.Decode(body), registry_), plain)
        << "the second look differs from the first: " << body;
    return plain;
  }
  // One GPU named "U" whose only line this is.
  std::map<std::string, double> Values(const std::string& line) {
    const Plain p = Decode(line + "\n");
    EXPECT_LE(p.rows.size(), 1u);
    return p.rows.empty() ? std::map<std::string, double>{} : p.rows.begin()->second.values;
  }
  FieldRegistry registry_;
};

}  // namespace flopwatch::telemetry

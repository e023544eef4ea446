#include "trace/string_pool.h"

#include <gtest/gtest.h>

namespace flopwatch::trace {
namespace {

TEST(StringPool, EqualTextsHaveOneId) {
  StringPool names;
  EXPECT_EQ(names.Intern(""), kNoName);
  const NameId gemm = names.Intern("gemm");
  EXPECT_EQ(names.Intern("gemm"), gemm);
  EXPECT_EQ(names.Find("gemm"), gemm);
  EXPECT_EQ(names.Find("axpy"), kNoName);
  EXPECT_EQ(names.repaired(), 0u);
}

// Every table, document and database made of a trace has its names.
TEST(StringPool, BytesThatAreNoUtf8AreReplacedAndCounted) {
  StringPool names;
  EXPECT_EQ(names.Text(names.Intern("k\xff(\xe2\x82")), "k\ufffd(\ufffd");
  EXPECT_EQ(names.repaired(), 1u);
  EXPECT_EQ(names.Text(names.Intern("größe")), "größe");
  EXPECT_EQ(names.repaired(), 1u);
}

}  // namespace
}  // namespace flopwatch::trace

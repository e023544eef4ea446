#include "base/status.h"

#include <gtest/gtest.h>

namespace flopwatch {
namespace {

void ExpectParts(const Status& status, std::string_view what, std::string_view why,
                 std::string_view next) {
  const ErrorParts parts = PartsOf(status);
  EXPECT_EQ(parts.what, what) << status;
  EXPECT_EQ(parts.why, why) << status;
  EXPECT_EQ(parts.next, next) << status;
}

TEST(Status, TheFormatSaysWhereThePartsBegin) {
  const Status all = NotFound("cannot open {}: {}; make it", "a.toml", "no such file");
  EXPECT_EQ(MessageOf(all), "cannot open a.toml: no such file; make it");
  ExpectParts(all, "cannot open a.toml", "no such file", "make it");
  ExpectParts(NotFound("cannot open {}: {}", "a", "b"), "cannot open a", "b", "");
  ExpectParts(NotFound("no {}; there are: {}", "a", "b, c"), "no a", "", "there are: b, c");
  ExpectParts(NotFound("nothing"), "nothing", "", "");
  // Of several, the first reason and the last advice.
  ExpectParts(NotFound("a: b: c; d; e"), "a", "b: c; d", "e");
}

TEST(Status, AnArgumentHasNoParts) {
  // A name with our separators in it, as a stranger may choose one.
  const Status s =
      InvalidArgument("no job '{}'; {}", "x: y; rm -rf", "jobs lists them; so does top");
  ExpectParts(s, "no job 'x: y; rm -rf'", "", "jobs lists them; so does top");
  ExpectParts(InvalidArgument("{}: {}", "C: \\ a; b", "c: d; e"), "C: \\ a; b", "c: d; e", "");
  ExpectParts(InvalidArgument("{} is {}", "a; b", "c: d"), "a; b is c: d", "", "");
  // Widths and fills take part in where a part ends.
  ExpectParts(InvalidArgument("{:>5}|{:.2f}: {}; {}", "a", 1.0, "", "b"), "    a|1.00", "", "b");
}

TEST(Status, ContextGoesInFrontAndAdviceStays) {
  const Status inner = InvalidArgument("line {}: {}; write a number", 3, "no number");
  const Status outer = Annotate(inner, "reading a: b; c.toml");
  EXPECT_EQ(MessageOf(outer), "reading a: b; c.toml: line 3: no number; write a number");
  ExpectParts(outer, "reading a: b; c.toml", "line 3: no number", "write a number");
  ExpectParts(Annotate(outer, "starting"), "starting", "reading a: b; c.toml: line 3: no number",
              "write a number");
  // A message of another library has no parts of its own.
  const Status foreign = Annotate(absl::InternalError("x: y; z"), "asking");
  ExpectParts(foreign, "asking", "x: y; z", "");
  EXPECT_TRUE(Annotate(absl::OkStatus(), "asking").ok());
}

TEST(Status, AdviceIsAddedOrReplaced) {
  ExpectParts(Advise(NotFound("a: b"), "c"), "a", "b", "c");
  ExpectParts(Advise(NotFound("a; b"), "c"), "a", "", "c");
  EXPECT_EQ(MessageOf(Advise(NotFound("a; b"), "c")), "a; c");
  ExpectParts(Advise(NotFound("a; b"), ""), "a", "", "b");
  EXPECT_TRUE(Advise(absl::OkStatus(), "c").ok());
}

TEST(Status, PartsGoToAnotherProcessAndBack) {
  const Status sent = Unavailable("{}: {}; {}", "a; a", "b: b", "c; c");
  const Status came = StatusOf(absl::StatusCode::kUnavailable, PartsOf(sent));
  EXPECT_EQ(came, sent);
  ExpectParts(WithCode(sent, absl::StatusCode::kInternal), "a; a", "b: b", "c; c");
  EXPECT_EQ(WithCode(sent, absl::StatusCode::kInternal).code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace flopwatch

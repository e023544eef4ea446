#include <utility>

#include "sql/answer.h"
#include "sql/runner.h"

namespace flopwatch::sql {
namespace {

class InProcessRunner final : public Runner {
 public:
  explicit InProcessRunner(store::Store* store) : store_(*store) {}

  StatusOr<std::string> Run(const Question& question, std::stop_token) override {
    const Micros as_of = Now();
    FW_ASSIGN_OR_RETURN(const store::QueryResult result,
                        store_.UserSql(question.text, {.max_rows = question.max_rows}));
    return AnswerJson(result, as_of);
  }

 private:
  store::Store& store_;
};

}  // namespace

std::string_view OutcomeName(Outcome outcome) {
  static constexpr std::string_view kNames[] = {"answered", "refused", "memory", "time",
                                                "left",     "no_copy", "died"};
  return kNames[static_cast<size_t>(outcome)];
}

std::unique_ptr<Runner> InProcess(store::Store* store) {
  return std::make_unique<InProcessRunner>(store);
}

}  // namespace flopwatch::sql

// What to do first, as a list for a terminal, for a document and for scripts. Pure.
#pragma once

#include <string>

#include "base/json_read.h"
#include "base/json_writer.h"
#include "base/table.h"
#include "cli/views/style.h"

namespace flopwatch::cli {

// `answer`: that of /api/v1/advise.
std::string AdviceCard(const Json& answer, const ViewOptions& view);
// The actions alone; a calm sentence where there is none. `lines` of evidence of each.
std::string AdviceList(const Json& answer, const ViewOptions& view, size_t lines);
std::string NothingToAdvise(const Json& answer);
Table AdviceTable(const Json& answer);
// [{action, cause, subject, gpu_seconds, money, basis, subjects, evidence, link}]
std::string AdviceJson(const Json& answer);
void WriteActions(JsonWriter& json, const Json& answer);  // the same as a value
// The first line of its evidence; "" = none.
std::string FirstEvidence(const Json& action);

}  // namespace flopwatch::cli

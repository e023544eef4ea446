// The answer of a query as JSON.
#pragma once

#include <string>

#include "base/time.h"
#include "store/store.h"

namespace flopwatch::sql {

// `as_of`: what was stored later is not in it.
std::string AnswerJson(const store::QueryResult& result, Micros as_of);

}  // namespace flopwatch::sql

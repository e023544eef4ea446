// `flopwatch job ID`: one job on one card, with what to do about it.
#pragma once

#include <string>
#include <vector>

#include "base/json_read.h"
#include "base/table.h"
#include "cli/views/style.h"
#include "query/notes.h"

namespace flopwatch::cli {

// The answer's notes on the job (query/notes.h).
std::vector<query::Note> AdviceFor(const Json& answer);

struct JobCardOptions {
  ViewOptions view;
  size_t max_gpus = 8;      // lines of single GPUs, lowest OFU first
  bool whole_life = false;  // the window is the job's life, because none was asked for
};
// `answer` is that of GET /api/v1/jobs/{job}.
std::string JobCard(const Json& answer, const JobCardOptions& options);
// The same as one JSON document: window, job, usage, notes, mfu, gpus.
std::string JobDocument(const Json& answer);
// A job that no GPU was seen with: `answer` is of GET /api/v1/jobs/{job}/application.
std::string ApplicationCard(const Json& answer, const ViewOptions& view);
Table ApplicationTable(const Json& answer);  // a row a claim

}  // namespace flopwatch::cli

// Records of scontrol show job that a user forged. Nothing in that text is quoted: with line feeds
// in a job's name, comment or path somebody can write whole records, of any shape, and leave the
// end of his own job's record to the last of them. Of the text alone such records look like all
// others; but each has an id, and the record before it is the forger's (or another forged one), cut
// short. So what is refused is: records of one id, all of them (`job_twice`); with a list of the
// ids that there really are, records of any other id (`not_listed`); and the record before each of
// these
// (`before_forged`), whose end is not its own. Pure; any thread.
#pragma once

#include <cstdint>

#include "absl/container/flat_hash_set.h"
#include "jobs/slurm/read.h"

namespace flopwatch::slurm {

// A look shows each job once. Not of jobcomp/filetxt, which has a record for each attempt.
void RefuseTwice(Books* books);

// `ids`: of all jobs that the cluster has (squeue -h -a -t all -o %A, in which no name is printed).
// Records of jobcomp/filetxt are none of a look.
void RefuseUnlisted(const absl::flat_hash_set<int64_t>& ids, Books* books);

// The ids of such a list; an error where a line is none.
StatusOr<absl::flat_hash_set<int64_t>> ReadIdList(std::string_view text);

}  // namespace flopwatch::slurm

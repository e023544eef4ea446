flopwatch_bench(jobs_index SOURCES jobs_index.cc ROOMS jobs)

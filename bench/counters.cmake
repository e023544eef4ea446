flopwatch_bench(bench_counters SOURCES counters.cc ROOMS ingest simulate)

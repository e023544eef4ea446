flopwatch_bench(bench_trace_analyses
  SOURCES trace_analyses.cc
  ROOMS base trace/import trace/analysis)

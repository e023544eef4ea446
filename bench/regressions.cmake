flopwatch_bench(bench_regressions SOURCES regressions.cc ROOMS query store fleet LIBS duckdb_c)

flopwatch_bench(bench_replay SOURCES ${CMAKE_CURRENT_LIST_DIR}/replay.cc
  ROOMS base store query alerts LIBS duckdb_c)

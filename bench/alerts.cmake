flopwatch_bench(bench_alerts SOURCES ${CMAKE_CURRENT_LIST_DIR}/alerts.cc
  ROOMS base hardware efficiency telemetry jobs store net ingest query alerts)

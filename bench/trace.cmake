# The peer in the same run; nothing else of flopwatch needs it.
find_package(simdjson QUIET)
if(NOT simdjson_FOUND)
  message(STATUS "bench_trace is left out: it needs simdjson (tools/setup --bench)")
  return()
endif()
flopwatch_bench(bench_trace SOURCES trace.cc trace_simdjson.cc ROOMS base trace/import
  LIBS simdjson::simdjson ZLIB::ZLIB)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set_source_files_properties(trace_simdjson.cc PROPERTIES
    COMPILE_OPTIONS "-mavx2;-mbmi;-mbmi2;-mlzcnt;-mpclmul")
endif()

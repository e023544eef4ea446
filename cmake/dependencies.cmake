# Third-party libraries, each used by exactly one room (see ARCHITECTURE.md, "Libraries").
find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(ZLIB REQUIRED)
find_package(absl REQUIRED)
find_package(fmt REQUIRED)
find_package(Snappy REQUIRED)
find_path(PROTOZERO_INCLUDE protozero/pbf_reader.hpp REQUIRED)  # headers only
find_package(spdlog REQUIRED)
find_package(Boost 1.81 REQUIRED COMPONENTS json url system)

# DuckDB: an installed one (DUCKDB_ROOT with include/duckdb.h and lib/libduckdb.so) or the pinned
# one tools/setup fetched.
set(DUCKDB_ROOT "$ENV{DUCKDB_ROOT}" CACHE PATH "Where duckdb.h and libduckdb.so are")
find_path(DUCKDB_INCLUDE duckdb.h
  HINTS ${DUCKDB_ROOT} ${DUCKDB_ROOT}/include ${CMAKE_SOURCE_DIR}/third_party/duckdb
  NO_DEFAULT_PATH)
find_library(DUCKDB_LIBRARY duckdb
  HINTS ${DUCKDB_ROOT} ${DUCKDB_ROOT}/lib ${CMAKE_SOURCE_DIR}/third_party/duckdb NO_DEFAULT_PATH)
if(NOT DUCKDB_INCLUDE OR NOT DUCKDB_LIBRARY)
  message(FATAL_ERROR "DuckDB not found. Run tools/setup (fetches the pinned library), "
    "or set DUCKDB_ROOT.")
endif()
add_library(duckdb_c SHARED IMPORTED)
set_target_properties(duckdb_c PROPERTIES
  IMPORTED_LOCATION ${DUCKDB_LIBRARY} IMPORTED_NO_SONAME OFF)
target_include_directories(duckdb_c SYSTEM INTERFACE ${DUCKDB_INCLUDE})
# The library travels beside the binary: bin/flopwatch finds bin/libduckdb.so, and a moved folder
# still runs.
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
set(CMAKE_BUILD_RPATH "$ORIGIN")
set(CMAKE_INSTALL_RPATH "$ORIGIN")
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
get_filename_component(duckdb_real ${DUCKDB_LIBRARY} REALPATH)
file(CREATE_LINK ${duckdb_real} ${CMAKE_BINARY_DIR}/bin/libduckdb.so COPY_ON_ERROR SYMBOLIC)

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  if(FLOPWATCH_PCH)  # without these ccache keeps nothing that uses precompiled headers
    set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE_PROGRAM})
  endif()
endif()
find_program(MOLD_PROGRAM mold)
if(MOLD_PROGRAM)
  add_link_options(-fuse-ld=mold)
endif()

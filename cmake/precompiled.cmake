# Precompiled headers for the sanitizer builds (FLOPWATCH_PCH), where the time goes into parsing the
# same libraries again and again.
set(flopwatch_common_headers
  <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable> <cstdint> <deque> <filesystem>
  <fstream> <functional> <limits> <map> <memory> <mutex> <optional> <random> <set> <string>
  <string_view> <thread> <unordered_map> <utility> <vector> <fmt/format.h>
  <absl/container/flat_hash_map.h> <absl/container/flat_hash_set.h> <absl/status/status.h>
  <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/types/span.h>)
# The large headers of the library a room wraps.
set(flopwatch_headers_of_net <boost/asio.hpp> <boost/asio/ssl.hpp> <boost/beast/http.hpp>)
set(flopwatch_headers_of_api <boost/json.hpp>)
set(flopwatch_headers_of_cli <boost/json.hpp>)

# flopwatch_precompile(TARGET KIND headers…): the targets of a kind share the headers that the first
# of them compiled.
function(flopwatch_precompile target kind)
  if(NOT FLOPWATCH_PCH)
    return()
  endif()
  get_property(owner GLOBAL PROPERTY flopwatch_precompiled_${kind})
  if(owner)
    target_precompile_headers(${target} REUSE_FROM ${owner})
  else()
    target_precompile_headers(${target} PRIVATE ${flopwatch_common_headers} ${ARGN})
    set_property(GLOBAL PROPERTY flopwatch_precompiled_${kind} ${target})
  endif()
endfunction()

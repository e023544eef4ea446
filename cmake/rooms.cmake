# One room = one folder below src/ = one static library. flopwatch_room() declares its sources, the
# rooms it may include and the libraries it wraps; an #include that follows no declared edge stops
# the configuration. A room may lie inside another one's folder ("trace/import" in "trace"): a file
# belongs to the innermost.

# From the bottom to the top: a room may only use those before it.
set(FLOPWATCH_ROOM_ORDER base hardware efficiency models telemetry jobs jobs/slurm jobs/table store
    fleet trace trace/import trace/ops trace/analysis trace/findings trace/report trace/export
    net discovery ingest history query sql alerts uploads api server simulate cli)

add_library(flopwatch_flags INTERFACE)
target_include_directories(flopwatch_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_compile_options(flopwatch_flags INTERFACE
  -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers -fno-omit-frame-pointer)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")  # what base/mutex.h declares; g++ has no such analysis
  target_compile_options(flopwatch_flags INTERFACE
    -Wthread-safety -Wthread-safety-beta -Werror=thread-safety -Werror=thread-safety-beta)
endif()
target_compile_definitions(flopwatch_flags INTERFACE FLOPWATCH_VERSION="${PROJECT_VERSION}")
if(FLOPWATCH_SANITIZE)
  target_compile_options(flopwatch_flags INTERFACE
    -fsanitize=${FLOPWATCH_SANITIZE} -fno-sanitize-recover=undefined)
  target_link_options(flopwatch_flags INTERFACE -fsanitize=${FLOPWATCH_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")  # g++ says so by itself
    string(REGEX MATCH "address|thread" kind ${FLOPWATCH_SANITIZE})
    string(TOUPPER ${kind} kind)
    target_compile_definitions(flopwatch_flags INTERFACE __SANITIZE_${kind}__)
  endif()
  if(FLOPWATCH_SANITIZE MATCHES undefined)
    # Out of the undefined-behaviour set: a check at every use of a pointer, which more than doubles
    # the time to compile. A null or wild pointer is seen by the address sanitizer all the same.
    target_compile_options(flopwatch_flags INTERFACE
      -fno-sanitize-recover=float-cast-overflow
      -fno-sanitize=null,vptr,alignment,object-size,pointer-overflow
      -fno-sanitize=nonnull-attribute,returns-nonnull-attribute)
  endif()
endif()
if(FLOPWATCH_FUZZ)
  target_compile_definitions(flopwatch_flags INTERFACE FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION)
  target_compile_options(flopwatch_flags INTERFACE -fsanitize=fuzzer-no-link,address,undefined)
  target_link_options(flopwatch_flags INTERFACE -fsanitize=address,undefined)
endif()

# flopwatch_room_of(PATH VAR): the innermost room that a path below src/ lies in, or "".
function(flopwatch_room_of path var)
  get_filename_component(folder "${path}" DIRECTORY)
  while(folder AND NOT folder IN_LIST FLOPWATCH_ROOM_ORDER)
    get_filename_component(folder "${folder}" DIRECTORY)
  endwhile()
  set(${var} "${folder}" PARENT_SCOPE)
endfunction()

# Looks at every file of the room, at any depth.
function(flopwatch_check_edges room deps)
  list(FIND FLOPWATCH_ROOM_ORDER ${room} own)
  if(own EQUAL -1)
    message(FATAL_ERROR "room ${room} has no place in FLOPWATCH_ROOM_ORDER (cmake/rooms.cmake)")
  endif()
  foreach(dep ${deps})
    list(FIND FLOPWATCH_ROOM_ORDER ${dep} at)
    if(at EQUAL -1 OR NOT at LESS own)
      message(FATAL_ERROR "room ${room} may not depend on ${dep}: "
        "a room uses those before it in cmake/rooms.cmake")
    endif()
  endforeach()
  set(src ${CMAKE_SOURCE_DIR}/src)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS RELATIVE ${src}
       ${src}/${room}/*.h ${src}/${room}/*.cc ${src}/${room}/*.inc)
  foreach(file ${files})
    flopwatch_room_of(${file} room_of_file)
    if(NOT room_of_file STREQUAL room)
      continue()
    endif()
    file(STRINGS ${src}/${file} includes REGEX "^#include \"[a-z_]+/")
    foreach(line ${includes})
      string(REGEX REPLACE "^#include \"([^\"]+)\".*" "\\1" path "${line}")
      flopwatch_room_of(${path} target)
      if(target STREQUAL room OR target IN_LIST deps)
        continue()
      endif()
      string(REGEX REPLACE "/.*" "" first "${path}")
      if(target)
        message(FATAL_ERROR "${file}: ${line}\n"
          "  room '${room}' has no declared edge to '${target}' (its edges: ${deps})")
      elseif(IS_DIRECTORY ${src}/${first})
        message(FATAL_ERROR "${file}: ${line}\n  ${path} lies in no room")
      endif()
    endforeach()
  endforeach()
endfunction()

# flopwatch_together(TARGET BATCH files…): the sources of a folder are compiled BATCH at a time
# (CMake's unity build). Parsing the same large headers anew, and compiling the same inline
# functions of libraries that are all headers, is most of a small file's time. Names without linkage
# must therefore differ within a folder. FLOPWATCH_TOGETHER=OFF (the tidy preset) compiles each file
# alone, which shows that each includes what it uses.
function(flopwatch_together target batch)
  if(NOT FLOPWATCH_TOGETHER)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  foreach(file ${ARGN})
    get_filename_component(folder ${file} DIRECTORY)
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    math(EXPR at_${folder} "0${at_${folder}} + 1")
    math(EXPR group "(${at_${folder}} - 1) / ${batch}")
    set_source_files_properties(${file} PROPERTIES UNITY_GROUP "${folder}${group}")
  endforeach()
endfunction()

# flopwatch_room(NAME SOURCES files… HOT files… ROOMS rooms… LIBS libraries…
#                PRIVATE_LIBS libraries…)
# HOT are sources on the path of every sample, or of every GPU in a round of alerts: -O3 there saves
# a few per cent of the server's CPU (bench/README.md); elsewhere it only takes longer to compile.
function(flopwatch_room name)
  cmake_parse_arguments(R "" "" "SOURCES;HOT;ROOMS;LIBS;PRIVATE_LIBS" ${ARGN})
  flopwatch_check_edges(${name} "${R_ROOMS}")
  string(REPLACE "/" "_" id ${name})
  add_library(flopwatch_${id} STATIC ${R_SOURCES} ${R_HOT})
  set_source_files_properties(${R_HOT} PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-O3>)
  flopwatch_together(flopwatch_${id} 16 ${R_SOURCES})
  target_link_libraries(flopwatch_${id} PUBLIC flopwatch_flags ${R_LIBS})
  target_link_libraries(flopwatch_${id} PRIVATE ${R_PRIVATE_LIBS})
  foreach(dep ${R_ROOMS})
    string(REPLACE "/" "_" dep ${dep})
    target_link_libraries(flopwatch_${id} PUBLIC flopwatch_${dep})
  endforeach()
  if(DEFINED flopwatch_headers_of_${id})
    flopwatch_precompile(flopwatch_${id} ${id} ${flopwatch_headers_of_${id}})
  elseif(NOT name STREQUAL "base")  # spdlog, which base alone sees, brings definitions of its own
    flopwatch_precompile(flopwatch_${id} room)
  endif()
endfunction()

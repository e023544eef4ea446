# One room = one folder in src/ = one static library. flopwatch_room() declares its sources, the rooms it may include
# and the libraries it wraps; an #include that follows no declared edge stops the configuration.

set(FLOPWATCH_ROOM_ORDER base hardware efficiency models telemetry jobs store fleet trace spans capture alerts net remote
    agent server simulate cli)

add_library(flopwatch_flags INTERFACE)
target_include_directories(flopwatch_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_compile_options(flopwatch_flags INTERFACE -Wall -Wextra -Wno-unused-parameter -fno-omit-frame-pointer)
target_compile_definitions(flopwatch_flags INTERFACE FLOPWATCH_VERSION="${PROJECT_VERSION}")
if(FLOPWATCH_SANITIZE)
  target_compile_options(flopwatch_flags INTERFACE -fsanitize=${FLOPWATCH_SANITIZE} -fno-sanitize-recover=undefined)
  target_link_options(flopwatch_flags INTERFACE -fsanitize=${FLOPWATCH_SANITIZE})
  if(FLOPWATCH_SANITIZE MATCHES undefined)
    # Out of the undefined-behaviour set: a check at every use of a pointer, which more than doubles the time to compile. A
    # null or wild pointer is seen by the address sanitizer all the same.
    target_compile_options(flopwatch_flags INTERFACE
      -fno-sanitize-recover=float-cast-overflow -fno-sanitize=null,vptr,alignment,object-size,pointer-overflow,nonnull-attribute,returns-nonnull-attribute)
  endif()
endif()
if(FLOPWATCH_FUZZ)
  target_compile_options(flopwatch_flags INTERFACE -fsanitize=fuzzer-no-link,address,undefined)
  target_link_options(flopwatch_flags INTERFACE -fsanitize=address,undefined)
endif()

function(flopwatch_check_edges room deps)
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.h ${CMAKE_CURRENT_SOURCE_DIR}/*.cc
       ${CMAKE_CURRENT_SOURCE_DIR}/*/*.h ${CMAKE_CURRENT_SOURCE_DIR}/*/*.cc)
  list(FIND FLOPWATCH_ROOM_ORDER ${room} own)
  foreach(dep ${deps})
    list(FIND FLOPWATCH_ROOM_ORDER ${dep} at)
    if(at EQUAL -1 OR NOT at LESS own)
      message(FATAL_ERROR "room ${room} may not depend on ${dep}: arrows point up the list in cmake/rooms.cmake")
    endif()
  endforeach()
  foreach(file ${files})
    file(STRINGS ${file} includes REGEX "^#include \"[a-z]+/")
    foreach(line ${includes})
      string(REGEX REPLACE "^#include \"([a-z]+)/.*" "\\1" target "${line}")
      if(target IN_LIST FLOPWATCH_ROOM_ORDER AND NOT target STREQUAL room AND NOT target IN_LIST deps)
        message(FATAL_ERROR "${file}: ${line}\n  room '${room}' has no declared edge to '${target}' (its edges: ${deps})")
      endif()
    endforeach()
  endforeach()
endfunction()

# flopwatch_together(TARGET BATCH files…): the sources of a folder are compiled BATCH at a time (CMake's unity build). Parsing the same
# large headers anew, and compiling the same inline functions of libraries that are all headers, is most of a small file's time.
# Names without linkage must therefore differ within a folder. FLOPWATCH_TOGETHER=OFF (the tidy preset) compiles each file alone,
# which shows that each includes what it uses.
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

# flopwatch_room(NAME SOURCES files… HOT files… ROOMS rooms… LIBS libraries… PRIVATE_LIBS libraries…)
# HOT are sources on the path of every sample: -O3 there saves a few per cent of the server's CPU (bench/README.md); elsewhere
# it only takes longer to compile.
function(flopwatch_room name)
  cmake_parse_arguments(R "" "" "SOURCES;HOT;ROOMS;LIBS;PRIVATE_LIBS" ${ARGN})
  flopwatch_check_edges(${name} "${R_ROOMS}")
  add_library(flopwatch_${name} STATIC ${R_SOURCES} ${R_HOT})
  set_source_files_properties(${R_HOT} PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-O3>)
  flopwatch_together(flopwatch_${name} 16 ${R_SOURCES})
  target_link_libraries(flopwatch_${name} PUBLIC flopwatch_flags ${R_LIBS})
  target_link_libraries(flopwatch_${name} PRIVATE ${R_PRIVATE_LIBS})
  foreach(dep ${R_ROOMS})
    target_link_libraries(flopwatch_${name} PUBLIC flopwatch_${dep})
  endforeach()
  if(DEFINED flopwatch_headers_of_${name})
    flopwatch_precompile(flopwatch_${name} ${name} ${flopwatch_headers_of_${name}})
  elseif(NOT name STREQUAL "base")  # spdlog, which base alone sees, brings definitions of its own
    flopwatch_precompile(flopwatch_${name} room)
  endif()
endfunction()

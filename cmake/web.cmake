# The page: `npm ci` and the bundle, all in the build directory, embedded by
# src/api/ui_assets.cc. Without Node.js 18 or newer, or where the packages cannot be fetched, the
# server gets a plain page instead and the build says so.
# Include it last: it adds to the server's target and, where tests are built, those of the page.
include_guard(GLOBAL)

function(flopwatch_embed_page)
  find_program(NODE_PROGRAM NAMES node nodejs)
  find_program(NPM_PROGRAM npm)
  set(node_version "none")
  if(NODE_PROGRAM)
    execute_process(COMMAND ${NODE_PROGRAM} --version OUTPUT_VARIABLE node_version
                    OUTPUT_STRIP_TRAILING_WHITESPACE)
    string(REGEX REPLACE "^v" "" node_version "${node_version}")
  endif()
  set(web ${CMAKE_SOURCE_DIR}/web)
  set(work ${CMAKE_BINARY_DIR}/web)
  set(plain ${work}/plain-page.txt)  # why there is only a plain page; tools/build shows it
  if(NOT NODE_PROGRAM OR NOT NPM_PROGRAM OR node_version VERSION_LESS 18)
    file(WRITE ${plain} "the full one needs npm and Node.js 18 or newer (found: ${node_version})\n")
    message(STATUS "The page is not built: it needs npm and Node.js 18 or newer "
                   "(found: ${node_version}). "
                   "The server gets a plain page.")
    return()
  endif()
  if(EXISTS ${plain})  # Node.js has come, or the packages are to be tried again
    file(REMOVE ${plain} ${work}/npm.stamp)
  endif()

  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${web}/src/*)
  list(APPEND sources ${web}/build.mjs ${web}/tsconfig.json
    ${CMAKE_SOURCE_DIR}/cmake/web_build.cmake)
  add_custom_command(
    OUTPUT ${work}/npm.stamp
    COMMAND ${CMAKE_COMMAND} -DSTEP=packages -DWEB=${web} -DWORK=${work} -DNPM=${NPM_PROGRAM}
            -P ${CMAKE_SOURCE_DIR}/cmake/web_build.cmake
    DEPENDS ${web}/package.json ${web}/package-lock.json ${CMAKE_SOURCE_DIR}/cmake/web_build.cmake
    COMMENT "Fetching the page's packages" VERBATIM)
  add_custom_command(
    OUTPUT ${work}/ui.h
    COMMAND ${CMAKE_COMMAND} -DSTEP=bundle -DWEB=${web} -DWORK=${work} -DNODE=${NODE_PROGRAM}
            -P ${CMAKE_SOURCE_DIR}/cmake/web_build.cmake
    DEPENDS ${work}/npm.stamp ${sources}
    COMMENT "Bundling the page" VERBATIM)
  add_custom_target(flopwatch_page DEPENDS ${work}/ui.h)
  add_dependencies(flopwatch_api flopwatch_page)
  set_source_files_properties(${CMAKE_SOURCE_DIR}/src/api/ui_assets.cc
    TARGET_DIRECTORY flopwatch_api
    PROPERTIES COMPILE_DEFINITIONS FLOPWATCH_UI_HEADER="${work}/ui.h" OBJECT_DEPENDS ${work}/ui.h)
  # For tests/web, which run the page.
  set(FLOPWATCH_NODE ${NODE_PROGRAM} CACHE INTERNAL "")
  set(FLOPWATCH_NPM ${NPM_PROGRAM} CACHE INTERNAL "")
endfunction()

if(TARGET flopwatch_api)
  if(FLOPWATCH_UI)
    flopwatch_embed_page()
  endif()
  if(FLOPWATCH_TESTS)
    add_subdirectory(${CMAKE_SOURCE_DIR}/tests/web)
  endif()
endif()

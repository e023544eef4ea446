# Runs one step of the page's tests; see CMakeLists.txt.
cmake_minimum_required(VERSION 3.25)

if(NOT EXISTS ${WORK}/dist/index.html)
  message("SKIPPED: the page was not built (its packages could not be fetched)")
  return()
endif()

if(STEP STREQUAL "types")
  execute_process(COMMAND ${NODE} ${WORK}/node_modules/typescript/bin/tsc --noEmit
                          -p ${WORK}/tsconfig.json
                  RESULT_VARIABLE failed)
else()
  file(MAKE_DIRECTORY ${TEST_WORK})
  file(COPY ${SOURCE}/package.json ${SOURCE}/package-lock.json DESTINATION ${TEST_WORK})
  execute_process(COMMAND ${NPM} ci --ignore-scripts --no-audit --no-fund --loglevel=error
                  WORKING_DIRECTORY ${TEST_WORK}
                  RESULT_VARIABLE failed OUTPUT_QUIET ERROR_VARIABLE error)
  if(failed)
    message("SKIPPED: playwright-core cannot be fetched: ${error}")
    return()
  endif()
  execute_process(COMMAND ${NODE} ${SOURCE}/page_test.mjs ${WORK} ${TEST_WORK} ${BINARY}
                  RESULT_VARIABLE failed)
endif()
if(failed)
  message(FATAL_ERROR "${STEP}: failed")
endif()

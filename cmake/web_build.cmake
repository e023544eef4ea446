# One step of building the page, run at build time by cmake/web.cmake.
#   packages: npm ci in WORK. When they cannot be fetched (no network), the page is left out, the
#             server is not.
#   bundle:   esbuild; an error in the page's own source stops the build. Types are checked by
#             tests/web.
cmake_minimum_required(VERSION 3.25)

if(STEP STREQUAL "packages")
  file(MAKE_DIRECTORY ${WORK})
  file(COPY ${WEB}/package.json ${WEB}/package-lock.json DESTINATION ${WORK})
  # No install scripts: esbuild finds its program in a package of its own.
  execute_process(COMMAND ${NPM} ci --ignore-scripts --no-audit --no-fund --loglevel=error
                  WORKING_DIRECTORY ${WORK}
                  RESULT_VARIABLE failed OUTPUT_QUIET ERROR_VARIABLE error)
  if(failed)
    message(WARNING "The page's packages cannot be fetched; the server gets a plain page. "
                    "npm said:\n${error}")
    file(REMOVE_RECURSE ${WORK}/node_modules)
    file(WRITE ${WORK}/plain-page.txt "npm could not fetch the packages of the full one "
         "(remove ${WORK}/npm.stamp to try again)\n")
  else()
    file(REMOVE ${WORK}/plain-page.txt)
  endif()
  file(WRITE ${WORK}/npm.stamp "${failed}\n")
elseif(STEP STREQUAL "bundle")
  file(REMOVE_RECURSE ${WORK}/src ${WORK}/dist)
  file(COPY ${WEB}/src ${WEB}/build.mjs ${WEB}/tsconfig.json DESTINATION ${WORK})
  if(IS_DIRECTORY ${WORK}/node_modules)
    execute_process(COMMAND ${NODE} build.mjs ${WORK}/dist
                    WORKING_DIRECTORY ${WORK} RESULT_VARIABLE failed)
    if(failed)
      message(FATAL_ERROR "The page does not build (see above).")
    endif()
    file(WRITE ${WORK}/ui.h "#define FLOPWATCH_UI_FILES \"${WORK}/dist/ui_files.inc\"\n")
  else()
    file(WRITE ${WORK}/ui.h "// Without packages there is no page.\n")
  endif()
endif()

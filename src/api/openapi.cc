// docs/openapi.json, taken into the program as it is (the path comes from CMakeLists.txt).
#include "api/api.h"

asm(R"(
    .section .rodata
    .global flopwatch_openapi_begin
    .global flopwatch_openapi_end
    .balign 16
flopwatch_openapi_begin:
    .incbin ")" FLOPWATCH_OPENAPI_FILE R"("
flopwatch_openapi_end:
    .byte 0
    .previous
)");

extern "C" const char flopwatch_openapi_begin[];
extern "C" const char flopwatch_openapi_end[];

namespace flopwatch::api {

std::string_view OpenApiDocument() {
  return {flopwatch_openapi_begin,
          static_cast<size_t>(flopwatch_openapi_end - flopwatch_openapi_begin)};
}

}  // namespace flopwatch::api

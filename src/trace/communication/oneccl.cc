#include "trace/communication/families.h"

namespace flopwatch::trace::communication {
namespace {

constexpr CommunicationName kOneCclNames[] = {
    {"oneccl", "github.com/uxlfoundation/oneCCL, src/coll/algorithms"},
};

}  // namespace

constinit const CommunicationFamily kOneCcl = {
    .name = "oneccl", .title = "Intel oneCCL", .names = kOneCclNames};

}  // namespace flopwatch::trace::communication

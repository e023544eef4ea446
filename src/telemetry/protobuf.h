// protozero, as the readers of pushed formats use it.
#ifndef FLOPWATCH_TELEMETRY_PROTOBUF_H_
#define FLOPWATCH_TELEMETRY_PROTOBUF_H_

#include <protozero/pbf_reader.hpp>
#include <string_view>

namespace flopwatch::telemetry {

inline std::string_view TextOf(protozero::data_view view) { return {view.data(), view.size()}; }

}  // namespace flopwatch::telemetry

#endif  // FLOPWATCH_TELEMETRY_PROTOBUF_H_

// protozero, as the readers of pushed formats use it.
#pragma once

#include <protozero/pbf_reader.hpp>
#include <string_view>

namespace flopwatch::telemetry {

inline std::string_view TextOf(protozero::data_view view) { return {view.data(), view.size()}; }

}  // namespace flopwatch::telemetry
